"""Evidence as a text in a transcript of a wire that has no role for it. Pure."""

from __future__ import annotations

from pilotage.agent.messages import ModelMessage


def framed(message: ModelMessage) -> str:
    """Return evidence in a frame that its text cannot forge; a context pack has its own."""
    if "context_pack_id" in message.metadata:
        return message.text
    # The sentinel preserves an empty last line, which splitlines drops.
    *lines, last = f"{message.text}.".splitlines()
    body = "\n".join(f"| {line}" for line in (*lines, last[:-1]))
    return f"<evidence>\n{body}\n</evidence>"

"""State of a conversation read from a request: the question, the calls made for it, their results. Pure.

The offline model has no other memory, so a resumed run continues where it was.
"""

from __future__ import annotations

from collections.abc import Sequence

from pilotage.agent.messages import ModelMessage, ModelMessageRole, ModelToolCall
from pilotage.agent.model_request import ModelRequest
from pilotage.jsonvalue import JsonValue, parsed
from pilotage.values import value


@value
class CallOutcome:
    """A call and its outcome as the transcript shows it."""

    call: ModelToolCall
    result: JsonValue
    error: str | None = None


@value
class Situation:
    """State of a conversation. `turns` holds the calls made for the last question, turn by turn."""

    question: str
    turns: tuple[tuple[CallOutcome, ...], ...] = ()
    earlier: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    instructions: str = ""
    has_spoken: bool = False
    calls_so_far: int = 0

    @property
    def outcomes(self) -> tuple[CallOutcome, ...]:
        """All calls made for the question."""
        return tuple(outcome for turn in self.turns for outcome in turn)


def situation_of(request: ModelRequest) -> Situation:
    """Return the state of the conversation of a request."""
    messages = request.assemble_messages()
    last = max((i for i, m in enumerate(messages) if m.role is ModelMessageRole.USER), default=-1)
    before, since = messages[: max(last, 0)], messages[last + 1 :]
    results = {m.tool_call_id: m.text for m in since if m.role is ModelMessageRole.TOOL}
    asking = [m for m in since if m.role is ModelMessageRole.ASSISTANT and m.tool_calls]
    return Situation(
        question=messages[last].text if last >= 0 else "",
        turns=tuple(tuple(_outcome(call, results) for call in m.tool_calls) for m in asking),
        earlier=_texts(before, ModelMessageRole.USER),
        shown=tuple(
            m.text
            for m in messages
            if m.role is ModelMessageRole.EVIDENCE and m.metadata.get("source") != "react"
        ),
        instructions="\n".join(_texts(messages, ModelMessageRole.SYSTEM)),
        has_spoken=any(m.role is ModelMessageRole.ASSISTANT and not m.tool_calls for m in before),
        calls_so_far=sum(len(m.tool_calls) for m in messages),
    )


def _texts(messages: Sequence[ModelMessage], role: ModelMessageRole) -> tuple[str, ...]:
    return tuple(message.text for message in messages if message.role is role)


def _outcome(call: ModelToolCall, results: dict[str | None, str]) -> CallOutcome:
    text = results.get(call.call_id or call.name)
    if text is None:
        return CallOutcome(call, None, "it has not answered")
    result = _as_json(text)
    if isinstance(result, dict) and set(result) == {"error"}:
        return CallOutcome(call, None, str(result["error"]))
    return CallOutcome(call, result)


def _as_json(text: str) -> JsonValue:
    """Return a result decoded from JSON if it is an object, a list or a constant; any other text unchanged."""
    if not text.startswith(("{", "[")) and text not in ("true", "false", "null"):
        return text
    try:
        return parsed(text)
    except (ValueError, RecursionError):
        return text

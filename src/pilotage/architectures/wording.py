"""What loops say to models: outputs as text, what was said before, what workers are good for. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from pilotage.agent.messages import ModelMessage, ModelMessageRole, new_message
from pilotage.agent.ports.architecture import AgentSession
from pilotage.jsonvalue import canonical_json, to_json_value

_SPEAKERS = {ModelMessageRole.USER: "User", ModelMessageRole.ASSISTANT: "Assistant"}


def as_text(output: object) -> str:
    """An output in words: text as it is, anything else as JSON, nothing as nothing."""
    if isinstance(output, str):
        return output
    return "" if output is None else canonical_json(to_json_value(output))


def is_something(output: object) -> bool:
    """Whether an output says anything at all."""
    return bool(as_text(output).strip())


def asked(session: AgentSession, prompt: str) -> list[ModelMessage]:
    """The messages of a session with the question at their end, which may stand there with its attachments."""
    last = session.messages[-1] if session.messages else None
    if not prompt or (last is not None and last.role is ModelMessageRole.USER and last.text == prompt):
        return list(session.messages)
    return [*session.messages, new_message(ModelMessageRole.USER, prompt)]


def briefing(session: AgentSession, prompt: str) -> str:
    """A question for somebody who was not there: with what was said before it, where something was."""
    earlier = [each for each in session.messages if each.text != prompt]
    said = [f"{_SPEAKERS[each.role]}: {each.text}" for each in earlier if each.role in _SPEAKERS]
    if not said:
        return prompt
    return "\n".join(["What was said before:", *said, "", "The question now:", prompt])


def listed(named: Mapping[str, str]) -> str:
    """A list for a model: a name and its text on each line."""
    return "\n".join(f"- {name}: {text}" if text else f"- {name}" for name, text in named.items())

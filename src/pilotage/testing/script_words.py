"""A script in words: what was expected, what was not used, what was asked instead. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pilotage.agent.messages import ModelMessage
from pilotage.agent.model_request import ModelRequest
from pilotage.jsonvalue import canonical_json
from pilotage.testing.script import ScriptedFailure, ScriptedReply, ScriptedThread, ScriptedTurn

_SHOWN_MESSAGES = 4
_SHOWN_CHARACTERS = 200


def unused_turns(threads: Sequence[ScriptedThread], positions: Sequence[int]) -> Iterator[str]:
    """A line for each turn behind the position of its thread."""
    for thread, position in zip(threads, positions, strict=True):
        where = "" if thread.condition is None else f" for requests {_show_condition(thread)}"
        for number, said in enumerate(thread.turns[position:], start=position + 1):
            yield f"  turn {number}{where}: {_show_turn(said)}"


def beyond_script(threads: Sequence[ScriptedThread], asked: ScriptedThread, request: ModelRequest) -> str:
    """Why no turn answers a request: what the script has, and what was asked."""
    count = len(asked.turns)
    turns = "no turns" if count == 0 else "1 turn" if count == 1 else f"{count} turns"
    conditions = [_show_condition(thread) for thread in threads if thread.condition is not None]
    whose = f" for requests {_show_condition(asked)}" if conditions else ""
    used = ", all used" if count else ""
    lines = [f"ScriptedModel: the script has {turns}{whose}{used}."]
    lines += [f"  turn {number}: {_show_turn(said)}" for number, said in enumerate(asked.turns, start=1)]
    if asked.condition is None and conditions:
        lines.append(f"The request is none of those {' or '.join(conditions)}.")
    lines.append("The last messages of the request:")
    lines += [f"  {_show_message(message)}" for message in request.messages[-_SHOWN_MESSAGES:]]
    lines.append("Add the turn that should answer it, or find out why the model is asked again.")
    return "\n".join(lines)


def _show_condition(thread: ScriptedThread) -> str:
    match thread.condition:
        case None:
            return "that no when() describes"
        case str(text):
            return f"that contain {text!r}"
        case predicate:
            return f"that fit {getattr(predicate, '__name__', repr(predicate))}"


def _show_turn(said: ScriptedTurn) -> str:
    match said:
        case ScriptedFailure(message):
            return f"fails with {message!r}"
        case ScriptedReply(text, calls=calls):
            spoken = [f"says {_cut(repr(text))}"] if text or not calls else []
            called = [f"calls {call.name}({_cut(canonical_json(call.arguments))})" for call in calls]
            return " and ".join([*spoken, *called])


def _show_message(message: ModelMessage) -> str:
    calls = "".join(f" [calls {call.name} as {call.call_id}]" for call in message.tool_calls)
    answered = f" ({message.tool_call_id})" if message.tool_call_id else ""
    return f"{message.role.value}{answered}: {_cut(repr(message.text))}{calls}"


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."

"""Scripts of a scripted model: replies, tool calls, failures, and conditions. Pure values.

A script is a list of turns; `when` sets turns apart for the requests it describes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import TypeAlias

from pilotage.agent.messages import ModelMessage, ModelMessageRole, ModelToolCall
from pilotage.agent.model_reply import ModelFinishReason, ModelResponse
from pilotage.agent.model_request import ModelRequest
from pilotage.checks import reject_blank, reject_empty
from pilotage.errors import AgentDefinitionError, AgentStructuredOutputError
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json, is_list, parsed, to_json_value
from pilotage.models.streaming import estimated_usage
from pilotage.values import value

Condition: TypeAlias = str | Callable[[ModelRequest], bool]
_SHOWN_MESSAGES = 4
_SHOWN_CHARACTERS = 200


@value
class ScriptedReply:
    """A turn in which the model answers: text, tool calls, or both."""

    text: str = ""
    output: JsonValue = None
    reasoning: str = ""
    calls: tuple[ModelToolCall, ...] = ()
    finish_reason: ModelFinishReason | None = None

    def matches(self, message: ModelMessage) -> bool:
        """Return whether an assistant's message is this reply; calls are compared by id, as arguments may be masked."""
        if self.calls or message.tool_calls:
            return [(c.name, c.call_id) for c in self.calls] == [
                (c.name, c.call_id) for c in message.tool_calls
            ]
        return self.text == message.text


@value
class ScriptedFailure:
    """A turn in which the call fails, after some text was streamed or before any."""

    message: str
    retryable: bool = False
    after: str = ""


ScriptedTurn: TypeAlias = ScriptedReply | ScriptedFailure


@value
class ScriptedThread:
    """Turns in order for the requests that fit a condition; without one, for all others."""

    condition: Condition | None
    turns: tuple[ScriptedTurn, ...]

    def fits(self, request: ModelRequest) -> bool:
        """Return whether this thread answers the request."""
        if isinstance(self.condition, str):
            return any(self.condition in message.text for message in request.messages)
        return self.condition is None or self.condition(request)

    def position_in(self, messages: Sequence[ModelMessage]) -> int:
        """Return the position of a transcript: the number of the turn after its last one."""
        position = 0
        for message in messages:
            if message.role is ModelMessageRole.ASSISTANT:
                position = self._position_after(message, position)
        return position

    def _position_after(self, message: ModelMessage, position: int) -> int:
        for index, scripted in enumerate(self.turns[position:], start=position):
            if isinstance(scripted, ScriptedReply) and scripted.matches(message):
                return index + 1
        return position


ScriptEntry: TypeAlias = ScriptedTurn | Sequence[ScriptedReply] | ScriptedThread


def says(
    text: str = "",
    *,
    output: object = None,
    reasoning: str = "",
    finish_reason: ModelFinishReason | None = None,
) -> ScriptedReply:
    """Return a turn with text, or with `output` as its structured answer (the text is then its JSON)."""
    json_value = to_json_value(output)
    text = text or ("" if output is None else canonical_json(json_value))
    return ScriptedReply(text, json_value, reasoning, (), finish_reason)


def calls(
    name: str, arguments: JsonObject | None = None, /, *, call_id: str | None = None, **named: object
) -> ScriptedReply:
    """Return a turn that calls a tool: `calls("search", query="ports")`.

    Arguments that are no Python names, or are called `call_id`, go into the mapping:
    `calls("search", {"call_id": "7"})`. Without a `call_id` of its own the call gets its number in the script:
    `call-1`, `call-2` ...
    """
    reject_blank("calls", name=name, call_id=call_id)
    given: dict[str, JsonValue] = {
        key: to_json_value(each) for key, each in {**(arguments or {}), **named}.items()
    }
    return ScriptedReply(calls=(ModelToolCall(name, given, call_id),))


def turn(*parts: ScriptedReply) -> ScriptedReply:
    """Return several parts in one turn: `turn(says("Let me look."), calls("search", query="a"), calls("clock"))`."""
    reject_empty("turn", parts=parts)
    outputs = [part.output for part in parts if part.output is not None]
    if len(outputs) > 1:
        raise AgentDefinitionError(f"turn: {len(outputs)} parts have an output. A turn has at most one.")
    return ScriptedReply(
        "".join(part.text for part in parts),
        outputs[0] if outputs else None,
        "".join(part.reasoning for part in parts),
        tuple(call for part in parts for call in part.calls),
        next((part.finish_reason for part in parts if part.finish_reason), None),
    )


def fails(message: str, *, retryable: bool = False, after: str = "") -> ScriptedFailure:
    """Return a turn that fails with a `ModelCallError`; in a stream, `after` this text."""
    reject_blank("fails", message=message)
    return ScriptedFailure(message, retryable, after)


def when(condition: Condition, *turns: ScriptedTurn | Sequence[ScriptedReply]) -> ScriptedThread:
    """Return turns for the requests that contain a text, or for which a function returns true.

    They are used in order, separately from all other turns. Use it if several agents share a model, or if
    parallel branches send requests in no certain order.
    """
    reject_empty("when", turns=turns)
    if isinstance(condition, str):
        reject_blank("when", condition=condition)
    return ScriptedThread(condition, tuple(_as_turn("when", each) for each in turns))


def read_script(script: Sequence[ScriptEntry]) -> tuple[ScriptedThread, ...]:
    """Return the threads of a script, those with a condition first, with an id for every call."""
    threads = [entry for entry in script if isinstance(entry, ScriptedThread)]
    plain = [_as_turn("ScriptedModel", entry) for entry in script if not isinstance(entry, ScriptedThread)]
    numbers = count(1)
    return tuple(_numbered(each, numbers) for each in (*threads, ScriptedThread(None, tuple(plain))))


def _as_turn(owner: str, entry: object) -> ScriptedTurn:
    if isinstance(entry, ScriptedReply | ScriptedFailure):
        return entry
    parts: Sequence[object] = entry if is_list(entry) else ()
    replies = [part for part in parts if isinstance(part, ScriptedReply)]
    if not replies or len(replies) != len(parts):
        raise AgentDefinitionError(
            f"{owner}: {entry!r} is no turn. Write says(...), calls(...), fails(...) or a list of calls."
        )
    return turn(*replies)


def _numbered(thread: ScriptedThread, numbers: Iterator[int]) -> ScriptedThread:
    return replace(thread, turns=tuple(_with_ids(each, numbers) for each in thread.turns))


def _with_ids(scripted: ScriptedTurn, numbers: Iterator[int]) -> ScriptedTurn:
    if isinstance(scripted, ScriptedFailure):
        return scripted
    calls = tuple(replace(c, call_id=c.call_id or f"call-{next(numbers)}") for c in scripted.calls)
    return replace(scripted, calls=calls)


def response_of(reply: ScriptedReply, request: ModelRequest) -> ModelResponse:
    """Return the complete response; raise `AgentStructuredOutputError` if the answer has the wrong type."""
    reason = reply.finish_reason or (ModelFinishReason.TOOL_CALLS if reply.calls else ModelFinishReason.STOP)
    is_answer = reason is ModelFinishReason.STOP
    structured = _structured(reply, request) if is_answer else None
    spec = request.structured_output
    return ModelResponse(
        reply.text,
        structured,
        reply.calls,
        estimated_usage(request.assemble_messages(), reply.text, reply.calls, reply.reasoning),
        finish_reason=reason,
        output=spec.decode(structured) if spec and is_answer else None,
    )


def _structured(reply: ScriptedReply, request: ModelRequest) -> JsonValue:
    """Return the structured answer: the declared output, or the text decoded as JSON."""
    if request.structured_output is None or reply.output is not None:
        return reply.output
    try:
        return parsed(reply.text)
    except ValueError as error:
        problem = f"the answer is no JSON: {reply.text!r}."
        raise AgentStructuredOutputError(problem, problems=[problem]) from error


def unused_turns(threads: Sequence[ScriptedThread], positions: Sequence[int]) -> Iterator[str]:
    """Yield a line for each turn after the position of its thread."""
    for thread, position in zip(threads, positions, strict=True):
        where = "" if thread.condition is None else f" for requests {_show_condition(thread)}"
        for number, scripted in enumerate(thread.turns[position:], start=position + 1):
            yield f"  turn {number}{where}: {_show_turn(scripted)}"


def beyond_script(threads: Sequence[ScriptedThread], thread: ScriptedThread, request: ModelRequest) -> str:
    """Return the message for a request without a turn: the turns of the script, and the request."""
    count = len(thread.turns)
    turns = "no turns" if count == 0 else "1 turn" if count == 1 else f"{count} turns"
    conditions = [_show_condition(thread) for thread in threads if thread.condition is not None]
    condition = f" for requests {_show_condition(thread)}" if conditions else ""
    used = ", all used" if count else ""
    lines = [f"ScriptedModel: the script has {turns}{condition}{used}."]
    lines += [
        f"  turn {number}: {_show_turn(scripted)}" for number, scripted in enumerate(thread.turns, start=1)
    ]
    if thread.condition is None and conditions:
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


def _show_turn(scripted: ScriptedTurn) -> str:
    match scripted:
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

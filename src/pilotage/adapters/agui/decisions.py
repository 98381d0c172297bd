"""The answers in an input: decisions about questions, and results of tools that the client ran. Pure, but for
`ingest_decision`.

A client of protocol 1.0 answers interrupts with `resume`; an older one answers the deferred tool call with a tool's
message, or puts `approvalDecision` into `forwardedProps`. The first of these counts. A decision is an object with
`decision`, or what pages send instead of one: `{approved: true}`, true, false, or the word alone. A decision that
cannot be read, that has fields of its own or that contradicts another one of the same input decides nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from uuid import uuid4

from ag_ui import core as agui

from pilotage.adapters.agui.errors import AgUiApprovalDecodeError, AgUiRunResolutionError
from pilotage.adapters.agui.frames import calls_in, messages_at_the_end
from pilotage.adapters.agui.questions import HITL_TOOL, PAUSE, question_of_call
from pilotage.agent.decisions import foreign_field
from pilotage.agent.ports.repositories import IAgentSignalRepository
from pilotage.agent.recovery_request import ACTIONS, RecoveryDecision
from pilotage.agent.signals import AgentSignal, AgentSignalKind, ApprovalDecision
from pilotage.jsonvalue import JsonObject, JsonValue, object_or_empty, parsed, repeated_key, shortened
from pilotage.runtime.answering import GivenAnswer
from pilotage.runtime.open_questions import run_of
from pilotage.values import value

_DETAILS = ("modified_payload", "comment", ACTIONS)
_DECISIONS: Mapping[str, ApprovalDecision | RecoveryDecision] = {
    **{each.value: each for each in RecoveryDecision},
    **{each.value: each for each in ApprovalDecision},
}
_APPROVED = "approved"
_WORDS = ("decision", _APPROVED)


@value
class AgUiDecision(GivenAnswer):
    """A decision about a question; `details` has its comment, arguments or result."""

    def to_payload(self) -> JsonObject:
        """Return the decision as a signal carries it."""
        return self.payload


@value
class AgUiContinuation:
    """The continuation, or the cancellation, of a run that paused without a question."""

    run_id: str
    is_cancelled: bool = False


def carries_approval_decision(ag_ui_input: agui.RunAgentInput) -> bool:
    """Return whether an input carries a decision, readable or not."""
    forwarded = _forwarded(ag_ui_input)
    return bool(ag_ui_input.resume) or any(_answers_at_the_end(ag_ui_input)) or forwarded is not None


def asking_runs(ag_ui_input: agui.RunAgentInput) -> list[str]:
    """Return the runs whose questions an input is about, whether or not its answers can be read."""
    ids = [entry.interrupt_id for entry in ag_ui_input.resume or ()]
    ids += [question_of_call(message.tool_call_id) for message, _ in _answers_at_the_end(ag_ui_input)]
    named = object_or_empty(_forwarded(ag_ui_input)).get("request_id")
    ids += [named] if isinstance(named, str) else []
    runs = (each.removeprefix(PAUSE) if each.startswith(PAUSE) else run_of(each) for each in ids)
    return list(dict.fromkeys(each for each in runs if each.strip()))


def decisions_in(ag_ui_input: agui.RunAgentInput) -> tuple[AgUiDecision | AgUiContinuation, ...]:
    """Return the decisions of an input.

    Raises:
        AgUiApprovalDecodeError: it decides nothing, or something that cannot be read.
    """
    sources: list[Sequence[AgUiDecision | AgUiContinuation]] = [
        [_resumed(entry) for entry in ag_ui_input.resume or ()],
        [_answered(message, content) for message, content in _answers_at_the_end(ag_ui_input)],
        _forwarded_decision(ag_ui_input),
    ]
    _refuse_contradictions([each for source in sources for each in source])
    for source in sources:
        if source:
            return tuple(_unique(source))
    raise AgUiApprovalDecodeError(
        f"input {ag_ui_input.run_id!r} carries no decision. Send it as `resume`, as the result of the "
        "hitl_approval call, or as forwardedProps.approvalDecision."
    )


def _refuse_contradictions(decided: Sequence[AgUiDecision | AgUiContinuation]) -> None:
    """Refuse an input that answers a question in two ways."""
    first: dict[str, AgUiDecision | AgUiContinuation] = {}
    for each in decided:
        if first.setdefault(_about(each), each) != each:
            raise AgUiApprovalDecodeError(
                f"the input answers {_about(each)!r} in two ways. Send one answer to each question; none was taken."
            )


def _unique(decided: Sequence[AgUiDecision | AgUiContinuation]) -> list[AgUiDecision | AgUiContinuation]:
    """Return the decisions of a source, each once."""
    return list({_about(each): each for each in decided}.values())


def _about(decided: AgUiDecision | AgUiContinuation) -> str:
    """Return the id of the interrupt that a decision is about."""
    return decided.request_id if isinstance(decided, AgUiDecision) else f"{PAUSE}{decided.run_id}"


def _forwarded_decision(ag_ui_input: agui.RunAgentInput) -> list[AgUiDecision]:
    forwarded = _forwarded(ag_ui_input)
    if forwarded is None:
        return []
    if not isinstance(forwarded, Mapping):
        raise AgUiApprovalDecodeError(
            "forwardedProps.approvalDecision is no object. Write {request_id, decision}."
        )
    where = "forwardedProps.approvalDecision"
    return [_read(where, forwarded.get("request_id"), _as_answer(where, forwarded))]


async def ingest_decision(
    ag_ui_input: agui.RunAgentInput, signals: IAgentSignalRepository, state_id: str
) -> tuple[AgentSignal, ...]:
    """Queue the decisions of an input for a run; it reads them, and refuses what does not fit, when it is resumed.

    Where there is an `AgentRuns`, `answer_all` is the better way: it checks answers at once and records who gave them.

    Raises:
        AgUiApprovalDecodeError: there is none, or none that can be read; nothing was queued.
        CallerError: the run has ended; nothing was queued.
    """
    decided = [each for each in decisions_in(ag_ui_input) if isinstance(each, AgUiDecision)]
    return tuple((await signals.append_all([_signal(state_id, each) for each in decided])).values())


def _signal(state_id: str, decision: AgUiDecision) -> AgentSignal:
    kind = AgentSignalKind.APPROVAL_DECISION
    return AgentSignal(f"agui-approval:{uuid4().hex}", state_id, kind, decision.to_payload())


def _resumed(entry: agui.ResumeEntry) -> AgUiDecision | AgUiContinuation:
    where = f"resume of interrupt {entry.interrupt_id!r}"
    if more := entry.model_extra:
        name = shortened(next(iter(more)))
        raise AgUiApprovalDecodeError(
            f"{where} has the field {name!r}, which is none of an entry. Leave it out."
        )
    is_cancelled = entry.status == "cancelled"
    if entry.interrupt_id.startswith(PAUSE):
        return AgUiContinuation(entry.interrupt_id.removeprefix(PAUSE), is_cancelled)
    if is_cancelled:
        cancelled: JsonObject = {"decision": ApprovalDecision.CANCEL.value}
        decided = _read(where, entry.interrupt_id, {**cancelled, **object_or_empty(entry.payload)})
    else:
        decided = _read(where, entry.interrupt_id, _as_answer(where, entry.payload))
    if is_cancelled and decided.decision.value != ApprovalDecision.CANCEL.value:
        raise AgUiApprovalDecodeError(
            f"{where} is cancelled, and its payload decides {decided.decision.value!r}. Send one of the two."
        )
    return decided


def is_decision(ag_ui_input: agui.RunAgentInput, message: agui.ToolMessage) -> bool:
    """Return whether a tool message is a decision; the result of a client's own tool may look like one."""
    called = _called(ag_ui_input, message.tool_call_id)
    if called == HITL_TOOL:
        return True
    return called is None and any(name in _object_in(message.content) for name in _WORDS)


def _called(ag_ui_input: agui.RunAgentInput, call_id: str) -> str | None:
    """Return the tool of a call, where the messages of the client have it."""
    named = (call.function.name for call in calls_in(ag_ui_input.messages) if call.id == call_id)
    return next(named, None)


def _answers_at_the_end(ag_ui_input: agui.RunAgentInput) -> Iterator[tuple[agui.ToolMessage, JsonValue]]:
    for message in messages_at_the_end(ag_ui_input.messages):
        if is_decision(ag_ui_input, message):
            yield message, _content_of(message)


def _answered(message: agui.ToolMessage, content: JsonValue) -> AgUiDecision:
    where = f"the result of tool call {message.tool_call_id!r}"
    if (repeated := repeated_key(str(message.content))) is not None:
        raise AgUiApprovalDecodeError(f"{where} has the key {repeated!r} twice in one object. Write it once.")
    answer = _as_answer(where, content)
    request_id = question_of_call(message.tool_call_id)
    if answer.get("request_id", request_id) not in (request_id, message.tool_call_id):
        raise AgUiApprovalDecodeError(
            f"{where} decides about another request. Write the id of the call as its request_id."
        )
    return _read(where, request_id, {**answer, "request_id": request_id})


def _as_answer(where: str, given: JsonValue) -> JsonObject:
    """Return an answer as an object with `decision`; pages send true or false, a word, or `approved` instead."""
    match given:
        case bool():
            return {"decision": _word_for(given)}
        case str():
            return {"decision": given.strip()}
        case Mapping() if _APPROVED in given:
            return _without_approved(where, given)
        case Mapping():
            return given
        case _:
            raise AgUiApprovalDecodeError(f"{where} has no answer in it. Write {{decision}} into it.")


def _without_approved(where: str, given: JsonObject) -> JsonObject:
    approved, word = given[_APPROVED], given.get("decision")
    if not isinstance(approved, bool):
        raise AgUiApprovalDecodeError(
            f"{where} has an `approved` that is not true or false. Write one of them."
        )
    if word not in (None, _word_for(approved)):
        raise AgUiApprovalDecodeError(
            f"{where} answers in two ways: approved is {str(approved).lower()}, and decision is another one. Send one."
        )
    rest = {name: each for name, each in given.items() if name != _APPROVED}
    return {**rest, "decision": _word_for(approved)}


def _word_for(approved: bool) -> str:
    return (ApprovalDecision.APPROVE if approved else ApprovalDecision.REJECT).value


def _content_of(message: agui.ToolMessage) -> JsonValue:
    """Return the JSON in the content of a tool message, else its text."""
    content = message.content
    if not isinstance(content, str):
        content = "\n".join(part.text for part in content if isinstance(part, agui.TextPart))
    try:
        return parsed(content)
    except (ValueError, RecursionError):
        return content


def _object_in(content: object) -> JsonObject:
    if not isinstance(content, str):
        return {}
    try:
        return object_or_empty(parsed(content))
    except (ValueError, RecursionError):
        return {}


def _forwarded(ag_ui_input: agui.RunAgentInput) -> JsonValue:
    return object_or_empty(ag_ui_input.forwarded_props).get("approvalDecision")


def _read(where: str, request_id: JsonValue, content: JsonObject) -> AgUiDecision:
    if not isinstance(request_id, str) or not request_id.strip():
        raise AgUiApprovalDecodeError(f"{where} names no request. Write its id as request_id.")
    if (foreign := foreign_field(content)) is not None:
        raise AgUiApprovalDecodeError(f"{where}: {foreign} Nothing was answered.")
    if content.get("request_id", request_id) != request_id:
        raise AgUiApprovalDecodeError(
            f"{where} has the request_id of another request. Write the same one, or leave it out. Nothing was answered."
        )
    word = content.get("decision")
    decision = _DECISIONS.get(word) if isinstance(word, str) else None
    if decision is None:
        raise AgUiApprovalDecodeError(f"{where} has no known decision.")
    modified, comment = content.get("modified_payload"), content.get("comment")
    if modified is not None and not isinstance(modified, Mapping):
        raise AgUiApprovalDecodeError(f"{where} has a modified_payload that is no object of arguments.")
    if content.get(ACTIONS) is not None and not isinstance(content[ACTIONS], Mapping):
        raise AgUiApprovalDecodeError(f"{where} has {ACTIONS} that are no object of answers by action id.")
    if comment is not None and not isinstance(comment, str):
        raise AgUiApprovalDecodeError(f"{where} has a comment that is no text.")
    details = {name: content[name] for name in _DETAILS if content.get(name) is not None}
    if decision is RecoveryDecision.DONE:
        details["result"] = content.get("result")
    return AgUiDecision(request_id, decision, details)


@value
class AgUiToolResult:
    """The result of a tool call that the client ran."""

    call_id: str
    result: JsonValue


def tool_results_in(ag_ui_input: agui.RunAgentInput) -> tuple[AgUiToolResult, ...]:
    """Return the results at the end of an input, whether or not a run waits for them."""
    return tuple(
        AgUiToolResult(message.tool_call_id, _result_of(message))
        for message in messages_at_the_end(ag_ui_input.messages)
        if not is_decision(ag_ui_input, message)
    )


def _result_of(message: agui.ToolMessage) -> JsonValue:
    content = message.content
    if not isinstance(content, str):
        if any(not isinstance(part, agui.TextPart) for part in content):
            raise AgUiRunResolutionError(
                f"the result of tool call {message.tool_call_id!r} has media, and results have none. Send it as text."
            )
        content = "\n".join(part.text for part in content if isinstance(part, agui.TextPart))
    result = _decoded(content)
    return result if message.error is None else {"error": message.error, "result": result}


def _decoded(content: str) -> JsonValue:
    """Return the JSON in a text, where it is an object or a list; everything else is the text itself."""
    if not content.lstrip().startswith(("{", "[")):
        return content
    try:
        found: JsonValue = json.loads(content, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return content
    return found


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")

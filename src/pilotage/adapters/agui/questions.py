"""Questions of a run as AG-UI shows them, and the answers in an input. Pure, but for `ingest_decision`.

A question is a native interrupt, and for older clients a deferred tool call. A client of protocol 1.0 answers
interrupts with `resume`; an older one answers the deferred tool call with a tool's message, or puts `approvalDecision`
into `forwardedProps`. The first of these counts. A decision that cannot be read, that has fields of its own or that
contradicts another one of the same input decides nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from uuid import uuid4

from ag_ui import core as agui

from pilotage.adapters.agui.errors import AgUiApprovalDecodeError, AgUiPendingApprovalError
from pilotage.agent.decisions import foreign_field
from pilotage.agent.events import AgentEventAttribution, RunPausedEvent
from pilotage.agent.ports.repositories import IAgentSignalRepository
from pilotage.agent.recovery_request import ACTIONS, DEFERRED_CALL, RecoveryDecision
from pilotage.agent.signals import AgentSignal, AgentSignalKind, ApprovalDecision
from pilotage.agent.state import AgentState
from pilotage.agent.yields import Approval
from pilotage.jsonvalue import (
    JsonObject,
    JsonValue,
    canonical_json,
    object_or_empty,
    parsed,
    repeated_key,
    shortened,
)
from pilotage.runtime.answering import GivenAnswer
from pilotage.values import value

_DETAILS = ("modified_payload", "comment", ACTIONS)
_DECISIONS: Mapping[str, ApprovalDecision | RecoveryDecision] = {
    **{each.value: each for each in RecoveryDecision},
    **{each.value: each for each in ApprovalDecision},
}


HITL_TOOL = "hitl_approval"
"""The tool that older clients see called, and answer with a decision."""
PAUSE = "pause:"
"""The prefix of the id of an interrupt without a question; the run's id follows."""


@value
class AgUiApproval:
    """A question as clients see it; recovery questions have decisions of their own."""

    id: str
    prompt: str
    allowed_decisions: tuple[str, ...] = tuple(each.value for each in ApprovalDecision)
    metadata: JsonObject | None = None


def approval_from_pause(event: RunPausedEvent) -> AgUiApproval:
    """Return the question a run paused with.

    Raises:
        AgUiPendingApprovalError: it paused without one.
    """
    if event.approval_id is None:
        raise AgUiPendingApprovalError(
            f"run {event.state_id!r} paused without a question: {event.prompt}. Resume it when it may go on."
        )
    return AgUiApproval(event.approval_id, event.prompt, event.allowed_decisions, event.metadata)


def find_pending_approval(state: AgentState) -> AgUiApproval | None:
    """Return the question in the state of a run, where `AgentApprovalRequest.to_state` put one."""
    found = state.metadata.get("approval")
    if state.is_terminal or not isinstance(found, Mapping) or not isinstance(found.get("id"), str):
        return None
    decisions = found.get("allowed_decisions")
    allowed = tuple(map(str, decisions)) if isinstance(decisions, Sequence) else ()
    return AgUiApproval(str(found["id"]), state.current_activity or HITL_TOOL, allowed, found)


def project_pending_approval(state: AgentState, attribution: AgentEventAttribution) -> list[agui.BaseEvent]:
    """Return the question in the state of a run as a deferred tool call.

    Raises:
        AgUiPendingApprovalError: there is none.
    """
    approval = find_pending_approval(state)
    if approval is None:
        raise AgUiPendingApprovalError(
            f"run {state.id!r} is {state.status} and its state holds no question. "
            "Ask for the open questions of a run: AgentRuns.questions(run_id)."
        )
    return project_approval(approval, attribution)


def project_approval(
    approval: AgUiApproval | Approval, attribution: AgentEventAttribution
) -> list[agui.BaseEvent]:
    """Return a question as a call of `hitl_approval` that has no result yet."""
    asked: dict[str, JsonValue] = {
        "prompt": approval.prompt,
        "allowed_decisions": [str(each) for each in approval.allowed_decisions],
        "run_id": attribution.run_id,
        **_with_reason(approval.metadata or {}),
    }
    return [
        agui.ToolCallStartEvent(tool_call_id=approval.id, tool_call_name=HITL_TOOL),
        agui.ToolCallArgsEvent(tool_call_id=approval.id, delta=canonical_json(asked)),
        agui.ToolCallEndEvent(tool_call_id=approval.id),
    ]


def interrupt_of(event: RunPausedEvent, by: str | None = None) -> agui.Interrupt:
    """Return the pause as the protocol's own interrupt; `by` is the sub-agent that asks."""
    expires_at = event.metadata.get("expires_at")
    return agui.Interrupt(
        id=event.approval_id or f"{PAUSE}{event.state_id}",
        reason=event.reason.value,
        message=event.prompt,
        tool_call_id=event.tool_call_id,
        response_schema=_answers(event) if event.approval_id else None,
        expires_at=expires_at if isinstance(expires_at, str) else None,
        metadata=_with_reason(event.metadata) or None,
        subagent_run_id=by,
    )


def _with_reason(about: JsonObject) -> dict[str, JsonValue]:
    """Return the facts about a question, with the reason of the stage that asks beside them."""
    details = object_or_empty(about.get("metadata"))
    for place in (about, details, object_or_empty(details.get("metadata"))):
        if isinstance(reason := place.get("reason"), str):
            return {**about, "reason": reason}
    return dict(about)


def is_for_the_client(event: RunPausedEvent) -> bool:
    """Return whether a run waits for the result of a tool that its client runs."""
    metadata = event.metadata.get("metadata")
    return isinstance(metadata, Mapping) and DEFERRED_CALL in metadata


def _answers(event: RunPausedEvent) -> dict[str, JsonValue]:
    """Return the schema of an answer, for clients that build a form from it."""
    allowed = event.allowed_decisions
    properties: dict[str, JsonValue] = {
        "decision": {"type": "string", "enum": list(allowed)},
        "comment": {"type": "string"},
    }
    if ApprovalDecision.MODIFY.value in allowed:
        properties["modified_payload"] = {
            "type": "object",
            "description": "the arguments to use, where the decision is modify",
        }
    if "done" in allowed:
        properties["result"] = {"description": "the result, where the decision is done"}
    if inside := dict(_answers_inside(event)):
        properties[ACTIONS] = {
            "type": "object",
            "description": "an answer to each open action inside, where the decision is retry",
            "properties": inside,
        }
    return {"type": "object", "properties": properties, "required": ["decision"]}


def _answers_inside(event: RunPausedEvent) -> Iterator[tuple[str, JsonValue]]:
    """Yield the schemas of the answers to open actions inside of the action of the question, by their ids."""
    inside = event.metadata.get("inside")
    for action in inside if isinstance(inside, Sequence) else ():
        about = object_or_empty(action)
        if decisions := about.get("allowed_decisions"):
            own: dict[str, JsonValue] = {
                "decision": {"type": "string", "enum": decisions},
                "result": {"description": "the result, where the decision is done"},
                "comment": {"type": "string"},
            }
            yield str(about.get("action_id")), {"type": "object", "properties": own, "required": ["decision"]}


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
    return [_read("forwardedProps.approvalDecision", forwarded.get("request_id"), forwarded)]


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
    payload: JsonValue = entry.payload
    if is_cancelled:
        payload = {"decision": ApprovalDecision.CANCEL.value, **object_or_empty(payload)}
    if not isinstance(payload, Mapping):
        raise AgUiApprovalDecodeError(f"{where} has no object as payload. Write {{decision}} into it.")
    decided = _read(where, entry.interrupt_id, payload)
    if is_cancelled and decided.decision.value != ApprovalDecision.CANCEL.value:
        raise AgUiApprovalDecodeError(
            f"{where} is cancelled, and its payload decides {decided.decision.value!r}. Send one of the two."
        )
    return decided


def messages_at_the_end(ag_ui_input: agui.RunAgentInput) -> list[agui.ToolMessage]:
    """Return the tool messages at the end of an input; earlier ones are history."""
    found: list[agui.ToolMessage] = []
    for message in reversed(ag_ui_input.messages):
        if not isinstance(message, agui.ToolMessage):
            break
        found.append(message)
    return found[::-1]


def is_decision(ag_ui_input: agui.RunAgentInput, message: agui.ToolMessage) -> bool:
    """Return whether a tool message is a decision; the result of a client's own tool may look like one."""
    called = _called(ag_ui_input, message.tool_call_id)
    return called in (None, HITL_TOOL) and "decision" in _object_in(message.content)


def _called(ag_ui_input: agui.RunAgentInput, call_id: str) -> str | None:
    """Return the tool of a call, where the messages of the client have it."""
    for message in ag_ui_input.messages:
        for call in (message.tool_calls or ()) if isinstance(message, agui.AssistantMessage) else ():
            if call.id == call_id:
                return call.function.name
    return None


def _answers_at_the_end(ag_ui_input: agui.RunAgentInput) -> Iterator[tuple[agui.ToolMessage, JsonObject]]:
    for message in messages_at_the_end(ag_ui_input):
        if is_decision(ag_ui_input, message):
            yield message, _object_in(message.content)


def _answered(message: agui.ToolMessage, content: JsonObject) -> AgUiDecision:
    where = f"the result of tool call {message.tool_call_id!r}"
    if content.get("request_id") != message.tool_call_id:
        raise AgUiApprovalDecodeError(
            f"{where} decides about another request. Write the id of the call as its request_id."
        )
    if (repeated := repeated_key(str(message.content))) is not None:
        raise AgUiApprovalDecodeError(f"{where} has the key {repeated!r} twice in one object. Write it once.")
    return _read(where, message.tool_call_id, content)


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
        words = ", ".join(_DECISIONS)
        raise AgUiApprovalDecodeError(f"{where} has no known decision. It is one of: {words}.")
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
        for message in messages_at_the_end(ag_ui_input)
        if not is_decision(ag_ui_input, message)
    )


def _result_of(message: agui.ToolMessage) -> JsonValue:
    content = message.content
    if not isinstance(content, str):
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

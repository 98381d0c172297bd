"""Questions of a run as AG-UI shows them, and what it shows of a run that stopped without an answer. Pure.

A question is a native interrupt, and for clients that know none a deferred tool call, if the settings say so. A run
that stopped at a limit asks nothing: a client would keep an interrupt open, and send no further message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from ag_ui import core as agui

from pilotage.adapters.agui.errors import AgUiPendingApprovalError
from pilotage.adapters.agui.frames import calls_in
from pilotage.agent.events import AgentEventAttribution, RunPausedEvent
from pilotage.agent.recovery_request import ACTIONS, DEFERRED_CALL
from pilotage.agent.signals import ApprovalDecision
from pilotage.agent.state import AgentState, AgentStateReason
from pilotage.agent.yields import Approval
from pilotage.jsonvalue import JsonObject, JsonValue, object_or_empty
from pilotage.values import value

HITL_TOOL = "hitl_approval"
"""The tool that older clients see called, and answer with a decision."""
LIMIT_REACHED = "limit_reached"
"""The name of the CUSTOM event of a run that stopped at a limit, or without an answer."""
PAUSE = "pause:"
"""The prefix of the id of an interrupt without a question; the run's id follows."""


_AGAIN = "~"
_NUMBERED = re.compile(rf"{_AGAIN}[0-9]{{1,6}}\Z")
_RISKS = {
    "read": "reads data",
    "write": "changes data",
    "side_effect": "has an effect that cannot be taken back by the application",
    "destructive": "destroys something",
    "network": "reaches other systems",
}
_STOPPED = {
    "agent_max_steps_exceeded": "the agent has reached its limit of steps",
    "agent_max_tool_calls_exceeded": "the agent has reached its limit of tool calls",
    "agent_max_tokens_exceeded": "the agent has reached its limit of tokens",
    "agent_max_cost_exceeded": "the agent has reached its limit of cost",
    "agent_budget_exhausted": "the budget is used up",
    "agent_tool_errors_exceeded": "too many calls of tools failed",
    "agent_finish_length": "the reply of the model became too long",
    "agent_content_filter": "the provider of the model withheld the answer",
    "agent_refusal": "the model refused to answer",
    "agent_empty_reply": "the model gave no answer",
}
_STOPPED_OTHERWISE = "the agent stopped before it had one"
_PLAIN = {
    "tools of the caller": "tools that the page brought",
    "ag-ui client": "the page",
    "run input": "the input",
}


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
    # The prompt of a pause has the problem of an answer that was refused; people read it first, and ids last.
    first: dict[str, JsonValue] = {
        "prompt": approval.prompt,
        "allowed_decisions": [str(each) for each in approval.allowed_decisions],
    }
    about = {"run_id": attribution.run_id, **_with_reason(approval.metadata or {})}
    asked = {**first, **_in_order({name: each for name, each in about.items() if name not in first})}
    arguments = json.dumps(asked, ensure_ascii=False, separators=(",", ":"))
    return [
        agui.ToolCallStartEvent(tool_call_id=approval.id, tool_call_name=HITL_TOOL),
        agui.ToolCallArgsEvent(tool_call_id=approval.id, delta=arguments),
        agui.ToolCallEndEvent(tool_call_id=approval.id),
    ]


def call_of_question(question_id: str, messages: Sequence[agui.Message]) -> str | None:
    """Return the id of the call that shows a question; None where the messages of the client have one without a result.

    A question that is asked again after an answer that was refused is another call: the one before has its result.
    """
    shown = calls_of_question(question_id, messages)
    if not shown:
        return question_id
    answered = {each.tool_call_id for each in messages if isinstance(each, agui.ToolMessage)}
    return f"{question_id}{_AGAIN}{len(shown) + 1}" if answered.issuperset(shown) else None


def calls_of_question(question_id: str, messages: Sequence[agui.Message]) -> list[str]:
    """Return the ids of the calls in the messages of a client that show a question."""
    return [call.id for call in calls_in(messages) if question_of_call(call.id) == question_id]


def question_of_call(call_id: str) -> str:
    """Return the id of the question that a call shows."""
    return _NUMBERED.sub("", call_id)


def interrupt_of(event: RunPausedEvent, by: str | None = None) -> agui.Interrupt:
    """Return the pause as the protocol's own interrupt; `by` is the sub-agent that asks."""
    expires_at = event.metadata.get("expires_at")
    return agui.Interrupt(
        id=event.approval_id or f"{PAUSE}{event.state_id}",
        reason=event.reason.value,
        message=_message(event),
        tool_call_id=event.tool_call_id,
        response_schema=_answers(event) if event.approval_id else None,
        expires_at=expires_at if isinstance(expires_at, str) else None,
        metadata=_in_order(_with_reason(event.metadata)) or None,
        subagent_run_id=by,
    )


def stopped_at_limit(event: RunPausedEvent) -> tuple[str, agui.CustomEvent] | None:
    """Return the words and the facts about a run that stopped without an answer; None for any other pause."""
    if event.reason is not AgentStateReason.LIMIT_REACHED or event.approval_id is not None:
        return None
    code = str(event.metadata.get("code", event.reason.value))
    facts = {"runId": event.state_id, "code": code, "message": event.prompt}
    words = f"There is no complete answer: {_STOPPED.get(code, _STOPPED_OTHERWISE)}."
    return words, agui.CustomEvent(name=LIMIT_REACHED, value=facts)


def _message(event: RunPausedEvent) -> str:
    """Return the question and, where it is not the tool's own rule that asks, the reason."""
    reason = _with_reason(event.metadata).get("reason")
    if not isinstance(reason, str):
        return event.prompt
    # What follows is for the developer.
    why = reason.partition(". ")[0].partition("; ")[0]
    for internal, plain in _PLAIN.items():
        why = why.replace(internal, plain)
    return f"{event.prompt} Why it is asked: {why}."


def _in_order(about: JsonObject) -> dict[str, JsonValue]:
    """Return the facts about a question, with those that a person judges by first."""
    axes = object_or_empty(about.get("risk")).get("axes")
    words = [_RISKS[str(each)] for each in axes if each in _RISKS] if isinstance(axes, list) else []
    first: dict[str, JsonValue] = {name: about[name] for name in ("arguments",) if name in about}
    if words:
        first["risk_in_words"] = f"The call {', '.join(words)}."
    first |= {name: about[name] for name in ("reason",) if name in about}
    return {**first, **{name: each for name, each in about.items() if name not in first}}


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


def deferred_call_of(event: RunPausedEvent) -> str | None:
    """Return the tool call whose result a run waits for from its client; None where it waits for something else."""
    found = object_or_empty(event.metadata.get("metadata")).get(DEFERRED_CALL)
    return found if isinstance(found, str) else None

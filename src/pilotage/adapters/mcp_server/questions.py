"""Questions of a run as forms of a client, and what its user filled in as answers. Pure.

A form is flat: the decision is one of those that the question allows, arguments and results are JSON texts. What a
form cannot ask for is left to other ways of answering: to decide about actions inside of another one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import mcp_types as types

from pilotage.adapters.mcp_server.forms import MESSAGE, McpForm
from pilotage.agent.approval import AgentApprovalRequest
from pilotage.agent.recovery_request import AgentRecoveryRequest, RecoveryDecision
from pilotage.agent.signals import ApprovalDecision
from pilotage.inbound.bodies import finite
from pilotage.inbound.problems import RequestRefusedError
from pilotage.jsonvalue import JsonObject, JsonValue, object_or_empty, to_json_value
from pilotage.runtime.answering import GivenAnswer
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.question_record import Question

Forms: TypeAlias = Sequence[McpForm]
"""The forms that a run may ask for."""
DECISION, COMMENT, ARGUMENTS, RESULT = "decision", "comment", "modified_payload", "result"
_LONGEST = 10_000
_MOST_SHOWN = 4_000

_WORDS: Mapping[str, str] = {
    ApprovalDecision.APPROVE.value: "Approve",
    ApprovalDecision.REJECT.value: "Reject",
    ApprovalDecision.MODIFY.value: "Approve with other arguments",
    ApprovalDecision.CANCEL.value: "Cancel the run",
    RecoveryDecision.RETRY.value: "Run it again",
    RecoveryDecision.DONE.value: "It was done, with this result",
    RecoveryDecision.FAIL.value: "Let the run fail",
}


def request_of(question: Question, forms: Forms = (), refusal: str | None = None) -> types.ElicitRequest:
    """Return a question as a request to the user of a client."""
    return types.ElicitRequest(params=form_of(question, forms, refusal))


def asked_form(question: Question, forms: Forms) -> McpForm | None:
    """Return the form that a question asks for; None for a question about an action."""
    if not isinstance(question, AgentRecoveryRequest) or question.deferred_call is None:
        return None
    return next((each for each in forms if each.name == question.action_name), None)


def form_of(
    question: Question, forms: Forms = (), refusal: str | None = None
) -> types.ElicitRequestFormParams:
    """Return a question as a form; `refusal` says why the last answer to it was none."""
    if (form := asked_form(question, forms)) is not None:
        asked = str(_arguments_of(question).get(MESSAGE, form.description))
        message = "\n\n".join(filter(None, [refusal, asked]))
        return types.ElicitRequestFormParams(message=message, requested_schema=dict(form.schema))
    decisions = [*decisions_of(question)]
    choices = [{"const": each, "title": _WORDS.get(each, each)} for each in decisions]
    fields: dict[str, Any] = {
        DECISION: {"type": "string", "title": "Decision", "oneOf": choices},
        COMMENT: {"type": "string", "title": "Comment", "maxLength": _LONGEST},
    }
    if ApprovalDecision.MODIFY.value in decisions:
        fields[ARGUMENTS] = _json_field(
            "Arguments", "The arguments to use, as JSON, with the decision modify."
        )
    if RecoveryDecision.DONE.value in decisions:
        fields[RESULT] = _json_field("Result", "The result, as JSON, with the decision done.")
    message = "\n\n".join(filter(None, [refusal, question.prompt, *_facts(question)]))
    schema = {"type": "object", "properties": fields, "required": [DECISION]}
    return types.ElicitRequestFormParams(message=message, requested_schema=schema)


def _json_field(title: str, description: str) -> dict[str, Any]:
    return {"type": "string", "title": title, "description": description}


def _arguments_of(question: Question) -> JsonObject:
    """Return the guarded arguments of the action of a question."""
    found = question.arguments
    return object_or_empty(found[words.VIEW]) if words.VIEW in found else found


def _facts(question: Question) -> list[str]:
    """Return what a person judges a question by: the guarded arguments, and the risk."""
    arguments = _arguments_of(question)
    shown = json.dumps(to_json_value(arguments), ensure_ascii=False) if arguments else ""
    if len(shown) > _MOST_SHOWN:
        shown = f"{shown[:_MOST_SHOWN]} ... ({len(shown)} characters)"
    facts = [f"Arguments: {shown}"] if shown else []
    if isinstance(question, AgentApprovalRequest) and question.risk.axes:
        facts.append(f"Risk: {', '.join(each.value for each in question.risk.axes)}")
    return facts


def decisions_of(question: Question) -> tuple[str, ...]:
    """Return the decisions that a form offers. To leave a question open, its user closes the form."""
    left_out = {ApprovalDecision.DEFER.value}
    if isinstance(question, AgentRecoveryRequest) and question.to_decide:
        left_out.add(RecoveryDecision.RETRY.value)
    return tuple(each.value for each in question.allowed_decisions if each.value not in left_out)


def answer_of(question: Question, response: object, forms: Forms = ()) -> GivenAnswer | None:
    """Return the answer in a response; None where its user has closed the form, which leaves the question open.

    Raises:
        RequestRefusedError: the response is no answer to this question.
    """
    filled = _filled(response)
    form = asked_form(question, forms)
    if form is not None and filled.action != "cancel":
        return GivenAnswer(question.id, RecoveryDecision.DONE, {RESULT: _result_of(form, filled)})
    match filled.action:
        case "cancel":
            return None
        case "decline":
            return _declined(question)
        case "accept":
            return _accepted(question, filled.content or {})


def _filled(response: object) -> types.ElicitResult:
    if not isinstance(response, types.ElicitResult):
        raise RequestRefusedError("The response is not one to a form.")
    return response


def _result_of(form: McpForm, filled: types.ElicitResult) -> JsonValue:
    """Return the result of the call that asks for a form."""
    if filled.action == "decline":
        return {"action": "decline"}
    return {"action": "accept", "content": form.content(filled.content or {})}


def _declined(question: Question) -> GivenAnswer | None:
    """Return a rejection where a question can be rejected: declining a form is a decision of its user."""
    if ApprovalDecision.REJECT.value not in decisions_of(question):
        return None
    return GivenAnswer(question.id, ApprovalDecision.REJECT, {})


def _accepted(question: Question, content: Mapping[str, Any]) -> GivenAnswer:
    decision = content.get(DECISION)
    if decision not in decisions_of(question):
        offered = ", ".join(decisions_of(question))
        raise RequestRefusedError(f"The answer has no decision. Choose one of {offered}.")
    details: dict[str, JsonValue] = {}
    if isinstance(comment := content.get(COMMENT), str) and comment:
        details[COMMENT] = comment[:_LONGEST]
    if content.get(ARGUMENTS):
        details[ARGUMENTS] = _object_in(content[ARGUMENTS])
    if decision == RecoveryDecision.DONE.value:
        details[RESULT] = _json_in(content.get(RESULT, ""), RESULT)
    elif content.get(RESULT):
        raise RequestRefusedError("A result goes with the decision done. Leave it out.")
    return GivenAnswer(question.id, _decision(question, str(decision)), details)


def _decision(question: Question, decision: str) -> ApprovalDecision | RecoveryDecision:
    kind = ApprovalDecision if isinstance(question, AgentApprovalRequest) else RecoveryDecision
    return kind(decision)


def _object_in(text: object) -> JsonObject:
    found = _json_in(text, ARGUMENTS)
    if not isinstance(found, dict):
        raise RequestRefusedError(f"{ARGUMENTS!r} is no JSON object. Write the arguments by name.")
    return found


def _json_in(text: object, where: str) -> JsonValue:
    """Return the JSON value in a field; a result that is no JSON is the text itself."""
    if not isinstance(text, str):
        raise RequestRefusedError(f"{where!r} is no text. Write JSON.")
    try:
        found: JsonValue = finite(json.loads(text))
    except (ValueError, RecursionError):
        if where == RESULT:
            return text
        raise RequestRefusedError(f"{where!r} is no JSON.") from None
    return found

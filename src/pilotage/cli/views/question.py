"""A question that a run waits for, with what people may see of it and how to answer. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pilotage.agent.approval import AgentApprovalRequest
from pilotage.agent.recovery_request import AgentRecoveryRequest, OpenAction, RecoveryDecision, UnknownAttempt
from pilotage.cli.words import Hints, Line, TextSpan, Tone, cleaned, day_and_time, line, one_line, short
from pilotage.jsonvalue import JsonObject, JsonValue, to_json_value
from pilotage.runtime.answers import Question, StoredAnswer

_LONGEST = 2_000
_TERMS = ("expires_at", "requested_by", "approver_scope", "policy_version")
_MORE = {"modify": "--arguments '{…}'", "done": "--result '…'"}


def question_lines(question: Question) -> list[Line]:
    """What is asked: the words, the action, its guarded arguments."""
    lines = [line(TextSpan("? ", Tone.ASKING), TextSpan(one_line(question.prompt, 400), Tone.STRONG))]
    lines += [line(f"  {name:<10}", each) for name, each in _facts(question)]
    lines += [_argument(name, each) for name, each in question.arguments.items()]
    for action in question.inside if isinstance(question, AgentRecoveryRequest) else ():
        lines += open_action_lines(action)
    return lines


def open_action_lines(action: OpenAction) -> list[Line]:
    """An open action inside of the one that is asked about."""
    needed = "" if action.allowed_decisions else " (needs no answer)"
    attempt = f", attempt {action.attempt}" if action.attempt > 1 else ""
    about = TextSpan(f"{one_line(action.name)}{attempt}{needed}", Tone.NAME)
    lines = [line(f"  {'inside':<10}", about, TextSpan(f"  {one_line(action.action_id, 200)}", Tone.QUIET))]
    return [*lines, *(_argument(name, each) for name, each in action.arguments.items())]


def answer_lines(question: Question, hints: Hints, *, is_only: bool = True) -> list[Line]:
    """The commands that answer the question, one for each decision that is allowed."""
    where = short(question.agent_state_id if is_only else question.id)
    return [
        line(
            TextSpan("  "),
            TextSpan(hints.command("runs", each.value, where, *_more(question, each.value)), Tone.NAME),
        )
        for each in question.allowed_decisions
    ]


def open_questions(questions: Sequence[Question], hints: Hints) -> list[Line]:
    """All questions of a run with their answers."""
    lines: list[Line] = []
    asking = [question.agent_state_id for question in questions]
    for question in questions:
        is_only = asking.count(question.agent_state_id) == 1
        lines += [*question_lines(question), *answer_lines(question, hints, is_only=is_only)]
    return lines


def _facts(question: Question) -> list[tuple[str, TextSpan]]:
    match question:
        case AgentApprovalRequest():
            facts = [("action", TextSpan(one_line(question.action_ref), Tone.NAME))]
            risk = ", ".join(axis.value for axis in question.risk.axes)
            facts += [("risk", TextSpan(risk))] if risk else []
            if question.expires_at is not None:
                facts.append(("until", TextSpan(day_and_time(question.expires_at))))
            facts += [(name, TextSpan(one_line(each))) for name, each in _terms(question) if each is not None]
        case AgentRecoveryRequest():
            facts = [("action", TextSpan(one_line(question.action_name or question.action_id), Tone.NAME))]
            facts += [("late", TextSpan(_json(each))) for each in question.late_outcomes]
            facts += _begun(question.begun) if question.begun is not None else []
    return [*facts, ("attempt", TextSpan(str(question.attempt)))] if question.attempt > 1 else facts


def _terms(question: AgentApprovalRequest) -> list[tuple[str, str | None]]:
    """The terms of an approval: whom the run acts for, who may answer, and the version of the policy."""
    return [
        ("by", question.requested_by),
        ("approvers", question.approver_scope),
        ("policy", question.policy_version),
    ]


def _begun(begun: UnknownAttempt) -> list[tuple[str, TextSpan]]:
    """The attempt with an unknown outcome: when and where it began, and what its result looks like."""
    alive = {None: "", True: ", which may still be at work", False: ", whose lease is over"}
    process = f" by {begun.process}{alive[begun.may_be_alive]}" if begun.process else ""
    facts = [
        ("key", TextSpan(begun.idempotency_key)),
        ("began", TextSpan(f"{day_and_time(begun.began_at)}, epoch {begun.epoch}{process}".lstrip(", "))),
    ]
    if begun.result_schema is not None:
        facts.append(("result", TextSpan(_json(begun.result_schema))))
    return facts


def _argument(name: str, value: JsonValue) -> Line:
    return line(TextSpan(f"    {one_line(name, 60)} = ", Tone.QUIET), _json(value))


def _json(value: JsonValue) -> str:
    """All of a value that somebody is about to decide on: what is too long is said to be."""
    text = cleaned(json.dumps(value, ensure_ascii=False))
    cut_off = len(text) - _LONGEST
    return text if cut_off <= 0 else f"{text[:_LONGEST]}… ({cut_off} more characters: --json shows all)"


def _more(question: Question, decision: str) -> list[str]:
    if decision == RecoveryDecision.RETRY.value and isinstance(question, AgentRecoveryRequest):
        return [f"--action {name}=retry" for name in short_names(question)]
    return [_MORE[decision]] if decision in _MORE else []


def short_names(question: AgentRecoveryRequest) -> dict[str, str]:
    """The names by which commands know the actions inside that need an answer: short where that names one only."""
    names = [each.name for each in question.to_decide]
    return {
        each.name if names.count(each.name) == 1 else each.action_id: each.action_id
        for each in question.to_decide
    }


def _open_action_json(action: OpenAction) -> JsonObject:
    return {
        "action_id": action.action_id,
        "action": action.name,
        "arguments": action.arguments,
        "allowed_decisions": [each.value for each in action.allowed_decisions],
        "attempt": action.attempt,
    }


def answer_json(answer: StoredAnswer) -> JsonObject:
    """An answer that waits to be taken, for programs."""
    return {
        "request_id": answer.question.id,
        "run_id": answer.question.agent_state_id,
        "decision": answer.decision,
        "decided_by": answer.decided_by,
        "at": to_json_value(answer.at),
    }


def question_json(question: Question) -> JsonObject:
    """A question for programs, in the words of the HTTP routes."""
    own: dict[str, JsonValue]
    match question:
        case AgentApprovalRequest():
            own = {
                "kind": "approval",
                "action": question.action_ref,
                "late_outcomes": [],
                "inside": [],
                "begun": None,
            }
            own |= {name: to_json_value(getattr(question, name)) for name in _TERMS}
        case AgentRecoveryRequest():
            own = {"kind": "recovery", "action": question.action_name or question.action_id}
            own |= {"late_outcomes": list(question.late_outcomes), **dict.fromkeys(_TERMS)}
            own["inside"] = [_open_action_json(each) for each in question.inside]
            own["begun"] = to_json_value(question.begun)
    return {
        "id": question.id,
        "run_id": question.agent_state_id,
        "prompt": question.prompt,
        "reason": question.reason,
        "metadata": question.metadata,
        "arguments": question.arguments,
        "allowed_decisions": [each.value for each in question.allowed_decisions],
        "attempt": question.attempt,
        **own,
    }

"""Questions of runs as text: what is asked and why, and the commands that answer. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pilotage.agent.approval import AgentApprovalRequest
from pilotage.agent.recovery_request import AgentRecoveryRequest, OpenAction, RecoveryDecision, UnknownAttempt
from pilotage.agent.tools.metadata import RISK_IN_WORDS
from pilotage.cli.text import Hints, Line, TextSpan, Tone, cleaned, day_and_time, line, one_line, short
from pilotage.jsonvalue import JsonValue
from pilotage.runtime.open_questions import Question

_LONGEST = 2_000
_OPTIONS = {"modify": "--arguments '{…}'", "done": "--result '…'"}
_USUAL = 2
# What the request of a tool says about the tool: the other lines of a question show it.
_OF_TOOL = frozenset(
    {
        *("tool_identity", "tool_schema_name", "tool_name", "approval_requirement", "risk_axes"),
        *("call_id", "metadata"),
    }
)


def question_lines(question: Question) -> list[Line]:
    """Return a question: its prompt, its guarded arguments, the reason for it, its risk, the action and its terms."""
    lines = [line(TextSpan("? ", Tone.ASKING), TextSpan(one_line(question.prompt, 400), Tone.STRONG))]
    lines += [_argument(name, each) for name, each in question.arguments.items()]
    lines += [_fact(name, each) for name, each in (*_reasons(question), *_facts(question))]
    for action in question.inside if isinstance(question, AgentRecoveryRequest) else ():
        lines += open_action_lines(action)
    return lines


def open_action_lines(action: OpenAction) -> list[Line]:
    """Return an open action inside of the action that a question is about."""
    needed = "" if action.allowed_decisions else " (needs no answer)"
    attempt = f", attempt {action.attempt}" if action.attempt > 1 else ""
    about = TextSpan(f"{one_line(action.name)}{attempt}{needed}", Tone.NAME)
    lines = [line(f"  {'inside':<10}", about, TextSpan(f"  {one_line(action.action_id, 200)}", Tone.QUIET))]
    return [*lines, *(_argument(name, each) for name, each in action.arguments.items())]


def answer_lines(question: Question, hints: Hints, *, is_only: bool = True) -> list[Line]:
    """Return the commands that answer a question: the usual two, and a line with the other decisions."""
    where = short(question.agent_state_id if is_only else question.id)
    decisions = [each.value for each in question.allowed_decisions]
    usual, others = decisions[:_USUAL], decisions[_USUAL:]
    commands = [hints.command("runs", each, where, *_options(question, each)) for each in usual]
    lines = [line("  ", each) for each in commands]
    if others:
        words = ", ".join(" ".join((each, *_options(question, each))) for each in others)
        lines.append(_fact("or", TextSpan(words, Tone.NAME)))
    return lines


def open_questions(questions: Sequence[Question], hints: Hints) -> list[Line]:
    """Return all questions of a run with the commands that answer them."""
    lines: list[Line] = []
    asking = [question.agent_state_id for question in questions]
    for question in questions:
        is_only = asking.count(question.agent_state_id) == 1
        lines += [*question_lines(question), *answer_lines(question, hints, is_only=is_only)]
    return lines


def _fact(name: str, about: TextSpan) -> Line:
    return line(TextSpan(f"  {name:<9} ", Tone.QUIET), TextSpan(about.text, about.tone, hangs=True))


def _reasons(question: Question) -> list[tuple[str, TextSpan]]:
    """Return why a question is asked: the reason of the gate, and what an approval handler added."""
    metadata = question.metadata
    inner = metadata.get("metadata")
    of_gate = inner.get("reason") if isinstance(inner, Mapping) else None
    reasons = [("why", TextSpan(one_line(str(of_gate), 400)))] if of_gate else []
    if isinstance(question, AgentRecoveryRequest):
        return reasons
    own = [(name, each) for name, each in metadata.items() if name not in _OF_TOOL and each is not None]
    return [*reasons, *((one_line(name, 60), TextSpan(_text(each))) for name, each in own)]


def _facts(question: Question) -> list[tuple[str, TextSpan]]:
    match question:
        case AgentApprovalRequest():
            risk = ", ".join(RISK_IN_WORDS[axis] for axis in question.risk.axes)
            facts = [("risk", TextSpan(risk))] if risk else []
            facts.append(("action", TextSpan(one_line(question.action_ref), Tone.NAME)))
            if question.expires_at is not None:
                facts.append(("until", TextSpan(day_and_time(question.expires_at))))
            facts += [(name, TextSpan(one_line(each))) for name, each in _terms(question) if each is not None]
        case AgentRecoveryRequest():
            facts = [("action", TextSpan(one_line(question.action_name or question.action_id), Tone.NAME))]
            facts += [("late", TextSpan(_json(each))) for each in question.late_outcomes]
            facts += _begun(question.begun) if question.begun is not None else []
    return [*facts, ("attempt", TextSpan(str(question.attempt)))] if question.attempt > 1 else facts


def _terms(question: AgentApprovalRequest) -> list[tuple[str, str | None]]:
    """Return the terms of an approval: whom the run acts for, who may answer, and the version of the policy."""
    return [
        ("by", question.requested_by),
        ("approvers", question.approver_scope),
        ("policy", question.policy_version),
    ]


def _begun(begun: UnknownAttempt) -> list[tuple[str, TextSpan]]:
    """Return the attempt with an unknown outcome: when and where it began, and the schema of its result."""
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
    return line(TextSpan(f"    {one_line(name, 60)} = ", Tone.QUIET), TextSpan(_json(value), hangs=True))


def _text(value: JsonValue) -> str:
    return one_line(value, 400) if isinstance(value, str) else _json(value)


def _json(value: JsonValue) -> str:
    """Return the whole value that a person decides on; a value that is too long says how much is missing."""
    text = cleaned(json.dumps(value, ensure_ascii=False))
    cut_off = len(text) - _LONGEST
    return text if cut_off <= 0 else f"{text[:_LONGEST]}… ({cut_off} more characters: --json shows all)"


def _options(question: Question, decision: str) -> list[str]:
    if decision == RecoveryDecision.RETRY.value and isinstance(question, AgentRecoveryRequest):
        return [f"--action {name}=retry" for name in short_names(question)]
    return [_OPTIONS[decision]] if decision in _OPTIONS else []


def short_names(question: AgentRecoveryRequest) -> dict[str, str]:
    """Return the open actions that need an answer, by the names that commands take, short if unique."""
    names = [each.name for each in question.to_decide]
    return {
        each.name if names.count(each.name) == 1 else each.action_id: each.action_id
        for each in question.to_decide
    }

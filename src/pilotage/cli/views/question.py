"""A question that a run waits for, with what people may see of it and how to answer. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pilotage.agent.approval import AgentApprovalRequest
from pilotage.agent.recovery_request import AgentRecoveryRequest
from pilotage.cli.words import Hints, Line, TextSpan, Tone, cleaned, day_and_time, line, one_line, short
from pilotage.jsonvalue import JsonObject, JsonValue, to_json_value
from pilotage.runtime.answers import Question

_LONGEST = 2_000
_MORE = {"modify": "--arguments '{…}'", "done": "--result '…'"}


def question_lines(question: Question) -> list[Line]:
    """What is asked: the words, the action, its guarded arguments."""
    lines = [line(TextSpan("? ", Tone.ASKING), TextSpan(one_line(question.prompt, 400), Tone.STRONG))]
    lines += [line(f"  {name:<10}", each) for name, each in _facts(question)]
    lines += [_argument(name, each) for name, each in question.arguments.items()]
    return lines


def answer_lines(question: Question, hints: Hints, *, is_only: bool = True) -> list[Line]:
    """The commands that answer the question, one for each decision that is allowed."""
    where = short(question.agent_state_id if is_only else question.id)
    return [
        line(
            TextSpan("  "), TextSpan(hints.command("runs", each.value, where, *_more(each.value)), Tone.NAME)
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
        case AgentRecoveryRequest():
            facts = [("action", TextSpan(one_line(question.action_name or question.action_id), Tone.NAME))]
            facts += [("late", TextSpan(_json(each))) for each in question.late_outcomes]
    return [*facts, ("attempt", TextSpan(str(question.attempt)))] if question.attempt > 1 else facts


def _argument(name: str, value: JsonValue) -> Line:
    return line(TextSpan(f"    {one_line(name, 60)} = ", Tone.QUIET), _json(value))


def _json(value: JsonValue) -> str:
    """All of a value that somebody is about to decide on: what is too long is said to be."""
    text = cleaned(json.dumps(value, ensure_ascii=False))
    cut_off = len(text) - _LONGEST
    return text if cut_off <= 0 else f"{text[:_LONGEST]}… ({cut_off} more characters: --json shows all)"


def _more(decision: str) -> list[str]:
    return [_MORE[decision]] if decision in _MORE else []


def question_json(question: Question) -> JsonObject:
    """A question for programs, in the words of the HTTP routes."""
    own: dict[str, JsonValue]
    match question:
        case AgentApprovalRequest():
            own = {"kind": "approval", "action": question.action_ref, "late_outcomes": []}
            own["expires_at"] = to_json_value(question.expires_at)
        case AgentRecoveryRequest():
            own = {"kind": "recovery", "action": question.action_name or question.action_id}
            own |= {"late_outcomes": list(question.late_outcomes), "expires_at": None}
    return {
        "id": question.id,
        "run_id": question.agent_state_id,
        "prompt": question.prompt,
        "arguments": question.arguments,
        "allowed_decisions": [each.value for each in question.allowed_decisions],
        "attempt": question.attempt,
        **own,
    }

"""Answers of people: the first valid one closes its question. Pure.

The signal of an answer other than DEFER has the key of its question as its id. A signal id is stored once, under the
lock of its run, so of two answers from two processes the store keeps one and gives it to both senders. A key whose
answer the run could not use is followed by the next one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from copy import copy
from datetime import datetime
from itertools import count
from typing import TypeVar

from pilotage.agent.evidence import AgentEvidence, AgentEvidenceKind
from pilotage.agent.signals import AgentSignal, AgentSignalEnd, AgentSignalKind, ApprovalDecision
from pilotage.errors import AnswerConflictError, CallerError
from pilotage.jsonvalue import JsonObject, JsonValue, json_digest
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.people.requests import decided_by
from pilotage.values import value

E = TypeVar("E", bound=CallerError)
OWN_IDS = (words.ANSWER_KEY, words.REFUSED_ANSWER)
"""The prefixes of the ids of answers; no sender may choose such an id."""

_TO_END_A_RUN = (
    " To end the run whatever was answered: `pilotage runs cancel {run}`, POST /runs/{run}/cancel, "
    "or AgentRuns.cancel()."
)


def answer_keys(request_id: str) -> Iterator[str]:
    """Return the keys of a question: the first one, and those after answers that the run could not use."""
    yield f"{words.ANSWER_KEY}{request_id}"
    for number in count(2):
        yield f"{words.ANSWER_KEY}{request_id}{words.ORDINAL}{number}"


def refused_id(answer: JsonObject) -> str:
    """Return the id of a refused answer, which is stored once; the random id of its request makes it unguessable."""
    return f"{words.REFUSED_ANSWER}{json_digest(answer)}"


def is_closing(signal: AgentSignal, request_id: str) -> bool:
    """Return whether a signal is an answer to a request that would close it; a deferral and a refused one would not."""
    payload = signal.payload
    return (
        signal.kind is AgentSignalKind.APPROVAL_DECISION
        and payload.get(words.REQUEST_ID) == request_id
        and payload.get(words.DECISION) != ApprovalDecision.DEFER.value
        and signal.end is not AgentSignalEnd.REFUSED
    )


def by_precedence(signals: Sequence[AgentSignal]) -> list[AgentSignal]:
    """Return answers in the order in which they count: one with the key of its question was confirmed to its sender."""
    return sorted(signals, key=lambda signal: not signal.id.startswith(words.ANSWER_KEY))


@value
class ClosingAnswer:
    """The answer that counts: decision, principal and time. The answer of an expired question has no principal."""

    request_id: str
    decision: str
    decided_by: str | None
    at: datetime | None
    payload: JsonObject
    signal: AgentSignal | None = None
    """The signal of it; None where the question was closed without one."""


def closing_answer(request_id: str, signal: AgentSignal) -> ClosingAnswer:
    """Return the answer in a signal."""
    return ClosingAnswer(
        request_id=request_id,
        decision=str(signal.payload.get(words.DECISION)),
        decided_by=decided_by(signal),
        at=signal.created_at,
        payload=signal.payload,
        signal=signal,
    )


def conflict_of(run_id: str, wanted: str, counts: ClosingAnswer) -> AnswerConflictError:
    """Return the error for the sender of an answer to a question that has another one."""
    by = f" by {counts.decided_by!r}" if counts.decided_by else ""
    at = f" at {counts.at.isoformat()}" if counts.at else ""
    answered = f"question {counts.request_id!r} of run {run_id!r} was answered {counts.decision!r}{by}{at}."
    detail = f"{answered} The answer {wanted!r} changes nothing and is recorded."
    if wanted == ApprovalDecision.CANCEL.value:
        detail += _TO_END_A_RUN.format(run=run_id)
    return AnswerConflictError(
        detail,
        request_id=counts.request_id,
        decision=counts.decision,
        decided_by=counts.decided_by,
        decided_at=counts.at,
    )


def unique_answers(answers: Sequence[JsonObject]) -> list[JsonObject]:
    """Return answers that are sent together, each once.

    Raises:
        CallerError: two of them answer one question in different ways.
    """
    first: dict[str, JsonObject] = {}
    for answer in answers:
        request_id = str(answer.get(words.REQUEST_ID))
        if first.setdefault(request_id, answer) != answer:
            raise CallerError(f"request {request_id!r} is answered in two ways. Nothing was answered.")
    return list(first.values())


def refusal_of_several(error: CallerError, request_id: str, count: int) -> CallerError:
    """Return the error about one of some answers that were sent together, none of which was accepted."""
    if count == 1:
        return error
    return _with(
        error, f"of {count} answers, the one to {request_id!r} is refused: {error} None was accepted."
    )


def conflict_of_several(
    error: AnswerConflictError, sent: Sequence[str], accepted: Collection[str]
) -> AnswerConflictError:
    """Return the conflict of one of some answers that were sent together, with the requests whose answers count."""
    if len(sent) == 1:
        return error
    counts = [repr(each) for each in sent if each in accepted]
    rest = f"The answers to {', '.join(counts)} count; no other does." if counts else "None was accepted."
    return _with(error, f"of {len(sent)} answers, the one to {error.request_id!r} is refused: {error} {rest}")


def _with(error: E, detail: str) -> E:
    """Return the same error with other words."""
    changed = copy(error)
    changed.args = (detail,)
    return changed


def refused_answer(run_id: str, answer: JsonObject, by: str, comment: str | None) -> AgentSignal:
    """Return the signal that records a refused answer as evidence, without the arguments or the result it gave."""
    payload: JsonObject = {
        words.REQUEST_ID: answer.get(words.REQUEST_ID),
        words.DECISION: answer.get(words.DECISION),
        words.COMMENT: comment,
        words.DECIDED_BY: by,
        words.REASON: AnswerConflictError.code,
    }
    kind = AgentSignalKind.APPROVAL_DECISION
    return AgentSignal(refused_id({**answer, words.DECIDED_BY: by}), run_id, kind, payload)


def refused_evidence(signal: AgentSignal) -> AgentEvidence:
    """Return the evidence of a refused answer. The comment is shown where it was redacted, which a reason marks."""
    shown: dict[str, JsonValue] = {
        name: signal.payload.get(name) for name in (words.REQUEST_ID, words.DECISION, words.DECIDED_BY)
    }
    if words.REASON in signal.payload:
        shown |= {name: signal.payload.get(name) for name in (words.COMMENT, words.REASON)}
    by = f" by {shown[words.DECIDED_BY]!r}" if shown[words.DECIDED_BY] else ""
    run_id = signal.agent_state_id
    return AgentEvidence(
        f"{run_id}:signal:{signal.id}",
        run_id,
        AgentEvidenceKind.APPROVAL,
        {**shown, words.END_OF_SIGNAL: AgentSignalEnd.REFUSED.value},
        summary=f"the answer {shown[words.DECISION]!r}{by} was refused: its question has another one",
        created_at=signal.created_at,
    )

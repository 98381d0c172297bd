"""The exceptions that end an attempt: with its run (`RunEnded`, `LimitReached`), or leaving the run to go on later.

They derive from `BaseException`, so that no `except Exception` of an agent can swallow them. After one of them the
attempt is over: every further effect raises the same exception again, in `finally` blocks too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from pilotage.agent.spec import LimitCode
from pilotage.agent.state import AgentSituation, AgentState, AgentStateReason
from pilotage.jsonvalue import JsonObject, object_or_empty
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.chain import Damage
from pilotage.runtime.journal.divergence import NO_SIDES, Sides
from pilotage.runtime.journal.record_fields import DamagedRecordError

AWAITS = "awaits"
"""The key in the facts of a pause with the kind of message that the program waits for."""


class RunInterruption(BaseException):
    """The base class of exceptions that end an attempt."""


class Paused(RunInterruption):
    """The run waits, for recorded questions or for another reason: `reason` is a sentence, `facts` are for programs."""

    situation = AgentSituation.USER_INTERRUPTED
    """The situation of a run that waits for another reason than a question."""
    may_withdraw = True
    """Whether the program may give the wait up."""

    def __init__(self, *wait_ids: str, reason: str | None = None, facts: JsonObject | None = None) -> None:
        super().__init__(*wait_ids)
        self.wait_ids = wait_ids
        self.reason = reason
        self.facts: JsonObject = facts or {}


class ModelUnavailable(Paused):
    """A model failed in a way that may pass: it is asked again at the time that the facts have as `wake_at`."""

    situation = AgentSituation.MODEL_UNAVAILABLE


class TriedAgain(Paused):
    """A call is tried again over the calls recorded inside of it: in the next attempt, which may begin at once."""

    may_withdraw = False


class RunEnded(RunInterruption):
    """The run ends, for instance by a person's answer; `situation` is its final or its first ending state."""

    def __init__(
        self, situation: AgentSituation, reason: str, *, code: str | None = None, retryable: bool = False
    ) -> None:
        super().__init__(situation, reason)
        self.situation = situation
        self.reason = reason
        self.code = code
        self.retryable = retryable


class LimitReached(RunInterruption):
    """A limit of the run is reached or cannot be enforced: the run stops with the output it has so far.

    `code` is for programs, `limit` is the name of the limit, `reason` is a sentence with its value and the remedy.
    `account` is the one subject limit it is, of the run or of one above it; None for other limits.
    """

    def __init__(self, code: LimitCode, limit: str, reason: str, account: object = None) -> None:
        super().__init__(code, limit, reason)
        self.code = code
        self.limit = limit
        self.reason = reason
        self.account = account

    @property
    def situation(self) -> AgentSituation:
        """Return the situation of the run from then on: one at a limit goes on when the limit is raised."""
        return _AT_LIMITS.get(self.code, AgentSituation.LIMIT_REACHED)


_AT_LIMITS = {
    LimitCode.TIMEOUT: AgentSituation.TIMED_OUT,
    LimitCode.USAGE_UNAVAILABLE: AgentSituation.FAILED,
    LimitCode.COST_UNAVAILABLE: AgentSituation.FAILED,
}


class RunOwnershipLost(RunInterruption):
    """Another owner has taken the run over; this attempt must not act any more."""


class EventLoopStalled(RunOwnershipLost):
    """The event loop stood still for so long that the run is left to another owner: no further effect may begin."""


class RunDiverged(RunInterruption):
    """The program requests an action that differs from the recorded one: `difference` in words, `sides` in parts."""

    situation = AgentSituation.DIVERGED
    """The situation of the run from then on."""

    def __init__(self, action_id: str, difference: str, sides: Sides = NO_SIDES) -> None:
        super().__init__(f"{action_id}: {difference}")
        self.action_id = action_id
        self.difference = difference
        self.sides = sides

    @property
    def facts(self) -> JsonObject:
        """Return the divergence for readers of the run."""
        return {
            words.ACTION: self.action_id,
            words.DIFFERENCE: self.difference,
            **self.sides.to_json(),
        }


class ChildInterrupted(RunDiverged):
    """A child run diverged, or cannot go on for another reason: its parent has the facts in the state of the child."""

    def __init__(self, action_id: str, child: AgentState) -> None:
        super().__init__(action_id, f"its child {child.id!r}: {child.current_activity}")
        self.child = child
        if child.reason is not AgentStateReason.DIVERGED:
            self.situation = AgentSituation.RECOVERY_REQUIRED

    @property
    def facts(self) -> JsonObject:
        below = object_or_empty(self.child.metadata.get(words.DIVERGENCE))
        return {**below, **super().facts, **_sides_of(below), words.CHILD_RUN: self.child.id}


def _sides_of(facts: JsonObject) -> JsonObject:
    return {name: facts[name] for name in (words.RECORDED, words.ASKED) if name in facts}


class RecordDamaged(RunDiverged):
    """The record of the run, or of a child run of it, is damaged; `damage` has the row and the reason."""

    situation = AgentSituation.RECOVERY_REQUIRED

    def __init__(self, damage: Damage, child: str | None = None) -> None:
        subject = "the run" if child is None else f"its child {child!r}"
        super().__init__(damage.action_id or words.RUN, f"the record of {subject} is damaged at {damage}")
        self.damage = damage


def damage_of(error: DamagedRecordError) -> Damage:
    """Return the damage that decoding a record has found."""
    return Damage(error.seq or 0, error.action_id, f"{error.key!r} is not {error.expected}")


class StoreUnavailable(RunInterruption):
    """The journal cannot be written, and whether it has the last rows is unknown: no further effect may begin."""


class SealMissing(RunInterruption):
    """A record must be sealed, and the application cannot seal it: the run is interrupted until there is a key."""


class RunHandedOver(RunInterruption):
    """The process shuts down: the run stays as it is, and its next owner continues from there."""


class CancelledMeanwhile(RunInterruption):
    """The run was cancelled while it waited for the last of its tasks: it ends as cancelled instead."""


class EndRefused(RunInterruption):
    """The run has a signal that this attempt has not read, so it does not end yet; the attempt goes on."""


class StartRefused(RunInterruption):
    """The run cannot begin: another run, `holder`, has its conversation, or its parent run is ending."""

    def __init__(self, reason: str, holder: str | None = None) -> None:
        super().__init__(reason)
        self.holder = holder


class HistoryMoved(RunInterruption):
    """The run cannot begin with the history that it has: its conversation has got further turns."""


_FIRST_TO_COUNT = (
    RunOwnershipLost,
    StoreUnavailable,
    SealMissing,
    RunDiverged,
    LimitReached,
    RunEnded,
    RunHandedOver,
)


def what_counts(end: BaseException) -> BaseException:
    """Return the exception that decides how a program ended; of a group, the deciding one, or the group if all failed.

    Raises:
        BaseException: an exception of another kind in the group, which takes precedence.
    """
    if not isinstance(end, BaseExceptionGroup):
        return end
    leaves = list(_leaves(cast(BaseException, end)))
    for each in leaves:
        if not isinstance(each, (RunInterruption, Exception)):
            raise each
    ends = [each for each in leaves if isinstance(each, RunInterruption)]
    return first_to_count(ends) if ends else cast(BaseException, end)


def interruption_in(end: BaseException) -> RunInterruption:
    """Return the interruption that ended a branch without an outcome; of a group, the deciding one.

    Raises:
        BaseException: `end` itself, if it is no interruption or its group has an exception of another kind.
    """
    leaves = list(_leaves(end))
    ends = [each for each in leaves if isinstance(each, RunInterruption)]
    if not ends or not all(isinstance(each, RunInterruption | Exception) for each in leaves):
        raise end
    return first_to_count(ends)


def first_to_count(ends: Sequence[RunInterruption]) -> RunInterruption:
    """Return the interruption that decides; of equal rank the first. A pause has the lowest rank."""
    return min(ends, key=_rank)


def _rank(end: RunInterruption) -> int:
    if isinstance(end, Paused):
        return len(_FIRST_TO_COUNT) + 1
    ranks = (rank for rank, kind in enumerate(_FIRST_TO_COUNT) if isinstance(end, kind))
    return next(ranks, len(_FIRST_TO_COUNT))


def _leaves(end: BaseException) -> Iterator[BaseException]:
    if isinstance(end, BaseExceptionGroup):
        for each in cast("BaseExceptionGroup[BaseException]", end).exceptions:
            yield from _leaves(each)
    else:
        yield end

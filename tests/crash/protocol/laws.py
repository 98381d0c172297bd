"""What must hold, whatever happens in whatever order. Each law is a predicate over one step. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

from tests.crash.protocol.choices import has_landed
from tests.crash.protocol.flaws import Setting
from tests.crash.protocol.store import newest_claim, standing
from tests.crash.protocol.words import Dispatch, Kind, Reply, Row, Says, Stage, State, Step, What


class Law(StrEnum):
    """The invariants, in words."""

    ONCE_PER_ATTEMPT = (
        "an unrepeatable action is dispatched at most once per attempt, and again only by a person's retry"
    )
    LANDS_ONCE = "where people tell the truth, the outside world has every effect at most once"
    DONE_IS_DONE = "an action whose AFTER is committed is not dispatched any more"
    WRITTEN_FIRST = "an action that is not read-only is dispatched only when its BEFORE is committed"
    OWNER_ACTS = "an action that is not read-only is dispatched only by the newest owner"
    ONE_WINNER = "the store says committed to the newest owner and to nobody else, and never says less to it"
    ONE_USE = "a decision is used up in the commit of the one attempt that it allows"
    END_IS_END = "nothing is written and nothing is done after the end"
    IN_ORDER = "rows have no gaps, each says something new, and a new owner has a new epoch"
    TRUE_RECORD = "where people tell the truth, done has happened and failed has not"
    TOLD_LAST = "the end is told when it is committed"
    ENDS = "from every state some continuation comes to an end"


def broken(setting: Setting, laws: Sequence[Law], before: State, step: Step, after: State) -> Law | None:
    """The first of these laws that a step breaks."""
    if not _can_break(before, step, after):
        return None
    return next((law for law in laws if law in LAWS and not LAWS[law](setting, before, step, after)), None)


def _can_break(before: State, step: Step, after: State) -> bool:
    """Whether a law speaks of this step: it writes, dispatches or tells something, or the store replies to it.

    States share what a step does not change, so identity is enough: what is made anew is only looked at in vain.
    """
    return (
        step.what is What.ARRIVE
        or after.journal is not before.journal
        or after.world is not before.world
        or after.told is not before.told
    )


def _dispatched(before: State, after: State) -> Dispatch | None:
    return after.world[-1] if len(after.world) > len(before.world) else None


def _written(before: State, after: State) -> tuple[Row, ...]:
    return after.journal[len(before.journal) :] if after.journal is not before.journal else ()


def _has(journal: tuple[Row, ...], stage: Stage, action: int, attempt: int, *says: Says) -> bool:
    return any(row[1:4] == (stage, action, attempt) and (not says or row.says in says) for row in journal)


def _once_per_attempt(setting: Setting, before: State, _: Step, after: State) -> bool:
    new = _dispatched(before, after)
    if new is None or setting.actions[new.action] is not Kind.UNREPEATABLE:
        return True
    is_first = all(each[:2] != new[:2] for each in before.world)
    retried = _has(before.journal, Stage.ANSWERED, new.action, new.attempt - 1, Says.RETRY)
    return is_first and (new.attempt == 1 or retried)


def _lands_once(setting: Setting, before: State, _: Step, after: State) -> bool:
    new = _dispatched(before, after)
    if new is None or not setting.is_truthful or setting.actions[new.action] is Kind.READ_ONLY:
        return True
    landed = [each.key for each in after.world if each.action == new.action and each.landed]
    takes_key = setting.actions[new.action] is Kind.IDEMPOTENT
    return len(set(landed) if takes_key else landed) <= 1


def _done_is_done(setting: Setting, before: State, _: Step, after: State) -> bool:
    new = _dispatched(before, after)
    if new is None or setting.actions[new.action] is Kind.READ_ONLY:
        return True
    return all(row[1:3] != (Stage.AFTER, new.action) for row in before.journal)


def _written_first(setting: Setting, before: State, _: Step, after: State) -> bool:
    new = _dispatched(before, after)
    if new is None or setting.actions[new.action] is Kind.READ_ONLY:
        return True
    return _has(before.journal, Stage.BEFORE, new.action, new.attempt)


def _owner_acts(setting: Setting, before: State, step: Step, after: State) -> bool:
    new = _dispatched(before, after)
    if new is None or setting.actions[new.action] is Kind.READ_ONLY:
        return True
    owner = newest_claim(before.journal)
    return owner is not None and owner.by == (step.who, before.owners[step.who].life)


def _one_winner(_: Setting, __: State, step: Step, after: State) -> bool:
    if step.what is not What.ARRIVE:
        return True
    owner, commit = newest_claim(after.journal), after.owners[step.who].commit
    assert commit is not None
    is_owner = owner is not None and owner.by == commit.by
    is_in = any(row.by == commit.by and row[:5] == commit.rows[-1][:5] for row in after.journal)
    return (step.detail is Reply.COMMITTED) == (is_owner and is_in)


def _one_use(setting: Setting, before: State, _: Step, after: State) -> bool:
    rows = _written(before, after)
    allowed = [(row.action, row.attempt + 1) for row in rows if row.says in (Says.APPROVE, Says.RETRY)]
    begun = [(row.action, row.attempt) for row in rows if row.stage is Stage.BEFORE]
    in_need = [each for each in begun if each[1] > 1 or (setting.needs_approval and each[0] == 0)]
    return allowed == in_need


def _end_is_end(setting: Setting, before: State, _: Step, after: State) -> bool:
    new = _dispatched(before, after)
    is_quiet = new is None or setting.actions[new.action] is Kind.READ_ONLY
    return not standing(before.journal).is_ended or (is_quiet and not _written(before, after))


def _in_order(_: Setting, before: State, __: Step, after: State) -> bool:
    said = {row[1:4] for row in before.journal if row.stage is not Stage.CLAIMED}
    owner = newest_claim(before.journal)
    for number, row in enumerate(_written(before, after), start=len(before.journal) + 1):
        is_claim = row.stage is Stage.CLAIMED
        least = 1 if owner is None else owner.epoch + (row.by != owner.by)
        if row.seq != number or row.epoch < least or (not is_claim and row[1:4] in said):
            return False
        owner, said = row if is_claim else owner, {*said, row[1:4]}
    return True


def _true_record(setting: Setting, before: State, _: Step, after: State) -> bool:
    if not setting.is_truthful:
        return True
    for row in _written(before, after):
        is_exact = setting.actions[row.action] in (Kind.RECONCILED, Kind.UNREPEATABLE)
        if row.stage is Stage.AFTER and row.says is Says.DONE and not has_landed(after, row.action):
            return False
        if (
            row.stage is Stage.AFTER
            and row.says is Says.FAILED
            and is_exact
            and has_landed(after, row.action)
        ):
            return False
    return True


def _told_last(_: Setting, before: State, __: Step, after: State) -> bool:
    if after.told is before.told:
        return True
    return any((row.stage, row.says) == (Stage.ENDED, after.told) for row in after.journal)


LAWS: Mapping[Law, Callable[[Setting, State, Step, State], bool]] = {
    Law.ONCE_PER_ATTEMPT: _once_per_attempt,
    Law.LANDS_ONCE: _lands_once,
    Law.DONE_IS_DONE: _done_is_done,
    Law.WRITTEN_FIRST: _written_first,
    Law.OWNER_ACTS: _owner_acts,
    Law.ONE_WINNER: _one_winner,
    Law.ONE_USE: _one_use,
    Law.END_IS_END: _end_is_end,
    Law.IN_ORDER: _in_order,
    Law.TRUE_RECORD: _true_record,
    Law.TOLD_LAST: _told_last,
}
"""All but the last, which is no matter of one step: the explorer itself looks for states without an end."""

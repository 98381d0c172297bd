"""The store of the model: compare-and-set on the head, receipts by token, leases; and what rows add up to. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, reduce

from tests.crash.protocol.flaws import Flaw
from tests.crash.protocol.words import TAKEN, Commit, Draft, Life, Reply, Row, Says, Stage, Standing, State

_ENDS_A_LEASE = (Stage.ASKED, Stage.ENDED)


def newest_claim(journal: tuple[Row, ...]) -> Row | None:
    """The row that says who owns the run."""
    return next((row for row in reversed(journal) if row.stage is Stage.CLAIMED), None)


def is_applied(journal: tuple[Row, ...], commit: Commit) -> bool:
    """Whether the rows of a commit are in the journal."""
    return any(row.token == commit.token for row in reversed(journal))


def take(state: State, commit: Commit, flaw: Flaw | None) -> tuple[Reply, State]:
    """What the store makes of a commit that arrives. All of it happens at once, or nothing."""
    journal = state.journal
    receipt = next((row for row in reversed(journal) if row.token == commit.token), None)
    if receipt is not None:
        owner = newest_claim(journal)
        is_owner = owner is None or receipt.epoch == owner.epoch or flaw is Flaw.OLD_RECEIPTS
        return (Reply.COMMITTED if is_owner else Reply.HEAD_MOVED), state
    if commit.expected != len(journal) and flaw is not Flaw.NO_FENCE:
        return Reply.HEAD_MOVED, state
    uses_answer = any(row.stage is Stage.ANSWERED for row in commit.rows)
    uses_cancel = any(row[1:5] == TAKEN for row in commit.rows)
    # What can never be taken any more need not be kept on the wire.
    ghosts = [each for each in state.ghosts if each.expected > commit.expected or flaw is Flaw.NO_FENCE]
    return Reply.COMMITTED, state._replace(
        journal=journal + commit.rows,
        ghosts=frozenset(ghosts),
        lease=_lease(state.lease, commit, flaw),
        answer=None if uses_answer else state.answer,
        is_cancel_asked=state.is_cancel_asked and not uses_cancel,
    )


def _lease(lease: Life | None, commit: Commit, flaw: Flaw | None) -> Life | None:
    """Every commit renews the lease of its owner; one that pauses or ends the run gives it back."""
    if commit.rows[-1].stage in _ENDS_A_LEASE:
        return None
    is_claim = commit.rows[0].says is Says.NOTHING and commit.rows[0].stage is Stage.CLAIMED
    return lease if flaw is Flaw.NO_RENEWAL and not is_claim else commit.by


@cache
def standing(journal: tuple[Row, ...]) -> Standing:
    """What a journal adds up to."""
    return fold(Standing(), journal)


def fold(start: Standing, rows: Iterable[Row | Draft]) -> Standing:
    """What more rows make of it."""
    return reduce(_with, rows, start)


def _with(known: Standing, row: Row | Draft) -> Standing:
    match row.stage:
        case Stage.CLAIMED:
            return known
        case Stage.ASKED:
            return known._replace(question=row.says)
        case Stage.ANSWERED:
            return known._replace(question=Says.NOTHING, is_approved=row.says is Says.APPROVE)
        case Stage.BEFORE:
            return known._replace(attempt=row.attempt, is_approved=False)
        case Stage.AFTER:
            return known._replace(action=row.action + 1, attempt=0, question=Says.NOTHING)
        case Stage.CANCELLING:
            return known._replace(is_cancelling=True)
        case Stage.ENDED:
            return known._replace(is_ended=True)

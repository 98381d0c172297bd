"""The protocol, or the protocol with one rule left out; and how much of the world is explored with it."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from tests.crash.protocol.words import Kind, Left


class Flaw(StrEnum):
    """One rule left out. The explorer has to find what each of them leads to."""

    NO_FENCE = "the store does not compare the head"
    OLD_RECEIPTS = "the store recognises a token though somebody else has claimed the run since"
    SHARED_TOKENS = "two owners of one epoch use the same tokens"
    SAME_EPOCH = "a claim keeps the epoch"
    NEW_TOKEN = "a lost reply counts as a failure: the commit is sent again under a new token"
    NEW_HEAD = "a lost reply counts as a failure: the rows are sent again behind whatever is there now"
    ACTS_FIRST = "an action is dispatched before its BEFORE is committed"
    AFTER_FIRST = "AFTER is committed before the effect"
    UNKNOWN_IS_FAILED = "an unknown outcome is recorded as a failure"
    REPEATS = "an unrepeatable action is recovered by repeating it"
    KEY_PER_EPOCH = "a repetition has an idempotency key of its own"
    OLD_APPROVAL = "a new attempt is made on the approval of the last one"
    EARLY_USE = "a decision is used up in a commit before that of BEFORE"
    NO_BUDGET = "a frozen holder dispatches however late it is"
    NO_BUDGET_AGAIN = "a frozen holder that repeats an attempt dispatches however late it is"
    BUDGET_FROM_REPLY = "the dispatch budget begins when the reply arrives"
    BUDGET_FROM_RESEND = "the dispatch budget begins again when a commit is sent again"
    NO_RENEWAL = "a commit does not renew the lease"
    NO_PATIENCE = "a run is taken over before its lease has expired"
    NO_EXPIRY = "leases do not expire"
    TELLS_FIRST = "the result is told before COMPLETED is committed"


class Setting(NamedTuple):
    """A program of a few actions, its owners and people, what may go wrong, and the flaw, if any.

    With `needs_approval` the first action is asked about before it begins. A truthful person looks at the outside
    world before answering; any other says anything.
    """

    actions: tuple[Kind, ...]
    owners: int = 2
    needs_approval: bool = False
    is_truthful: bool = True
    left: Left = Left()
    flaw: Flaw | None = None

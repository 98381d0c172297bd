"""What to do with an action, given what is recorded of it: one pure function, tested as a table."""

from __future__ import annotations

from typing import TypeAlias

from pilotage.agent.ports.journal import JournalRow
from pilotage.runtime.journal.action import Action
from pilotage.runtime.journal.recording import RecordedAction
from pilotage.runtime.journal.seals import is_kept
from pilotage.values import value


@value
class Begin:
    """Nothing is recorded: it is new."""


@value
class Reuse:
    """It is done: return what was recorded, and do nothing."""

    row: JournalRow


@value
class FetchAgain:
    """It was only read, and what was read could not be kept: it is read once more, and nothing is written."""


@value
class Repeat:
    """It may have happened, and doing it again with the same key changes nothing."""

    attempt: int


@value
class Reconcile:
    """It may have happened, and the tool can find out by its key."""

    attempt: int


@value
class AskHuman:
    """It may have happened, and only a person can find out."""

    attempt: int


Recovery: TypeAlias = Begin | Reuse | FetchAgain | Repeat | Reconcile | AskHuman

_BEGIN = Begin()


def recovery_for(action: Action, recorded: RecordedAction | None, *, can_reconcile: bool) -> Recovery:
    """Return what the table of 'what a crash leads to' says for one action."""
    if recorded is None:
        return _BEGIN
    if recorded.after is not None:
        return Reuse(recorded.after) if is_kept(recorded.after) else FetchAgain()
    if can_reconcile and not action.is_read_only:
        return Reconcile(recorded.attempt)
    if action.may_be_repeated:
        return Repeat(recorded.attempt)
    return AskHuman(recorded.attempt)

"""The recovery of a recorded action: reuse its outcome, read again, repeat, reconcile, or ask a person. Pure."""

from __future__ import annotations

from typing import TypeAlias

from pilotage.agent.ports.journal import JournalRow
from pilotage.runtime.journal.action import Action
from pilotage.runtime.journal.recording import RecordedAction
from pilotage.runtime.journal.seals import has_record
from pilotage.values import value


@value
class Reuse:
    """The action has an outcome: return the recorded one and do nothing."""

    row: JournalRow


@value
class FetchAgain:
    """The action was a read with a result that could not be recorded: read again, and write nothing."""


@value
class Repeat:
    """The outcome is unknown, and a repetition with the same key has no further effect."""

    attempt: int


@value
class Reconcile:
    """The outcome is unknown, and the tool can look it up by its key."""

    attempt: int


@value
class AskHuman:
    """The outcome is unknown, and only a person can determine it."""

    attempt: int


Recovery: TypeAlias = Reuse | FetchAgain | Repeat | Reconcile | AskHuman


def recovery_for(action: Action, recorded: RecordedAction, *, can_reconcile: bool) -> Recovery:
    """Return how to recover one action after a crash."""
    if recorded.after is not None:
        return Reuse(recorded.after) if has_record(recorded.after) else FetchAgain()
    if can_reconcile and not action.is_read_only:
        return Reconcile(recorded.attempt)
    if action.may_be_repeated:
        return Repeat(recorded.attempt)
    return AskHuman(recorded.attempt)

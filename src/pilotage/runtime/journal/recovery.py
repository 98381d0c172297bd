"""The recovery of a recorded action: reuse its outcome, read again, repeat, reconcile, or ask a person. Pure.

A person is asked once about an action and all open actions inside of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from pilotage.agent.ports.persistence import JournalRow, JournalStage, RunKey
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.recovery_request import OpenAction, RecoveryDecision, UnknownAttempt
from pilotage.agent.tools.metadata import Idempotency
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.action import MAY_BE_REPEATED, Action, idempotency_key
from pilotage.runtime.journal.record_fields import object_or_empty
from pilotage.runtime.journal.recording import RecordedAction, Recording, name_in
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
    """The outcome is unknown, and a repetition with the same key has no further effect.

    Or it `is_suspended`: a pause interrupted it between two calls inside, and it is entered again over their record.
    """

    attempt: int
    is_suspended: bool = False


@value
class Reconcile:
    """The outcome is unknown, and the tool can look it up by its key."""

    attempt: int


@value
class AskHuman:
    """The outcome is unknown, and only a person can determine it."""

    attempt: int


Recovery: TypeAlias = Reuse | FetchAgain | Repeat | Reconcile | AskHuman


def attempt_in(
    rows: Sequence[JournalRow], run: RunKey, action_id: str, attempt: int
) -> UnknownAttempt | None:
    """Return what the rows of a run say about an attempt that was begun; None if it was not."""
    begun = next(
        (
            row
            for row in rows
            if (row.action_id, row.attempt, row.stage) == (action_id, attempt, JournalStage.BEFORE)
        ),
        None,
    )
    if begun is None:
        return None
    claims = (row for row in rows if row.stage is JournalStage.CLAIMED and row.epoch == begun.epoch)
    owners = (object_or_empty(row.view).get(words.OWNER) for row in claims)
    process = next((each for each in owners if isinstance(each, str)), None)
    return UnknownAttempt(idempotency_key(run, action_id), begun.epoch, begun.created_at, process)


def recovery_for(action: Action, recorded: RecordedAction, *, can_reconcile: bool) -> Recovery:
    """Return how to recover one action after a crash.

    An idempotent action is repeated even if it can be reconciled: a reconciler that fails would cause a question to a
    person that the repetition does not need.
    """
    if recorded.after is not None:
        return Reuse(recorded.after) if has_record(recorded.after) else FetchAgain()
    is_repeated = action.is_read_only or action.idempotency is Idempotency.IDEMPOTENT
    if can_reconcile and not is_repeated:
        return Reconcile(recorded.attempt)
    if action.may_be_repeated:
        return Repeat(recorded.attempt)
    return AskHuman(recorded.attempt)


def open_actions(recording: Recording, action_id: str) -> tuple[OpenAction, ...]:
    """Return the open actions inside of an action with an unknown outcome, as a question about it shows them."""
    return tuple(_open_action(recording, each) for each in recording.open_inside(action_id))


def _open_action(recording: Recording, recorded: RecordedAction) -> OpenAction:
    row, attempt = recorded.row, recorded.attempt
    view = object_or_empty(row.view)
    needs_answer = (
        row.idempotency not in MAY_BE_REPEATED
        and words.RECONCILES not in view
        and recording.answer_inside(row.action_id, attempt) is None
        and not recording.knows(f"{row.action_id}/{words.RECOVERY}{attempt}")
        and not recording.is_suspended(row.action_id, attempt)
    )
    return OpenAction(
        row.action_id,
        attempt,
        row.kind or AgentActionKind.STEP,
        name_in(row.action_id),
        arguments={words.VIEW: view.get(words.EXECUTED, view.get(words.ASKED))},
        allowed_decisions=tuple(RecoveryDecision) if needs_answer else (),
    )

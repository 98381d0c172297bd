"""The recovery of a recorded action, and late outcomes of actions that ended when another owner had the run. Pure.

Recovery reuses the outcome, reads again, repeats, reconciles, or asks a person, once about an action and all open
actions inside of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TypeAlias

from pilotage.agent.ports.persistence import JournalRow, JournalStage, RunKey
from pilotage.agent.ports.repositories import IAgentLateOutcomes, LateOutcome
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.recovery_request import OpenAction, RecoveryDecision, UnknownAttempt
from pilotage.agent.tools.metadata import Idempotency
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.record_fields import object_or_empty
from pilotage.runtime.journal.recording import RecordedAction, Recording, name_in
from pilotage.runtime.journal.scope import MAY_BE_REPEATED, Action, idempotency_key
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


_TOOLS_AND_STEPS = frozenset({AgentActionKind.TOOL_CALL, AgentActionKind.STEP})


class LateOutcomes:
    """Reports the outcomes of an attempt that has lost its run: a report never waits and never fails."""

    def __init__(self, port: IAgentLateOutcomes, run: RunKey, epoch: int) -> None:
        self._port = port
        self._run = run
        self._epoch = epoch
        self._reports: set[asyncio.Future[None]] = set()

    def report(self, action: Action, attempt: int, view: JsonObject) -> None:
        """Report the outcome of an action that this attempt may not record any more."""
        if _is_asked_about(action.kind, action.idempotency) and not action.is_read_only:
            self._send(action.id, attempt, view)

    def report_rows(self, rows: Iterable[JournalRow]) -> None:
        """Report the outcomes among rows that the store refused because another owner has the run."""
        for row in rows:
            if row.stage is JournalStage.AFTER and _is_asked_about(row.kind, row.idempotency):
                self._send(row.action_id, row.attempt, object_or_empty(row.view))

    @property
    def is_settled(self) -> bool:
        """Whether no report is under way."""
        return not self._reports

    async def settle(self) -> None:
        """Return when no report is under way any more."""
        if self._reports:
            await asyncio.wait(self._reports)

    async def about(self, action_id: str, attempt: int) -> tuple[JsonValue, ...]:
        """Return the late outcomes that former owners reported of an attempt; empty where they cannot be read."""
        return await late_outcomes_of(self._port, self._run, action_id, attempt)

    def _send(self, action_id: str, attempt: int, view: JsonObject) -> None:
        outcome = LateOutcome(self._run, action_id, attempt, self._epoch, view)
        report = asyncio.ensure_future(self._append(outcome))
        self._reports.add(report)
        report.add_done_callback(self._reports.discard)

    async def _append(self, outcome: LateOutcome) -> None:
        # The attempt is over, and a person is asked in any case: a failing store changes nothing.
        with suppress(Exception):
            await self._port.append(outcome)


async def late_outcomes_of(
    port: IAgentLateOutcomes, run: RunKey, action_id: str, attempt: int
) -> tuple[JsonValue, ...]:
    """Return the late outcomes of an attempt, as a recovery request shows them."""
    try:
        found = await port.list_by_action(run, action_id)
    except Exception:  # noqa: BLE001 - they help to decide, and nothing depends on them
        return ()
    return tuple(each.to_payload() for each in found if each.attempt == attempt)


def _is_asked_about(kind: AgentActionKind | None, idempotency: Idempotency) -> bool:
    """Return whether a person may be asked about its outcome: a repeatable action is performed again instead."""
    return kind in _TOOLS_AND_STEPS and idempotency not in MAY_BE_REPEATED

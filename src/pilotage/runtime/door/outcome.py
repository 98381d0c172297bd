"""Recording the outcome of an effect: the program gets the same, live and in replay.

The one module that appends the rows of actions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from pilotage.agent.facts import action_completed
from pilotage.agent.ports.journal import JournalRow, JournalStage, RunKey
from pilotage.agent.ports.repositories import IAgentLateOutcomes, LateOutcome
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.tools.metadata import Idempotency
from pilotage.errors import ToolError
from pilotage.jsonvalue import JsonObject, JsonValue, to_json_value
from pilotage.runtime.effect import Effect, Outcome, new_outcome
from pilotage.runtime.exposure.redactor import Redactor, secretless
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.action import MAY_BE_REPEATED, Action
from pilotage.runtime.journal.interruptions import RunOwnershipLost
from pilotage.runtime.journal.ledger import Ledger
from pilotage.runtime.journal.record_fields import object_or_empty, optional_object
from pilotage.runtime.journal.recording import RecordedAction
from pilotage.runtime.journal.replay import Replay
from pilotage.safety.fields import SecretField, SensitiveFieldDescriptor
from pilotage.safety.guard import EvidenceExposurePolicy, guard_json_value

UNKNOWN_OUTCOME = "the outcome is unknown: the run ended while the call was under way"

_SECRET = SecretField()
_TOOLS_AND_STEPS = frozenset({AgentActionKind.TOOL_CALL, AgentActionKind.STEP})


class Outcomes:
    """Writes the rows of the actions of one attempt. `under_way` has the actions that were begun and have no outcome.

    `has_readers` is True if the views have a reader: the results of an ephemeral run without hooks have none.
    """

    def __init__(self, ledger: Ledger, redactor: Redactor, *, has_readers: bool = True) -> None:
        self.under_way: dict[str, tuple[Action, int]] = {}
        self.late: LateOutcomes | None = None
        self.has_readers = has_readers
        self._closed: set[str] = set()
        self._ledger = ledger
        self._redactor = redactor

    def write_before(self, effect: Effect) -> None:
        """Write the row of an effect that begins, with the fact that follows from it."""
        record, view = effect.asked()
        self._ledger.append(
            effect.action, JournalStage.BEFORE, effect.attempt, record, view, effect.descriptor
        )
        if effect.begins is not None:
            self._ledger.add_fact(effect.begins)

    def begin(self, effect: Effect) -> None:
        """Count an action as under way: from now on its outcome is unknown until it is recorded."""
        self.under_way[effect.action.id] = (effect.action, effect.attempt)

    def still_open(self, replay: Replay) -> list[tuple[Action, int]]:
        """Return everything that was begun, in this attempt or in an earlier one, and has no outcome."""
        if not self.under_way and not replay.has_record:
            return []
        begun = {action.id: (action, attempt) for action, attempt in replay.under_way()}
        begun |= self.under_way
        return [each for action_id, each in begun.items() if action_id not in self._closed]

    def done(self, effect: Effect, result: object) -> Outcome:
        """Record the result of an effect, and return its record, its view and the program's value.

        Raises:
            ToolError: the result has no JSON form, and that is recorded instead.
        """
        try:
            outcome = result if isinstance(result, Outcome) else self._outcome(effect, result)
        except (TypeError, ValueError) as error:
            reason = f"{effect.action.name!r} was done, but its result cannot be recorded: {error}"
            raise self.failed(effect, ToolError(reason)) from error
        if self._ledger.is_durable:
            self.record(effect, outcome)
            self._report(effect, has_failed=False)
        elif self.under_way:
            self.under_way.pop(effect.action.id, None)
        return outcome

    def failed(self, effect: Effect, error: Exception) -> ToolError:
        """Record that an effect failed for certain, and return the error the program gets, now and in replay."""
        if self._ledger.is_durable:
            self._report(effect, has_failed=True)
        return self.ended(effect, error)

    def ended(self, effect: Effect, error: Exception) -> ToolError:
        """Record an error as the outcome, and return it as the program gets it."""
        reason = str(error) if isinstance(error, ToolError) else f"{type(error).__name__}: {error}"
        recorded = reason if not self._redactor.revision else self._redactor.without_secrets(reason)
        record: JsonObject = {words.ERROR: recorded}
        view = record if self._redactor.is_idle else {words.ERROR: self._redactor.text(recorded)}
        self.record(effect, new_outcome(record, view, None))
        return error if isinstance(error, ToolError) and recorded == reason else ToolError(recorded)

    def as_recorded(self, effect: Effect, result: object) -> object:
        """Return a live result as the program may have it: secrets in it are marks, now as in replay."""
        return self._outcome(effect, result).result if self._may_hold_secrets(effect) else result

    def record(self, effect: Effect, outcome: Outcome) -> None:
        """Write the row of an outcome."""
        try:
            self._ledger.append(
                effect.action,
                JournalStage.AFTER,
                effect.attempt,
                outcome.record,
                outcome.view,
                effect.descriptor,
                outcome.added,
            )
        except RunOwnershipLost:
            if self.late is not None:
                self.late.report(effect.action, effect.attempt, outcome.view)
            raise
        if self.under_way and self.under_way.pop(effect.action.id, None) is not None:
            self._closed.add(effect.action.id)

    def fold(self, action: Action, record: JsonObject) -> None:
        """Write the row that stands for a finished branch or turn."""
        self._ledger.append(action, JournalStage.FOLDED, 1, record, self._redactor.json(record))

    def close_as_unknown(self, open_actions: Sequence[tuple[Action, int]]) -> None:
        """Record for calls that were under way when the run ended that their outcome is unknown."""
        record: JsonObject = {words.ERROR: UNKNOWN_OUTCOME}
        for action, number in open_actions:
            self._ledger.append(action, JournalStage.AFTER, number, record, record)

    def _outcome(self, effect: Effect, result: object) -> Outcome:
        recorded = whole = to_json_value(result)
        if self._may_hold_secrets(effect):
            recorded = self._without_secrets(effect, whole)
        record: JsonObject = {words.RESULT: recorded}
        view = effect.view_of(result) if self.has_readers else record
        given = result if recorded is whole or recorded == whole else effect.decode(recorded)
        return new_outcome(record, view, given)

    def _report(self, effect: Effect, *, has_failed: bool) -> None:
        """Publish the fact of an effect that may have changed something; a child reports its own outcome."""
        action = effect.action
        if not action.is_read_only and action.kind in _TOOLS_AND_STEPS:
            state = self._ledger.state
            fact = action_completed(state, action.id, action.kind, action.name, has_failed=has_failed)
            self._ledger.add_fact(fact)

    def _may_hold_secrets(self, effect: Effect) -> bool:
        tool = effect.descriptor
        return self._redactor.revision > 0 or (tool is not None and bool(tool.secret_results))

    def _without_secrets(self, effect: Effect, result: JsonValue) -> JsonValue:
        """Remove secrets from a record: not even a sealed one holds them."""
        if secrets := _secrets_of(effect):
            result = guard_json_value(result, secrets, EvidenceExposurePolicy())
        return secretless(result, self._redactor) if self._redactor.revision else result


def executed_arguments(recorded: RecordedAction) -> JsonObject | None:
    """Return the arguments that the last attempt ran with, where a person had changed them."""
    before = recorded.before
    return None if before is None else optional_object(object_or_empty(before.record), words.EXECUTED)


def _secrets_of(effect: Effect) -> list[SensitiveFieldDescriptor]:
    """Return where a result holds secrets, each replaced by a mark: without the field it could not be read back."""
    if effect.descriptor is None or not effect.descriptor.secret_results:
        return []
    return [replace(each, field=_SECRET) for each in effect.descriptor.secret_results]


class LateOutcomes:
    """Outcomes of an attempt that has lost its run. Reporting one never waits and never fails."""

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
        # The attempt is dead, and a person is asked anyway: a store that is away changes nothing.
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

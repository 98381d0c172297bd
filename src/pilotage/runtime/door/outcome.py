"""Late outcomes of a run: told by an attempt that has lost it, read by the one that has it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

from pilotage.agent.facts import action_completed
from pilotage.agent.ports.journal import JournalRow, JournalStage, RunKey
from pilotage.agent.ports.late_outcomes import IAgentLateOutcomes, LateOutcome
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.tools.metadata import Idempotency
from pilotage.errors import ToolError
from pilotage.jsonvalue import JsonObject, JsonValue, to_json_value
from pilotage.runtime.effect import Call
from pilotage.runtime.exposure.redactor import Redactor, secretless
from pilotage.runtime.journal.action import MAY_BE_REPEATED, Action
from pilotage.runtime.journal.interruptions import RunOwnershipLost
from pilotage.runtime.journal.ledger import Ledger
from pilotage.runtime.journal.recording import RecordedAction, Recording
from pilotage.safety.exposure import EvidenceExposurePolicy
from pilotage.safety.fields import SecretField, SensitiveFieldDescriptor
from pilotage.safety.guard import guard_json_value

_ASKED_ABOUT = frozenset({AgentActionKind.TOOL_CALL, AgentActionKind.STEP})


class LateOutcomes:
    """The late outcomes of one attempt at a run; telling one waits for nobody, and fails nothing."""

    def __init__(self, port: IAgentLateOutcomes, run: RunKey, epoch: int) -> None:
        self._port = port
        self._run = run
        self._epoch = epoch
        self._telling: set[asyncio.Future[None]] = set()

    def tell(self, action: Action, attempt: int, view: JsonObject) -> None:
        """What came of an action, now that nobody may write it down."""
        if _is_asked_about(action.kind, action.idempotency) and not action.is_read_only:
            self._tell(action.id, attempt, view)

    def tell_rows(self, rows: Iterable[JournalRow]) -> None:
        """The outcomes among rows that the store did not take, because somebody else has the run."""
        for row in rows:
            if row.stage is JournalStage.AFTER and _is_asked_about(row.kind, row.idempotency):
                self._tell(row.action_id, row.attempt, cast(JsonObject, row.view))

    @property
    def is_settled(self) -> bool:
        """Whether everything is told."""
        return not self._telling

    async def settle(self) -> None:
        """Return when everything is told."""
        if self._telling:
            await asyncio.wait(self._telling)

    async def about(self, action_id: str, attempt: int) -> tuple[JsonValue, ...]:
        """What others told of an attempt; nothing where it cannot be read: a person is asked all the same."""
        return await late_outcomes_of(self._port, self._run, action_id, attempt)

    def _tell(self, action_id: str, attempt: int, view: JsonObject) -> None:
        outcome = LateOutcome(self._run, action_id, attempt, self._epoch, view)
        telling = asyncio.ensure_future(self._append(outcome))
        self._telling.add(telling)
        telling.add_done_callback(self._telling.discard)

    async def _append(self, outcome: LateOutcome) -> None:
        # The attempt is dead, and a person is asked anyway: a store that is away changes nothing.
        with suppress(Exception):
            await self._port.append(outcome)


async def late_outcomes_of(
    port: IAgentLateOutcomes, run: RunKey, action_id: str, attempt: int
) -> tuple[JsonValue, ...]:
    """What was told of an attempt at an action, as a recovery request shows it."""
    try:
        found = await port.list_by_action(run, action_id)
    except Exception:  # noqa: BLE001 - they help to decide, and nothing depends on them
        return ()
    return tuple(each.to_payload() for each in found if each.attempt == attempt)


def _is_asked_about(kind: AgentActionKind | None, idempotency: Idempotency) -> bool:
    """Whether a person may be asked what became of it: what may be repeated is simply done again."""
    return kind in _ASKED_ABOUT and idempotency not in MAY_BE_REPEATED


_A_SECRET = SecretField()
_TOLD = frozenset({AgentActionKind.TOOL_CALL, AgentActionKind.STEP})


class Outcomes:
    """Closes the actions of one attempt at a run. `under_way` are those that were begun and not closed."""

    def __init__(self, ledger: Ledger, redactor: Redactor | None = None, *, is_seen: bool = True) -> None:
        self.under_way: dict[str, tuple[Action, int]] = {}
        self.late: LateOutcomes | None = None
        self._closed: set[str] = set()
        self._ledger = ledger
        self._redactor = redactor or Redactor()
        self._is_seen = is_seen

    def begin(self, call: Call, attempt: int) -> None:
        """From now on nobody can say that the action has not happened."""
        self.under_way[call.action.id] = (call.action, attempt)

    def still_open(self, recording: Recording) -> list[tuple[Action, int]]:
        """Everything that was begun, in this attempt or in an earlier one, and has no outcome."""
        if not self.under_way and recording.is_empty:
            return []
        begun = {action.id: (action, attempt) for action, attempt in recording.under_way()}
        begun |= self.under_way
        return [each for action_id, each in begun.items() if action_id not in self._closed]

    def done(self, call: Call, attempt: int, result: object) -> tuple[JsonObject, object]:
        """Write down that an action came to a result: what others may see of it, and what the program may have.

        Raises:
            ToolError: the result has no JSON form, and that is recorded instead.
        """
        try:
            kept = whole = to_json_value(result)
            if self._may_hold_secrets(call):
                kept = self._without_secrets(call, whole)
            record: JsonObject = {"result": kept}
            # A run that nobody keeps, and nobody watches, shows its results to nobody.
            view = call.view_of(result) if self._is_seen else record
        except (TypeError, ValueError) as error:
            words = f"{call.action.name!r} was done, but its result cannot be recorded: {error}"
            raise self.failed(call, attempt, ToolError(words)) from error
        self._close(call, attempt, record, view)
        if self._ledger.is_kept:
            self._report(call, has_failed=False)
        return view, result if kept is whole or kept == whole else call.decode(kept)

    def refused(self, call: Call, reason: str) -> ToolError:
        """Write down that an action must not begin, and give the error the program gets, now and in replay."""
        return self._ended(call, 1, ToolError(f"{call.action.name!r} is not allowed: {reason}"))

    def failed(self, call: Call, attempt: int, error: Exception) -> ToolError:
        """Write down that an action failed for certain, and give the error the program gets, now and in replay."""
        if self._ledger.is_kept:
            self._report(call, has_failed=True)
        return self._ended(call, attempt, error)

    def _ended(self, call: Call, attempt: int, error: Exception) -> ToolError:
        words = str(error) if isinstance(error, ToolError) else f"{type(error).__name__}: {error}"
        kept = words if not self._redactor.revision else self._redactor.without_secrets(words)
        record: JsonObject = {"error": kept}
        view = record if self._redactor.is_idle else {"error": self._redactor.text(kept)}
        self._close(call, attempt, record, view)
        return error if isinstance(error, ToolError) and kept == words else ToolError(kept)

    def as_recorded(self, call: Call, result: object) -> object:
        """A live result as the program may have it: what is secret in it is a mark, now as in replay."""
        if not self._may_hold_secrets(call):
            return result
        whole = to_json_value(result)
        kept = self._without_secrets(call, whole)
        return result if kept == whole else call.decode(kept)

    def _close(self, call: Call, attempt: int, record: JsonObject, view: JsonObject) -> None:
        try:
            self._ledger.append(call.action, JournalStage.AFTER, attempt, record, view, call.descriptor)
        except RunOwnershipLost:
            if self.late is not None:
                self.late.tell(call.action, attempt, view)
            raise
        if self.under_way and self.under_way.pop(call.action.id, None) is not None:
            self._closed.add(call.action.id)

    def _report(self, call: Call, *, has_failed: bool) -> None:
        """Tell what may have changed something; what a child came to is told by the child."""
        action = call.action
        if not action.is_read_only and action.kind in _TOLD:
            told = action_completed(
                self._ledger.state, action.id, action.kind, action.name, has_failed=has_failed
            )
            self._ledger.report(told)

    def _may_hold_secrets(self, call: Call) -> bool:
        tool = call.descriptor
        return self._redactor.revision > 0 or (tool is not None and bool(tool.secret_results))

    def _without_secrets(self, call: Call, result: JsonValue) -> JsonValue:
        """Secrets are in no record, not even in a sealed one."""
        if secrets := _secrets_of(call):
            result = guard_json_value(result, secrets, EvidenceExposurePolicy())
        return secretless(result, self._redactor) if self._redactor.revision else result


def recorded_result(call: Call, row: JournalRow) -> object:
    """What a finished action gave, as the program got it then.

    Raises:
        ToolError: it failed.
    """
    record: Any = row.record
    if "error" in record:
        raise ToolError(record["error"])
    return call.decode(record["result"])


def executed_arguments(recorded: RecordedAction | None) -> JsonObject | None:
    """The arguments that the last attempt ran with, where a person had changed them."""
    if recorded is None or recorded.before is None:
        return None
    return cast("JsonObject | None", cast(JsonObject, recorded.before.record).get("executed"))


def _secrets_of(call: Call) -> list[SensitiveFieldDescriptor]:
    """Where a result holds secrets, each to be replaced by a mark: without the field it could not be read back."""
    if call.descriptor is None or not call.descriptor.secret_results:
        return []
    return [replace(each, field=_A_SECRET) for each in call.descriptor.secret_results]

"""Late outcomes: results of actions that ended when another owner had the run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress

from pilotage.agent.ports.persistence import (
    JournalRow,
    JournalStage,
    RunKey,
)
from pilotage.agent.ports.repositories import IAgentLateOutcomes, LateOutcome
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.tools.metadata import Idempotency
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.journal.action import MAY_BE_REPEATED, Action
from pilotage.runtime.journal.record_fields import object_or_empty

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

"""Late outcomes of a run: told by an attempt that has lost it, read by the one that has it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import cast

from pilotage.agent.ports.journal import JournalRow, JournalStage, RunKey
from pilotage.agent.ports.late_outcomes import IAgentLateOutcomes, LateOutcome
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.tools.metadata import Idempotency
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.actions.action import MAY_BE_REPEATED, Action

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

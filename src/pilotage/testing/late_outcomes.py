"""The port for late outcomes in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from pilotage.agent.ports.journal import RunKey
from pilotage.agent.ports.repositories import IAgentLateOutcomes, LateOutcome
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import as_object, canonical_json, parsed
from pilotage.testing.tables import MemoryTables


class MemoryLateOutcomes(IAgentLateOutcomes):
    """Late outcomes in the tables of a store, as every process over it has them."""

    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables

    async def append(self, outcome: LateOutcome) -> None:
        key = (outcome.run, outcome.action_id, outcome.attempt, outcome.epoch)
        try:
            text = canonical_json(outcome.view)
        except (TypeError, ValueError) as error:
            raise AgentDefinitionError(f"MemoryLateOutcomes.append: {error}.") from error
        self._tables.late_outcomes.setdefault(key, (text, self._tables.clock.now()))

    async def list_by_action(self, run: RunKey, action_id: str) -> Sequence[LateOutcome]:
        return [
            _read(LateOutcome(*key, {}), text, at)
            for key, (text, at) in self._tables.late_outcomes.items()
            if key[:2] == (run, action_id)
        ]


def _read(bare: LateOutcome, text: str, at: datetime) -> LateOutcome:
    return replace(bare, view=as_object(parsed(text)), created_at=at)

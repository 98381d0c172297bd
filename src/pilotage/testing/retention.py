"""The retention port in memory: it prunes or erases runs that have ended."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from pilotage.agent.ports.conversations import ConversationTurn
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.ports.repositories import IAgentRetention
from pilotage.checks import reject_naive, reject_not_positive
from pilotage.errors import CallerError, RunNotFoundError
from pilotage.jsonvalue import canonical_json
from pilotage.runtime.journal.chain import erased
from pilotage.testing.encoded import EncodedRow, EncodedState
from pilotage.testing.tables import OverTables

_ERASED_TURN = "[erased]"


class MemoryRetention(OverTables, IAgentRetention):
    """Retention over the tables of a store: `MemoryRetention(store.tables)`."""

    async def prune(self, tenant_id: str, *, ended_before: datetime, limit: int = 1000) -> int:
        reject_not_positive("MemoryRetention.prune", limit=limit)
        reject_naive("MemoryRetention.prune", ended_before=ended_before)
        stored = list(self._tables.states.entries(tenant_id))
        over = [each for each in stored if self._is_over(each) and _ended_at(each) < ended_before]
        for each in over[:limit]:
            self._remove(RunKey(tenant_id, each.bare.id))
        return len(over[:limit])

    async def erase(self, run: RunKey) -> None:
        stored = self._tables.states.find(run.tenant_id, run.run_id)
        if stored is None:
            raise RunNotFoundError(f"there is no run {run.run_id!r}.")
        if not self._is_over(stored):
            raise CallerError(f"run {run.run_id!r}, or its parent, has not ended. Cancel it first.")
        self._erase_state(run, stored)
        self._tables.media.release(run)
        self._tables.claims.pop(run, None)
        journal = self._tables.journals.find(run.tenant_id, run.run_id)
        if journal is not None:
            journal.rows = [EncodedRow.of(erased(row.read())) for row in journal.rows]
            journal.receipts.clear()
        self._erase_signals(run)
        self._tables.evidence.remove(run.tenant_id, lambda each: each.bare.agent_state_id == run.run_id)
        self._forget_late_outcomes(run)
        self._tables.conversations.put_in_place(run, lambda turn: ConversationTurn(turn.role, _ERASED_TURN))

    def _is_over(self, stored: EncodedState) -> bool:
        parent = self._tables.parents.get(RunKey(stored.bare.tenant_id, stored.bare.id))
        above = self._tables.states.find(parent.tenant_id, parent.run_id) if parent else None
        return stored.bare.is_terminal and (above is None or above.bare.is_terminal)

    def _erase_state(self, run: RunKey, stored: EncodedState) -> None:
        parent = stored.read().metadata.get("parent")
        left = {"erased": True} if parent is None else {"erased": True, "parent": parent}
        bare = replace(stored.bare, current_activity=None)
        self._tables.states.put(run.tenant_id, run.run_id, EncodedState(bare, canonical_json(left)))

    def _erase_signals(self, run: RunKey) -> None:
        tables = self._tables
        for signal in list(tables.signals.entries(run.tenant_id)):
            if signal.bare.agent_state_id == run.run_id:
                tables.signals.put(run.tenant_id, signal.bare.id, replace(signal, payload="{}"))
        queue = tables.queues.get(run, {})
        queue.update({signal_id: replace(signal, payload="{}") for signal_id, signal in queue.items()})

    def _remove(self, run: RunKey) -> None:
        tables, tenant = self._tables, run.tenant_id
        tables.states.remove(tenant, lambda each: each.bare.id == run.run_id)
        tables.journals.drop(tenant, run.run_id)
        tables.evidence.remove(tenant, lambda each: each.bare.agent_state_id == run.run_id)
        tables.signals.remove(tenant, lambda each: each.bare.agent_state_id == run.run_id)
        tables.queues.pop(run, None)
        tables.last_signals.pop(run, None)
        tables.parents.pop(run, None)
        tables.outbox.remove(run)
        tables.claims.pop(run, None)
        tables.media.release(run)
        self._forget_late_outcomes(run)
        tables.conversations.let_go(run)

    def _forget_late_outcomes(self, run: RunKey) -> None:
        for key in [key for key in self._tables.late_outcomes if key[0] == run]:
            del self._tables.late_outcomes[key]


def _ended_at(stored: EncodedState) -> datetime:
    moment = stored.bare.updated_at
    assert moment is not None  # noqa: S101 - the store sets it
    return moment

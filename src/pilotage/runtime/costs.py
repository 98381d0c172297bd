"""What durable runs cost: the charges in their rows, read from the store at once, or run by run where it cannot."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import datetime

from pilotage.agent.ports.costs import CostEntry, IAgentCosts, ModelCharge, charges_in
from pilotage.agent.ports.journal import IAgentJournal
from pilotage.agent.ports.persistence import JournalRow, RunKey
from pilotage.agent.ports.repositories import IAgentStateRepository
from pilotage.agent.state import AgentState
from pilotage.errors import DamagedEntryError
from pilotage.jsonvalue import object_or_empty
from pilotage.runtime.journal import stored_words as words

_PAGE = 200


class CostsByRun(IAgentCosts):
    """The charges of a store without reports of its own: all runs of the tenant are listed, and their journals read."""

    def __init__(self, states: IAgentStateRepository, journal: IAgentJournal) -> None:
        self._states, self._journal = states, journal

    async def entries(
        self, tenant_id: str, *, since: datetime | None = None, until: datetime | None = None
    ) -> AsyncIterator[CostEntry]:
        found = await self._runs_of(tenant_id)
        parents = {run_id: _parent_of(state) for run_id, state in found.items()}
        for run_id, state in found.items():
            conversation: str | None = None
            async for row in self._journal.read(RunKey(tenant_id, run_id)):
                if row.seq == 1:
                    conversation = _conversation_in(row)
                if row.costs and row.created_at is not None and _lies_between(since, row.created_at, until):
                    for charge in _charges_in(row, run_id):
                        yield CostEntry(
                            tenant_id,
                            run_id,
                            root_of(run_id, parents),
                            state.agent_type,
                            row.created_at,
                            charge=charge,
                            conversation=conversation,
                        )

    async def _runs_of(self, tenant_id: str) -> dict[str, AgentState]:
        found: dict[str, AgentState] = {}
        page = await self._states.list_runs(tenant_id, limit=_PAGE)
        found |= {state.id: state for state in page.whole()}
        while page.cursor is not None:
            page = await self._states.list_runs(tenant_id, after=page.cursor, limit=_PAGE)
            found |= {state.id: state for state in page.whole()}
        return found


def _charges_in(row: JournalRow, run_id: str) -> tuple[ModelCharge, ...]:
    try:
        return charges_in(row.costs)
    except ValueError as error:
        raise unreadable_costs(run_id, row.action_id, error) from error


def unreadable_costs(run_id: str, action_id: str, error: Exception) -> DamagedEntryError:
    """Return the error for a row whose costs cannot be read."""
    return DamagedEntryError.unreadable(f"what {action_id!r} of run {run_id!r} cost", error)


def root_of(run_id: str, parents: Mapping[str, str | None]) -> str:
    """Return the first run of a tree, as far as its runs are still there."""
    seen = {run_id}
    while (above := parents.get(run_id)) is not None and above in parents and above not in seen:
        run_id = above
        seen.add(run_id)
    return run_id


def _parent_of(state: AgentState) -> str | None:
    parent = state.metadata.get(words.PARENT)
    return parent if isinstance(parent, str) else None


def _conversation_in(row: JournalRow) -> str | None:
    found = object_or_empty(row.view).get(words.CONVERSATION)
    return found if isinstance(found, str) else None


def _lies_between(since: datetime | None, moment: datetime, until: datetime | None) -> bool:
    return (since is None or moment >= since) and (until is None or moment < until)

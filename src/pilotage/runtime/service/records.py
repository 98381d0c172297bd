"""Reading runs: state, rows, result. A run of another tenant is not found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from pilotage.agent.evidence import AgentEvidence
from pilotage.agent.ports.journal import JournalRow, RunKey
from pilotage.agent.principal import Principal
from pilotage.agent.run_result import RunResult
from pilotage.agent.state import AgentState
from pilotage.errors import CallerError, RunNotFoundError
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.actions.action import RESULT
from pilotage.runtime.attempts.cancellation import cancellation_error
from pilotage.runtime.door.prompt_snapshots import is_prompt, prompt_in
from pilotage.runtime.journal.chain import first_broken
from pilotage.runtime.journal.evidence_view import evidence_in
from pilotage.runtime.journal.result_record import decode_result
from pilotage.runtime.journal.trust_record import label_in
from pilotage.runtime.service.services import Services
from pilotage.runtime.service.verification import disagreement, still_pending
from pilotage.runtime.stream.erasure import is_erased, refuse_erased
from pilotage.safety.trust import TrustLabel


class Records:
    """What is known of runs, for whoever may know it."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def find(self, run_id: str, tenant: str) -> AgentState | None:
        """How a run of a tenant stands; None where there is no such run."""
        state = await self._services.states.get_or_none(run_id)
        return state if state is not None and state.tenant_id == tenant else None

    async def tenant_of(self, run_id: str) -> str:
        """The tenant a run belongs to, for the application itself.

        Raises:
            RunNotFoundError: there is no such run.
        """
        return (await self.state(run_id, None)).tenant_id

    async def state(self, run_id: str, principal: Principal | None) -> AgentState:
        """How a run stands; without a principal in whatever tenant it is.

        Raises:
            RunNotFoundError: there is no such run in the principal's tenant.
        """
        state = await self._services.states.get_or_none(run_id)
        if state is None or (principal is not None and state.tenant_id != principal.tenant):
            raise RunNotFoundError(f"there is no run {run_id!r}.")
        return state

    async def rows(self, run: RunKey) -> list[JournalRow]:
        """The rows of a run with their records open.

        Raises:
            RecordSealError: one of them does not open here.
            RunErasedError: their payloads were erased.
        """
        stored = await self.stored_rows(run)
        if all(row.is_plain for row in stored):
            return stored
        refuse_erased(run, stored)
        return self._services.seals(run).opened_rows(stored)

    async def stored_rows(self, run: RunKey) -> list[JournalRow]:
        """The rows of a run as they are stored."""
        return [row async for row in self._services.journal.read(run)]

    async def standing(self, run_id: str, principal: Principal | None) -> tuple[AgentState, list[JournalRow]]:
        """State and rows of a run, without a principal in whatever tenant it is.

        The state is no older than the rows: a run that ends while it is looked at is seen to have ended.

        Raises:
            RunNotFoundError: there is no such run in the principal's tenant.
            CallerError: it has no journal.
        """
        found = await self._services.states.get_with_head(run_id)
        if found is None or (principal is not None and found[0].tenant_id != principal.tenant):
            raise RunNotFoundError(f"there is no run {run_id!r}.")
        state, head = found
        rows = await self.rows(RunKey(state.tenant_id, run_id))
        if not rows:
            raise CallerError(
                f"run {run_id!r} has no journal: it was not started here, and cannot be resumed."
            )
        # Somebody wrote in between, and with a row the state may have changed.
        return state if rows[-1].seq == head else await self.state(run_id, principal), rows

    async def result(self, state: AgentState) -> RunResult:
        """How a run stands now, with its output as JSON; `state` is how it stood when somebody last looked."""
        rows = await self.rows(RunKey(state.tenant_id, state.id))
        now = await self.find(state.id, state.tenant_id)
        return result_in(now or state, rows)

    async def evidence(self, state: AgentState) -> tuple[AgentEvidence, ...]:
        """The actions of a run as evidence, then what was stored as such."""
        rows = await self.stored_rows(RunKey(state.tenant_id, state.id))
        repository = self._services.evidence
        stored = await repository.list_by_state(state.id) if repository is not None else ()
        return (*evidence_in(state.id, rows), *stored)

    async def prompts(self, state: AgentState, *, sealed: bool) -> tuple[JsonObject, ...]:
        """What the models of a run were asked, in order, where its agent keeps prompt snapshots; `sealed` parts too.

        Raises:
            RecordSealError: one of them does not open here.
        """
        repository, run = self._services.evidence, RunKey(state.tenant_id, state.id)
        stored = await repository.list_by_state(state.id) if repository is not None else ()
        sealer = self._services.sealer if sealed else None
        return tuple(prompt_in(each, run, sealer) for each in stored if is_prompt(each))

    async def verify(self, run_id: str, principal: Principal | None) -> int:
        """Check a run's journal against itself, its state and its signals; how many rows it has.

        Of a run whose payloads were erased only the chain can be checked.

        Raises:
            CallerError: a row does not follow from the one before it (the message names the first), or state or
                signals are not what the rows say.
        """
        state = await self.state(run_id, principal)
        rows = await self.stored_rows(RunKey(state.tenant_id, run_id))
        broken = first_broken(rows)
        if broken is not None:
            words = f"row {broken.seq} ({broken.action_id}) does not follow from the one before"
            raise CallerError(f"run {run_id!r}: {words}.")
        if any(is_erased(row) for row in rows):
            return len(rows)
        found = disagreement(state, rows) or still_pending(
            rows, await self._services.signals.list_pending(run_id)
        )
        # A run that goes on while it is looked at may have moved between the two reads.
        if found is not None and await self.state(run_id, principal) == state:
            raise CallerError(f"run {run_id!r}: {found}.")
        return len(rows)


def result_in(state: AgentState, rows: Sequence[JournalRow]) -> RunResult:
    """The result among the rows of a run; one that was cancelled has none but what its state says."""
    result = decode_result(state, next((row for row in reversed(rows) if row.action_id == RESULT), None))
    error = cancellation_error(state)
    return result if error is None else replace(result, error=error)


def label_at_end(rows: Sequence[JournalRow]) -> TrustLabel:
    """How far what a run came to may be trusted."""
    result = next((row for row in reversed(rows) if row.action_id == RESULT), None)
    return TrustLabel() if result is None else label_in(cast(JsonObject, result.record))

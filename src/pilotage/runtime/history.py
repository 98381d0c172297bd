"""What a run has behind it when somebody takes it up: its rows, sorted in one walk. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace

from pilotage.agent.evidence import AgentEvidence
from pilotage.agent.ports.journal import JournalRow, JournalStage, RunKey
from pilotage.agent.principal import Principal
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.run_result import RunResult
from pilotage.agent.signals import AgentSignal
from pilotage.agent.state import AgentState, AgentStateReason, AgentStatus
from pilotage.errors import CallerError, RunNotFoundError
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.context.snapshots import is_prompt, prompt_in
from pilotage.runtime.events.event_log import LoggedEvent, is_erased, items_of, refuse_erased
from pilotage.runtime.journal.action import RESULT
from pilotage.runtime.journal.action_record import trust_in
from pilotage.runtime.journal.chain import first_broken
from pilotage.runtime.journal.evidence import evidence_in
from pilotage.runtime.journal.record_fields import decode_row, object_or_empty
from pilotage.runtime.journal.recording import Recording
from pilotage.runtime.journal.records import decode_result
from pilotage.runtime.journal.signal_record import taken_ids
from pilotage.runtime.run.cancel import cancellation_error
from pilotage.runtime.services import Services
from pilotage.safety.trust import TrustLabel
from pilotage.values import value


@value
class RunHistory:
    """The rows of a run, the first and the last of them, and what they are about.

    `claims` say who took the run, `actions` what it did. `told` is what the others say was told: it is used up as the
    program says it again.
    """

    first: JournalRow
    last: JournalRow
    claims: Sequence[JournalRow]
    actions: Sequence[JournalRow]
    told: deque[LoggedEvent]

    @classmethod
    def of(cls, rows: Sequence[JournalRow]) -> RunHistory:
        """The past that these rows tell of; there is at least the one that begins a run."""
        claims, actions, told = list[JournalRow](), list[JournalRow](), deque[LoggedEvent]()
        for row in rows:
            stage = row.stage
            if stage is JournalStage.TOLD:
                told.extend(items_of(row))
            elif stage is JournalStage.CLAIMED:
                claims.append(row)
            else:
                actions.append(row)
        return cls(rows[0], rows[-1], claims, actions, told)

    @property
    def last_number(self) -> int:
        """The number of the last event that was told."""
        return self.told[-1].number if self.told else 0


_APPROVALS = frozenset({AgentStateReason.APPROVAL_REQUIRED, AgentStateReason.APPROVAL_DEFERRED})


def disagreement(state: AgentState, rows: Sequence[JournalRow]) -> str | None:
    """What the state says that the rows do not bear out, in words; None where they agree."""
    if not rows:
        return f"its state is {state.status}, and its journal has no rows"
    result = next((row for row in reversed(rows) if row.action_id == RESULT and row.kind is not None), None)
    if result is not None and result.stage is JournalStage.AFTER:
        return _about_the_end(state, rows, object_or_empty(result.view))
    if state.is_terminal and cancellation_error(state) is None:
        return f"its state is {state.status}, and there is no result in its journal"
    return _about_what_is_left(state, rows) if state.is_terminal else _about_the_wait(state, rows)


def still_pending(rows: Iterable[JournalRow], pending: Sequence[AgentSignal]) -> str | None:
    """A signal that was taken in and is still in the queue, in words."""
    taken = {signal_id for row in rows for signal_id in taken_ids(row)}
    left = next((signal for signal in pending if signal.id in taken), None)
    return None if left is None else f"signal {left.id!r} was taken in, and is still in the queue"


def _about_the_end(state: AgentState, rows: Sequence[JournalRow], result: JsonObject) -> str | None:
    if not state.is_terminal:
        return f"it has a result in its journal, and its state is {state.status}"
    has_failed = result.get("error") is not None
    if has_failed is (state.status is AgentStatus.COMPLETED):
        came_to = "an error" if has_failed else "an answer"
        return f"it came to {came_to} by its journal, and its state is {state.status}"
    return _about_what_is_left(state, rows)


def _about_what_is_left(state: AgentState, rows: Sequence[JournalRow]) -> str | None:
    left = Recording(rows).under_way()
    return f"{left[0][0].id!r} has no outcome, and its state is {state.status}" if left else None


def _about_the_wait(state: AgentState, rows: Sequence[JournalRow]) -> str | None:
    """A run waits for people exactly where somebody was asked, by itself or by a run it belongs to."""
    if state.status is not AgentStatus.INTERRUPTED or state.reason not in _APPROVALS:
        return None
    closed = {row.action_id for row in rows if row.stage is not JournalStage.BEFORE}
    waits = (AgentActionKind.APPROVAL_WAIT, AgentActionKind.DELEGATION)
    if any(row.kind in waits and row.action_id not in closed for row in rows):
        return None
    return f"its state is {state.status} ({state.reason}), and nobody was asked anything"


class RunReader:
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
    return TrustLabel() if result is None else decode_row(result, trust_in) or TrustLabel()

"""Taking a run: its first row, or the row with which somebody else's run becomes ours."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.ports.journal import JournalHead, JournalRow, LeaseRequest, RunKey
from pilotage.agent.principal import Principal
from pilotage.agent.sealing_check import input_fields
from pilotage.agent.state import AgentSituation, AgentState, AgentStatus
from pilotage.errors import RunConflictError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.budget.deadlines import extended
from pilotage.runtime.events.event_log import PendingEvents
from pilotage.runtime.history import RunHistory
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.chain import NO_HEAD
from pilotage.runtime.journal.interruptions import RunOwnershipLost, StartRefused
from pilotage.runtime.journal.lease import HeldLease
from pilotage.runtime.journal.ledger import Ledger, Opening
from pilotage.runtime.journal.start_record import (
    RunStart,
    definition_digest,
    encode_deadline,
    encode_start,
    last_deadline,
    recorded_definition,
    waits_counted_until,
)
from pilotage.runtime.services import Services
from pilotage.safety.guard import guard_json_value

_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class RunClaims:
    """Makes the ledgers of runs: whoever has one has the run."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def begin(
        self, definition: AgentDefinition, start: RunStart, run: RunKey, hold: HeldLease | None = None
    ) -> Ledger:
        """Begin a run, and take its lease in the same commit; when this returns, both are done.

        Of several who begin a run of one id the journal chooses one; the others get no lease and hold nobody up.

        Raises:
            RunConflictError: its conversation is held by another run, or its id is taken.
            StartRefused: the run it belongs to is ending.
        """
        ledger = self._opened(definition, start, run, hold.request if hold else None)
        committed = self._commit_start(ledger, run, is_child=start.parent is not None)
        if hold is None:
            await committed
            return ledger
        try:
            await hold.acquire_with(committed)
        except (RunConflictError, StartRefused):
            raise
        except BaseException:
            # The commit may be under way, or may have taken the lease without anybody hearing of it.
            await ledger.settle()
            await hold.release_unknown()
            raise
        return ledger

    async def begin_fork(
        self, definition: AgentDefinition, start: RunStart, run: RunKey, rows: Sequence[JournalRow]
    ) -> AgentState:
        """Begin a run with rows of another one, which count as its own; nobody drives it yet."""
        ledger = self._opened(definition, start, run)
        for row in rows:
            ledger.copy_row(row)
        await self._commit_start(ledger, run, is_child=False)
        return ledger.state

    def _opened(
        self,
        definition: AgentDefinition,
        start: RunStart,
        run: RunKey,
        lease: LeaseRequest | None = None,
    ) -> Ledger:
        situation = AgentSituation.CREATED
        facts: JsonObject = {"parent": start.parent} if start.parent else {}
        state = AgentState(
            run.run_id, definition.agent_id, situation.status, tenant_id=run.tenant_id, metadata=facts
        )
        parent = RunKey(run.tenant_id, start.parent) if start.parent else None
        held = start.conversation if start.history is not None else None
        ledger = self._ledger(state, NO_HEAD, PendingEvents(), Opening(parent, held, lease))
        record = encode_start(start)
        ledger.claim(record, {**record, "input": guard_json_value(start.input, input_fields(definition))})
        ledger.change_state(state.moved_to(AgentSituation.RUNNING))
        return ledger

    async def _commit_start(self, ledger: Ledger, run: RunKey, *, is_child: bool) -> None:
        try:
            await ledger.barrier()
        except RunOwnershipLost as lost:
            raise RunConflictError(f"there is a run {run.run_id!r} already.") from lost
        except StartRefused as refused:
            if is_child:
                raise
            raise RunConflictError(str(refused)) from refused

    async def take_over(
        self,
        definition: AgentDefinition,
        state: AgentState,
        past: RunHistory,
        principal: Principal,
    ) -> Ledger:
        """Take a run over: from here on every other owner of it has lost.

        Raises:
            RunConflictError: somebody else took it in the same moment.
        """
        head = JournalHead(past.last.seq, past.last.epoch, past.last.digest)
        ledger = self._ledger(state, head, PendingEvents(past.last_number))
        claim = {words.CLAIMED_BY: principal.id, **self._changes(definition, state, past)}
        ledger.claim(claim, claim)
        try:
            await ledger.barrier()
        except RunOwnershipLost as lost:
            raise RunConflictError(
                f"run {state.id!r} was taken by somebody else in the same moment."
            ) from lost
        return ledger

    def deadline(self, definition: AgentDefinition, state: AgentState, past: RunHistory) -> datetime | None:
        """When the time of the run is up: waiting for a person moves it, unless the agent counts that too."""
        deadline, paused_at = last_deadline(past.claims), state.metadata.get(words.PAUSED_AT)
        if state.status is not AgentStatus.INTERRUPTED or not isinstance(paused_at, str):
            return deadline
        since = max(datetime.fromisoformat(paused_at), waits_counted_until(past.claims) or _LONG_AGO)
        now = self._services.clock.now()
        return extended(deadline, since, now, human_time_counts=definition.spec.human_time_counts)

    def _ledger(
        self, state: AgentState, head: JournalHead, log: PendingEvents, opening: Opening | None = None
    ) -> Ledger:
        run, services = RunKey(state.tenant_id, state.id), self._services
        writer_id = services.ids.uid()
        return Ledger(run, state, head, services.writer, writer_id, services.seals(run), log, opening)

    def _changes(
        self, definition: AgentDefinition, state: AgentState, past: RunHistory
    ) -> dict[str, JsonValue]:
        """What has changed since the run was last driven: its deadline by a wait, its agent by a release."""
        changes: dict[str, JsonValue] = {}
        deadline = self.deadline(definition, state, past)
        if deadline != last_deadline(past.claims):
            changes[words.DEADLINE] = encode_deadline(deadline)
            changes[words.WAITS_COUNTED_UNTIL] = self._services.clock.now().isoformat()
        known = recorded_definition(past.first)
        if known and known != (now := definition_digest(definition)):
            changes[words.DRIFT] = {words.WAS: known, words.IS: now}
        return changes

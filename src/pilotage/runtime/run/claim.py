"""Claims on runs: the first row of a new run, or the row that takes over an existing one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.ports.journal import JournalHead, LeaseRequest
from pilotage.agent.ports.leases import WAITS_FOR_PERSON
from pilotage.agent.ports.persistence import JournalRow, RunKey
from pilotage.agent.principal import Principal
from pilotage.agent.safety_checks import input_fields
from pilotage.agent.signals import AgentSignal, AgentSignalKind
from pilotage.agent.spec import AgentExecutionLimits
from pilotage.agent.state import AgentSituation, AgentState, AgentStateReason, AgentStatus
from pilotage.errors import RunConflictError
from pilotage.jsonvalue import JsonObject, JsonValue, to_json_value
from pilotage.runtime.budget.limits import extended
from pilotage.runtime.events.event_log import PendingEvents
from pilotage.runtime.history import RunHistory
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.chain import NO_HEAD
from pilotage.runtime.journal.interruptions import HistoryMoved, RunOwnershipLost, StartRefused
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

_WORDS_OF_CALLERS = (words.INPUT, words.METADATA, words.GIVEN, words.DELEGATION, "deferred")
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class RunClaims:
    """Creates the ledgers of claimed runs."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def begin(
        self, definition: AgentDefinition, start: RunStart, run: RunKey, lease: HeldLease | None = None
    ) -> Ledger:
        """Begin a run, and take its lease in the same commit; when this returns, both are stored.

        If several processes begin a run with the same id, the journal accepts one; the others get no lease.

        Raises:
            HistoryMoved: its conversation has got further turns.
            RunConflictError: another run has the conversation, or the id is taken.
            StartRefused: the parent run is ending.
        """
        ledger = self._opened(definition, start, run, lease.request if lease else None)
        committed = self._commit_start(ledger, run, is_child=start.parent is not None)
        if lease is None:
            await committed
            return ledger
        try:
            await lease.acquire_with(committed)
        except (HistoryMoved, RunConflictError, StartRefused):
            raise
        except BaseException:
            # The commit may be under way, or may have taken the lease without a confirmation.
            await ledger.settle()
            await lease.release_unknown()
            raise
        return ledger

    async def begin_fork(
        self, definition: AgentDefinition, start: RunStart, run: RunKey, rows: Sequence[JournalRow]
    ) -> AgentState:
        """Begin a run with rows of another one, which count as its own; it has no owner yet."""
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
        # A declarative agent that is given messages instead of the history adds no turns.
        is_held = start.history is not None or not definition.is_declarative
        conversation = start.conversation if is_held else None
        store = None if conversation is None else self._services.conversations
        known = start.history if store is not None and store.is_journaled else None
        ledger = self.ledger_at(state, NO_HEAD, PendingEvents(), Opening(parent, conversation, lease, known))
        record = {**encode_start(start), **self._owner}
        ledger.claim(record, self._view_of_start(definition, start, record))
        ledger.change_state(state.moved_to(AgentSituation.RUNNING))
        return ledger

    def _view_of_start(self, definition: AgentDefinition, start: RunStart, record: JsonObject) -> JsonObject:
        """Return the first row of a run for readers: without sensitive input, and redacted where a policy says so."""
        view = {**record, words.INPUT: guard_json_value(start.input, input_fields(definition))}
        if definition.spec.redaction is None:
            return view
        redactor = self._services.redactor(definition, start.principal.tenant)
        return {**view, **{name: redactor.json(view[name]) for name in _WORDS_OF_CALLERS if name in view}}

    async def _commit_start(self, ledger: Ledger, run: RunKey, *, is_child: bool) -> None:
        try:
            await ledger.barrier()
        except RunOwnershipLost as lost:
            raise RunConflictError(f"there is a run {run.run_id!r} already.") from lost
        except StartRefused as refused:
            if is_child:
                raise
            raise RunConflictError(str(refused), holder=refused.holder) from refused

    async def take_over(
        self,
        definition: AgentDefinition,
        state: AgentState,
        history: RunHistory,
        principal: Principal,
        limits: AgentExecutionLimits | None = None,
    ) -> Ledger:
        """Take a run over: after this, every earlier owner has lost it. `limits` are those that it has from now on.

        Raises:
            RunConflictError: another process took the run over at the same time.
        """
        claim: JsonObject = {words.CLAIMED_BY: principal.id}
        if limits is not None:
            claim = {**claim, words.LIMITS: to_json_value(limits)}
        ledger = self.claiming(definition, state, history, claim)
        await committed(ledger)
        return ledger

    def claiming(
        self, definition: AgentDefinition, state: AgentState, history: RunHistory, claim: JsonObject
    ) -> Ledger:
        """Return a ledger with the uncommitted row that takes a run over; `claim` has the principal and the reason."""
        head = JournalHead(history.last.seq, history.last.epoch, history.last.digest)
        ledger = self.ledger_at(state, head, PendingEvents(history.last_number))
        whole: JsonObject = {**claim, **self._owner, **self._changes(definition, state, history)}
        ledger.claim(whole, whole)
        return ledger

    def deadline(
        self, definition: AgentDefinition, state: AgentState, history: RunHistory
    ) -> datetime | None:
        """Return the deadline of the run: waiting for an answer extends it, unless the agent counts that time."""
        deadline, paused_at = last_deadline(history.claims), state.metadata.get(words.PAUSED_AT)
        if state.status is not AgentStatus.INTERRUPTED or not isinstance(paused_at, str):
            return deadline
        since = max(datetime.fromisoformat(paused_at), waits_counted_until(history.claims) or _LONG_AGO)
        now = self._services.clock.now()
        return extended(deadline, since, now, human_time_counts=definition.spec.human_time_counts)

    def ledger_at(
        self, state: AgentState, head: JournalHead, log: PendingEvents, opening: Opening | None = None
    ) -> Ledger:
        """Return a ledger that continues after a head; its first commit takes the run over."""
        run, services = RunKey(state.tenant_id, state.id), self._services
        writer_id = services.ids.uid()
        return Ledger(
            run=run,
            state=state,
            head=head,
            writer=services.writer,
            writer_id=writer_id,
            seals=services.seals(run),
            log=log,
            opening=opening,
            chain=services.chain(run, state.agent_type),
            clock=services.clock,
        )

    @property
    def _owner(self) -> JsonObject:
        """Return the name of this process, where runs have leases."""
        services = self._services
        return {} if services.leases is None else {words.OWNER: services.owner}

    def _changes(
        self, definition: AgentDefinition, state: AgentState, history: RunHistory
    ) -> dict[str, JsonValue]:
        """Return the changes since the last attempt: the deadline after a wait, the agent after a release."""
        changes: dict[str, JsonValue] = {}
        deadline = self.deadline(definition, state, history)
        if deadline != last_deadline(history.claims):
            changes[words.DEADLINE] = encode_deadline(deadline)
            changes[words.WAITS_COUNTED_UNTIL] = self._services.clock.now().isoformat()
        known = recorded_definition(history.first)
        if known and known != (now := definition_digest(definition)):
            changes[words.DRIFT] = {words.WAS: known, words.IS: now}
        return changes


async def committed(ledger: Ledger) -> None:
    """Commit what takes a run over.

    Raises:
        RunConflictError: another process took the run over at the same time.
    """
    try:
        await ledger.barrier()
    except RunOwnershipLost as lost:
        run_id = ledger.run.run_id
        raise RunConflictError(f"run {run_id!r} was claimed by another process at the same time.") from lost


def settle_resumption(ledger: Ledger, pending: Sequence[AgentSignal], *, holds_pauses: bool = False) -> None:
    """Take the pending resume signals: the run is resumed. That supersedes the pause signals before it.

    With `holds_pauses` those after the last resume signal stay: the attempt obeys them.
    """
    resumes = [place for place, signal in enumerate(pending) if signal.kind is AgentSignalKind.RESUME]
    last = resumes[-1] if resumes else -1
    for place, signal in enumerate(pending):
        if signal.kind is AgentSignalKind.RESUME:
            ledger.consume_signal(signal.id)
        elif signal.kind is AgentSignalKind.PAUSE and not (holds_pauses and place > last):
            ledger.supersede_signal(signal.id)


_RESUMABLE_BY_SIGNAL = frozenset(
    {AgentStateReason.USER_INTERRUPTED, AgentStateReason.MODEL_UNAVAILABLE, *WAITS_FOR_PERSON}
)


def is_resume_requested(state: AgentState, pending: Sequence[AgentSignal]) -> bool:
    """Return whether the run waits for nothing but to be resumed, and a RESUME signal is pending."""
    if state.reason not in _RESUMABLE_BY_SIGNAL:
        return False
    return any(signal.kind is AgentSignalKind.RESUME for signal in pending)

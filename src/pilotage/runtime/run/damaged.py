"""Runs with a damaged record: they are interrupted by a row on the stored head, and resumable once it is mended.

A run that is being cancelled cannot wait for a person: it ends as one whose clean-up failed, because the record does
not say for certain what was under way.
"""

from __future__ import annotations

from pilotage.agent.cancellation import begin_agent_cancellation
from pilotage.agent.events import AgentEvent, AgentEventAttribution, RunFinishedEvent, RunPausedEvent
from pilotage.agent.ports.journal import JournalHead, RunKey
from pilotage.agent.principal import Principal
from pilotage.agent.signals import AgentSignal, AgentSignalKind
from pilotage.agent.state import AgentSituation, AgentState, AgentStateReason, AgentStatus
from pilotage.errors import CallerError, RunConflictError
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.events.event_log import PendingEvents, logged_events
from pilotage.runtime.events.event_record import encode_event
from pilotage.runtime.history import RunRecord, attribution_of, cancellation_error
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.chain import Damage
from pilotage.runtime.journal.interruptions import RunOwnershipLost, StoreUnavailable
from pilotage.runtime.journal.ledger import Ledger
from pilotage.runtime.run.claim import RunClaims
from pilotage.runtime.run.ending import running
from pilotage.runtime.services import Services

_GAP = 10_000
"""Events of a row that is missing or cannot be decoded have numbers, too: so many are left out for each such row."""


class DamagedRuns:
    """Interrupts or ends runs whose record is damaged. The caller holds the lease of the run."""

    def __init__(self, services: Services, claims: RunClaims) -> None:
        self._services = services
        self._claims = claims

    async def interrupt(self, record: RunRecord, damage: Damage, principal: Principal) -> AgentState:
        """Interrupt a run until its record is mended, and return its state; nothing is written a second time.

        Raises:
            RunConflictError: another process wrote to the run at the same time.
            CallerError: the damage is such that no row can be written.
        """
        state, sentence = record.state, damage_words(damage)
        reason = AgentStateReason.RECOVERY_REQUIRES_HITL
        if state.reason is reason and state.current_activity == sentence:
            return state
        if state.status is AgentStatus.CANCELLING:
            return await self.end(record, damage, None, principal)
        ledger = await self._ledger(record, damage)
        self._claim(ledger, damage, principal)
        now = self._services.clock.now()
        facts: JsonObject = {words.DAMAGE: damage.facts, words.PAUSED_AT: now.isoformat()}
        ledger.change_state(
            running(state).moved_to(AgentSituation.RECOVERY_REQUIRED, activity=sentence, metadata=facts)
        )
        by = attribution_of(record)
        paused = RunPausedEvent(by, reason, sentence, state.id, metadata={words.DAMAGE: damage.facts})
        return await self._committed(ledger, damage, paused, by)

    async def end(
        self, record: RunRecord, damage: Damage, signal: AgentSignal | None, principal: Principal
    ) -> AgentState:
        """End a run that is being cancelled or has the signal to be; what was under way in it is unknown.

        Raises:
            RunConflictError: another process wrote to the run at the same time.
            CallerError: the damage is such that no row can be written.
        """
        ledger = await self._ledger(record, damage)
        self._claim(ledger, damage, principal)
        if signal is not None and ledger.state.status is not AgentStatus.CANCELLING:
            ledger.change_state(begin_agent_cancellation(running(ledger.state), signal))
        for pending in await self._services.signals.list_pending(record.state.id):
            if pending.kind is AgentSignalKind.CANCEL:
                ledger.consume_signal(pending.id)
        situation = AgentSituation.CANCELLATION_CLEANUP_FAILED
        ledger.change_state(
            ledger.state.moved_to(
                situation, activity=damage_words(damage), metadata={words.DAMAGE: damage.facts}
            )
        )
        by = attribution_of(record)
        finished = RunFinishedEvent(by, cancellation_error(ledger.state))
        return await self._committed(ledger, damage, finished, by)

    async def _ledger(self, record: RunRecord, damage: Damage) -> Ledger:
        """Return a ledger that continues at the stored head, whatever the rows are."""
        state = record.state
        head = await self._services.journal.head(RunKey(state.tenant_id, state.id))
        if head is None:
            raise _unwritable(state, damage, "its journal has no head")
        return self._claims.ledger_at(state, head, PendingEvents(_last_number(record, head)))

    def _claim(self, ledger: Ledger, damage: Damage, principal: Principal) -> None:
        claim: JsonObject = {words.CLAIMED_BY: principal.id, words.DAMAGE: damage.facts}
        ledger.claim(claim, claim)

    async def _committed(
        self, ledger: Ledger, damage: Damage, event: AgentEvent, by: AgentEventAttribution
    ) -> AgentState:
        ledger.log.promise(encode_event(event, by))
        try:
            await ledger.barrier()
        except RunOwnershipLost as lost:
            raise RunConflictError(
                f"run {ledger.state.id!r} was claimed by another process at the same time."
            ) from lost
        except StoreUnavailable as refused:
            if isinstance(refused.__cause__, OSError):
                raise
            raise _unwritable(ledger.state, damage, str(refused)) from refused
        return ledger.state


def damage_words(damage: Damage) -> str:
    """Return what is wrong with a record, for people."""
    found = str(damage).rstrip(".")
    return f"the record of the run is damaged at {found}. Restore it from a backup, then resume the run."


def _unwritable(state: AgentState, damage: Damage, reason: str) -> CallerError:
    return CallerError(
        f"run {state.id!r} can be neither resumed nor interrupted: its record is damaged at {damage}, and {reason}. "
        "Restore its rows and its head from a backup."
    )


def _last_number(record: RunRecord, head: JournalHead) -> int:
    """Return a number that no event of the run has, also none in rows that are missing or cannot be decoded."""
    known = max((item.number for item in logged_events(record.rows)), default=0)
    readable = sum(row.is_plain for row in record.rows)
    return known + _GAP * max(head.seq - readable, 1)

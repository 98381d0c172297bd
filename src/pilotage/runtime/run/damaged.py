"""Runs that are not driven: their record is damaged, or every attempt ends its process or makes no progress.

They are interrupted by a row on the stored head, and resumable once the cause is mended. A run that is being cancelled
cannot wait for a person: it ends as one whose clean-up failed, because what was under way is not known for certain.
"""

from __future__ import annotations

from pilotage.agent.cancellation import begin_agent_cancellation
from pilotage.agent.events import AgentEvent, AgentEventAttribution, RunFinishedEvent, RunPausedEvent
from pilotage.agent.ports.journal import JournalHead
from pilotage.agent.ports.leases import ClaimRecord
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.principal import LOCAL, Principal
from pilotage.agent.signals import AgentSignal, AgentSignalKind
from pilotage.agent.state import AgentSituation, AgentState, AgentStateReason, AgentStatus
from pilotage.errors import CallerError, RunConflictError
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.events.event_log import PendingEvents, logged_events
from pilotage.runtime.events.feed import close
from pilotage.runtime.history import RunRecord, attribution_of
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.chain import Damage
from pilotage.runtime.journal.interruptions import EndRefused, RunOwnershipLost, StoreUnavailable
from pilotage.runtime.journal.ledger import Ledger
from pilotage.runtime.results import cancellation_error
from pilotage.runtime.run.claim import RunClaims
from pilotage.runtime.run.pausing import running
from pilotage.runtime.services import Services

_GAP = 10_000
"""Events of a row that is missing or cannot be decoded have numbers, too: so many are left out for each such row."""


class UndrivenRuns:
    """Writes to runs at their stored head, independent of the rows. The caller holds the lease of the run."""

    def __init__(self, services: Services, claims: RunClaims) -> None:
        self._services = services
        self._claims = claims

    async def _claimed(
        self, state: AgentState, head: JournalHead, last_number: int, claim: JsonObject
    ) -> Ledger:
        """Return a ledger that continues at the stored head, with its claim."""
        ledger = self._claims.ledger_at(state, head, PendingEvents(last_number))
        ledger.claim(claim, claim)
        return ledger

    async def _head(self, state: AgentState, why: str) -> JournalHead:
        head = await self._services.journal.head(RunKey(state.tenant_id, state.id))
        if head is None:
            raise _unwritable(state, why, "its journal has no head")
        return head

    async def _consume_cancellations(self, ledger: Ledger) -> None:
        for pending in await self._services.signals.list_pending(ledger.state.id):
            if pending.kind is AgentSignalKind.CANCEL and pending.end is None:
                ledger.consume_signal(pending.id)

    async def _committed(
        self, ledger: Ledger, event: AgentEvent, by: AgentEventAttribution, why: str
    ) -> AgentState:
        ledger.log.promise(event, by)
        return await self._written(ledger, why)

    async def _end_cancelled(
        self, ledger: Ledger, by: AgentEventAttribution, activity: str, facts: JsonObject, why: str
    ) -> AgentState:
        """End a run that is being cancelled: what was under way in it is unknown. Every signal of it gets its end."""
        await self._consume_cancellations(ledger)
        await self._written(ledger, why)
        situation = AgentSituation.CANCELLATION_CLEANUP_FAILED
        while True:
            last = ledger.newest_signal
            ledger.add_signals(await self._services.signals.list_pending(ledger.run.run_id), last)
            ledger.mark_end()
            closed: JsonObject = {**facts, **ledger.close_signals()}
            ended = ledger.state.moved_to(situation, activity=activity, metadata=closed)
            ledger.change_state(ended)
            try:
                return await self._committed(ledger, RunFinishedEvent(by, cancellation_error(ended)), by, why)
            except EndRefused:
                continue

    async def _written(self, ledger: Ledger, why: str) -> AgentState:
        try:
            await ledger.barrier()
        except RunOwnershipLost as lost:
            raise RunConflictError(
                f"run {ledger.state.id!r} was claimed by another process at the same time."
            ) from lost
        except StoreUnavailable as refused:
            if isinstance(refused.__cause__, OSError):
                raise
            raise _unwritable(ledger.state, why, str(refused)) from refused
        return ledger.state


class DamagedRuns(UndrivenRuns):
    """Interrupts or ends runs whose record is damaged."""

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
        ledger = await self._ledger(record, damage, principal)
        now = self._services.clock.now()
        facts: JsonObject = {words.DAMAGE: damage.facts, words.PAUSED_AT: now.isoformat()}
        ledger.change_state(
            running(state).moved_to(AgentSituation.RECOVERY_REQUIRED, activity=sentence, metadata=facts)
        )
        by = attribution_of(record)
        paused = RunPausedEvent(by, reason, sentence, state.id, metadata={words.DAMAGE: damage.facts})
        return await self._committed(ledger, paused, by, _at(damage))

    async def end(
        self, record: RunRecord, damage: Damage, signal: AgentSignal | None, principal: Principal
    ) -> AgentState:
        """End a run that is being cancelled or has the signal to be; what was under way in it is unknown.

        Raises:
            RunConflictError: another process wrote to the run at the same time.
            CallerError: the damage is such that no row can be written.
        """
        ledger = await self._ledger(record, damage, principal)
        if signal is not None and ledger.state.status is not AgentStatus.CANCELLING:
            ledger.change_state(begin_agent_cancellation(running(ledger.state), signal))
        facts: JsonObject = {words.DAMAGE: damage.facts}
        return await self._end_cancelled(
            ledger, attribution_of(record), damage_words(damage), facts, _at(damage)
        )

    async def _ledger(self, record: RunRecord, damage: Damage, principal: Principal) -> Ledger:
        head = await self._head(record.state, _at(damage))
        claim: JsonObject = {words.CLAIMED_BY: principal.id, words.DAMAGE: damage.facts}
        return await self._claimed(record.state, head, _last_number(record, head), claim)


class PoisonedRuns(UndrivenRuns):
    """Quarantines runs whose claims end without progress. Their rows are not read: reading may end the process."""

    async def interrupt(
        self, state: AgentState, claims: ClaimRecord, signal: AgentSignal | None = None
    ) -> AgentState:
        """Interrupt a run until a person resumes it, and return its state.

        A run that is being cancelled ends. So does one with the `signal` to be: a child whose parent has ended.

        Raises:
            RunConflictError: another process wrote to the run at the same time.
            CallerError: no row can be written.
        """
        head = await self._head(state, _POISONED)
        poison = _poison_facts(claims)
        claim: JsonObject = {words.CLAIMED_BY: LOCAL.id, words.POISON: poison}
        ledger = await self._claimed(state, head, _GAP * head.seq, claim)
        by, sentence = await self._attribution(state), poison_words(claims)
        if signal is not None and state.status is not AgentStatus.CANCELLING:
            ledger.change_state(begin_agent_cancellation(running(state), signal))
        if ledger.state.status is AgentStatus.CANCELLING:
            return await self._end_cancelled(ledger, by, sentence, {words.POISON: poison}, _POISONED)
        facts: JsonObject = {
            words.POISON: poison,
            words.PAUSED_AT: self._services.clock.now().isoformat(),
        }
        ledger.change_state(
            running(state).moved_to(AgentSituation.POISONED, activity=sentence, metadata=facts)
        )
        paused = RunPausedEvent(
            by, AgentStateReason.POISONED, sentence, state.id, metadata={words.POISON: poison}
        )
        return await self._committed(ledger, paused, by, _POISONED)

    async def _attribution(self, state: AgentState) -> AgentEventAttribution:
        """Return the attribution of the run's events, by its first row alone."""
        run = RunKey(state.tenant_id, state.id)
        rows = self._services.journal.read(run)
        try:
            first = [await anext(rows)]
        except StopAsyncIteration:
            first = []
        finally:
            await close(rows)
        return attribution_of(RunRecord(state, self._services.seals(run).opened_rows(first)))


_POISONED = "its claims end without progress"


def poison_words(claims: ClaimRecord) -> str:
    """Return the reason why a run is quarantined, as text."""
    known = (claims.problem or "").partition("\n")[0].rstrip(".")
    last = f"The last error: {known}." if known else "No error is known: its process ended each time."
    return (
        f"{claims.count} claims of the run ended without progress, so it is not driven any more. {last} "
        "Mend the cause, then resume the run."
    )


def _poison_facts(claims: ClaimRecord) -> JsonObject:
    return {
        words.CLAIMS: claims.count,
        words.LAST_CLAIM: None if claims.last_claim is None else claims.last_claim.isoformat(),
        words.PROBLEM: claims.problem,
    }


def _at(damage: Damage) -> str:
    return f"its record is damaged at {damage}"


def damage_words(damage: Damage) -> str:
    """Return the damage of a record, as text."""
    found = str(damage).rstrip(".")
    return f"the record of the run is damaged at {found}. Restore it from a backup, then resume the run."


def _unwritable(state: AgentState, why: str, reason: str) -> CallerError:
    return CallerError(
        f"run {state.id!r} can be neither resumed nor interrupted: {why}, and {reason}. "
        "Restore its rows and its head from a backup."
    )


def _last_number(record: RunRecord, head: JournalHead) -> int:
    """Return a number that no event of the run has, also none in rows that are missing or cannot be decoded."""
    known = max((item.number for item in logged_events(record.rows, record.state.id)), default=0)
    readable = sum(row.is_plain for row in record.rows)
    return known + _GAP * max(head.seq - readable, 1)

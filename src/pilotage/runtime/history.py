"""The history of runs: rows sorted for replay, reads of states, rows, results and evidence, and `verify`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from operator import attrgetter

from pilotage.agent.events import AgentEventAttribution
from pilotage.agent.evidence import AgentEvidence
from pilotage.agent.media_places import digests_in
from pilotage.agent.ports.journal import JournalHead
from pilotage.agent.ports.persistence import JournalRow, JournalStage, RunKey
from pilotage.agent.ports.sealing import RecordSealError
from pilotage.agent.principal import Principal
from pilotage.agent.run_values import RunResult
from pilotage.agent.safety_checks import WAY_OUT
from pilotage.agent.signals import AgentSignalEnd
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.errors import CallerError, DamagedEntryError, RunNotFoundError
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.context.evidence import is_prompt, prompt_in
from pilotage.runtime.events.event_log import LoggedEvent, LogRows, is_erased, refuse_erased
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.chain import NO_HEAD, Damage, damage_in
from pilotage.runtime.journal.record_check import (
    approval_mismatch,
    erased_by_hand,
    signal_mismatch,
    state_mismatch,
)
from pilotage.runtime.journal.record_fields import DamagedRecordError
from pilotage.runtime.journal.resolution import resolution_mismatch
from pilotage.runtime.journal.seals import unopened
from pilotage.runtime.journal.start_record import decode_start
from pilotage.runtime.journal.stretches import Stretches, fold_mismatch
from pilotage.runtime.people.answers import refused_evidence
from pilotage.runtime.results import as_shown, evidence_in, result_in, typed_output
from pilotage.runtime.services import Services
from pilotage.values import value

_EVENTS, _CLAIMED = JournalStage.TOLD, JournalStage.CLAIMED
_is_plain: Callable[[JournalRow], bool] = attrgetter("is_plain")


@value
class RunHistory:
    """The rows of a run, sorted by their stage.

    `claims` are the CLAIMED rows, `actions` the rows of actions, without those inside of `stretches`. `events` are the
    recorded events: replay removes each one as the program emits it again. Those of stretches are not emitted again.
    """

    first: JournalRow
    last: JournalRow
    claims: Sequence[JournalRow]
    actions: Sequence[JournalRow]
    events: deque[LoggedEvent]
    stretches: Stretches

    @classmethod
    def of(cls, rows: Sequence[JournalRow], run_id: str) -> RunHistory:
        """Return the history of a run from all of its rows; there is at least the first one.

        Raises:
            DamagedRecordError: a row does not hold the events that its stage says.
        """
        stretches = Stretches(rows)
        claims = [row for row in rows if row.stage is _CLAIMED]
        actions = [row for row in rows if row.stage is not _CLAIMED and row.stage is not _EVENTS]
        if stretches:
            actions = stretches.rest_of(actions)
        events = _events_in(rows, run_id, stretches)
        return cls(rows[0], rows[-1], claims, actions, events=events, stretches=stretches)

    @property
    def last_number(self) -> int:
        """The number of the last recorded event, 0 where there is none."""
        return self.events[-1].number if self.events else 0


def _events_in(rows: Sequence[JournalRow], run_id: str, stretches: Stretches) -> deque[LoggedEvent]:
    """Return the events of the log, the last one included, without those that only folded turns emitted.

    Raises:
        DamagedRecordError: a row does not hold the events that its stage says.
    """
    events, log = deque[LoggedEvent](), LogRows(run_id)
    folded = {row.seq for row in stretches.silent(rows)}
    read = 0
    for place, row in enumerate(rows):
        if not (row.events or row.stage is _EVENTS) or row.seq in folded:
            continue
        log.pass_over(rows[read:place])
        read = place + 1
        emitted = stretches.emitted_at(row.seq)
        try:
            events.extend(
                each for each in log.events_in(row) if each.is_warning or each.number not in emitted
            )
        except (LookupError, TypeError, ValueError) as error:
            raise DamagedRecordError(
                words.VIEW, "a list of events", seq=row.seq, action_id=row.action_id
            ) from error
    return events


@value
class RunRecord:
    """State and rows of a run as they were read to resume it, and the first damage; None for a whole record."""

    state: AgentState
    rows: Sequence[JournalRow]
    damage: Damage | None = None


def attribution_of(record: RunRecord) -> AgentEventAttribution:
    """Return the attribution of a run's events, from its state where its first row cannot be decoded."""
    state, rows = record.state, record.rows
    if rows and rows[0].seq == 1:
        with suppress(DamagedRecordError):
            return decode_start(rows[0]).attribution(state.id)
    parent = state.metadata.get(words.PARENT)
    return AgentEventAttribution(state.agent_type, state.id, state.id, str(parent) if parent else None)


class RunReader:
    """Reads states, rows, results and evidence of runs within a tenant."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def find(self, run_id: str, tenant: str) -> AgentState | None:
        """Return the state of a tenant's run; None where there is no such run."""
        state = await self._services.states.get_or_none(run_id)
        return state if state is not None and state.tenant_id == tenant else None

    async def tenant_of(self, run_id: str) -> str:
        """Return the tenant of a run, for the application itself.

        Raises:
            RunNotFoundError: there is no such run.
        """
        return (await self.state(run_id, None)).tenant_id

    async def state(self, run_id: str, principal: Principal | None) -> AgentState:
        """Return the state of a run; without a principal, of any tenant.

        Raises:
            RunNotFoundError: there is no such run in the principal's tenant.
        """
        state = await self._services.states.get_or_none(run_id)
        if state is None or (principal is not None and state.tenant_id != principal.tenant):
            raise RunNotFoundError(f"there is no run {run_id!r}.")
        return state

    async def rows(self, run: RunKey) -> list[JournalRow]:
        """Return the rows of a run with their records open; a record that was changed is an `UnreadableRecord`.

        Raises:
            RecordSealError: the application does not have the key of one of them.
            RunErasedError: their payloads were erased.
        """
        return self._opened(run, await self.stored_rows(run))

    def _opened(self, run: RunKey, stored: list[JournalRow]) -> list[JournalRow]:
        if all(map(_is_plain, stored)):
            return stored
        refuse_erased(run, stored)
        return self._services.seals(run).opened_rows(stored)

    async def stored_rows(self, run: RunKey) -> list[JournalRow]:
        """Return the rows of a run as they are stored."""
        return [row async for row in self._services.journal.read(run)]

    async def checked(self, run_id: str, principal: Principal | None) -> RunRecord:
        """Return the state and the rows of a run, checked as they are read; without a principal, of any tenant.

        The state is not older than the rows, so a run that ends meanwhile is seen as ended.

        Raises:
            RunNotFoundError: there is no such run in the principal's tenant.
            CallerError: it has no journal.
            RecordSealError: the application does not have the key of a record.
            RunErasedError: its payloads were erased.
        """
        state, stored, head = await self._stored(run_id, principal)
        run = RunKey(state.tenant_id, run_id)
        if not stored and not head.seq:
            raise CallerError(
                f"run {run_id!r} has no journal: it was not started here, and cannot be resumed."
            )
        damage = self._damage(state, stored, head)
        rows = self._opened(run, stored)
        if damage is None and rows is not stored:
            damage = unopened(rows)
        return RunRecord(state, rows, damage)

    async def _stored(
        self, run_id: str, principal: Principal | None
    ) -> tuple[AgentState, list[JournalRow], JournalHead]:
        """Return state, stored rows and head of a run; the state is not older than the rows.

        Raises:
            RunNotFoundError: there is no such run in the principal's tenant.
        """
        found = await self._services.states.get_with_head(run_id)
        if found is None or (principal is not None and found[0].tenant_id != principal.tenant):
            raise RunNotFoundError(f"there is no run {run_id!r}.")
        state, head = found
        run = RunKey(state.tenant_id, run_id)
        if head is None:
            # The store does not know: while the head stays the same, so does the state.
            head = await self._services.journal.head(run) or NO_HEAD
            state = await self.state(run_id, principal)
        stored = await self.stored_rows(run)
        if not stored or (stored[-1].seq, stored[-1].digest) != (head.seq, head.digest):
            before, head = head, await self._services.journal.head(run) or NO_HEAD
            if head.seq != before.seq:
                # The owner committed between the reads: the rows may end anywhere between the two heads.
                state = await self.state(run_id, principal)
                if stored and before.seq <= stored[-1].seq <= head.seq:
                    head = JournalHead(stored[-1].seq, stored[-1].epoch, stored[-1].digest)
        return state, stored, head

    def _damage(self, state: AgentState, stored: Sequence[JournalRow], head: JournalHead) -> Damage | None:
        """Return the first damage of stored rows; None where they are whole.

        Raises:
            RecordSealError: the application does not have the key of the rows.
        """
        chain = self._services.chain(RunKey(state.tenant_id, state.id), state.agent_type)
        damage = damage_in(stored, head, chain)
        # Rows that fit were written with a key that is there.
        if damage is not None and chain.lacks_key_of(stored):
            raise RecordSealError(
                f"the rows of run {state.id!r} were written with a key, which this application does not have. {WAY_OUT}"
            )
        return damage

    async def result(self, state: AgentState) -> RunResult:
        """Return the result of a run as it is now, its output as JSON; `state` is the one that was read before."""
        rows = await self.rows(RunKey(state.tenant_id, state.id))
        now = await self.find(state.id, state.tenant_id)
        return result_in(now or state, rows)

    async def shown_result(self, state: AgentState) -> RunResult:
        """Return the result of a run as its readers get it: redacted, sensitive parts hidden, its output as JSON."""
        rows = await self.stored_rows(RunKey(state.tenant_id, state.id))
        refuse_erased(RunKey(state.tenant_id, state.id), rows)
        now = await self.find(state.id, state.tenant_id)
        return result_in(now or state, [as_shown(row) for row in rows])

    async def typed_result(self, state: AgentState) -> RunResult:
        """Return the result of a run as it is now, the output of a completed run in the type its agent declares."""
        result = await self.result(state)
        if result.status != AgentStatus.COMPLETED or state.agent_type not in self._services.agent_ids:
            return result
        definition = self._services.definition_of(state.agent_type)
        return replace(result, output=typed_output(definition, result.output))

    async def evidence(self, state: AgentState) -> tuple[AgentEvidence, ...]:
        """Return the evidence of a run: its actions, then stored evidence."""
        rows = await self.stored_rows(RunKey(state.tenant_id, state.id))
        repository = self._services.evidence
        stored = await repository.list_by_state(state.id) if repository is not None else ()
        return (*evidence_in(state.id, rows), *stored, *await self._refused_answers(state))

    async def _refused_answers(self, state: AgentState) -> list[AgentEvidence]:
        """Return the evidence of refused answers; without the key of the application only what they decided."""
        run = RunKey(state.tenant_id, state.id)
        answers = await self._services.signals.list_answers(run.run_id)
        refused = [each for each in answers if each.end is AgentSignalEnd.REFUSED]
        with suppress(RecordSealError):  # what is not sealed of them can be read all the same
            refused = [self._services.signal_seals(run).opened(each) for each in refused]
        return [refused_evidence(each) for each in refused]

    async def prompts(self, state: AgentState, *, sealed: bool) -> tuple[JsonObject, ...]:
        """Return the prompt snapshots of a run in order, where its agent stores them; with `sealed`, opened.

        Raises:
            RecordSealError: one of them does not open here.
        """
        repository, run = self._services.evidence, RunKey(state.tenant_id, state.id)
        stored = await repository.list_by_state(state.id) if repository is not None else ()
        sealer = self._services.sealer if sealed else None
        return tuple(prompt_in(each, run, sealer) for each in stored if is_prompt(each))

    async def verify(self, run_id: str, principal: Principal | None) -> int:
        """Check a run against its chain, its head, its state and its signals, and return the number of its rows.

        Of a run with erased payloads the chain, the head and the entries beside the rows can be checked.

        Raises:
            RunNotFoundError: there is no such run in the principal's tenant.
            RecordSealError: the application does not have the key of its rows.
            DamagedEntryError: a row, or an entry besides, is not as it was written; the message names the first.
            CallerError: the rows contradict the state or the signals.
        """
        state, rows, head = await self._stored(run_id, principal)
        run = RunKey(state.tenant_id, run_id)
        damage = self._damage(state, rows, head) or erased_by_hand(state, rows)
        if damage is not None:
            raise DamagedEntryError(f"run {run_id!r}: {damage}.")
        journal = self._services.journal
        # The entries of a run that is driven meanwhile are not read at one moment.
        if await journal.damage(run) is not None and (found := await journal.damage(run)) is not None:
            raise DamagedEntryError(f"run {run_id!r}: {found}.")
        if any(is_erased(row) for row in rows):
            return len(rows)
        changed = self._unopened(run, rows) or await self._changed_media(run, rows)
        if changed is not None:
            raise DamagedEntryError(f"run {run_id!r}: {changed}.")
        mismatch = await self._mismatch(state, rows)
        # A run that is driven meanwhile may have changed between the two reads.
        if mismatch is not None and await self.state(run_id, principal) == state:
            raise CallerError(f"run {run_id!r}: {mismatch}.")
        return len(rows)

    async def _changed_media(self, run: RunKey, rows: list[JournalRow]) -> str | None:
        """Return which of the media in the rows of a run are missing or were changed."""
        with suppress(RecordSealError):
            found = [digests_in(row.record) for row in self._opened(run, rows)]
            return await self._services.media.damage(run, frozenset[str]().union(*found))
        return None

    def _unopened(self, run: RunKey, rows: list[JournalRow]) -> str | None:
        """Return which record does not open, or which action did not begin as it was approved; None for none.

        Without the key of a record this is not known.
        """
        with suppress(RecordSealError):
            opened = self._opened(run, rows)
            if opened is not rows and (damage := unopened(opened)) is not None:
                return str(damage)
            return approval_mismatch(opened) or fold_mismatch(opened)
        return None

    async def _mismatch(self, state: AgentState, rows: Sequence[JournalRow]) -> str | None:
        """Return how state, rows and signals of a run contradict each other; None where they do not."""
        return (
            state_mismatch(state, rows)
            or resolution_mismatch(rows)
            or signal_mismatch(rows, await self._services.signals.list_pending(state.id))
        )

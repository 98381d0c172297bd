"""Starting child runs, finding them again, cancelling them with their parents."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.delegation import DelegationContextSlice
from pilotage.agent.ports.architecture import AgentRef
from pilotage.agent.ports.persistence import JournalRow, RunKey
from pilotage.agent.ports.sealing import RecordSealError
from pilotage.agent.principal import Principal
from pilotage.agent.run_values import RunResult
from pilotage.agent.safety_checks import hidden_input, input_fields
from pilotage.agent.signals import AgentSignal, AgentSignalKind
from pilotage.agent.state import AgentState
from pilotage.errors import AgentDefinitionError, AgentToolDispatchError, CallerError, RunConflictError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.budget.limits import deadline_at, earliest
from pilotage.runtime.budget.spending import Spending, child_limits, count_rows
from pilotage.runtime.children.tasks import (
    DIGEST,
    ChildEnded,
    ChildTask,
    child_id,
    context_of,
    described,
    digest_of,
    recorded_packet,
    referred_to,
)
from pilotage.runtime.door.run import LiveRun, Run
from pilotage.runtime.effect import NOTHING
from pilotage.runtime.events.event_log import logged_events
from pilotage.runtime.events.forwarding import Relay
from pilotage.runtime.exposure.redactor import Redactor, log_failure, secretless
from pilotage.runtime.history import RunReader, RunRecord
from pilotage.runtime.journal.interruptions import RecordDamaged, SealMissing, StoreUnavailable, damage_of
from pilotage.runtime.journal.record_fields import DamagedRecordError
from pilotage.runtime.journal.run_input import encode_input
from pilotage.runtime.journal.scope import Action
from pilotage.runtime.journal.start_record import RULES, RunStart, decode_start, definition_digest
from pilotage.runtime.results import label_at_end, result_in
from pilotage.runtime.services import Services
from pilotage.safety.guard import guard_json_value

_RETRY_SECONDS = 1.0


class RunStarter(ABC):
    """Starts runs and resumes them, as tasks of this process.

    The supervisor implements it. It is an interface because runs start runs: the supervisor composes attempts, and
    their children need the supervisor.
    """

    @abstractmethod
    async def begin(
        self, definition: AgentDefinition, start: RunStart, run: RunKey, parent: Run | None = None
    ) -> LiveRun:
        """Start a run."""

    @abstractmethod
    async def revive(
        self,
        record: RunRecord,
        principal: Principal,
        parent: Run | None = None,
    ) -> LiveRun | AgentState:
        """Resume a run; one with a damaged record is interrupted, and its state returned.

        Raises:
            CallerError: the damage is such that it cannot be interrupted either.
        """

    @abstractmethod
    async def end(self, state: AgentState, signal: AgentSignal, principal: Principal) -> None:
        """Cancel a run that is not live in this process."""


class ChildLauncher:
    """The child runs of all runs of this process."""

    def __init__(self, services: Services, reader: RunReader, starter: RunStarter) -> None:
        self._services = services
        self._reader = reader
        self._starter = starter

    def name_of(self, agent: AgentRef) -> str:
        """Return the id of an agent of the application.

        Raises:
            AgentDefinitionError: it is none.
        """
        return self._services.definition_of(agent).agent_id

    def hides(self, agent: AgentRef) -> bool:
        """Return whether the view of a task for an agent leaves out anything of it."""
        return bool(hidden_input(self._services.definition_of(agent)))

    def shown(self, agent: AgentRef, task: JsonValue) -> JsonValue:
        """Return the view of a task for an agent."""
        definition = self._services.definition_of(agent)
        try:
            return guard_json_value(encode_input(definition, task), input_fields(definition))
        except AgentDefinitionError:
            # Where it does not fit it is unknown which part of it is sensitive.
            return None

    def fitting(self, agent: AgentRef, task: JsonObject, along: JsonObject) -> JsonObject:
        """Return the task with the additional fields that the agent accepts."""
        definition = self._services.definition_of(agent)
        taken = definition.execution.parameters if definition.execution else along
        return {**task, **{name: each for name, each in along.items() if name in taken}}

    async def attach(
        self, parent: Run, child: str, task: ChildTask, relays: dict[str, Relay]
    ) -> LiveRun | ChildEnded:
        """Return the child of this id, under way or ended; it is started where there is none.

        Raises:
            AgentDefinitionError: the task does not fit the agent; nothing was started.
            AgentToolDispatchError: the id stands for a child with another task.
            SealMissing: a record of the child cannot be sealed or opened.
            StoreUnavailable: what has become of the child cannot be read.
        """
        # Only these errors are the program's: it asks for an agent or a task that there is not.
        definition = self._services.definition_of(task.agent)
        encode_input(definition, task.task)
        while True:
            try:
                return await self._attached(parent, child, task, relays)
            except RunConflictError:
                # Another process drives it: it ends or pauses there, or the lease of that process expires.
                await self._services.clock.sleep(_RETRY_SECONDS)
            except AgentToolDispatchError:
                raise
            except RecordSealError as error:
                raise SealMissing(f"child {child!r}: {error}") from error
            except Exception as error:
                # The child may be under way all the same; that is not for the program to decide upon.
                raise StoreUnavailable(f"child {child!r} cannot be reached: {error}") from error

    async def cancel_child(self, parent: RunKey, action: Action, principal: Principal) -> None:
        """Cancel the child run of an open delegation, if there is one and it has not ended."""
        child = child_id(parent.run_id, action.id)
        state = await self._reader.find(child, parent.tenant_id)
        while state is not None and not state.is_terminal:
            try:
                await self._starter.end(state, cancellation_of(child), principal)
            except RunConflictError:
                # Another process drives it and gets the signal, unless it ends there by itself.
                with suppress(CallerError):
                    await self._services.signals.append(cancellation_of(child))
                await self._services.clock.sleep(_RETRY_SECONDS)
            state = await self._reader.find(child, parent.tenant_id)

    async def _attached(
        self, parent: Run, child: str, task: ChildTask, relays: dict[str, Relay]
    ) -> LiveRun | ChildEnded:
        definition = self._services.definition_of(task.agent)
        run = RunKey(parent.ledger.run.tenant_id, child)
        state = await self._reader.find(child, run.tenant_id) if parent.ledger.is_durable else None
        if state is None:
            start = await self._sliced_start(definition, parent, task)
            return await self._starter.begin(definition, start, run, parent)
        record = await self._reader.checked(child, Principal(parent.source.start.principal.id, run.tenant_id))
        if record.damage is None:
            try:
                _check_same(record.rows, definition, task, parent.redactor)
                relays[child] = await self._caught_up(parent, child, record.rows)
                if record.state.is_terminal:
                    return self._ended(record.state, record.rows)
            except DamagedRecordError as error:
                record = replace(record, damage=damage_of(error))
        return await self._revived(record, parent)

    async def _revived(self, record: RunRecord, parent: Run) -> LiveRun | ChildEnded:
        """Return a child that was resumed, or one that its damaged record interrupts.

        Raises:
            RecordDamaged: the record of the child is damaged, and the child has ended or cannot be interrupted.
        """
        state, damage = record.state, record.damage
        if damage is not None and state.is_terminal:
            raise RecordDamaged(damage, state.id)
        try:
            live = await self._starter.revive(record, parent.source.start.principal, parent)
        except RunConflictError:
            raise
        except CallerError as error:
            if damage is None:
                raise
            raise RecordDamaged(damage, state.id) from error
        return live if isinstance(live, LiveRun) else ChildEnded(RunResult(live), NOTHING)

    async def _caught_up(self, parent: Run, child: str, rows: Sequence[JournalRow]) -> Relay:
        """Return the relay of a child, after it forwarded the logged events that the parent has not emitted."""
        by = decode_start(rows[0]).attribution(child)
        own = await self._reader.stored_rows(parent.ledger.run)
        relay = Relay(parent.events, logged_events(own, parent.id), child)
        for item in logged_events(rows, child):
            relay.catch_up(item.event(by))
        return relay

    def _ended(self, state: AgentState, rows: Sequence[JournalRow]) -> ChildEnded:
        spending = Spending(pricing=self._services.pricing)
        count_rows(rows, spending)
        return ChildEnded(result_in(state, rows), spending.spent, label_at_end(rows))

    async def _sliced_start(self, definition: AgentDefinition, parent: Run, task: ChildTask) -> RunStart:
        """Return the start record of a child; one that comes in a packet gets the slice of its parent's context."""
        start, packet = self._start(definition, parent, task), task.packet
        if packet is None:
            return start
        stage = parent.context_stage
        try:
            context = await stage.handler.slice_for_child(packet, stage.packs)
        except Exception as error:  # noqa: BLE001 - a handler that fails counts as its strictest answer
            log_failure(error, parent.redactor, run_id=parent.id, place=f"slice for packet {packet.id!r}")
            context = DelegationContextSlice()
        sent = replace(packet, context=context)
        about = {**described(sent), **referred_to(sent)}
        taken = definition.execution.parameters if definition.execution else described(sent)
        given = {**packet.task, **{name: each for name, each in about.items() if name in taken}}
        shown = {name: each for name, each in about.items() if name not in taken}
        return replace(
            start,
            input=secretless(encode_input(definition, given), parent.redactor),
            delegation=secretless(recorded_packet(packet, sent), parent.redactor),
            given=secretless(context_of(packet, shown, parent.trust), parent.redactor),
        )

    def _start(self, definition: AgentDefinition, parent: Run, task: ChildTask) -> RunStart:
        """Return the start record of a child: its limits and tools are within those of its parent."""
        bounds, start = task.bounds, parent.source.start
        own = deadline_at(self._services.clock.now(), definition.spec, bounds.budget)
        return RunStart(
            definition.agent_id,
            secretless(encode_input(definition, task.task), parent.redactor),
            start.principal,
            parent=parent.id,
            generation=start.generation + 1,
            deadline=earliest(own, parent.source.deadline, bounds.budget.deadline_at),
            limits=child_limits(definition.spec.limits, bounds.budget),
            capabilities=bounds.within(start.capabilities),
            definition=definition_digest(definition),
            trust=parent.trust.to_payload(),
            metadata=start.metadata,
            session=start.context(parent.id).session_id,
            branch=task.branch,
            exits=task.exits,
            rules=RULES,
            salt_key=self._services.salt_key if parent.ledger.is_durable else "",
        )


def cancellation_of(child: str) -> AgentSignal:
    """Return the cancellation signal of a parent for its child run."""
    payload: JsonObject = {"reason": "the run it belongs to has ended"}
    return AgentSignal(f"parent-of-{child}", child, AgentSignalKind.CANCEL, payload)


def _check_same(
    rows: Sequence[JournalRow], definition: AgentDefinition, task: ChildTask, redactor: Redactor
) -> None:
    """Check that a packet which was delegated before has the same content.

    Raises:
        AgentToolDispatchError: it is for another agent, or has another task.
    """
    begun, packet = decode_start(rows[0]), task.packet
    if packet is None:
        return
    if begun.packet is not None:
        is_same = begun.packet.metadata.get(DIGEST) == digest_of(packet)
    else:
        # A child of an earlier release, which recorded only the input.
        is_same = begun.input == secretless(encode_input(definition, task.task), redactor)
    if begun.agent != definition.agent_id or not is_same:
        raise AgentToolDispatchError(
            f"packet {packet.id!r} was delegated to {begun.agent!r} before, with another task. "
            "Give every packet an id of its own."
        )

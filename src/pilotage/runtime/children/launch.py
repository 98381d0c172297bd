"""Starting the children of runs, finding them again, ending them with their parents."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.events import AgentEventAttribution
from pilotage.agent.ports.architecture import AgentRef
from pilotage.agent.ports.journal import JournalRow, RunKey
from pilotage.agent.principal import Principal
from pilotage.agent.sealing_check import input_fields
from pilotage.agent.signals import AgentSignal
from pilotage.agent.state import AgentState
from pilotage.errors import AgentDefinitionError, AgentToolDispatchError, RunConflictError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.budget.deadlines import deadline_at, earliest
from pilotage.runtime.budget.spending import Spending, child_limits, count_rows
from pilotage.runtime.children.children import (
    ChildEnded,
    Children,
    ChildTask,
    IChildLauncher,
    cancellation_of,
    child_id,
)
from pilotage.runtime.door.run import Effects
from pilotage.runtime.events.event_log import logged_events
from pilotage.runtime.events.forwarding import Relay
from pilotage.runtime.history import RunReader, label_at_end, result_in
from pilotage.runtime.journal.action import Action
from pilotage.runtime.journal.interruptions import StoreUnavailable
from pilotage.runtime.journal.start_record import RunStart, decode_start, definition_digest, encode_input
from pilotage.runtime.run.attempt import LiveRun
from pilotage.runtime.services import Services
from pilotage.safety.guard import guard_json_value

_LOOK_AGAIN_SECONDS = 1.0


class IRunStarter(ABC):
    """Starts runs and brings them back, as tasks of this process."""

    @abstractmethod
    async def begin(
        self, definition: AgentDefinition, start: RunStart, run: RunKey, parent: Effects | None = None
    ) -> LiveRun:
        """Start a run."""

    @abstractmethod
    async def revive(
        self,
        state: AgentState,
        rows: Sequence[JournalRow],
        principal: Principal,
        parent: Effects | None = None,
    ) -> LiveRun:
        """Bring a run back."""

    @abstractmethod
    async def end(self, state: AgentState, signal: AgentSignal, principal: Principal) -> None:
        """Cancel a run that is not live here."""


class ChildLauncher(IChildLauncher):
    """The children of all runs of this process."""

    def __init__(self, services: Services, records: RunReader, starter: IRunStarter) -> None:
        self._services = services
        self._records = records
        self._starter = starter

    def name_of(self, agent: AgentRef) -> str:
        return self._services.definition_of(agent).agent_id

    def shown(self, agent: AgentRef, task: JsonValue) -> JsonValue:
        definition = self._services.definition_of(agent)
        try:
            return guard_json_value(encode_input(definition, task), input_fields(definition))
        except AgentDefinitionError:
            # Where it does not fit nobody knows which part of it is sensitive.
            return None

    def fitting(self, agent: AgentRef, task: JsonObject, along: JsonObject) -> JsonObject:
        definition = self._services.definition_of(agent)
        taken = definition.execution.parameters if definition.execution else along
        return {**task, **{name: each for name, each in along.items() if name in taken}}

    async def attach(self, parent: Children, child: str, errand: ChildTask) -> LiveRun | ChildEnded:
        while True:
            try:
                return await self._attached(parent, child, errand)
            except RunConflictError:
                # Another process drives it: it comes to its end or its pause there, or that process goes silent.
                await self._services.clock.sleep(_LOOK_AGAIN_SECONDS)
            except (AgentDefinitionError, AgentToolDispatchError):
                raise
            except Exception as error:
                # The child may be under way all the same; that is not for the program to decide upon.
                raise StoreUnavailable(f"child {child!r} cannot be reached: {error}") from error

    async def cancel_child(self, parent: RunKey, action: Action, principal: Principal) -> None:
        """End the run that an open delegation stands for, if there is one and it has not ended."""
        child = child_id(parent.run_id, action.id)
        state = await self._records.find(child, parent.tenant_id)
        while state is not None and not state.is_terminal:
            try:
                await self._starter.end(state, cancellation_of(child), principal)
            except RunConflictError:
                # Another process drives it, and hears of the end there.
                await self._services.signals.append(cancellation_of(child))
                await self._services.clock.sleep(_LOOK_AGAIN_SECONDS)
            state = await self._records.find(child, parent.tenant_id)

    async def _attached(self, parent: Children, child: str, errand: ChildTask) -> LiveRun | ChildEnded:
        effects, definition = parent.effects, self._services.definition_of(errand.agent)
        run = RunKey(effects.ledger.run.tenant_id, child)
        state = await self._records.find(child, run.tenant_id) if effects.ledger.is_kept else None
        if state is None:
            return await self._starter.begin(
                definition, self._start(definition, parent, errand), run, effects
            )
        rows = await self._records.rows(run)
        if errand.packet is not None:
            _check_same(rows, definition, errand)
        await self._catch_up(parent, child, rows)
        if state.is_terminal:
            return self._ended(state, rows)
        return await self._starter.revive(state, rows, parent.start.principal, effects)

    async def _catch_up(self, parent: Children, child: str, rows: Sequence[JournalRow]) -> None:
        """Let the parent tell what the child had told when a process died, as far as it has not."""
        effects, start = parent.effects, decode_start(rows[0])
        told = logged_events(await self._records.stored_rows(effects.ledger.run))
        relay = parent.relays[child] = Relay(effects.telling, told, child)
        by = AgentEventAttribution(
            start.agent, child, start.conversation or child, start.parent, start.branch
        )
        for item in logged_events(rows):
            relay.catch_up(item.event(by))

    def _ended(self, state: AgentState, rows: Sequence[JournalRow]) -> ChildEnded:
        spending = Spending(pricing=self._services.pricing)
        count_rows(rows, spending)
        return ChildEnded(result_in(state, rows), spending.spent, label_at_end(rows))

    def _start(self, definition: AgentDefinition, parent: Children, errand: ChildTask) -> RunStart:
        """What a child starts with: never more than its parent has."""
        bounds, start = errand.bounds, parent.start
        own = deadline_at(self._services.clock.now(), definition.spec, bounds.budget)
        return RunStart(
            definition.agent_id,
            encode_input(definition, errand.task),
            start.principal,
            parent=parent.effects.ledger.run.run_id,
            generation=start.generation + 1,
            deadline=earliest(own, parent.effects.deadline, bounds.budget.deadline_at),
            limits=child_limits(definition.spec.limits, bounds.budget),
            capabilities=bounds.within(start.capabilities),
            definition=definition_digest(definition),
            trust=parent.effects.trust.to_payload(),
            metadata=start.metadata,
            session=start.context(parent.effects.ledger.run.run_id).session_id,
            branch=errand.branch,
            exits=errand.exits,
        )


def _check_same(rows: Sequence[JournalRow], definition: AgentDefinition, errand: ChildTask) -> None:
    """A packet that was delegated before must say the same.

    Raises:
        AgentToolDispatchError: it asks another agent, or for something else.
    """
    begun = decode_start(rows[0])
    if (begun.agent, begun.input) != (definition.agent_id, encode_input(definition, errand.task)):
        raise AgentToolDispatchError(
            f"packet {errand.packet!r} was delegated to {begun.agent!r} before, with another task. "
            "Give every packet an id of its own."
        )

"""Runs that are opened by calling an agent: `execute()` of an instance that the container made.

A durable agent has durable runs. Other agents have ephemeral runs: closing the stream cancels the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol, TypeAlias, cast

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.events import AgentEvent
from pilotage.agent.media_places import mentions_media
from pilotage.agent.ports.model import IAgentModel
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.principal import Principal
from pilotage.agent.run_values import RunAgentInput, RunResult
from pilotage.agent.state import AgentState
from pilotage.errors import CallerError, RunConflictError, start_error
from pilotage.filling import unchecked
from pilotage.runtime.door.run_source import NO_OVERRIDES, Overrides
from pilotage.runtime.events.subscription import Subscription
from pilotage.runtime.events.writer import DirectEventWriter
from pilotage.runtime.run.blueprint import problems_with
from pilotage.runtime.run.handles import RunHandle
from pilotage.runtime.run.resume import RunResumer
from pilotage.runtime.run.start import RunStarts, run_id_of
from pilotage.runtime.run.start_media import take_in_start
from pilotage.runtime.run.supervise import RunSupervisor
from pilotage.runtime.services import Services

_run_key = unchecked(RunKey)
"""Unchecked, because the ids of an input and a principal are not blank."""


class OpenedRun(Protocol):
    """A run with the subscriber that opened it."""

    @property
    def id(self) -> str:
        """Return the id of the run."""
        ...

    def events(self) -> AsyncIterator[AgentEvent]:
        """Return the events of the run."""
        ...

    def result(self) -> Awaitable[RunResult]:
        """Return the result of the run when it has ended or waits."""
        ...

    async def leave(self) -> None:
        """Unsubscribe from the run."""
        ...


class DurableRun:
    """A durable run: it does not depend on its subscriber."""

    def __init__(self, handle: RunHandle) -> None:
        self.id = handle.id
        self._handle = handle

    def events(self) -> Subscription:
        return self._handle.events()

    def result(self) -> Awaitable[RunResult]:
        return self._handle.result()

    async def leave(self) -> None:
        """Do nothing: the run continues."""


class EphemeralRun:
    """An ephemeral run: it is cancelled when its subscriber leaves."""

    def __init__(self, run_id: str, writer: DirectEventWriter, task: asyncio.Task[RunResult]) -> None:
        self.id = run_id
        self._task = task
        self._writer = writer

    def events(self) -> DirectEventWriter:
        return self._writer

    def result(self) -> Awaitable[RunResult]:
        return self._task

    async def leave(self) -> None:
        if not self._task.done():
            self._writer.close()
            self._task.cancel()
            # Wait without raising: the result of the task is not needed.
            await asyncio.wait([self._task])


ReadRun: TypeAlias = DurableRun | EphemeralRun
"""A run with events that have `ready`: the events that can be read without waiting for each."""


def _no_watch() -> None:
    """Do nothing: signals from other processes are read when the run is resumed."""


class CallerRuns:
    """Opens runs for callers of agents; `watch` is called when one is live, so that it gets signals sent elsewhere."""

    def __init__(
        self,
        services: Services,
        launcher: RunSupervisor,
        starts: RunStarts,
        resumer: RunResumer,
        watch: Callable[[], None] = _no_watch,
    ) -> None:
        self.services = services
        self._launcher = launcher
        self._starts = starts
        self._resumer = resumer
        self._watch = watch

    def refuse_misfit(self, model: IAgentModel, definition: AgentDefinition, instance: object) -> None:
        """Check that a model has the capabilities that an agent needs.

        Raises:
            AgentModelConfigurationError: it has not; the message has the missing capability and the remedy.
        """
        if problems := problems_with(model, definition, instance, self.services):
            raise start_error(self.services.app.name, problems)

    async def open(
        self,
        definition: AgentDefinition,
        instance: object,
        given: object,
        *,
        principal: Principal,
        overrides: Overrides = NO_OVERRIDES,
    ) -> ReadRun:
        """Open a run of the agent, durable if the agent is; an input with `resume` resumes the run of its `state_id`.

        Raises:
            AgentDefinitionError: the input does not fit.
            CallerError: there is no run to resume, or it cannot be resumed like this.
            MediaRefusedError: the input has media that the agent does not allow, or that its model does not take.
        """
        named = given.state_id if isinstance(given, RunAgentInput) else None
        resumes = isinstance(given, RunAgentInput) and given.resume
        if definition.spec.is_durable:
            if named is not None and resumes:
                return self._durable(await self._resumed(definition, named, principal, overrides))
            handle = await self._starts.start(
                definition.agent_id,
                given,
                principal,
                alias=named,
                conversation=None,
                metadata={},
                overrides=overrides,
            )
            return self._durable(handle)
        if resumes:
            raise CallerError(
                f"run {named!r} cannot be resumed: agent {definition.agent_id!r} is not durable, so its runs end with "
                "their readers. Make it durable: AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY)."
            )
        start = await self._starts.described(definition, given, principal, conversation=None, metadata={})
        has_media = mentions_media(start.input)
        if has_media:
            taken = await take_in_start(self.services.media, definition, start, is_durable=False)
            start = taken.value
        run = _run_key(principal.tenant, named or self.services.ids.uid())
        start = await self._starts.with_model(definition, start, run.run_id, given, overrides)
        if has_media:
            self._launcher.models.check_media(definition, start, overrides)
        history = await self._launcher.conversations.history(start, None) if start.history else ()
        attempt, task = self._launcher.begin_ephemeral(
            definition, start, run, instance=instance, history=history, overrides=overrides
        )
        return EphemeralRun(run.run_id, cast("DirectEventWriter", attempt.run.events), task)

    def _durable(self, handle: RunHandle) -> DurableRun:
        if self._launcher.live(handle.id) is not None:
            self._watch()
        return DurableRun(handle)

    async def _resumed(
        self, definition: AgentDefinition, name: str, principal: Principal, overrides: Overrides
    ) -> RunHandle:
        """Resume the run with this id or alias; attach to it if it is live or has ended."""
        records = self._launcher.records
        known = await records.find(name, principal.tenant)
        run_id = name if known is not None else run_id_of(principal.tenant, name)
        _check_resumable(definition, await records.state(run_id, principal))
        return await self._resumer.resume(run_id, principal, by_person=True, overrides=overrides)


def _check_resumable(definition: AgentDefinition, state: AgentState) -> None:
    if state.agent_type != definition.agent_id:
        raise RunConflictError(
            f"run {state.id!r} is one of agent {state.agent_type!r}, not of {definition.agent_id!r}. Resume it there."
        )

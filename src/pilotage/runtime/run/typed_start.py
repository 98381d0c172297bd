"""`start` of runs with the types of their agents: type checkers know input and output."""

from __future__ import annotations

from typing import Any, Generic, TypedDict, TypeVar, Unpack, cast, overload

from pilotage.agent.ports.architecture import AgentRef
from pilotage.agent.principal import LOCAL, Principal
from pilotage.agent.run_values import (
    AsJson,
    AsText,
    Computes,
    ComputesAlone,
    Out,
    Takes,
    TakesNothing,
    TakesOther,
    TextDoesNotFit,
    TypedResult,
)
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.run.handles import RunHandle
from pilotage.runtime.run.start import RunStarts
from pilotage.runtime.run.watch import SignalWatch

Given = TypeVar("Given")


class TypedRun(RunHandle, Generic[Out]):
    """A `RunHandle` as type checkers see it where they know the agent: its result has the declared output."""

    async def result(self) -> TypedResult[Out]:
        return cast("TypedResult[Out]", await super().result())


class StartOptions(TypedDict, total=False):
    """The options of `start`."""

    principal: Principal | None
    id: str | None
    conversation_id: str | None
    metadata: JsonObject | None
    steering_input_required: bool


class StartsRuns:
    """Starts runs; the part of `AgentRuns` that is typed by the agent."""

    _starts: RunStarts
    _watch: SignalWatch

    @overload
    async def start(
        self, agent: type[Takes[Given, Out]], given: Given | AsJson, **options: Unpack[StartOptions]
    ) -> TypedRun[Out]: ...
    @overload
    async def start(
        self, agent: type[TakesNothing[Out]], given: AsJson | None = None, **options: Unpack[StartOptions]
    ) -> TypedRun[Out]: ...
    @overload
    async def start(
        self, agent: type[Computes[Given, Out]], given: Given | AsJson, **options: Unpack[StartOptions]
    ) -> TypedRun[Out]: ...
    @overload
    async def start(
        self, agent: type[ComputesAlone[Out]], given: AsJson | None = None, **options: Unpack[StartOptions]
    ) -> TypedRun[Out]: ...
    @overload
    async def start(
        self, agent: type[TakesOther], given: str, **options: Unpack[StartOptions]
    ) -> TextDoesNotFit: ...
    @overload
    async def start(
        self, agent: AgentRef, given: AsText = None, **options: Unpack[StartOptions]
    ) -> RunHandle: ...

    async def start(
        self,
        agent: AgentRef,
        given: Any = None,
        *,
        principal: Principal | None = None,
        id: str | None = None,  # noqa: A002 - the word of the contract
        conversation_id: str | None = None,
        metadata: JsonObject | None = None,
        steering_input_required: bool = False,
    ) -> Any:
        """Start a run; when this returns, the run is durable.

        `id` is the caller's own id for the run: a second start with the same id attaches to the same run. With
        `steering_input_required` the run waits for a steering instruction before it begins.

        Raises:
            AgentDefinitionError: the class is no agent of this application, or the input does not fit.
            CallerError: the agent cannot wait for a steering instruction that is required.
            RunConflictError: the id belongs to a run with another input, or another run has the conversation.
        """
        handle = await self._starts.start(
            agent,
            given,
            principal or LOCAL,
            alias=id,
            conversation=conversation_id,
            metadata=metadata or {},
            is_steered=steering_input_required,
        )
        self._watch.begin()
        return handle

"""`AgentRunner`: opens runs of one agent, as a stream of yields or of events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from functools import lru_cache, wraps
from inspect import Parameter, Signature, signature
from itertools import chain
from types import MethodType
from typing import Any

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.events import AgentEvent
from pilotage.agent.execution import ExecuteShape
from pilotage.agent.ports.budget import IAgentPricing
from pilotage.agent.ports.model import IAgentModel
from pilotage.agent.ports.observability import IAgentTelemetry
from pilotage.agent.ports.repositories import (
    IAgentEvidenceRepository,
    IAgentSignalRepository,
    IAgentStateRepository,
)
from pilotage.agent.ports.runner import IAgentRunner, IAgentRunnerFactory
from pilotage.agent.principal import LOCAL, Principal
from pilotage.agent.run_values import RunAgentInput, RunResult
from pilotage.agent.state import AgentStateReason, AgentStatus
from pilotage.agent.yields import AgentYield, Final
from pilotage.container.pod import Pod
from pilotage.errors import AgentDefinitionError, AgentModelConfigurationError, RunFailedError
from pilotage.runtime.architecture.registry import find_architecture
from pilotage.runtime.children.children import Children
from pilotage.runtime.door.run_source import Overrides
from pilotage.runtime.door.tool_call import active_run
from pilotage.runtime.events.projections import YieldProjector
from pilotage.runtime.journal.run_input import encode_input
from pilotage.runtime.results import typed_output
from pilotage.runtime.run.opened import CallerRuns, ReadRun
from pilotage.values import value

_RUNNER = "__pilotage_runner__"


@value
class AgentRunner(IAgentRunner):
    """Runs one agent. A durable agent has durable runs; other runs are ephemeral and end with their subscriber."""

    definition: AgentDefinition
    instance: object
    runs: CallerRuns
    principal: Principal = LOCAL
    overrides: Overrides = Overrides()

    @classmethod
    def for_agent_instance(cls, instance: object) -> AgentRunner:
        """Return the runner of an agent instance that an application created.

        Raises:
            AgentModelConfigurationError: no application created the instance.
        """
        runner = getattr(instance, _RUNNER, None)
        if not isinstance(runner, AgentRunner):
            raise AgentModelConfigurationError(
                f"{type(instance).__name__} was not made by a started application, so nothing can run it. "
                "Get it from one: app.get(...)."
            )
        return runner

    @property
    def states(self) -> IAgentStateRepository:
        """The states of durable runs; raise AgentPersistenceConfigurationError where nothing stores them."""
        return self.runs.services.states

    @property
    def signals(self) -> IAgentSignalRepository:
        """The signals of durable runs; raise AgentPersistenceConfigurationError where nothing stores them."""
        return self.runs.services.signals

    @property
    def evidence(self) -> IAgentEvidenceRepository | None:
        """The evidence of durable runs; None where nothing stores it."""
        return self.runs.services.evidence

    def with_model(self, model: IAgentModel) -> AgentRunner:
        """Return a copy of this runner with another model for the agent's loop.

        Raises:
            AgentModelConfigurationError: the agent has its own `execute()`, which uses the injected models, or the
                model lacks a capability that the agent needs.
        """
        if not self.definition.is_declarative:
            raise AgentModelConfigurationError(
                f"{self.definition.target.__name__} has an execute() of its own, which uses the models it injects. "
                "Bind another one for it: app.bind(IAgentModel, ...)."
            )
        self.runs.refuse_misfit(model, self.definition, self.instance)
        return replace(self, overrides=replace(self.overrides, model=model))

    def with_pricing(self, pricing: IAgentPricing) -> AgentRunner:
        """Return a copy of this runner with other prices."""
        return replace(self, overrides=replace(self.overrides, pricing=pricing))

    def for_result(self) -> AgentRunner:
        """Return a copy of this runner whose caller reads no events while a run is under way."""
        return replace(self, overrides=replace(self.overrides, is_streaming=False))

    def with_telemetry(self, telemetry: IAgentTelemetry) -> AgentRunner:
        """Return a copy of this runner whose runs report to other telemetry."""
        return replace(self, overrides=replace(self.overrides, telemetry=telemetry))

    def for_principal(self, principal: Principal) -> AgentRunner:
        """Return a copy of this runner that acts for a principal."""
        return replace(self, principal=principal)

    async def run(self, run_input: RunAgentInput) -> AsyncGenerator[AgentYield[object], None]:
        run = await self.open(run_input)
        async with aclosing(yields_of(run)) as batches:
            async for items in batches:
                for item in items:
                    yield item

    async def run_events(self, run_input: RunAgentInput) -> AsyncGenerator[AgentEvent, None]:
        run = await self.open(run_input)
        events = run.events()
        try:
            async for event in events:
                yield event
                for next_one in events.ready():
                    yield next_one
            await run.result()
        finally:
            await run.leave()

    def open(self, given: object) -> Coroutine[Any, Any, ReadRun]:
        """Open a run of the agent; a `RunAgentInput` with `resume` resumes the run of its `state_id`."""
        return self.runs.open(
            self.definition, self.instance, given, principal=self.principal, overrides=self.overrides
        )


async def yields_of(run: ReadRun) -> AsyncGenerator[Sequence[AgentYield[Any]], None]:
    """Yield the public items of a run: a projection of its events, then the answer that the program returned.

    Items come in batches, because each nested generator adds a step per item.
    """
    yield_of, events = YieldProjector(run.id).yield_of, run.events()
    try:
        async for first in events:
            projected = map(yield_of, chain((first,), events.ready()))
            items = [item for item in projected if item is not None]
            end = items[-1] if items else None
            if isinstance(end, Final):
                yield items[:-1]
                items = [Final((await run.result()).output, end.metadata)]
            yield items
        await run.result()
    finally:
        await run.leave()


def held_by(instance: object) -> Mapping[str, object]:
    """Return the attributes of an agent, without those that the runtime attached.

    Raises:
        AgentDefinitionError: the class has no `__dict__`, so nothing can be attached.
    """
    try:
        attributes = vars(instance)
    except TypeError as error:
        raise AgentDefinitionError(
            f"{type(instance).__name__} has __slots__ without room for what the container attaches. "
            "Leave __slots__ out, or add '__dict__' to them."
        ) from error
    return {name: each for name, each in attributes.items() if not name.startswith("__pilotage_")}


def attach_agent_runner(instance: object, runner: AgentRunner) -> None:
    """Attach a runner to an agent instance."""
    object.__setattr__(instance, _RUNNER, runner)


def check_drivers(definition: AgentDefinition, held: Mapping[str, object]) -> None:
    """Check that a declarative agent has an architecture and one model, before a run of it begins.

    Raises:
        AgentDefinitionError: the agent's architecture is not registered.
        AgentModelConfigurationError: the model of the agent is ambiguous.
    """
    if definition.spec.architecture is not None:
        find_architecture(definition.spec.architecture)
    models = [name for name, each in held.items() if isinstance(each, IAgentModel)]
    if len(models) > 1:
        raise AgentModelConfigurationError(
            f"{definition.target.__name__} has no execute(), so a model drives it, and it holds several: "
            f"{', '.join(models)}. Inject one of them, or write execute()."
        )


@Pod()
class RunnerFactory(IAgentRunnerFactory):
    """Creates runners for the agents of an application."""

    @asynccontextmanager
    async def open_runner(
        self, instance: object, run_input: RunAgentInput | None = None
    ) -> AsyncGenerator[AgentRunner, None]:
        yield AgentRunner.for_agent_instance(instance)


_RAISE = " Resume the run with higher limits, or cancel it."
_WAYS_OUT = {
    AgentStatus.INTERRUPTED: " Answer it, then resume the run.",
    AgentStatus.ACTIVE: " This process stops; another process may resume the run. Read its result there.",
}


def answer_of(result: RunResult) -> Any:
    """Return the output of a completed run.

    Raises:
        RunFailedError: the run has no answer; the error has the reason and the remedy.
    """
    if result.status == AgentStatus.COMPLETED:
        return result.output
    state, error = result.state, result.error or {}
    words = error.get("message") or state.current_activity or "it has no answer"
    is_at_limit = state.reason is AgentStateReason.LIMIT_REACHED
    way_out = _RAISE if is_at_limit else _WAYS_OUT.get(state.status, "")
    raise RunFailedError(
        f"run {state.id!r} of {state.agent_type!r} is {state.status}: {words}.{way_out}",
        run_id=state.id,
        status=state.status.value,
        reason=str(error.get("code") or state.reason or ""),
    ) from result.cause


def open_runs_by_calling(instance: object, runner: AgentRunner) -> None:
    """Make `instance.execute(...)` open a run; the instance has a runner attached, so it has a `__dict__`."""
    definition = runner.definition
    shape = definition.execution.shape if definition.execution else ExecuteShape.ASYNC_GENERATOR
    if shape is ExecuteShape.ASYNC_GENERATOR:
        opens = _streaming(definition.target.execute)
    elif shape is ExecuteShape.COROUTINE:
        opens = _answering(definition.target.execute)
    else:
        return
    object.__setattr__(instance, "execute", MethodType(opens, runner))


@lru_cache(maxsize=1024)
def _streaming(execute: Callable[..., object]) -> Callable[..., AsyncGenerator[AgentYield[Any], None]]:
    """Return the replacement of an `execute()` that streams, as a method of the runner."""

    @wraps(execute)
    async def stream(runner: AgentRunner, *args: Any, **kwargs: Any) -> AsyncGenerator[AgentYield[Any], None]:
        given = _given(runner, args, kwargs)
        if active_run() is not None:
            yield Final(await _as_child(runner.definition, given))
            return
        async with aclosing(yields_of(await runner.open(given))) as batches:
            async for items in batches:
                for item in items:
                    yield item

    return stream


@lru_cache(maxsize=1024)
def _answering(execute: Callable[..., object]) -> Callable[..., Any]:
    """Return the replacement of an `execute()` that returns an answer, as a method of the runner."""

    @wraps(execute)
    async def answer(runner: AgentRunner, *args: Any, **kwargs: Any) -> Any:
        given = _given(runner, args, kwargs)
        if active_run() is not None:
            return await _as_child(runner.definition, given)
        run = await runner.open(given)
        try:
            return answer_of(await run.result())
        finally:
            await run.leave()

    return answer


async def _as_child(definition: AgentDefinition, given: object) -> object:
    run = active_run()
    if run is None:
        raise AssertionError("only a run has children")
    task = encode_input(definition, given)
    return typed_output(
        definition, await run.part(Children).spawn(definition.agent_id, definition.agent_id, task)
    )


def _given(runner: AgentRunner, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
    """Return the arguments of `execute()` by name; for a declarative agent, its only argument, the input."""
    execute: Callable[..., object] = runner.definition.target.execute
    names = _plain_names(execute)
    if names is not None and len(args) == len(names) and not kwargs:
        named: dict[str, Any] = dict(zip(names, args, strict=True))
    else:
        bound = _signature_of(execute).bind(runner.instance, *args, **kwargs)
        named = {name: each for name, each in bound.arguments.items() if name != "self"}
    return next(iter(named.values())) if runner.definition.execution is None else named


@lru_cache(maxsize=1024)
def _plain_names(execute: Callable[..., object]) -> tuple[str, ...] | None:
    """Return the parameter names if all parameters can be positional; else None."""
    _, *parameters = _signature_of(execute).parameters.values()
    is_plain = all(each.kind is Parameter.POSITIONAL_OR_KEYWORD for each in parameters)
    return tuple(each.name for each in parameters) if is_plain else None


@lru_cache(maxsize=1024)
def _signature_of(execute: Callable[..., object]) -> Signature:
    return signature(execute)

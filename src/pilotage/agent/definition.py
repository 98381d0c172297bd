"""The definition that `@Agent` reads from a class: its execution, its spec, its own tools.

The definition is complete when the class is; what only an application can know (the provider of the model, the
journal, the injected tools) is checked at start-up by `pilotage.agent.bootstrap`.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Self

from pilotage.agent.delegation import AgentTeammate
from pilotage.agent.execution import ExecuteContract, read_execute
from pilotage.agent.handlers import SignalHandler, read_signal_handlers
from pilotage.agent.ports.journal import IAgentJournal
from pilotage.agent.ports.repositories import (
    IAgentEvidenceRepository,
    IAgentSignalRepository,
    IAgentStateRepository,
)
from pilotage.agent.ports.runner import IAgentRunnerFactory
from pilotage.agent.run_values import RunAgentInput
from pilotage.agent.signals import AgentSignalKind
from pilotage.agent.spec import LIMITS, AgentExecutionSpec, fill_spec
from pilotage.agent.tools.catalog import AgentToolCatalog, discover_agent_tools, members_of
from pilotage.agent.yields import AgentYield
from pilotage.container.pod import Pod
from pilotage.errors import AgentDefinitionError, AgentModelConfigurationError, PodDefinitionError

_REPOSITORIES = (IAgentStateRepository, IAgentSignalRepository, IAgentEvidenceRepository)
_RUNNER_FACTORY = "__pilotage_runner_factory__"


def _no_handlers() -> Mapping[AgentSignalKind, SignalHandler]:
    return {}


@dataclass(kw_only=True, eq=False)
class AgentDefinition(Pod):
    """A pod that is an agent. `durable` and the options after it are keywords that fill the spec."""

    spec: AgentExecutionSpec = field(default_factory=AgentExecutionSpec)
    durable: bool | None = None
    output: object = None
    teammates: Sequence[AgentTeammate | type[object]] = ()
    timeout_seconds: float | None = None
    max_steps: int | None = None
    max_tool_calls: int | None = None
    max_tokens: int | None = None
    max_cost: Decimal | None = None
    agent_id: str = field(init=False, default="")
    """The name the agent's runs are known by: the spec's, else the class's."""
    tool_catalog: AgentToolCatalog = field(init=False, default_factory=AgentToolCatalog)
    execution: ExecuteContract | None = field(init=False, default=None)
    signal_handlers: Mapping[AgentSignalKind, SignalHandler] = field(init=False, default_factory=_no_handlers)
    is_declarative: bool = field(init=False, default=True)
    """Whether the class has no `execute()` of its own, and a runner drives it by its spec."""
    _members_read: list[dict[str, object]] = field(
        init=False, default_factory=list[dict[str, object]], repr=False
    )

    def applied_to(self, target: object) -> Self:
        if not isinstance(target, type):
            raise AgentDefinitionError(
                f"@Agent decorates a class, not {getattr(target, '__name__', None) or repr(target)!s}. "
                "Write a class with an execute() method."
            )
        try:
            return super().applied_to(target)
        except PodDefinitionError as error:
            raise AgentDefinitionError(str(error)) from error

    def define(self) -> None:
        self.spec = fill_spec(
            self.spec,
            agent=self.target.__name__,
            durable=self.durable,
            output=self.output,
            teammates=self.teammates,
            limits={name: getattr(self, name) for name in LIMITS},
        )
        self.agent_id = self.spec.name or self.target.__name__
        # A class made from a declarative agent inherits the `execute()` that was bound there, not one of its own.
        is_bound = inspect.getattr_static(self.target, "execute", None) is runner_backed_execute
        self.execution = None if is_bound else read_execute(self.target)
        self.is_declarative = self.execution is None
        self.tool_catalog = discover_agent_tools(self.target)
        self.signal_handlers = read_signal_handlers(self.target, self.spec.accepted_signals)
        if self.is_declarative:
            self.target.execute = runner_backed_execute

    @property
    def instructions(self) -> str | None:
        """The first instructions of the model: the spec's, else the class's docstring."""
        return self.spec.instructions or inspect.cleandoc(self.target.__doc__ or "") or None

    def validate_bootstrap(self) -> None:
        """Read `execute()` and the handlers of signals again if the class was changed since they were read.

        Raises:
            AgentDefinitionError: the class was changed into something that is no agent.
        """
        members = members_of(self.target)
        if members == self._members_read:
            return
        if not self.is_declarative:
            self.execution = read_execute(self.target)
        self.signal_handlers = read_signal_handlers(self.target, self.spec.accepted_signals)
        self._members_read = members

    def required_persistence_repository_types(self) -> tuple[type, ...]:
        """Return the repositories a durable agent needs; none for others."""
        return _REPOSITORIES if self.spec.is_durable else ()

    def required_persistence_types(self) -> tuple[type, ...]:
        """Return the repositories and the journal that commits to all of them at once."""
        return (*_REPOSITORIES, IAgentJournal) if self.spec.is_durable else ()


async def runner_backed_execute(self: Any, run_input: RunAgentInput) -> AsyncGenerator[AgentYield[Any], None]:
    """Yield the `execute()` of a declarative agent: a runner drives it.

    Raises:
        AgentModelConfigurationError: the instance was not made by an application that has a runner.
    """
    find: Callable[[], IAgentRunnerFactory] | None = getattr(self, _RUNNER_FACTORY, None)
    if find is None:
        raise AgentModelConfigurationError(
            f"{type(self).__name__} has no execute() of its own and no runner to drive it. "
            "Get it from a started application, or write execute()."
        )
    async with find().open_runner(self, run_input) as runner:
        async for item in runner.run(run_input):
            yield item


def attach_runner(instance: object, find: Callable[[], IAgentRunnerFactory]) -> None:
    """Give a declarative agent the way to its application's runner factory, which may be made after it."""
    setattr(instance, _RUNNER_FACTORY, find)

"""The tools of `IAgentToolProvider` catalogs: read when an agent is created, checked, and offered with its own.

A catalog is known only after its provider was created or has started, which is after the check of the graph. The checks
of tools are therefore repeated here for catalogs: names, records that would have to be sealed, the rule of two.

A provider may have another catalog later. It is read, and checked, when an attempt at a run is composed: an attempt
under way keeps the tools that it began with.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias, cast

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.ports.sealing import IRecordSealer
from pilotage.agent.reach import agent_reaches, durable_agents
from pilotage.agent.safety_checks import rule_of_two, unsealable
from pilotage.agent.tools.catalog import AgentToolCatalog, AgentToolDescriptor, discover_agent_tools
from pilotage.agent.tools.described import IAgentToolProvider, described
from pilotage.container.application import Application
from pilotage.errors import AgentDefinitionError, ApplicationStartError, Problem, start_error
from pilotage.safety.trust import Integrity, TrustLabel

PROVIDED = "__pilotage_provided_tools__"
"""The attribute of an agent with the tools of its providers; an agent without providers does not have it."""

BoundTool: TypeAlias = Callable[..., object]

_LOG = logging.getLogger(__name__)


class ProvidedTools:
    """The tools that the providers of one agent offer, as they were read last."""

    def __init__(self, definition: AgentDefinition, instance: object, held: Sequence[object]) -> None:
        self.definition = definition
        self.providers = [each for each in held if isinstance(each, IAgentToolProvider)]
        self.methods = [_methods_of(each) for each in (instance, *held)]
        self.catalogs: tuple[AgentToolCatalog, ...] = ()
        self.tools: tuple[BoundTool, ...] = ()
        self.descriptions: TrustLabel | None = None
        """The trust label of what foreign servers say about their tools; None without any."""

    @property
    def is_current(self) -> bool:
        """Whether all providers have the catalogs that were read."""
        known = self.catalogs
        return len(known) == len(self.providers) and all(
            provider.tool_catalog is catalog for provider, catalog in zip(self.providers, known, strict=True)
        )


class Catalogs:
    """The tools that the providers of an application's agents offer."""

    def __init__(self, app: Application) -> None:
        self._app = app
        self._by_agent: dict[str, tuple[AgentToolDescriptor, ...]] = {}
        self._starting: list[ProvidedTools] | None = []

    def attach(self, definition: AgentDefinition, instance: object, held: Collection[object]) -> None:
        """Attach the tools of an agent's injected providers to the agent.

        Raises:
            AgentDefinitionError: a catalog has an entry that is no tool, or two tools of the agent share a name.
            ApplicationStartError: the agent cannot run with these tools in this application.
        """
        holders = list({id(each): each for each in held}.values())
        if not any(isinstance(each, IAgentToolProvider) for each in holders):
            return
        provided = ProvidedTools(definition, instance, holders)
        self._read(provided)
        object.__setattr__(instance, PROVIDED, provided)
        if self._starting is not None:
            self._starting.append(provided)

    def start(self) -> None:
        """Read the catalogs again of providers that have theirs since they started.

        Raises:
            AgentDefinitionError, ApplicationStartError: as for `attach`.
        """
        starting, self._starting = self._starting or (), None
        for provided in starting:
            if not provided.is_current:
                self._read(provided)

    def provided(self, instance: object) -> ProvidedTools | None:
        """Return the tools of an agent's providers as they are now; None for an agent without any.

        Catalogs that do not fit the agent any more are not taken: its runs keep the tools that it had.
        """
        provided = provided_tools(instance)
        if provided is not None and not provided.is_current:
            try:
                self._read(provided)
            except (AgentDefinitionError, ApplicationStartError) as error:
                agent = provided.definition.agent_id
                _LOG.warning("agent %s keeps its earlier tools of providers: %s", agent, error)
        return provided

    def _read(self, provided: ProvidedTools) -> None:
        catalogs = tuple(map(_catalog_of, provided.providers))
        own = {tool.identity.key for catalog in provided.methods for tool in catalog.descriptors}
        offered = [
            (provider, tool)
            for provider, catalog in zip(provided.providers, catalogs, strict=True)
            for tool in catalog.descriptors
        ]
        bound = {
            tool.identity.key: _bound(provider, tool)
            for provider, tool in offered
            if tool.identity.key not in own
        }
        agent_id = provided.definition.agent_id
        known = self._by_agent.get(agent_id)
        self._by_agent[agent_id] = AgentToolCatalog.merge(*provided.methods, *catalogs).descriptors
        try:
            self._check(provided.definition)
        except BaseException:
            if known is not None:
                self._by_agent[agent_id] = known
            raise
        foreign = [tool for _, tool in offered if described(tool.callable) is not None]
        provided.catalogs, provided.tools = catalogs, tuple(bound.values())
        provided.descriptions = _label_of_descriptions(foreign)

    def tools_of(self, agent_id: str) -> Sequence[AgentToolDescriptor]:
        """Return the tools of an agent whose providers have catalogs, its declared ones included; none for others."""
        return self._by_agent.get(agent_id, ())

    def tool(self, identity: str) -> AgentToolDescriptor | None:
        """Return the tool of this identity."""
        return next((tool for tool in self._all() if tool.identity.key == identity), None)

    def named(self, name: str | None) -> Iterator[AgentToolDescriptor]:
        """Return the tools that models know by this name."""
        return (tool for tool in self._all() if tool.schema.name == name)

    def _all(self) -> Iterator[AgentToolDescriptor]:
        return (tool for tools in self._by_agent.values() for tool in tools)

    def _check(self, definition: AgentDefinition) -> None:
        graph, tools = self._app.graph, self._by_agent[definition.agent_id]
        problems: list[Problem] = []
        if not graph.contains(IRecordSealer):
            is_below = definition.agent_id in durable_agents(graph)
            problems.extend(unsealable(definition, tools, has_durable_parent=is_below))
        # Agents created earlier are checked again: they may reach the tools of this one.
        reaches = [
            replace(reach, tools=self._by_agent.get(reach.name, reach.tools))
            for reach in agent_reaches(graph)
        ]
        problems.extend(rule_of_two(reaches))
        if problems:
            raise start_error(self._app.name, problems)


def provided_tools(instance: object) -> ProvidedTools | None:
    """Return the tools of an agent's providers as they were read last; None for an agent without any."""
    found: ProvidedTools | None = getattr(instance, PROVIDED, None)
    return found


def _label_of_descriptions(tools: Sequence[AgentToolDescriptor]) -> TrustLabel | None:
    """Return the label of a run whose model reads the descriptions of these tools; None where all are declared."""
    names = [tool.schema.name for tool in tools if tool.metadata.returns_untrusted]
    if not names:
        return None
    return TrustLabel(Integrity.UNTRUSTED, origins=frozenset(f"description of tool:{name}" for name in names))


def _catalog_of(provider: IAgentToolProvider) -> AgentToolCatalog:
    catalog = cast(object, provider.tool_catalog)
    if not isinstance(catalog, AgentToolCatalog):
        raise AgentDefinitionError(
            f"{type(provider).__name__}.tool_catalog is {type(catalog).__name__}. Return an AgentToolCatalog."
        )
    return catalog


def _methods_of(holder: object) -> AgentToolCatalog:
    kind: type = type(holder)
    return AgentToolCatalog() if kind.__module__ == "builtins" else discover_agent_tools(kind)


def _bound(provider: IAgentToolProvider, tool: AgentToolDescriptor) -> BoundTool:
    """Return the tool as a function that a run can call."""
    if described(tool.callable) is not None:
        return tool.callable
    where, owner = f"{type(provider).__name__}.tool_catalog", tool.owner.__name__
    raise AgentDefinitionError(
        f"{where} has {tool.schema.name!r} of {owner}, and the agent holds no {owner} to call it on. "
        f"Inject {owner} into the agent, or make the tool with described_tool(...)."
    )

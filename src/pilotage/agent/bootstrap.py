"""The validation of agents at start-up, together with the dependency graph and before anything is made.

A durable agent without persistence or without a key for what others must not read, an agent without a model or a
price list it needs, a type that cannot be stored, a tool whose schema cannot be built, a secret that nothing provides,
tools that together betray data: each is a problem with its way out, and all of them are reported at once. There is no
silent fallback.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial

from pilotage.agent.definition import AgentDefinition, attach_runner
from pilotage.agent.model_request import StructuredOutputSpec
from pilotage.agent.ports.budget import IAgentPricing
from pilotage.agent.ports.handlers import AgentOutputGuardProfile
from pilotage.agent.ports.memory import IAgentMemory
from pilotage.agent.ports.model import IAgentModel
from pilotage.agent.ports.permissions import ISecrets
from pilotage.agent.ports.runner import IAgentRunnerFactory
from pilotage.agent.ports.sealing import IRecordSealer
from pilotage.agent.reach import (
    agent_id_of,
    agent_reaches,
    agent_tools,
    delegates_of,
    durable_agents,
    inner_tools,
    readable_tools,
)
from pilotage.agent.safety_checks import rule_of_two, unsealable
from pilotage.agent.spec import RecoveryStrategy
from pilotage.agent.tools.catalog import AgentToolCatalog
from pilotage.container.graph import Graph, Node
from pilotage.container.processing import IContainer, IContainerAware, IPostProcessor
from pilotage.errors import (
    AgentBootstrapError,
    AgentDefinitionError,
    AgentModelConfigurationError,
    AgentPersistenceConfigurationError,
    Problem,
)


class AgentBootstrapValidationPostProcessor(IPostProcessor, IContainerAware):
    """Checks every agent of an application, and gives declarative ones their runner."""

    def __init__(self) -> None:
        self._container: IContainer | None = None
        self._find_runners: Callable[[], IAgentRunnerFactory] | None = None
        self._sound: set[type] = set()

    def set_container(self, container: IContainer) -> None:
        self._container = container
        self._find_runners = partial(container.get, IAgentRunnerFactory)

    @classmethod
    def check(cls, graph: Graph) -> Iterable[Problem]:
        """Return all that is wrong with the application's agents; follows from the definitions alone."""
        return graph.derive(agent_problems)

    def post_process(self, pod: object) -> object:
        """Return the pod itself.

        Raises:
            AgentBootstrapError: the pod is an agent that cannot run in this application.
        """
        definition = AgentDefinition.get_or_none(type(pod))
        if definition is None:
            return pod
        # An agent may be made for every request, and its class is the same each time.
        if type(pod) not in self._sound:
            self._check_class(definition)
            self._sound.add(type(pod))
        if definition.is_declarative and self._find_runners is not None:
            attach_runner(pod, self._find_runners)
        return pod

    def _check_class(self, definition: AgentDefinition) -> None:
        try:
            definition.validate_bootstrap()
        except AgentDefinitionError as error:
            raise AgentBootstrapError(str(error)) from error
        self._require_persistence(definition)

    def _require_persistence(self, definition: AgentDefinition) -> None:
        missing = [
            port.__name__
            for port in definition.required_persistence_types()
            if self._container is None or not self._container.contains(port)
        ]
        if missing:
            raise AgentPersistenceConfigurationError(
                f"{_durable(definition)} and nothing provides {', '.join(missing)}. {_INSTALL}{_LOAD}"
            )


_INSTALL = 'Install the provider: pip install "pilotage[sqlalchemy]".'
_LOAD = " app.load_plugins() adds it through pilotage.contributions.agent; run() and run_sync() take a store in add=."


def agent_problems(graph: Graph) -> tuple[Problem, ...]:
    """Return all that is wrong with the agents of a graph; for `Graph.derive`."""
    return tuple(_problems(graph))


def _problems(graph: Graph) -> Iterator[Problem]:
    agents = [(node, node.pod) for node in graph.nodes if isinstance(node.pod, AgentDefinition)]
    yield from _shared_ids([definition for _, definition in agents])
    durable = durable_agents(graph)
    for node, definition in agents:
        yield from _wrong_definition(definition)
        yield from _missing_persistence(definition, graph)
        yield from _missing_sealer(node, definition, graph, durable)
        yield from _missing_runner(definition, graph)
        yield from _missing_prices(definition, graph)
        yield from _missing_workers(definition, [other for _, other in agents])
        yield from _unreachable_teammates(definition)
        yield from _unfit_memory(definition, graph)
        yield from _unknown_output_guard(definition, graph)
        yield from _unfit_types(definition)
        yield from _missing_secrets(node, definition, graph)
    yield from _wrong_tools(agents, graph)
    yield from rule_of_two(agent_reaches(graph))


def _wrong_definition(definition: AgentDefinition) -> Iterator[Problem]:
    try:
        definition.validate_bootstrap()
    except AgentDefinitionError as error:
        yield _problem(error)


def _missing_persistence(definition: AgentDefinition, graph: Graph) -> Iterator[Problem]:
    missing = [port for port in definition.required_persistence_types() if not graph.contains(port)]
    if missing:
        names = ", ".join(port.__name__ for port in missing)
        yield Problem(
            code="agent_persistence_missing",
            summary=f"{_durable(definition)} and nothing provides {names}.",
            remedy=f"{_INSTALL}{_LOAD}" if len(missing) > 1 else _INSTALL,
            family=AgentPersistenceConfigurationError,
            detail=tuple(missing),
        )


def _missing_sealer(
    node: Node, definition: AgentDefinition, graph: Graph, durable: Collection[str]
) -> Iterator[Problem]:
    if graph.contains(IRecordSealer):
        return
    tools, is_below = readable_tools(node, graph), definition.agent_id in durable
    yield from unsealable(definition, tools, inner_tools(node, graph), has_durable_parent=is_below)


def _missing_prices(definition: AgentDefinition, graph: Graph) -> Iterator[Problem]:
    bound = definition.spec.limits.max_cost
    if bound is not None and not graph.contains(IAgentPricing):
        yield Problem(
            code="agent_pricing_missing",
            summary=f"max_cost={bound} cannot be kept: nothing provides IAgentPricing, which knows what tokens cost.",
            remedy="Bind one: app.bind(IAgentPricing, ...), or leave max_cost out of the limits.",
            path=(definition.target.__name__,),
            family=AgentModelConfigurationError,
        )


def _missing_workers(definition: AgentDefinition, agents: list[AgentDefinition]) -> Iterator[Problem]:
    known = {agent.agent_id for agent in agents}
    for worker in dict.fromkeys(map(agent_id_of, delegates_of(definition))):
        if worker not in known:
            yield Problem(
                code="agent_worker_missing",
                summary=f"it hands work to {worker!r}, which is no agent of this application.",
                remedy="Add it: app.add(...), or scan the module that it is in.",
                path=(definition.target.__name__,),
                family=AgentBootstrapError,
            )


def _unfit_memory(definition: AgentDefinition, graph: Graph) -> Iterator[Problem]:
    if definition.spec.memory is None:
        return
    name = definition.target.__name__
    if not definition.is_declarative:
        yield Problem(
            code="agent_memory_unused",
            summary="it declares memory=MemoryUse(...) and has an execute() of its own, which decides itself what a "
            "model is shown.",
            remedy="Leave `memory` out of the spec, and recall in execute(): inject pilotage.runtime.MemoryTools.",
            path=(name,),
            family=AgentBootstrapError,
        )
    if not graph.contains(IAgentMemory):
        yield Problem(
            code="agent_memory_missing",
            summary="it declares memory=MemoryUse(...), and nothing provides IAgentMemory.",
            remedy='Install the provider: pip install "pilotage[sqlalchemy]", or bind one: '
            "app.bind(IAgentMemory, ...). In tests, pilotage.testing.MemoryAgentMemory().",
            path=(name,),
            family=AgentPersistenceConfigurationError,
        )


def _unknown_output_guard(definition: AgentDefinition, graph: Graph) -> Iterator[Problem]:
    wanted = definition.spec.output_guard
    known = [node.name for node in graph.providers(AgentOutputGuardProfile)]
    if wanted is None or known.count(wanted) == 1:
        return
    profiles = "AgentOutputGuardProfile pods"
    found = (
        f"the {profiles} are {', '.join(map(repr, sorted(known)))}" if known else f"there are no {profiles}"
    )
    yield Problem(
        code="agent_output_guard_unknown",
        summary=f"it names the output guard {wanted!r}, and {found}.",
        remedy=f"Add one pod of that name: @Pod(name={wanted!r}) on a function that returns an "
        "AgentOutputGuardProfile; or name another one in the spec.",
        path=(definition.target.__name__,),
        family=AgentBootstrapError,
    )


def _unfit_types(definition: AgentDefinition) -> Iterator[Problem]:
    """Report inputs and outputs of types that cannot be stored and read back: every run would fail with them."""
    for what, declared in _stored_types(definition):
        try:
            StructuredOutputSpec.from_type(declared)
        except AgentDefinitionError as error:
            # The message says "output type X is ...", also of an input.
            yield Problem(
                code="agent_type_unfit",
                summary=f"{what} is {str(error).partition(' is ')[2]}",
                remedy="",
                path=(definition.target.__name__,),
                family=AgentBootstrapError,
            )


def _stored_types(definition: AgentDefinition) -> Iterator[tuple[str, object]]:
    execution = definition.execution
    if execution is None:
        if definition.spec.output_type is not None:
            yield "output_type", definition.spec.output_type
        return
    for name in execution.required:
        yield f"parameter {name!r} of execute()", execution.parameters[name]
    if _is_own_class(execution.output_type):
        yield "the result of execute()", execution.output_type


def _is_own_class(declared: object) -> bool:
    """Return whether a type is a class whose values are its instances; an abstract one says nothing about them."""
    if not isinstance(declared, type) or declared.__module__ in ("builtins", "typing"):
        return False
    return not inspect.isabstract(declared) and not getattr(declared, "_is_protocol", False)


def _missing_secrets(node: Node, definition: AgentDefinition, graph: Graph) -> Iterator[Problem]:
    """Report tools that need secrets where nothing hands them out: every call of them would be refused."""
    if graph.contains(ISecrets):
        return
    for tool in readable_tools(node, graph):
        if tool.secrets:
            names = ", ".join(map(repr, tool.secrets))
            yield Problem(
                code="agent_secrets_missing",
                summary=f"its tool {tool.name!r} needs secrets ({names}), and nothing provides ISecrets.",
                remedy="Bind one: app.bind(ISecrets, ...).",
                path=(definition.target.__name__,),
                family=AgentBootstrapError,
            )


def _durable(definition: AgentDefinition) -> str:
    recovers = definition.spec.recovery is RecoveryStrategy.ACTION_BOUNDARY
    why = "recovery=ACTION_BOUNDARY" if recovers else "it accepts signals"
    return f"{definition.target.__name__} is durable ({why})"


def _missing_runner(definition: AgentDefinition, graph: Graph) -> Iterator[Problem]:
    if not definition.is_declarative:
        return
    name = definition.target.__name__
    if not graph.contains(IAgentModel):
        yield Problem(
            code="agent_model_missing",
            summary=f"{name} has no execute(), so a model drives it, and nothing provides IAgentModel.",
            remedy="Name a server: PILOTAGE_MODEL_BASE_URL and PILOTAGE_MODEL_NAME, with the adapter "
            'pip install "pilotage[openai]" and app.load_plugins(). Or bind a model: app.bind(IAgentModel, ...). '
            "Without a server: app.add(pilotage.models.OfflineModel).",
            family=AgentModelConfigurationError,
        )
    if not graph.contains(IAgentRunnerFactory):
        yield Problem(
            code="agent_runner_missing",
            summary=f"{name} has no execute(), and nothing provides IAgentRunnerFactory, which would drive it.",
            remedy="Write an execute() method, or bind a runner: app.bind(IAgentRunnerFactory, ...).",
            family=AgentModelConfigurationError,
        )


def _unreachable_teammates(definition: AgentDefinition) -> Iterator[Problem]:
    """Report teammates with an agent card: no adapter reaches them, and a model would be offered less than declared."""
    for mate in definition.spec.teammates:
        if mate.card_url is not None:
            yield Problem(
                code="agent_teammate_unreachable",
                summary=f"{definition.target.__name__} has the teammate {mate.name!r} with the card "
                f"{mate.card_url!r}, and nothing here reaches agents by their cards.",
                remedy=f"Name an agent of this application: AgentTeammate({mate.name!r}, pod=...), or leave the "
                "teammate out and reach it from a tool or an IAgentDelegate of your own.",
                family=AgentBootstrapError,
            )


def _shared_ids(definitions: list[AgentDefinition]) -> Iterator[Problem]:
    """Report agents that share a name: their runs could not be distinguished."""
    by_id: dict[str, list[str]] = {}
    for definition in definitions:
        by_id.setdefault(definition.agent_id, []).append(definition.target.__name__)
    for agent_id, names in by_id.items():
        if len(names) > 1:
            yield Problem(
                code="agent_name_shared",
                summary=f"{' and '.join(names)} are all called {agent_id!r}.",
                remedy="Give each agent a name of its own: AgentExecutionSpec(name=...).",
                family=AgentBootstrapError,
            )


def _wrong_tools(agents: list[tuple[Node, AgentDefinition]], graph: Graph) -> Iterator[Problem]:
    """Report tools whose schema cannot be built, each once, and tools of one agent that share a name."""
    seen: set[str] = set()
    for node, _ in agents:
        try:
            AgentToolCatalog(agent_tools(node, graph))
        except AgentDefinitionError as error:
            if str(error) not in seen:
                seen.add(str(error))
                yield _problem(error)


def _problem(error: AgentDefinitionError) -> Problem:
    """Return the problem that a definition error reports; the error contains the remedy."""
    return Problem(error.code, str(error), "", family=AgentBootstrapError, detail=error)

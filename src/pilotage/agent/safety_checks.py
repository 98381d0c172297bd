"""Checks of agents at start-up: data that must be sealed, and the rule of two. Pure: over declarations, no I/O.

A record is what replay needs, a view is what others may read. Where a declaration makes the two differ, the record must
be sealed; an application that cannot seal is refused before anything runs. Secrets are in neither.

The rule of two: untrusted content, private data and a way out never meet without asking a person. Content flows with
every delegation, down as a task and up as a result, so an agent is checked together with all agents it may delegate to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.tools.catalog import AgentToolDescriptor
from pilotage.agent.tools.metadata import AgentToolMetadata, EvidenceCapture, ToolApprovalRequirement
from pilotage.container.names import enumerate_names
from pilotage.errors import (
    AgentBootstrapError,
    AgentDefinitionError,
    AgentPersistenceConfigurationError,
    Problem,
)
from pilotage.safety.discovery import find_sensitive_fields
from pilotage.safety.fields import SecretField, SensitiveFieldDescriptor
from pilotage.safety.guard import EvidenceExposurePolicy
from pilotage.safety.trust import Confidentiality
from pilotage.values import value

WAY_OUT = (
    'Install a sealer: pip install "pilotage[sealing]", and name its key file in PILOTAGE_SEALING_KEY_FILE. '
    "Or bind your own: app.bind(IRecordSealer, ...); in tests, pilotage.testing.MemorySealer()."
)


def unsealable(
    definition: AgentDefinition,
    tools: Iterable[AgentToolDescriptor],
    inner: Iterable[AgentToolDescriptor] = (),
    *,
    has_durable_parent: bool = False,
) -> Iterator[Problem]:
    """Yield what an application without a sealer cannot record of an agent: a problem for each tool, input or output.

    `inner` are the tools that its own tools or its program may call and that no model is offered. The runs of an agent
    with a durable parent are durable, whatever its spec says.
    """
    if not definition.spec.is_durable and not has_durable_parent:
        return
    agent = definition.target.__name__
    offered = [(tool, definition.is_declarative) for tool in tools]
    for tool, is_offered in (*offered, *((tool, False) for tool in inner)):
        reasons = _recorded_of(tool, is_offered=is_offered)
        if reasons:
            yield _sealing_problem((agent, f"{tool.owner.__name__}.{tool.name}"), reasons)
    try:
        yield from _unsealable_ends(agent, definition)
    except AgentDefinitionError as error:
        yield Problem(
            code=error.code,
            summary=str(error),
            remedy="",
            path=(agent,),
            family=AgentBootstrapError,
            detail=error,
        )
    if definition.spec.redaction is not None:
        yield _sealing_problem((agent, "spec.redaction"), ("what the model says, once it is redacted",))


def _recorded_of(tool: AgentToolDescriptor, *, is_offered: bool) -> tuple[str, ...]:
    """Return what replay needs of a tool and others must not read.

    What was only read is read again. But the replies of a model that is offered the tool hold the arguments too, and so
    do the answers of people who change them; neither is given a second time. Nor is the result of a deferred call.
    """
    if not tool.metadata.is_read_only or tool.metadata.deferred:
        return withheld_by(tool)
    arguments = _named("sensitive arguments", tool.interface.input_sensitive_fields)
    is_recorded = is_offered or tool.metadata.requires_approval_candidate
    return (arguments,) if arguments and is_recorded else ()


def withheld_by(tool: AgentToolDescriptor) -> tuple[str, ...]:
    """Return what a tool's declaration hides from readers of the record; nothing for most tools."""
    arguments = _named("sensitive arguments", tool.interface.input_sensitive_fields)
    return tuple(filter(None, (arguments, _result_withheld_by(tool))))


def input_fields(definition: AgentDefinition) -> tuple[SensitiveFieldDescriptor, ...]:
    """Return where the input of an agent is sensitive, by the parameters of its `execute()`.

    Raises:
        AgentDefinitionError: a type in it cannot be read.
    """
    parameters: Mapping[str, object] = definition.execution.parameters if definition.execution else {}
    return tuple(found for name, hint in parameters.items() for found in find_sensitive_fields(hint, (name,)))


def output_fields(definition: AgentDefinition) -> tuple[SensitiveFieldDescriptor, ...]:
    """Return where the output of an agent is sensitive.

    Raises:
        AgentDefinitionError: a type in it cannot be read.
    """
    declared = definition.execution.output_type if definition.execution else definition.spec.output_type
    return find_sensitive_fields(declared)


@cache
def hidden_input(definition: AgentDefinition) -> tuple[SensitiveFieldDescriptor, ...]:
    """Return where readers do not get to see the input of an agent, as far as its types can be read."""
    try:
        return tuple(_hidden(input_fields(definition)))
    except AgentDefinitionError:
        return ()


@cache
def hidden_output(definition: AgentDefinition) -> tuple[SensitiveFieldDescriptor, ...]:
    """Return where the output of an agent is sensitive; nothing for a type that cannot be read."""
    try:
        return output_fields(definition)
    except AgentDefinitionError:
        return ()


def _result_withheld_by(tool: AgentToolDescriptor) -> str:
    capture = tool.metadata.evidence
    match capture:
        case EvidenceCapture.RAW:
            return ""
        case EvidenceCapture.STRUCTURED:
            return _named("sensitive results", tool.schema.output_sensitive_fields)
        case _:
            return f"its result (evidence={capture.value!r})"


def _unsealable_ends(agent: str, definition: AgentDefinition) -> Iterator[Problem]:
    for part, found in (("input", input_fields(definition)), ("output", output_fields(definition))):
        reason = _named(f"sensitive {part}", found)
        if reason:
            yield _sealing_problem((agent, part), (reason,))


def _hidden(fields: Sequence[SensitiveFieldDescriptor]) -> list[SensitiveFieldDescriptor]:
    """Return the fields that a reader does not get to see, without secrets."""
    policy = EvidenceExposurePolicy()
    return [
        each
        for each in fields
        if not isinstance(each.field, SecretField) and not policy.can_expose_value(each.field)
    ]


def _named(what: str, fields: Sequence[SensitiveFieldDescriptor]) -> str:
    """Return a text with the fields that a reader does not get to see."""
    hidden = _hidden(fields)
    names = sorted({".".join(each.path) for each in hidden if each.path})
    return f"{what} ({', '.join(names)})" if names else what * bool(hidden)


def _sealing_problem(path: tuple[str, ...], reasons: Sequence[str]) -> Problem:
    return Problem(
        code="record_sealer_missing",
        summary=f"replay needs what others must not read: {enumerate_names(list(reasons))}. It would have to be "
        "sealed, and nothing provides IRecordSealer.",
        remedy=WAY_OUT,
        path=path,
        family=AgentPersistenceConfigurationError,
    )


_MEMORY = "what is remembered"
_SIGNALS = " signals"
_LIFTS_SIGNALS = "; untrusted_signals=[] for signals of your own"


@value
class AgentReach:
    """The reach of one agent: its tools, and the names of the agents it may delegate to.

    `signals`: the kinds of signals of any author that it takes in. `recalls`: it knows what is remembered of people.
    """

    name: str
    tools: tuple[AgentToolDescriptor, ...] = ()
    delegates: tuple[str, ...] = ()
    signals: tuple[str, ...] = ()
    recalls: bool = False


@value
class _Found:
    """A tool and the way to it, from the agent that is looked at."""

    way: tuple[str, ...]
    tool: AgentToolDescriptor

    def __str__(self) -> str:
        return " -> ".join((*self.way[1:], self.tool.schema.name))


@value
class _Meeting:
    """All three together: where untrusted content comes in, and the tools on the other sides."""

    untrusted: Sequence[object]
    private: Sequence[object]
    outward: Sequence[_Found]


def rule_of_two(agents: Iterable[AgentReach]) -> tuple[Problem, ...]:
    """Return every agent at which all three meet; one whose delegate is such an agent is not named again.

    Delegates that are not among the agents are left out.
    """
    by_name = {agent.name: agent for agent in agents}
    met = {name: meeting for name in by_name if (meeting := _meeting(name, by_name)) is not None}
    return tuple(
        _rule_problem(name, meeting)
        for name, meeting in met.items()
        if not any(below in met for below in _strictly_below(name, by_name))
    )


def _meeting(name: str, agents: Mapping[str, AgentReach]) -> _Meeting | None:
    ways = list(_ways(name, agents))
    reached = [_Found(way, tool) for way in ways for tool in agents[way[-1]].tools]
    untrusted: list[object] = [_source(found) for found in reached if found.tool.metadata.returns_untrusted]
    untrusted += [
        " -> ".join((*way[1:], f"{kind}{_SIGNALS}")) for way in ways for kind in agents[way[-1]].signals
    ]
    private: list[object] = [
        found for found in reached if found.tool.confidentiality is not Confidentiality.PUBLIC
    ]
    private += [" -> ".join((*way[1:], _MEMORY)) for way in ways if agents[way[-1]].recalls]
    outward = [found for found in reached if _goes_out_unasked(found.tool.metadata)]
    return _Meeting(untrusted, private, outward) if untrusted and private and outward else None


def _ways(name: str, agents: Mapping[str, AgentReach]) -> Iterator[tuple[str, ...]]:
    """Yield the shortest way to each agent within reach, the nearest first, the agent itself included."""
    ways: list[tuple[str, ...]] = [(name,)]
    seen = {name}
    for way in ways:
        yield way
        for delegate in agents[way[-1]].delegates:
            if delegate in agents and delegate not in seen:
                seen.add(delegate)
                ways.append((*way, delegate))


def _strictly_below(name: str, agents: Mapping[str, AgentReach]) -> Iterator[str]:
    """Yield the agents within reach from which there is no way back; agents that reach each other are named each."""
    for way in _ways(name, agents):
        if not any(back[-1] == name for back in _ways(way[-1], agents)):
            yield way[-1]


def _source(found: _Found) -> str:
    """Return the tool whose result is untrusted, with the reason where that is a default."""
    metadata = found.tool.metadata
    if metadata.reads_untrusted is not None:
        return str(found)
    return f"{found}, which {'reaches outside' if metadata.reaches_outside else 'declares no effects'}"


def _goes_out_unasked(metadata: AgentToolMetadata) -> bool:
    return metadata.communicates_outward and not _asks_a_person(metadata)


def _asks_a_person(metadata: AgentToolMetadata) -> bool:
    """Always, by the tool's risk; or when untrusted content has come in, unless the tool says otherwise.

    The run asks then even for a tool with NOT_REQUIRED. It is refused here all the same: its author expects no
    question, and with all three together there would be one.
    """
    if metadata.requires_approval_candidate:
        return True
    return metadata.approval is ToolApprovalRequirement.DERIVED and not metadata.accepts_untrusted


def _rule_problem(name: str, meeting: _Meeting) -> Problem:
    outward, has_signals = (
        _listed(meeting.outward),
        any(str(each).endswith(_SIGNALS) for each in meeting.untrusted),
    )
    return Problem(
        code="agent_rule_of_two",
        summary=(
            f"untrusted content ({_listed(meeting.untrusted)}) and private data ({_listed(meeting.private)}) "
            f"meet a way out that needs no approval ({outward})."
        ),
        remedy=(
            f"Let a person decide: take approval=NOT_REQUIRED and accepts_untrusted=True off {outward}. Or do without "
            "one of the three; or, where a declaration or a default is wrong, correct it: reads_untrusted=False, "
            f"reads_private=False, communicates=False{_LIFTS_SIGNALS if has_signals else ''}."
        ),
        path=(name,),
        family=AgentBootstrapError,
    )


def _listed(found: Sequence[object]) -> str:
    return ", ".join(map(str, found))

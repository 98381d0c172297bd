"""The rule of two: untrusted content, private data and a way out never meet without asking a person.

Pure: decides over what tools declare, before anything runs. Content flows with every delegation, down as a task
and up as a result, so an agent is checked together with all agents it may delegate to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pilotage.agent.tools.catalog import AgentToolDescriptor
from pilotage.agent.tools.metadata import AgentToolMetadata, ToolApprovalRequirement
from pilotage.errors import AgentBootstrapError, Problem
from pilotage.safety.trust import Confidentiality
from pilotage.values import value

_MEMORY = "what is remembered"
_SIGNALS = " signals"
_LIFTS_SIGNALS = "; untrusted_signals=[] for signals of your own"


@value
class AgentReach:
    """What one agent may use: its tools, and the names of the agents it may delegate to.

    `hears`: the kinds of signals of any author that it takes in. `recalls`: it knows what is remembered of people.
    """

    name: str
    tools: tuple[AgentToolDescriptor, ...] = ()
    delegates: tuple[str, ...] = ()
    hears: tuple[str, ...] = ()
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
    """Every agent at which all three meet; one whose delegate is such an agent is not named again.

    Delegates that are not among the agents are left out.
    """
    by_name = {agent.name: agent for agent in agents}
    met = {name: meeting for name in by_name if (meeting := _meeting(name, by_name)) is not None}
    return tuple(
        _problem(name, meeting)
        for name, meeting in met.items()
        if not any(below in met for below in _strictly_below(name, by_name))
    )


def _meeting(name: str, agents: Mapping[str, AgentReach]) -> _Meeting | None:
    ways = list(_ways(name, agents))
    reached = [_Found(way, tool) for way in ways for tool in agents[way[-1]].tools]
    untrusted: list[object] = [_source(found) for found in reached if found.tool.metadata.returns_untrusted]
    untrusted += [
        " -> ".join((*way[1:], f"{kind}{_SIGNALS}")) for way in ways for kind in agents[way[-1]].hears
    ]
    private: list[object] = [
        found for found in reached if found.tool.confidentiality is not Confidentiality.PUBLIC
    ]
    private += [" -> ".join((*way[1:], _MEMORY)) for way in ways if agents[way[-1]].recalls]
    outward = [found for found in reached if _goes_out_unasked(found.tool.metadata)]
    return _Meeting(untrusted, private, outward) if untrusted and private and outward else None


def _ways(name: str, agents: Mapping[str, AgentReach]) -> Iterator[tuple[str, ...]]:
    """The shortest way to each agent within reach, the nearest first, the agent itself included."""
    ways: list[tuple[str, ...]] = [(name,)]
    seen = {name}
    for way in ways:
        yield way
        for delegate in agents[way[-1]].delegates:
            if delegate in agents and delegate not in seen:
                seen.add(delegate)
                ways.append((*way, delegate))


def _strictly_below(name: str, agents: Mapping[str, AgentReach]) -> Iterator[str]:
    """Those within reach from which there is no way back; agents that reach each other are named each."""
    for way in _ways(name, agents):
        if not any(back[-1] == name for back in _ways(way[-1], agents)):
            yield way[-1]


def _source(found: _Found) -> str:
    """The tool whose result is untrusted, with the reason where that is a default."""
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


def _problem(name: str, meeting: _Meeting) -> Problem:
    outward, hears = _listed(meeting.outward), any(str(each).endswith(_SIGNALS) for each in meeting.untrusted)
    return Problem(
        code="agent_rule_of_two",
        summary=(
            f"untrusted content ({_listed(meeting.untrusted)}) and private data ({_listed(meeting.private)}) "
            f"meet a way out that nobody is asked about ({outward})."
        ),
        remedy=(
            f"Let a person decide: take approval=NOT_REQUIRED and accepts_untrusted=True off {outward}. Or do without "
            "one of the three; or, where a declaration or a default is wrong, correct it: reads_untrusted=False, "
            f"reads_private=False, communicates=False{_LIFTS_SIGNALS if hears else ''}."
        ),
        path=(name,),
        family=AgentBootstrapError,
    )


def _listed(found: Sequence[object]) -> str:
    return ", ".join(map(str, found))

"""`describe`: agents, their loops and workers as a Mermaid flowchart. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import TypeAlias, cast

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.ports.architecture import AgentRef, Architecture, workers_of
from pilotage.agent.spec import AgentExecutionSpec
from pilotage.architectures.swarm import Peer
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import is_object
from pilotage.runtime.architecture.registry import find_architecture

_Part: TypeAlias = tuple[str, AgentRef | AgentExecutionSpec | Architecture]


def describe(agent: AgentRef | Architecture) -> str:
    """Return the tree of an agent or of a loop: agents in boxes, loops rounded, edges labelled with worker names.

    An agent that is given by name is a box without content, because only its application has the class.

    Raises:
        AgentDefinitionError: it is neither an agent nor a loop.
    """
    drawing = _Drawing()
    drawing.add("", agent)
    return "\n".join(["flowchart TD", *drawing.lines])


class _Drawing:
    """Lines of Mermaid; an agent that was drawn is not drawn again."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._agents: dict[object, str] = {}
        self._count = 0

    def add(self, name: str, what: AgentRef | AgentExecutionSpec | Architecture) -> str:
        """Draw a node and everything below it; return its id."""
        if isinstance(what, AgentExecutionSpec):
            return self._with_loop(self._box(what.name or name or "a spec"), what)
        if isinstance(what, str | type):
            return self._agent(what)
        return self._loop(what)

    def _agent(self, agent: AgentRef) -> str:
        definition = AgentDefinition.get_or_none(agent) if isinstance(agent, type) else None
        if definition is None and isinstance(agent, type):
            raise AgentDefinitionError(f"{agent.__name__} is no agent. Mark it with @Agent.")
        key = definition.agent_id if definition else agent
        if key not in self._agents:
            self._agents[key] = self._box(str(key))
            if definition is not None and definition.is_declarative:
                self._with_loop(self._agents[key], definition.spec)
        return self._agents[key]

    def _with_loop(self, node: str, spec: AgentExecutionSpec) -> str:
        self.lines.append(f"    {node} --> {self._loop(find_architecture(spec.architecture))}")
        return node

    def _loop(self, architecture: Architecture) -> str:
        node = self._node(f'(["{_label(architecture.name)}"])')
        for name, part in _parts(architecture):
            below = self.add(name, part)
            self.lines.append(f'    {node} -- "{_label(name)}" --> {below}')
        return node

    def _box(self, name: str) -> str:
        return self._node(f'["{_label(name)}"]')

    def _node(self, shape: str) -> str:
        node = f"n{self._count}"
        self._count += 1
        self.lines.append(f"    {node}{shape}")
        return node


def _parts(architecture: Architecture) -> Iterator[_Part]:
    """Yield the workers that a loop declares and, if it is a dataclass, the loops and specs in its fields."""
    if not is_dataclass(architecture):
        yield from workers_of(architecture).items()
        return
    declared = workers_of(architecture)
    for field in fields(architecture):
        given: object = getattr(architecture, field.name)
        named = given if is_object(given) else {field.name: given}
        for name, part in named.items():
            member = part.agent if isinstance(part, Peer) else part
            if _is_part(member) or (isinstance(member, str) and declared.get(name) == member):
                yield name, cast("AgentRef | AgentExecutionSpec | Architecture", member)


def _is_part(member: object) -> bool:
    if isinstance(member, type):
        return AgentDefinition.get_or_none(member) is not None
    return isinstance(member, AgentExecutionSpec | Architecture)


def _label(text: str) -> str:
    return text.replace('"', "#quot;")

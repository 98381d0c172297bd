"""An application as text: its dependency graph as a tree or a Mermaid flowchart, and its start-up report."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import assert_never

from pilotage.container.graph import Ambiguous, Edge, Graph, LeftOut, Many, Missing, Node, One
from pilotage.container.names import snake_case, target_name, type_name
from pilotage.container.pod import Pod, Scope
from pilotage.container.processing import IContainer
from pilotage.container.signature import Making, is_factory
from pilotage.container.typematch import is_plain
from pilotage.values import value

Branch = tuple[str, Node | None]


@value
class Phase:
    """One phase of start-up and the time it took."""

    name: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.name:<14}{self.seconds * 1000:>9.1f} ms"


@value
class Skipped:
    """A plugin or contribution that was not loaded, and why."""

    name: str
    reason: str

    def __str__(self) -> str:
        return f"skipped  {self.name}: {self.reason}"


@dataclass(slots=True)
class StartupReport:
    """Report of the assembly and start of an application; print it."""

    application: str
    pods: int = 0
    phases: list[Phase] = field(default_factory=list[Phase])
    loaded: list[str] = field(default_factory=list[str])
    skipped: list[Skipped] = field(default_factory=list[Skipped])

    @contextmanager
    def phase(self, name: str) -> Generator[None]:
        """Record the time a block takes, also if it fails."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.phases.append(Phase(name, time.perf_counter() - begin))

    @property
    def seconds(self) -> float:
        """The time all phases took together."""
        return sum(phase.seconds for phase in self.phases)

    def __str__(self) -> str:
        pods = "1 pod" if self.pods == 1 else f"{self.pods} pods"
        title = f"application {self.application!r}: {pods} in {self.seconds * 1000:.1f} ms"
        loaded = [f"loaded   {name}" for name in self.loaded]
        return "\n  ".join([title, *map(str, self.phases), *loaded, *map(str, self.skipped)])


def describe_text(application: str, graph: Graph) -> str:
    """Return a tree below each pod that nothing needs; each dependency is drawn once."""
    drawn: set[Node] = set()
    lines = [f"application {application!r}"]
    # Pods that nothing needs come first; the others after them belong to a cycle.
    for node in sorted(_shown(graph), key=lambda node: bool(graph.dependents(node))):
        if node not in drawn:
            lines.extend(_tree(node, graph, drawn))
    return "\n".join(lines)


def describe_mermaid(graph: Graph) -> str:
    """Return a flowchart; arrows are labelled with the requested type, dashed ones lead to missing pods."""
    shown = _shown(graph)
    lines = [f'  {_id(node)}["{_title(node, graph)}"]' for node in shown]
    for node in shown:
        for number, edge in enumerate(graph.edges(node)):
            requested = type_name(edge.dependency.type_)
            lines += [f'  {_id(node)} -->|"{requested}"| {_id(needed)}' for needed in edge.nodes]
            if isinstance(edge.resolution, Missing | Ambiguous):
                lines += [f'  {_id(node)} -.-> {_id(node)}_{number}["{text}"]' for text, _ in _branches(edge)]
    return "\n".join(["flowchart TD", *lines])


def _shown(graph: Graph) -> list[Node]:
    """Return all pods but the application itself, unless something needs it."""
    every = sorted({*graph.nodes, *graph.unreadable}, key=lambda node: node.position)
    return [node for node in every if not _is_application(node) or graph.dependents(node)]


def _is_application(node: Node) -> bool:
    return node.pod.making is Making.GIVEN and node.provides(IContainer)


def _tree(root: Node, graph: Graph, drawn: set[Node]) -> Iterator[str]:
    waiting: list[tuple[str, str, Branch]] = [("", "", (_title(root, graph), root))]
    while waiting:
        lead, indent, (text, node) = waiting.pop()
        branches = _all_branches(node, graph) if node is not None else []
        again = node in drawn and bool(branches)
        yield f"{lead}{text}{' (see above)' if again else ''}"
        if node is None or again:
            continue
        drawn.add(node)
        for branch in reversed(branches):
            last = branch is branches[-1]
            waiting.append(
                (f"{indent}{'└── ' if last else '├── '}", f"{indent}{'    ' if last else '│   '}", branch)
            )


def _all_branches(node: Node, graph: Graph) -> list[Branch]:
    return [
        (f"{_title(below, graph)}{text}" if below is not None else text, below)
        for edge in graph.edges(node)
        for text, below in _branches(edge)
    ]


def _branches(edge: Edge) -> Iterator[Branch]:
    """Yield the branches below an edge: pods with the requested type, or a text for a missing one."""
    requested = type_name(edge.dependency.type_)
    match edge.resolution:
        case One(node):
            yield (f" as {requested}" if node.pod.type_ is not edge.dependency.type_ else ""), node
        case Many(()):
            yield f"{requested} (empty)", None
        case Many(nodes):
            yield from ((f" in {requested}", node) for node in nodes)
        case LeftOut():
            if not is_plain(edge.dependency.type_):
                yield f"{requested} (left out)", None
        case Missing():
            yield f"{requested} (missing)", None
        case Ambiguous(candidates):
            yield f"{requested} (ambiguous: {', '.join(node.label for node in candidates)})", None
        case _:
            assert_never(edge.resolution)


def _title(node: Node, graph: Graph) -> str:
    stereotype = type(node.pod)
    traits = [snake_case(target_name(stereotype)).replace("_", " ")] if stereotype is not Pod else []
    if node.pod.scope is not Scope.SINGLETON:
        traits.append(node.pod.scope.value)
    if node in graph.unreadable:
        traits.append("unreadable")
    elif is_factory(node.target):
        return f"{node.label} -> {type_name(node.pod.type_)}{_in_brackets(traits)}"
    return f"{node.label}{_in_brackets(traits)}"


def _in_brackets(traits: list[str]) -> str:
    return f" [{', '.join(traits)}]" if traits else ""


def _id(node: Node) -> str:
    return f"pod{node.position}"

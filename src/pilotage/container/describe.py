"""The dependency graph as a text tree and as a Mermaid flowchart. Pure; draws wrong graphs too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from pilotage.container.graph import Graph
from pilotage.container.names import snake_case, target_name, type_name
from pilotage.container.node import Ambiguous, Edge, LeftOut, Many, Missing, Node, One
from pilotage.container.pod import Pod, Scope
from pilotage.container.processing import IContainer
from pilotage.container.signature import Making, is_factory
from pilotage.container.typematch import is_plain

Branch = tuple[str, Node | None]


def describe_text(application: str, graph: Graph) -> str:
    """A tree below each pod that nothing needs; what a pod needs is drawn once."""
    drawn: set[Node] = set()
    lines = [f"application {application!r}"]
    # Pods that nothing needs come first; what is left after them hangs on a cycle.
    for node in sorted(_shown(graph), key=lambda node: bool(graph.dependents(node))):
        if node not in drawn:
            lines.extend(_tree(node, graph, drawn))
    return "\n".join(lines)


def describe_mermaid(graph: Graph) -> str:
    """A flowchart; an arrow says what is asked for, a dashed one leads to what is missing."""
    shown = _shown(graph)
    lines = [f'  {_id(node)}["{_title(node, graph)}"]' for node in shown]
    for node in shown:
        for number, edge in enumerate(graph.edges(node)):
            asked = type_name(edge.dependency.type_)
            lines += [f'  {_id(node)} -->|"{asked}"| {_id(needed)}' for needed in edge.nodes]
            if isinstance(edge.resolution, Missing | Ambiguous):
                lines += [f'  {_id(node)} -.-> {_id(node)}_{number}["{text}"]' for text, _ in _branches(edge)]
    return "\n".join(["flowchart TD", *lines])


def _shown(graph: Graph) -> list[Node]:
    """All pods but the application itself, unless something needs it."""
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
    """What hangs below an edge: pods with how they were asked for, or words for what is not there."""
    asked = type_name(edge.dependency.type_)
    match edge.resolution:
        case One(node):
            yield (f" as {asked}" if node.pod.type_ is not edge.dependency.type_ else ""), node
        case Many(()):
            yield f"{asked} (empty)", None
        case Many(nodes):
            yield from ((f" in {asked}", node) for node in nodes)
        case LeftOut():
            if not is_plain(edge.dependency.type_):
                yield f"{asked} (left out)", None
        case Missing():
            yield f"{asked} (missing)", None
        case Ambiguous(candidates):
            yield f"{asked} (ambiguous: {', '.join(node.label for node in candidates)})", None
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

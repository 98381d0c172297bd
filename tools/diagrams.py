"""Draws the diagrams of the docs as SVG while the site is built: nothing is loaded from elsewhere.

Reads the part of Mermaid's language that the docs use: flowcharts and state diagrams with shapes, labels and `&`.
`mkdocs.yml` names `fence` as the formatter of `mermaid` blocks; a place like GitHub draws the same blocks by itself.

A layered layout: edges that close a circle are turned round, each box gets a rank, a label is a box of its own between
two ranks, and boxes are moved next to their neighbours. The colours are those of the page, light and dark.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from textwrap import wrap
from typing import Any

CHARACTER, LINE, PADDING = 7.4, 18, 12
BETWEEN, RANKS = 26, 26
_LINK = re.compile(r'\s*--\s*(?:"([^"]*)"|([^->"][^>]*?))\s*-->\s*|\s*-->\s*')
_NODE = re.compile(r"([\w.*\[\]]+?)(\(\[|\[\(|\{\{|\[|\(|\{|$)(.*)", re.DOTALL)
_SHAPES = {"([": "round", "[(": "store", "{{": "act", "[": "box", "(": "round", "{": "choice", "": "box"}
_ENDS = re.compile(r'^"?(.*?)"?(?:\]\)|\)\]|\}\}|\]|\)|\})$', re.DOTALL)


@dataclass
class Box:
    """Something with a place: a node, a label of an edge, or a point that a long edge passes."""

    text: str
    shape: str
    lines: list[str] = field(default_factory=list[str])
    rank: int = 0
    x: float = 0
    y: float = 0
    width: float = 0
    height: float = 0


@dataclass
class Edge:
    """An arrow from one box to another, with a label or without."""

    source: str
    target: str
    label: str = ""
    is_turned: bool = False
    path: list[str] = field(default_factory=list[str])


@dataclass
class Drawing:
    """A diagram with a place for everything; `is_across` if its ranks go from left to right."""

    boxes: dict[str, Box]
    edges: list[Edge]
    is_across: bool


def fence(source: str, _language: str, _css: str, _options: object, _markdown: object, **_: Any) -> str:
    """Return the picture of a block, for pymdownx.superfences."""
    return svg(source)


def svg(source: str) -> str:
    """Return the picture of a diagram."""
    drawing = laid_out(parsed(source))
    boxes = list(drawing.boxes.values())
    left = min(box.x - box.width / 2 for box in boxes) - 4
    top = min(box.y - box.height / 2 for box in boxes) - 4
    width = max(box.x + box.width / 2 for box in boxes) + 4 - left
    height = max(box.y + box.height / 2 for box in boxes) + 4 - top
    parts = [*(_arrow(drawing, edge) for edge in drawing.edges), *map(_box, boxes)]
    label = escape(", ".join(box.text for box in boxes if box.shape not in ("label", "point")), quote=True)
    size = f'viewBox="{left:.0f} {top:.0f} {width:.0f} {height:.0f}" style="max-width:{width:.0f}px"'
    return f'<svg class="diagram" role="img" aria-label="{label}" {size}>{"".join(parts)}</svg>'


def parsed(source: str) -> Drawing:
    """Return the boxes and arrows of a diagram, without places.

    Raises:
        ValueError: a line is not understood.
    """
    head, *lines = [line.strip() for line in source.strip().splitlines() if line.strip()]
    drawing = Drawing({}, [], is_across=head.endswith("LR"))
    for line in lines:
        if head.startswith("stateDiagram"):
            _read_transition(drawing, line)
        elif head.startswith("flowchart"):
            _read_chain(drawing, line)
        else:
            raise ValueError(f"a diagram begins with flowchart or stateDiagram-v2, not {head!r}")
    return drawing


def _read_transition(drawing: Drawing, line: str) -> None:
    found = re.fullmatch(r"(\[\*\]|\w+) --> (\[\*\]|\w+)(?:: (.*))?", line)
    if found is None:
        raise ValueError(f"not understood: {line}")
    ends = [
        ("start" if end == 0 else "end") if name == "[*]" else name
        for end, name in enumerate(found.group(1, 2))
    ]
    for name in ends:
        shape = "dot" if name in ("start", "end") else "round"
        drawing.boxes.setdefault(name, Box("" if shape == "dot" else name, shape))
    drawing.edges.append(Edge(ends[0], ends[1], found[3] or ""))


def _read_chain(drawing: Drawing, line: str) -> None:
    """Read `a --> b -- label --> c & d`: each group is linked with the one before it."""
    before: list[str] = []
    at, label = 0, ""
    links = [*_LINK.finditer(line), None]
    for link in links:
        group = line[at : link.start() if link else len(line)]
        names = [_read_node(drawing, each) for each in group.split(" & ")]
        drawing.edges += [Edge(source, target, label) for source in before for target in names]
        before = names
        if link:
            at, label = link.end(), link[1] or link[2] or ""


def _read_node(drawing: Drawing, text: str) -> str:
    found = _NODE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"not understood: {text}")
    name, opening, rest = found.groups()
    words = _ENDS.match(opening and rest)
    box = drawing.boxes.setdefault(name, Box(name, "box"))
    if words:
        box.text, box.shape = words[1], _SHAPES[opening]
    return name


def laid_out(drawing: Drawing) -> Drawing:
    """Give every box a rank and a place, and every edge the boxes that it passes."""
    _turn_circles(drawing)
    _rank(drawing)
    _split_edges(drawing)
    for box in drawing.boxes.values():
        _measure(box)
    ranks: dict[int, list[str]] = defaultdict(list)
    for name, box in drawing.boxes.items():
        ranks[box.rank].append(name)
    _order(drawing, ranks)
    _place(drawing, ranks)
    return drawing


def _turn_circles(drawing: Drawing) -> None:
    """Turn the edges of circles round that lead to a box which the diagram names earlier."""
    place = {name: at for at, name in enumerate(drawing.boxes)}
    reached = {name: _reached_from(name, drawing.edges) for name in drawing.boxes}
    for edge in drawing.edges:
        is_backwards = place[edge.target] < place[edge.source]
        edge.is_turned = is_backwards and edge.source in reached[edge.target]


def _reached_from(name: str, edges: list[Edge]) -> set[str]:
    reached, new = {name}, {name}
    while new:
        new = {edge.target for edge in edges if edge.source in new} - reached
        reached |= new
    return reached


def _downwards(edge: Edge) -> tuple[str, str]:
    return (edge.target, edge.source) if edge.is_turned else (edge.source, edge.target)


def _rank(drawing: Drawing) -> None:
    """Rank by the longest way from a source; even ranks are for nodes, odd ones for labels."""
    downwards = [_downwards(edge) for edge in drawing.edges if edge.source != edge.target]
    for _ in drawing.boxes:
        for above, below in downwards:
            drawing.boxes[below].rank = max(drawing.boxes[below].rank, drawing.boxes[above].rank + 2)


def _split_edges(drawing: Drawing) -> None:
    """Put a box on each rank that an edge passes; its label is the middle one."""
    for number, edge in enumerate(drawing.edges):
        above, below = _downwards(edge)
        first, last = drawing.boxes[above].rank, drawing.boxes[below].rank
        between = [f"{number}:{rank}" for rank in range(first + 1, last)] or [f"{number}:{first + 1}"]
        middle = between[len(between) // 2]
        for offset, name in enumerate(between):
            is_label = bool(edge.label) and name == middle
            shape = "label" if is_label else "point"
            drawing.boxes[name] = Box(edge.label if is_label else "", shape, rank=first + 1 + offset)
        edge.path = [above, *between, below]
        if edge.is_turned:
            edge.path.reverse()


def _measure(box: Box) -> None:
    box.lines = wrap(box.text, 24 if box.shape == "label" else 22, break_long_words=False) or [""]
    longest = max(map(len, box.lines))
    padding = {"label": 4, "point": 0, "choice": 26, "act": 22}.get(box.shape, PADDING)
    box.width = longest * CHARACTER * (0.88 if box.shape == "label" else 1) + 2 * padding
    box.height = len(box.lines) * LINE + {"label": 2, "point": 0, "choice": 26}.get(box.shape, 16)
    if box.shape in ("point", "dot"):
        box.width = box.height = 14 if box.shape == "dot" else 8


def _neighbours(drawing: Drawing) -> dict[str, list[tuple[str, int]]]:
    """The boxes that each box is linked with, and on which side."""
    found: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for edge in drawing.edges:
        for one, other in zip(edge.path, edge.path[1:], strict=False):
            side = drawing.boxes[other].rank - drawing.boxes[one].rank
            found[one].append((other, side))
            found[other].append((one, -side))
    return found


def _order(drawing: Drawing, ranks: dict[int, list[str]]) -> None:
    """Order each rank by the middle of its neighbours, downwards and upwards in turn."""
    neighbours = _neighbours(drawing)
    for sweep in range(12):
        side = -1 if sweep % 2 == 0 else 1
        position = {name: at for rank in ranks.values() for at, name in enumerate(rank)}
        for rank in sorted(ranks, reverse=side > 0):
            middle = {
                name: _mean(
                    [position[other] for other, s in neighbours[name] if s * side > 0], position[name]
                )
                for name in ranks[rank]
            }
            ranks[rank].sort(key=middle.__getitem__)
            position.update({name: at for at, name in enumerate(ranks[rank])})


def _mean(values: list[float], default: float) -> float:
    return sum(values) / len(values) if values else default


def _place(drawing: Drawing, ranks: dict[int, list[str]]) -> None:
    """Put ranks one after the other, and boxes of a rank next to their neighbours without touching."""
    boxes, neighbours = drawing.boxes, _neighbours(drawing)
    breadth = {name: box.height if drawing.is_across else box.width for name, box in boxes.items()}
    depth = {name: box.width if drawing.is_across else box.height for name, box in boxes.items()}
    at = dict.fromkeys(boxes, 0.0)
    for _ in range(40):
        for rank in sorted(ranks):
            wanted = {
                name: _mean([at[other] for other, _side in neighbours[name]], at[name])
                for name in ranks[rank]
            }
            at.update(_apart(ranks[rank], wanted, breadth))
    along, down = 0.0, {}
    for rank in sorted(ranks):
        deepest = max(depth[name] for name in ranks[rank])
        down[rank] = along + deepest / 2
        along += deepest + (RANKS * 0.6)
    for name, box in boxes.items():
        places = (at[name], down[box.rank])
        box.x, box.y = reversed(places) if drawing.is_across else places


def _apart(names: list[str], wanted: dict[str, float], breadth: dict[str, float]) -> dict[str, float]:
    """Return places as near to the wanted ones as their order and size allow: groups that touch share their error."""
    groups: list[list[str]] = []
    places: dict[str, float] = {}

    def settle(group: list[str]) -> None:
        offsets, width = {}, 0.0
        for name in group:
            offsets[name] = width + breadth[name] / 2
            width += breadth[name] + BETWEEN
        start = _mean([wanted[name] - offsets[name] for name in group], 0)
        places.update({name: start + offset for name, offset in offsets.items()})

    for name in names:
        groups.append([name])
        settle(groups[-1])
        while len(groups) > 1 and _touch(groups[-2][-1], groups[-1][0], places, breadth):
            last = groups.pop()
            groups[-1] += last
            settle(groups[-1])
    return places


def _touch(one: str, other: str, places: dict[str, float], breadth: dict[str, float]) -> bool:
    return places[other] - places[one] < (breadth[one] + breadth[other]) / 2 + BETWEEN - 0.01


def _box(box: Box) -> str:
    if box.shape == "point":
        return ""
    x, y, w, h = box.x - box.width / 2, box.y - box.height / 2, box.width, box.height
    outline = {
        "box": f'<rect class="node" x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" rx="4"/>',
        "store": f'<rect class="node store" x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" rx="9"/>',
        "round": f'<rect class="node" x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" rx="{h / 2:.1f}"/>',
        "act": _polygon(
            [(x, box.y), (x + 12, y), (x + w - 12, y), (x + w, box.y), (x + w - 12, y + h), (x + 12, y + h)]
        ),
        "choice": _polygon([(x, box.y), (box.x, y - 4), (x + w, box.y), (box.x, y + h + 4)]),
        "dot": f'<circle class="dot" cx="{box.x:.1f}" cy="{box.y:.1f}" r="7"/>',
        "label": f'<rect class="under" x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" rx="3"/>',
    }[box.shape]
    first = box.y - (len(box.lines) - 1) * LINE / 2
    kind = "label" if box.shape == "label" else "text"
    lines = "".join(
        f'<text class="{kind}" x="{box.x:.1f}" y="{first + number * LINE:.1f}">{escape(line)}</text>'
        for number, line in enumerate(box.lines)
        if line
    )
    return outline + lines


def _polygon(points: list[tuple[float, float]]) -> str:
    return f'<polygon class="node" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>'


def _arrow(drawing: Drawing, edge: Edge) -> str:
    """An edge as a smooth line through the boxes that it passes, with a head at its end."""
    points = list(_points(drawing, edge))
    path = f"M{points[0][0]:.1f},{points[0][1]:.1f}"
    for (x1, y1), (x2, y2) in itertools.pairwise(points):
        if drawing.is_across:
            path += f" C{(x1 + x2) / 2:.1f},{y1:.1f} {(x1 + x2) / 2:.1f},{y2:.1f} {x2:.1f},{y2:.1f}"
        else:
            path += f" C{x1:.1f},{(y1 + y2) / 2:.1f} {x2:.1f},{(y1 + y2) / 2:.1f} {x2:.1f},{y2:.1f}"
    (x1, y1), (x2, y2) = points[-2], points[-1]
    along = (1 if x2 > x1 else -1, 0) if drawing.is_across else (0, 1 if y2 > y1 else -1)
    back, side = 8, 4.5
    left = (x2 - along[0] * back - along[1] * side, y2 - along[1] * back - along[0] * side)
    right = (x2 - along[0] * back + along[1] * side, y2 - along[1] * back + along[0] * side)
    head = f"{x2:.1f},{y2:.1f} {left[0]:.1f},{left[1]:.1f} {right[0]:.1f},{right[1]:.1f}"
    return f'<path class="edge" d="{path}"/><polygon class="head" points="{head}"/>'


def _points(drawing: Drawing, edge: Edge) -> Iterator[tuple[float, float]]:
    """The places that an edge passes, from the border of its source to the border of its target."""
    path = [drawing.boxes[name] for name in edge.path]
    for number, box in enumerate(path):
        is_end = number in (0, len(path) - 1)
        towards = path[1] if number == 0 else path[-2]
        if not is_end:
            yield box.x, box.y
        elif drawing.is_across:
            yield box.x + (box.width / 2 if towards.x > box.x else -box.width / 2), box.y
        else:
            reach = box.height / 2 + (4 if box.shape == "choice" else 0)
            yield box.x, box.y + (reach if towards.y > box.y else -reach)

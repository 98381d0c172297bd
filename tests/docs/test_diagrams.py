"""The diagrams of the docs are drawn by our own tool, and nothing in them lies on anything else."""

from __future__ import annotations

from itertools import combinations

import pytest
from tools.diagrams import Box, Drawing, fence, laid_out, parsed

from tests.docs.blocks import ROOT, Block, blocks, pages

DIAGRAMS = [
    block
    for page in pages()
    if page.parent != ROOT or page.name == "README.md"
    for block in blocks(page)
    if block.language == "mermaid"
]


def drawn(source: str) -> Drawing:
    return laid_out(parsed(source))


def overlaps(one: Box, other: Box) -> bool:
    across = abs(one.x - other.x) < (one.width + other.width) / 2
    return across and abs(one.y - other.y) < (one.height + other.height) / 2


@pytest.mark.parametrize("block", DIAGRAMS, ids=lambda block: f"{block.page.stem}:{block.line}")
def test_no_box_and_no_label_of_a_diagram_covers_another(block: Block) -> None:
    boxes = [box for box in drawn(block.text).boxes.values() if box.shape != "point"]
    assert len(boxes) > 2
    assert [(one.text, other.text) for one, other in combinations(boxes, 2) if overlaps(one, other)] == []


def test_a_chain_of_groups_has_an_edge_for_each_pair_and_its_label() -> None:
    drawing = parsed('flowchart TD\n    a["x, y"] -- "one & two" --> b & c{why?} --> d([end])')
    edges = [(edge.source, edge.target, edge.label) for edge in drawing.edges]
    assert edges == [("a", "b", "one & two"), ("a", "c", "one & two"), ("b", "d", ""), ("c", "d", "")]
    shapes = {name: (box.text, box.shape) for name, box in drawing.boxes.items()}
    assert shapes == {"a": ("x, y", "box"), "b": ("b", "box"), "c": ("why?", "choice"), "d": ("end", "round")}


def test_an_edge_that_closes_a_circle_leads_upwards() -> None:
    drawing = drawn("flowchart TD\n    a --> b --> c\n    c -- again --> a")
    assert drawing.boxes["a"].y < drawing.boxes["b"].y < drawing.boxes["c"].y
    assert [edge.is_turned for edge in drawing.edges] == [False, False, True]
    assert (drawing.edges[2].path[0], drawing.edges[2].path[-1]) == ("c", "a")


def test_ranks_go_to_the_right_if_the_diagram_says_so() -> None:
    drawing = drawn("flowchart LR\n    a --> b")
    assert drawing.boxes["a"].x < drawing.boxes["b"].x


def test_what_is_no_diagram_is_refused() -> None:
    for source in ("pie\n    a", "flowchart TD\n    -> -> ]", "stateDiagram-v2\n    a --- b"):
        with pytest.raises(ValueError, match="diagram begins with|not understood"):
            parsed(source)


def test_words_are_escaped() -> None:
    assert "<b>" not in fence('flowchart TD\n    a["<b>"] --> c', "mermaid", "", {}, None)

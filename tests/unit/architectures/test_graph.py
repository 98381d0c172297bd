"""Plans as graphs: what is wrong with them, and what can go side by side."""

from __future__ import annotations

import pytest

from pilotage.architectures.graph import graph_problems, levels

Steps = list[tuple[str, list[str]]]


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([("a", []), ("b", ["a"])], []),
        ([], ["there is no step."]),
        ([("a", ["done"])], []),
        ([("a", []), ("a", [])], ["the id 'a' is used 2 times."]),
        ([(" ", [])], ["a step has no id."]),
        ([("a", ["z"])], ["'a' needs 'z', which is no step."]),
        ([("done", [])], ["the id 'done' is that of a step which is done."]),
        ([("a", []), ("b", []), ("c", []), ("d", [])], ["there are 4 steps; 3 are allowed."]),
        ([("a", ["a"])], ["'a' wait for each other; no step may need itself."]),
        ([("a", []), ("b", ["c"]), ("c", ["b"])], ["'b', 'c' wait for each other; no step may need itself."]),
    ],
)
def test_everything_wrong_with_a_plan_is_said(steps: Steps, words: list[str]) -> None:
    assert graph_problems(steps, most=3, known=["done"]) == words


def test_several_problems_are_said_at_once() -> None:
    assert len(graph_problems([("a", ["x"]), ("a", ["y"])], most=1)) == 4


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ({}, []),
        ({"a": [], "b": []}, [["a", "b"]]),
        ({"c": ["a", "b"], "a": [], "b": ["a"]}, [["a"], ["b"], ["c"]]),
        ({"a": ["done"]}, [["a"]]),
        ({"a": [], "b": ["c"], "c": ["b"]}, [["a"]]),
    ],
)
def test_steps_are_done_when_what_they_need_is_there(
    steps: dict[str, list[str]], expected: list[list[str]]
) -> None:
    assert levels(steps, ["done"]) == expected

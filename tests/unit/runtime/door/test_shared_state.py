"""Shared state: the operations of RFC 6902 on states, and the patches that do not fit."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from pilotage.agent.yields import checked_patch
from pilotage.runtime.door.shared_state import PatchDoesNotFitError, patched

STATE: Any = {"items": ["tea", {"price": 3}], "paid": False, "a/b": 1, "m~n": 2, "": 0}


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ({"op": "add", "path": "/done", "value": True}, {**STATE, "done": True}),
        ({"op": "add", "path": "/paid", "value": True}, {**STATE, "paid": True}),
        ({"op": "add", "path": "/items/0", "value": "x"}, {**STATE, "items": ["x", "tea", {"price": 3}]}),
        ({"op": "add", "path": "/items/2", "value": "x"}, {**STATE, "items": ["tea", {"price": 3}, "x"]}),
        ({"op": "add", "path": "/items/-", "value": None}, {**STATE, "items": ["tea", {"price": 3}, None]}),
        (
            {"op": "add", "path": "/items/1/of", "value": 1},
            {**STATE, "items": ["tea", {"price": 3, "of": 1}]},
        ),
        ({"op": "add", "path": "", "value": []}, []),
        ({"op": "remove", "path": "/items/0"}, {**STATE, "items": [{"price": 3}]}),
        ({"op": "remove", "path": "/items"}, {name: STATE[name] for name in STATE if name != "items"}),
        ({"op": "remove", "path": ""}, None),
        ({"op": "replace", "path": "/items/0", "value": "rum"}, {**STATE, "items": ["rum", {"price": 3}]}),
        ({"op": "replace", "path": "/a~1b", "value": 7}, {**STATE, "a/b": 7}),
        ({"op": "replace", "path": "/m~0n", "value": 7}, {**STATE, "m~n": 7}),
        ({"op": "replace", "path": "/", "value": 7}, {**STATE, "": 7}),
        ({"op": "replace", "path": "", "value": 7}, 7),
        (
            {"op": "move", "from": "/items/0", "path": "/items/1"},
            {**STATE, "items": [{"price": 3}, "tea"]},
        ),
        ({"op": "move", "from": "/items", "path": "/items"}, STATE),
        ({"op": "copy", "from": "/items/1", "path": "/paid"}, {**STATE, "paid": {"price": 3}}),
        ({"op": "test", "path": "/items/1", "value": {"price": 3.0}}, STATE),
        ({"op": "test", "path": "/paid", "value": False}, STATE),
    ],
)
def test_an_operation_gives_a_new_state(operation: Any, expected: Any) -> None:
    before = copy.deepcopy(STATE)
    assert patched(STATE, checked_patch([operation])) == expected
    assert before == STATE


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "add", "path": "/no/way", "value": 1},
        {"op": "add", "path": "/items/3", "value": 1},
        {"op": "add", "path": "/items/01", "value": 1},
        {"op": "add", "path": "/items/x", "value": 1},
        {"op": "add", "path": "/paid/x", "value": 1},
        {"op": "add", "path": "/items/0/x", "value": 1},
        {"op": "remove", "path": "/no"},
        {"op": "remove", "path": "/items/-"},
        {"op": "remove", "path": "/items/2"},
        {"op": "replace", "path": "/no", "value": 1},
        {"op": "replace", "path": "/items/-", "value": 1},
        {"op": "move", "from": "/no", "path": "/paid"},
        {"op": "move", "from": "/items", "path": "/items/0"},
        {"op": "copy", "from": "/items/9", "path": "/paid"},
        {"op": "test", "path": "/paid", "value": 0},
        {"op": "test", "path": "/items", "value": ["tea"]},
        {"op": "test", "path": "/no", "value": None},
    ],
)
def test_an_operation_that_does_not_fit_is_refused(operation: Any) -> None:
    with pytest.raises(PatchDoesNotFitError):
        patched(STATE, checked_patch([operation]))

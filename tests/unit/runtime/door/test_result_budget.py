"""How a result is cut for the model."""

from __future__ import annotations

import json

import pytest

from pilotage.agent.tools.metadata import ResultBudget
from pilotage.jsonvalue import JsonValue, canonical_json, to_bytes
from pilotage.runtime.door.tool_binding import within_budget

LONG = "The quick brown fox. " * 50


def size(value: JsonValue) -> int:
    return len(to_bytes(canonical_json(value)))


@pytest.mark.parametrize("result", [None, "short", 12.5, {"rows": [1, 2, 3]}, LONG])
def test_without_a_budget_the_result_stays_as_it_is(result: JsonValue) -> None:
    assert within_budget(result, ResultBudget()) is result


@pytest.mark.parametrize("result", ["short", {"rows": [1, 2, 3]}, ["ä" * 10], LONG])
def test_what_fits_exactly_stays_and_one_byte_more_is_cut(result: JsonValue) -> None:
    assert within_budget(result, ResultBudget(size(result))) is result
    assert within_budget(result, ResultBudget(size(result) - 1)) != result


def cut(result: JsonValue, max_bytes: int) -> dict[str, JsonValue]:
    shown = within_budget(result, ResultBudget(max_bytes))
    assert isinstance(shown, dict)
    again = json.loads(canonical_json(shown))
    assert again == shown
    return shown


def test_a_cut_text_keeps_its_beginning_and_says_how_large_it_was() -> None:
    shown = cut(LONG, 300)
    beginning = str(shown.pop("beginning"))
    assert LONG.startswith(beginning)
    assert len(beginning) > 100
    assert shown == {
        "cut": True,
        "note": "the result has 1052 bytes, 300 are allowed; ask for less",
        "size_bytes": 1052,
    }


def test_a_cut_structure_shows_the_beginning_of_its_text() -> None:
    rows: JsonValue = {"rows": [{"id": number, "name": f"row {number}"} for number in range(100)]}
    shown = cut(rows, 250)
    assert canonical_json(rows).startswith(str(shown["beginning"]))
    assert str(shown["beginning"]).startswith('{"rows":[{"id":0,')


@pytest.mark.parametrize(
    "result",
    [LONG, '"\\\n' * 200, "ä€😀" * 100, ["\ud800" * 300], [{"a": '"'}] * 100],
    ids=["plain", "escapes", "wide", "lone surrogates", "structure"],
)
@pytest.mark.parametrize("max_bytes", [150, 151, 152, 200, 255, 400])
def test_what_is_shown_fits_and_wastes_nothing(result: JsonValue, max_bytes: int) -> None:
    shown = within_budget(result, ResultBudget(max_bytes))
    widest_character = 6
    assert max_bytes - widest_character < size(shown) <= max_bytes


def test_what_is_said_about_the_cut_is_never_cut() -> None:
    shown = cut(LONG, 1)
    assert (shown["cut"], shown["size_bytes"], shown["beginning"]) == (True, 1052, "")


def test_the_order_of_keys_does_not_change_what_is_shown() -> None:
    budget = ResultBudget(160)
    assert within_budget({"a": LONG, "b": 1}, budget) == within_budget({"b": 1, "a": LONG}, budget)

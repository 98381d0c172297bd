"""JSON values: one canonical text, one way from Python to JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel

from pilotage.jsonvalue import (
    JsonValue,
    as_integer,
    as_list,
    as_object,
    as_string,
    canonical_json,
    is_list,
    json_digest,
    list_or_empty,
    object_or_empty,
    parsed,
    to_json_value,
)
from pilotage.schema.encoding import encoder_of


class Colour(StrEnum):
    RED = "red"


class Level(Enum):
    LOW = 1


@dataclass(frozen=True)
class Point:
    x: int
    tags: tuple[str, ...] = ()


class Order(BaseModel):
    id: UUID
    amount: Decimal


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (1.5, 1.5),
        ("text", "text"),
        (Colour.RED, "red"),
        (Level.LOW, 1),
        ((1, 2), [1, 2]),
        ({"b": (1,), "a": Point(1, ("x",))}, {"b": [1], "a": {"x": 1, "tags": ["x"]}}),
        ({Colour.RED: 1}, {"red": 1}),
        ({3, 1, 2}, [1, 2, 3]),
        (range(3), [0, 1, 2]),
        (Decimal("12.50"), "12.50"),
        (datetime(2026, 1, 2, 3, tzinfo=UTC), "2026-01-02T03:00:00+00:00"),
        (date(2026, 1, 2), "2026-01-02"),
        (timedelta(minutes=1), 60.0),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Order(id=UUID(int=1), amount=Decimal("1.0")), {"id": str(UUID(int=1)), "amount": "1.0"}),
    ],
)
def test_python_values_have_one_json_form(value: object, expected: object) -> None:
    assert to_json_value(value) == expected


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (object(), "object has no JSON form"),
        (b"bytes", "bytes has no JSON form"),
        ({1: "a"}, "a JSON key must be a string, not int (1)"),
        ([{"deep": Point}], "type has no JSON form"),
    ],
)
def test_what_has_no_json_form_is_named(value: object, message: str) -> None:
    with pytest.raises(TypeError) as caught:
        to_json_value(value)
    assert str(caught.value) == message


def test_equal_values_have_equal_texts_whatever_the_order_of_their_keys() -> None:
    assert canonical_json({"b": 1, "a": [True, None]}) == '{"a":[true,null],"b":1}'
    assert json_digest({"b": 1, "a": 2}) == json_digest({"a": 2, "b": 1})
    assert json_digest({"a": 1}) != json_digest({"a": 2})


def test_the_canonical_text_takes_mappings_and_sequences_of_any_kind() -> None:
    assert canonical_json(MappingProxyType({"a": (1, "é")})) == '{"a":[1,"é"]}'
    assert canonical_json(range(2)) == "[0,1]"


def test_a_lone_surrogate_has_a_digest_too() -> None:
    assert len(json_digest({"text": "\ud800"})) == 64


def test_nan_has_no_canonical_text() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json(float("nan"))


@pytest.mark.parametrize(
    ("narrow", "fits", "does_not"),
    [
        (as_object, {"a": 1}, [1]),
        (as_object, MappingProxyType({"a": 1}), "a"),
        (as_list, [1, 2], {"a": 1}),
        (as_list, (1, 2), "ab"),
        (as_string, "ab", 1),
        (as_integer, 3, "3"),
    ],
)
def test_a_value_of_another_kind_is_refused_with_its_type(
    narrow: Callable[[JsonValue], object], fits: JsonValue, does_not: JsonValue
) -> None:
    assert narrow(fits) is fits
    with pytest.raises(TypeError, match=f"not {type(does_not).__name__}"):
        narrow(does_not)


def test_anything_but_an_object_or_a_list_counts_as_an_empty_one() -> None:
    assert [object_or_empty(each) for each in ({"a": 1}, None, [1], "a")] == [{"a": 1}, {}, {}, {}]
    assert [list(list_or_empty(each)) for each in ([1], (2,), None, "ab")] == [[1], [2], [], []]


@pytest.mark.parametrize(
    ("value", "expected"), [([1], True), ((), True), ("a", False), (b"a", False), ({}, False)]
)
def test_texts_and_bytes_are_no_lists(value: object, expected: bool) -> None:
    assert is_list(value) is expected


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", '{"a":-Infinity}', "1e999", '{"a":[-1e400]}', " NaN "])
def test_a_number_that_json_does_not_have_is_no_stored_value(text: str) -> None:
    with pytest.raises(ValueError, match="is no number of JSON"):
        parsed(text)


def test_numbers_of_json_are_read_as_they_are() -> None:
    assert parsed("[1.5,-0.0,1e10,12345678901234567890]") == [1.5, -0.0, 1e10, 12345678901234567890]


class Basket(BaseModel):
    items: set[str] = {f"item {number}" for number in range(40)}
    groups: dict[int, list[frozenset[str]]] = {1: [frozenset({"a", "b", "c", "d"}), frozenset({"e"})]}
    anything: Any = ("x", frozenset("stuvw"))
    counts: set[int] = {3, 100, 20}
    steps: list[str] = ["second", "first"]


def assert_in_order(written: object) -> None:
    assert written == {
        "items": sorted(Basket().items),
        "groups": {"1": [["a", "b", "c", "d"], ["e"]]},
        "anything": ["x", ["s", "t", "u", "v", "w"]],
        "counts": list(Basket().counts),
        "steps": ["second", "first"],
    }


def test_sets_in_models_have_the_same_order_in_every_process() -> None:
    """The order of a set of texts depends on the process, and fingerprints of arguments on their JSON."""
    assert_in_order(to_json_value(Basket()))
    assert_in_order(encoder_of(Basket)(Basket()))
    assert encoder_of(dict[str, Basket])({"a": Basket()}) == {"a": encoder_of(Basket)(Basket())}

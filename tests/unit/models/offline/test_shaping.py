"""An answer in the shape of a schema."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Literal
from uuid import UUID

import pytest
from pydantic import Field

from pilotage.agent.model_request import StructuredOutputSpec
from pilotage.jsonvalue import JsonValue
from pilotage.models.offline.grammar import parse
from pilotage.models.offline.shaping import Known, Shaped, shape


@dataclass(frozen=True)
class Journey:
    city: str
    days: int


@dataclass(frozen=True)
class Tree:
    name: str
    left: Tree | None
    kids: list[Tree]


@dataclass(frozen=True)
class Leg:
    start: str
    km: int


@dataclass(frozen=True)
class Everything:
    summary: str
    when: datetime
    day: date
    key: UUID
    price: Decimal
    mood: Literal["fine", "sad"]
    pair: tuple[int, str]
    counts: dict[str, int]
    tags: set[str]
    maybe: float | None
    bounded: Annotated[int, Field(ge=3, multiple_of=2)]
    below: Annotated[int, Field(lt=-3)]
    long: Annotated[str, Field(min_length=12)]
    leg: Leg
    is_open: bool
    usual: str = "usual"
    extra: list[str] = field(default_factory=list[str])


def shaped(
    output_type: object, typed: str = "", text: str = "Said.", results: list[JsonValue] | None = None
) -> Shaped:
    commands = [command for stage in parse(typed) for command in stage]
    schema = StructuredOutputSpec.from_type(output_type).constraint.schema
    return shape(schema, Known(text, commands, results or []))


@pytest.mark.parametrize(
    ("output_type", "typed", "results", "answer", "made_up"),
    [
        (Journey, "plan a journey to Oslo for 3 days", [], {"city": "Oslo", "days": 3}, ()),
        (Journey, "plan city=Oslo days=3", [], {"city": "Oslo", "days": 3}, ()),
        (Journey, "plan", [{"city": "Rome", "days": 2, "more": 1}], {"city": "Rome", "days": 2}, ()),
        (Journey, "go to Oslo", [{"city": "Rome", "days": "2"}], {"city": "Oslo", "days": 2}, ()),
        (Journey, "plan", [{"city": 5, "days": "many"}], {"city": "Said.", "days": 0}, ("days",)),
        (str, "plan", [], "Said.", ()),
        (int, "plan", ["7"], 7, ()),
        (int, "plan", [], 0, ("answer",)),
        (bool, "yes", [], True, ()),
        (list[str], "list", [["a", "b"]], ["a", "b"], ()),
        (list[str], "list", [], [], ()),
        (Literal["fine", "sad"], "it is sad", [], "sad", ()),
        (Tree, "grow", [], {"name": "Said.", "left": None, "kids": []}, ()),
    ],
)
def test_an_answer_is_filled_with_what_is_known(
    output_type: object, typed: str, results: list[JsonValue], answer: JsonValue, made_up: tuple[str, ...]
) -> None:
    assert shaped(output_type, typed, results=results) == Shaped(answer, made_up)


def test_what_nobody_said_is_the_plainest_value_that_fits_and_is_confessed() -> None:
    found = shaped(Everything, "tell")
    spec = StructuredOutputSpec.from_type(Everything)
    decoded = spec.decode(found.answer)
    assert isinstance(decoded, Everything)
    assert (decoded.summary, decoded.usual, decoded.maybe) == ("Said.", "usual", None)
    assert (decoded.bounded, decoded.below, decoded.mood, decoded.leg) == (4, -4, "fine", Leg("unknown", 0))
    assert set(found.made_up) == {
        *("when", "day", "key", "price", "mood", "pair[0]", "pair[1]", "bounded", "below", "long"),
        *("leg.start", "leg.km", "is_open"),
    }

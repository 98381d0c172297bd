"""The shape of an answer and the type it is decoded into."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal

import pytest
from pydantic import BaseModel

from pilotage.agent.model_request import JsonSchemaConstraint, StructuredOutputSpec
from pilotage.errors import AgentStructuredOutputError


@dataclass(frozen=True)
class Line:
    item: str
    price: Decimal


@dataclass(frozen=True)
class Order:
    lines: list[Line]
    note: str | None = None


class Verdict(BaseModel):
    best: int


@dataclass(frozen=True)
class Tree:
    children: list[Tree] = field(default_factory=list)


@pytest.mark.parametrize(
    ("output_type", "value", "decoded"),
    [
        (Order, {"lines": [{"item": "a", "price": "1.50"}]}, Order([Line("a", Decimal("1.50"))])),
        (Verdict, {"best": 2}, Verdict(best=2)),
        (list[int], [1, 2], [1, 2]),
        (int, 3, 3),
        (Tree, {"children": [{}]}, Tree([Tree()])),
    ],
)
def test_an_answer_becomes_a_value_of_the_type(output_type: object, value: object, decoded: object) -> None:
    assert StructuredOutputSpec.from_type(output_type).decode(value) == decoded  # type: ignore[arg-type]


def test_the_schema_is_named_and_closed() -> None:
    spec = StructuredOutputSpec.from_type(Line, strict=False)
    assert spec.output_type_name == "Line"
    assert spec.output_type is Line
    assert spec.constraint == JsonSchemaConstraint(
        {
            "title": "Line",
            "type": "object",
            "properties": {"item": {"type": "string"}, "price": {"type": "string", "format": "decimal"}},
            "required": ["item", "price"],
            "additionalProperties": False,
        },
        strict=False,
    )


def test_without_a_type_the_answer_stays_json() -> None:
    assert StructuredOutputSpec(JsonSchemaConstraint({})).decode([1]) == [1]


def test_an_answer_that_does_not_fit_names_every_reason_and_no_value() -> None:
    with pytest.raises(AgentStructuredOutputError) as caught:
        StructuredOutputSpec.from_type(Order).decode({"lines": [{"item": 3, "price": "x"}], "more": "secret"})
    assert [problem.partition(":")[0] for problem in caught.value.problems] == [
        "lines[0].item",
        "lines[0].price",
        "more",
    ]
    assert "secret" not in str(caught.value)
    with pytest.raises(AgentStructuredOutputError, match="the answer: "):
        StructuredOutputSpec.from_type(int).decode("x")

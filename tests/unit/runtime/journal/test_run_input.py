"""The input of a run: checked when it starts, kept as JSON, given back in its types."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

import pytest

from pilotage import Agent, AgentDefinitionError
from pilotage.agent.definition import AgentDefinition
from pilotage.agent.run_values import RunAgentInput
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.journal.run_input import decode_input, encode_input


@dataclass(frozen=True)
class Order:
    number: int
    amount: Decimal


@Agent()
class NoInput:
    async def execute(self) -> str:
        return ""


@Agent()
class OneText:
    async def execute(self, order: str) -> str:
        return order


@Agent()
class OneOrder:
    async def execute(self, order: Order) -> str:
        return str(order)


@Agent()
class OneMapping:
    async def execute(self, prices: dict[str, int]) -> str:
        return str(prices)


@Agent()
class Several:
    async def execute(self, order: Order, amounts: list[Decimal], note: str = "") -> str:
        return note


ORDER = Order(7, Decimal("2.50"))
GIVEN: list[tuple[type, object, JsonObject, dict[str, object]]] = [
    (NoInput, None, {}, {}),
    (OneText, "A-17", {"order": "A-17"}, {"order": "A-17"}),
    (OneText, {"order": "A-17"}, {"order": "A-17"}, {"order": "A-17"}),
    (OneOrder, ORDER, {"order": {"number": 7, "amount": "2.50"}}, {"order": ORDER}),
    (OneOrder, {"order": ORDER}, {"order": {"number": 7, "amount": "2.50"}}, {"order": ORDER}),
    (OneOrder, {"number": 7, "amount": "2.50"}, {"order": {"number": 7, "amount": "2.50"}}, {"order": ORDER}),
    (OneMapping, {"a": 1}, {"prices": {"a": 1}}, {"prices": {"a": 1}}),
    (
        Several,
        {"order": ORDER, "amounts": [Decimal(1)]},
        {"order": {"number": 7, "amount": "2.50"}, "amounts": ["1"]},
        {"order": ORDER, "amounts": [Decimal(1)]},
    ),
]


@pytest.mark.parametrize(("agent", "given", "recorded", "arguments"), GIVEN)
def test_an_input_is_kept_by_name_and_comes_back_in_its_types(
    agent: type, given: object, recorded: JsonObject, arguments: dict[str, object]
) -> None:
    definition = AgentDefinition.get(agent)
    assert encode_input(definition, given) == recorded
    assert decode_input(definition, recorded) == arguments


JSON_ORDER = '{"number": 7, "amount": "2.50"}'


@pytest.mark.parametrize(
    ("agent", "instruction", "recorded"),
    [
        (OneText, "A-17", {"order": "A-17"}),
        (OneText, JSON_ORDER, {"order": JSON_ORDER}),
        (OneOrder, JSON_ORDER, {"order": {"number": 7, "amount": "2.50"}}),
        (
            Several,
            f'{{"order": {JSON_ORDER}, "amounts": [1]}}',
            {"order": {"number": 7, "amount": "2.50"}, "amounts": [1]},
        ),
        (NoInput, "{}", {}),
    ],
)
def test_an_instruction_is_a_text_where_one_is_wanted_and_else_json(
    agent: type, instruction: str, recorded: JsonObject
) -> None:
    assert encode_input(AgentDefinition.get(agent), RunAgentInput("r", instruction)) == recorded


@pytest.mark.parametrize(
    ("agent", "instruction", "message"),
    [
        (OneOrder, "A-17", "OneOrder: input 'order' does not fit: .*"),
        (Several, "A-17", "Several: execute\\(\\) takes order, amounts, note.*"),
        (NoInput, "A-17", "NoInput: execute\\(\\) takes nothing.*"),
    ],
)
def test_an_instruction_that_says_nothing_of_the_kind_is_refused(
    agent: type, instruction: str, message: str
) -> None:
    with pytest.raises(AgentDefinitionError, match=message):
        encode_input(AgentDefinition.get(agent), RunAgentInput("r", instruction))


WRONG: list[tuple[str, type, object, str]] = [
    (
        "several without names",
        Several,
        "A-17",
        "Several: execute() takes order, amounts, note. Give the input as a mapping of these.",
    ),
    (
        "something for nothing",
        NoInput,
        "A-17",
        "NoInput: execute() takes nothing. Give the input as a mapping of these.",
    ),
    (
        "unknown names",
        Several,
        {"order": ORDER, "sum": 1, "to": "Ada"},
        "Several: execute() has no parameter 'sum', 'to'.",
    ),
    ("no JSON form", OneText, object(), "OneText: the input cannot be stored: object has no JSON form."),
    (
        "another type",
        OneText,
        17,
        "OneText: input 'order' does not fit: Input should be a valid string.",
    ),
]


@pytest.mark.parametrize(
    ("agent", "given", "message"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG]
)
def test_an_input_that_does_not_fit_is_refused_in_words(agent: type, given: object, message: str) -> None:
    with pytest.raises(AgentDefinitionError) as error:
        encode_input(AgentDefinition.get(agent), given)
    assert str(error.value) == message

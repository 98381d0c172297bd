"""Binding payloads: values become what the annotations say, or every problem is named."""

from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypedDict
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, Field, StringConstraints

from pilotage.agent.tools.bind import AgentToolBoundInvocation, bind_agent_tool_invocation
from pilotage.agent.tools.context import AgentToolRuntimeContext
from pilotage.agent.tools.declare import agent_tool
from pilotage.errors import AgentDefinitionError, AgentToolBindingError
from pilotage.jsonvalue import JsonValue
from pilotage.safety.fields import PII, SecretField, SensitiveField


class Color(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True)
class Line:
    sku: str
    amount: Decimal = Decimal(1)

    def __post_init__(self) -> None:
        if self.amount < 0:
            raise AgentDefinitionError(f"Line.amount is {self.amount}. Use zero or more.")


@dataclass(kw_only=True)
class Basket:
    lines: list[Line]
    total: int = field(init=False, default=0)
    hint: InitVar[str] = ""


class Address(TypedDict):
    city: str


class Card(BaseModel):
    number: str


class Account(BaseModel):
    iban: str


def search(query: str, limit: int = 5) -> str:
    return f"{query}{limit}"


def bind_one(annotation: Any, value: object) -> object:
    def tool(it: Any) -> None: ...

    tool.__annotations__["it"] = annotation
    return bind_agent_tool_invocation(tool, {"it": value}).args[0]


def problems_of(function: Any, payload: Any) -> tuple[str, ...]:
    with pytest.raises(AgentToolBindingError) as raised:
        bind_agent_tool_invocation(function, payload)
    return raised.value.problems


@pytest.mark.parametrize(
    ("annotation", "value", "expected"),
    [
        (int, "5", 5),
        (int, 5.0, 5),
        (float, 1, 1.0),
        (bool, "true", True),
        (str, "x", "x"),
        (Decimal, "12.50", Decimal("12.50")),
        (Decimal, 12.5, Decimal("12.5")),
        (datetime, "2024-01-02T03:04:05Z", datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)),
        (date, "2024-01-02", date(2024, 1, 2)),
        (date, date(2024, 1, 2), date(2024, 1, 2)),
        (timedelta, 90, timedelta(seconds=90)),
        (UUID, "00000000-0000-0000-0000-000000000001", UUID(int=1)),
        (Color, "red", Color.RED),
        (Literal["a", 1], 1, 1),
        (list[int], [1, "2"], [1, 2]),
        (Sequence[int], [1], [1]),
        (tuple[int, ...], [1, 2], (1, 2)),
        (tuple[int, str], [1, "a"], (1, "a")),
        (set[int], [1, 1], {1}),
        (frozenset[int], [1], frozenset({1})),
        (dict[str, date], {"a": "2024-01-02"}, {"a": date(2024, 1, 2)}),
        (Mapping[str, int], {"a": 1}, {"a": 1}),
        (int | None, None, None),
        (int | str, "5", "5"),
        (int | str, 5, 5),
        (Line, {"sku": "a"}, Line("a")),
        (Line, Line("a"), Line("a")),
        (Address, {"city": "Bonn"}, {"city": "Bonn"}),
        (Card, {"number": "1"}, Card(number="1")),
        (Card | Account, {"iban": "DE"}, Account(iban="DE")),
        (JsonValue, {"any": [1, None]}, {"any": [1, None]}),
        (Annotated[int, AfterValidator(abs)], -3, 3),
        (Annotated[str, StringConstraints(strip_whitespace=True, max_length=2)], " ab ", "ab"),
    ],
)
def test_values_become_what_the_annotation_says(annotation: Any, value: object, expected: object) -> None:
    bound = bind_one(annotation, value)
    assert bound == expected
    assert type(bound) is type(expected)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (int, "five"),
        (int, 5.5),
        (int, None),
        (float, float("nan")),
        (float, float("inf")),
        (str, 5),
        (bool, "perhaps"),
        (Decimal, "a lot"),
        (Color, "green"),
        (Literal["a"], "b"),
        (list[int], "12"),
        (list[int], {"0": 1}),
        (tuple[int, str], [1]),
        (dict[str, int], [["a", 1]]),
        (Address, {"city": "Bonn", "zip": "53111"}),
        (Address, {}),
        (Annotated[int, Field(ge=1)], 0),
        (Annotated[list[int], Field(min_length=1)], []),
        (Annotated[str, Field(pattern="^a")], "b"),
        (Annotated[int, Field(strict=True)], "5"),
        (Annotated[int | None, Field(ge=1)], 0),
        (Annotated[date, Field(gt=date(2024, 1, 1))], "2024-01-01"),
    ],
)
def test_values_that_do_not_fit_are_refused(annotation: Any, value: object) -> None:
    with pytest.raises(AgentToolBindingError):
        bind_one(annotation, value)


def test_a_dataclass_is_made_by_its_own_constructor() -> None:
    basket = bind_one(Basket, {"lines": [{"sku": "a", "amount": "2"}]})
    assert basket == Basket(lines=[Line("a", Decimal(2))])


@pytest.mark.parametrize(
    ("payload", "args"),
    [
        ({"query": "agent"}, ("agent", 5)),
        ({"limit": 2, "query": "agent"}, ("agent", 2)),
        ({"args": ["agent"]}, ("agent", 5)),
        ({"args": ["agent"], "kwargs": {"limit": 2}}, ("agent", 2)),
        ({"kwargs": {"query": "agent"}}, ("agent", 5)),
        (MappingProxyType({"query": "agent"}), ("agent", 5)),
    ],
)
def test_positional_parameters_land_in_args_with_defaults_filled(
    payload: Mapping[str, object], args: tuple[object, ...]
) -> None:
    bound = bind_agent_tool_invocation(search, payload)
    assert bound == AgentToolBoundInvocation(args=args, kwargs={})
    assert bound.arguments == dict(zip(("query", "limit"), args, strict=True))


def test_an_empty_payload_binds_to_a_function_without_parameters() -> None:
    def ping() -> None: ...

    assert bind_agent_tool_invocation(ping, {}) == AgentToolBoundInvocation()


def test_keyword_only_parameters_land_in_kwargs() -> None:
    def tool(a: int, *, b: int = 2, c: int) -> None: ...

    bound = bind_agent_tool_invocation(tool, {"c": 3, "a": 1})
    assert (bound.args, bound.kwargs) == ((1,), {"b": 2, "c": 3})


def test_parameters_called_args_and_kwargs_are_parameters() -> None:
    def tool(args: list[int], kwargs: str = "x") -> None: ...

    assert bind_agent_tool_invocation(tool, {"args": [1]}).args == ([1], "x")


def test_a_mutable_default_is_not_shared_between_calls() -> None:
    def tool(rows: list[int] = []) -> None: ...  # noqa: B006

    first = bind_agent_tool_invocation(tool, {}).args[0]
    assert isinstance(first, list)
    first.append(1)
    assert bind_agent_tool_invocation(tool, {}).args == ([],)


def test_self_and_cls_are_not_bound() -> None:
    class Docs:
        @agent_tool
        def search(self, query: str) -> None: ...

        @classmethod
        def find(cls, query: str) -> None: ...

    for function in (Docs.search, Docs().search, Docs.find):
        assert bind_agent_tool_invocation(function, {"query": "a"}).args == ("a",)


def transfer(
    api_key: Annotated[str, SecretField()],
    to: Annotated[str, SensitiveField(PII.ACCOUNT_ID), AfterValidator(lambda v: int(v) and v)],
    runtime_context: AgentToolRuntimeContext,
    amount: Decimal = Decimal(1),
    *,
    backup_key: Annotated[str, SecretField()] = "none",
) -> None: ...


def test_an_invocation_shows_names_and_no_values() -> None:
    bound = bind_agent_tool_invocation(transfer, {"to": "17"})
    assert (bound.args, bound.kwargs) == (("17", Decimal(1)), {})
    assert [each.name for each in bound.injected] == ["api_key", "runtime_context", "backup_key"]
    assert repr(bound) == "AgentToolBoundInvocation(to, amount)"


def order(lines: list[Line], card: Card | Account, limit: int = 5, tags: dict[str, int] = {}) -> None: ...  # noqa: B006


@pytest.mark.parametrize(
    ("function", "payload", "problems"),
    [
        (search, [1], ["The arguments must be an object, not list."]),
        (search, None, ["The arguments must be an object, not NoneType."]),
        (search, {}, ["'query' is missing."]),
        (search, {"query": "a", 1: 2}, ["'[1]': Keys should be strings."]),
        (
            search,
            {"querry": "a"},
            ["'query' is missing.", "'querry' is not a parameter. Did you mean 'query'?"],
        ),
        (
            search,
            {"query": "a", "xyz": 1},
            ["'xyz' is not a parameter. It takes 'query', 'limit'."],
        ),
        (
            search,
            {"query": 1, "limit": "x"},
            [
                "'query' should be a valid string.",
                "'limit' should be a valid integer, unable to parse string as an integer.",
            ],
        ),
        (search, {"args": ["a"], "x": 1}, ["'x' cannot stand beside 'args' and 'kwargs'."]),
        (search, {"args": "a"}, ["'args' must be an array."]),
        (search, {"kwargs": []}, ["'kwargs' must be an object."]),
        (search, {"args": [1, 2, 3]}, ["'args' has 3 values for 2 positional parameters."]),
        (
            search,
            {"args": ["a"], "kwargs": {"query": "b"}},
            ["'query' is given twice, in 'args' and in 'kwargs'."],
        ),
        (
            order,
            {
                "lines": [{"sku": "a", "size": 3}, 5, {"sku": "b", "amount": -1}],
                "card": {},
                "tags": {"a": "b"},
            },
            [
                "'lines[0].size' is not known. Leave it out.",
                "'lines[1]' should be a valid object.",
                "'lines[2]': Line.amount is -1. Use zero or more.",
                "'card.number' is missing (read as Card).",
                "'card.iban' is missing (read as Account).",
                "'tags.a' should be a valid integer, unable to parse string as an integer.",
            ],
        ),
        (
            transfer,
            {"to": "1", "api_key": "mine", "runtime_context": {}},
            [
                "'api_key' is filled in by the application. Leave it out.",
                "'runtime_context' is filled in by the application. Leave it out.",
            ],
        ),
        (transfer, {"to": "DE-4711"}, ["'to' does not fit its type."]),
        (transfer, {"to": 4711}, ["'to' should be a valid string."]),
    ],
)
def test_every_problem_is_a_sentence(function: Any, payload: Any, problems: list[str]) -> None:
    assert list(problems_of(function, payload)) == problems


def test_the_error_names_the_tool_and_has_all_problems() -> None:
    with pytest.raises(AgentToolBindingError) as raised:
        bind_agent_tool_invocation(search, {"limit": []})
    assert str(raised.value) == "search: 'query' is missing. 'limit' should be a valid integer."


def test_no_value_hides_in_the_chain_of_the_error() -> None:
    with pytest.raises(AgentToolBindingError) as raised:
        bind_agent_tool_invocation(transfer, {"to": "DE-4711"})
    link: BaseException | None = raised.value
    while link is not None:
        assert "4711" not in str(link)
        link = link.__cause__ or link.__context__


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


names = st.sampled_from(["lines", "card", "limit", "tags", "args", "kwargs", "x"])


@given(payload=st.dictionaries(names, json_values))
def test_no_payload_does_worse_than_a_binding_error(payload: dict[str, object]) -> None:
    try:
        bound = bind_agent_tool_invocation(order, payload)
    except AgentToolBindingError:
        return
    assert len(bound.args) == 4


@dataclass
class Chain:
    following: "Chain | None" = None


def test_a_payload_that_is_nested_too_deeply_is_refused() -> None:
    payload: dict[str, object] = {}
    for _ in range(10_000):
        payload = {"following": payload}
    with pytest.raises(AgentToolBindingError):
        bind_one(Chain, payload)


def test_a_flood_of_problems_is_cut_short() -> None:
    def tool(numbers: list[int]) -> None: ...

    problems = problems_of(tool, {"numbers": ["x"] * 1000})
    assert len(problems) == 21
    assert problems[-1] == "There are 980 more problems."

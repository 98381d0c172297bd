"""Sensitive fields are found wherever a type can hide them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Generic, Literal, NamedTuple, NewType, NotRequired, TypedDict, TypeVar

import pytest
from pydantic import AliasChoices, BaseModel, Field, RootModel
from typing_extensions import TypeAliasType

from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonValue
from pilotage.safety.discovery import find_sensitive_fields
from pilotage.safety.fields import PII, SecretField, SensitiveField, SensitiveFieldDescriptor
from pilotage.safety.guard import guard_json_value

T = TypeVar("T")
EMAIL = SensitiveField(PII.EMAIL)
NAME = SensitiveField(PII.NAME)
Email = Annotated[str, EMAIL]
UserId = NewType("UserId", Email)
Contact = TypeAliasType("Contact", "Email | int")
Tree = TypeAliasType("Tree", "dict[str, Tree] | Email")
Forest = TypeAliasType("Forest", "dict[str, Forest | Email]")


@dataclass
class Customer:
    """Has an e-mail."""

    kind: ClassVar[Email] = "customer"
    name: str
    email: Email | None = None
    computed: Annotated[str, NAME] = field(init=False, default="")


@dataclass
class Node:
    """Contains itself."""

    value: Email
    children: list[Node]


@dataclass
class Left:
    """Contains itself by way of another."""

    right: Right | None
    note: str


@dataclass
class Right:
    """The other."""

    left: list[Left]
    email: Email


@dataclass
class Box(Generic[T]):
    """Holds anything."""

    item: T
    more: list[T]


class Person(BaseModel):
    """A pydantic model with an alias, and itself inside."""

    email: Email = Field(alias="e-mail")
    phone: str = Field(validation_alias=AliasChoices("tel", "mobile"))
    customers: list[Customer]
    boss: Person | None = None


class Reachable(BaseModel):
    """A pydantic model with choices of names."""

    phone: Annotated[str, NAME] = Field(validation_alias=AliasChoices("tel", "mobile"))


class Customers(RootModel[list[Customer]]):
    """A pydantic model that is a list in JSON."""


class Row(TypedDict):
    """A typed dict."""

    email: NotRequired[Email]
    customer: Customer


class Pair(NamedTuple):
    """A list in JSON: its fields have no names there."""

    email: Email
    age: int


class Plain:
    """Nothing we know how to look into."""

    email: Email


PATHS: list[tuple[object, list[tuple[str, ...]]]] = [
    (str, []),
    (None, []),
    (list, []),
    (Plain, []),
    (Literal["x", 1], []),
    (Email, [("p",)]),
    (Email | None, [("p",)]),
    (list[Email], [("p",)]),
    (set[Email], [("p",)]),
    (Sequence[Email], [("p",)]),
    (tuple[int, Email], [("p",)]),
    (tuple[Email, ...], [("p",)]),
    (UserId, [("p",)]),
    (Contact, [("p",)]),
    (Pair, [("p",)]),
    (Customer, [("p", "email"), ("p", "computed")]),
    (list[Customer | None], [("p", "email"), ("p", "computed")]),
    (Customers, [("p", "email"), ("p", "computed")]),
    (Row, [("p", "email"), ("p", "customer", "email"), ("p", "customer", "computed")]),
    (Reachable, [("p", "phone"), ("p", "tel"), ("p", "mobile")]),
    (Box[Email], [("p", "item"), ("p", "more")]),
    (
        Box[Customer],
        [
            ("p", "item", "email"),
            ("p", "item", "computed"),
            ("p", "more", "email"),
            ("p", "more", "computed"),
        ],
    ),
    (Node, [("p", "**", "value")]),
    (list[Node], [("p", "**", "value")]),
    (Left, [("p", "**", "right", "email")]),
    (
        Person,
        [
            ("p", "**", "email"),
            ("p", "**", "e-mail"),
            ("p", "**", "customers", "email"),
            ("p", "**", "customers", "computed"),
        ],
    ),
]


@pytest.mark.parametrize(("annotation", "paths"), PATHS, ids=[str(case[0]) for case in PATHS])
def test_lists_tuples_unions_and_aliases_add_no_segment(
    annotation: object, paths: list[tuple[str, ...]]
) -> None:
    found = find_sensitive_fields(annotation, ("p",))
    assert [descriptor.path for descriptor in found] == paths
    assert all(descriptor.each_value_at == () for descriptor in found)


@pytest.mark.parametrize(
    ("annotation", "path", "each_value_at"),
    [
        (dict[str, Email], ("p",), (1,)),
        (Mapping[str, Customer | None], ("p", "email"), (1,)),
        (dict[str, dict[str, Row]], ("p", "email"), (1, 1)),
        (Box[dict[str, Email]], ("p", "item"), (2,)),
        (Tree, ("p", "**"), ()),
        (Forest, ("p", "**"), (2,)),
    ],
)
def test_a_mapping_with_arbitrary_keys_is_remembered_beside_the_path(
    annotation: object, path: tuple[str, ...], each_value_at: tuple[int, ...]
) -> None:
    first, *_ = find_sensitive_fields(annotation, ("p",))
    assert (first.path, first.each_value_at) == (path, each_value_at)


def test_a_container_comes_before_what_it_holds() -> None:
    found = find_sensitive_fields(Annotated[list[Email], SecretField(), NAME])
    assert [descriptor.field for descriptor in found] == [SecretField(), NAME, EMAIL]


def test_a_field_met_twice_is_named_once() -> None:
    found = find_sensitive_fields(list[Customer] | Customer)
    assert found == (
        SensitiveFieldDescriptor(("email",), EMAIL),
        SensitiveFieldDescriptor(("computed",), NAME),
    )


def test_sensitive_keys_are_refused() -> None:
    with pytest.raises(AgentDefinitionError, match="keys are shown as they are"):
        find_sensitive_fields(dict[Email, int])


@pytest.mark.parametrize(
    ("annotation", "value", "guarded"),
    [
        (Tree, "x", "[REDACTED]"),
        (Tree, {"a": {"b": "x"}}, {"a": {"b": "[REDACTED]"}}),
        (Forest, {"a": "x", "b": {"c": "x"}}, {"a": "[REDACTED]", "b": "[REDACTED]"}),
        (Contact, "x", "[REDACTED]"),
        (Pair, ["x", 1], ["[REDACTED]", "[REDACTED]"]),
        (
            Node,
            {"value": "x", "children": [{"value": "x", "children": []}]},
            {"value": "[REDACTED]", "children": [{"value": "[REDACTED]", "children": []}]},
        ),
        (
            Left,
            {"note": "n", "right": {"email": "x", "left": [{"note": "m", "right": {"email": "x"}}]}},
            {
                "note": "n",
                "right": {
                    "email": "[REDACTED]",
                    "left": [{"note": "m", "right": {"email": "[REDACTED]"}}],
                },
            },
        ),
        (
            dict[str, Row],
            {"email": {"email": "x"}, "bob": {"email": "x", "customer": {"name": "n"}}},
            {"email": {"email": "[REDACTED]"}, "bob": {"email": "[REDACTED]", "customer": {"name": "n"}}},
        ),
    ],
)
def test_what_is_found_is_guarded(annotation: object, value: JsonValue, guarded: JsonValue) -> None:
    assert guard_json_value(value, find_sensitive_fields(annotation)) == guarded


@dataclass
class Tagged:
    """Has a field of arbitrary JSON beside a sensitive one."""

    extra: JsonValue
    email: Email


def test_arbitrary_json_beside_a_sensitive_field_does_not_hide_it() -> None:
    assert find_sensitive_fields(Tagged) == (SensitiveFieldDescriptor(("email",), EMAIL),)

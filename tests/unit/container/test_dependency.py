"""Reading constructor parameters into dependencies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import InitVar
from typing import Annotated, Any, Generic, Optional, TypeVar

import pytest

from pilotage.container.dependency import Dependency, Qualifier, read_dependencies

T = TypeVar("T")


class Bank: ...


class Box(Generic[T]):
    def __init__(self, content: T, others: list[T]) -> None: ...


class BankBox(Box[Bank]): ...


def read(hint: object, **options: Any) -> Dependency:
    def factory(parameter) -> Bank: ...

    factory.__annotations__["parameter"] = hint
    if "default" in options:
        factory.__defaults__ = (options["default"],)
    return read_dependencies(factory)["parameter"]


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (Bank, {"type_": Bank, "element": Bank}),
        ("Bank", {"type_": Bank, "element": Bank}),
        (Bank | None, {"type_": Bank, "element": Bank, "optional": True}),
        (Optional[Bank], {"type_": Bank, "element": Bank, "optional": True}),  # noqa: UP045
        (InitVar[Bank], {"type_": Bank, "element": Bank}),
        (Annotated[Bank, "a note"], {"type_": Bank, "element": Bank}),
        (Annotated[Bank, Qualifier("b")], {"type_": Bank, "element": Bank, "qualifier": "b"}),
        (
            Annotated[Bank, Qualifier("b")] | None,
            {"type_": Bank, "element": Bank, "qualifier": "b", "optional": True},
        ),
        (
            Annotated[Bank | None, Qualifier("b")],
            {"type_": Bank, "element": Bank, "qualifier": "b", "optional": True},
        ),
        (list[Bank], {"type_": list[Bank], "element": Bank, "collection": list}),
        (Sequence[Bank], {"type_": Sequence[Bank], "element": Bank, "collection": list}),
        (tuple[Bank, ...], {"type_": tuple[Bank, ...], "element": Bank, "collection": tuple}),
        (frozenset[Bank], {"type_": frozenset[Bank], "element": Bank, "collection": frozenset}),
        (Mapping[str, Bank], {"type_": Mapping[str, Bank], "element": Bank, "collection": dict}),
        (dict[int, Bank], {"type_": dict[int, Bank], "element": dict[int, Bank]}),
        (tuple[Bank, int], {"type_": tuple[Bank, int], "element": tuple[Bank, int]}),
        (Box[Bank], {"type_": Box[Bank], "element": Box[Bank]}),
    ],
)
def test_a_hint_says_what_is_needed(hint: object, expected: dict[str, Any]) -> None:
    assert read(hint) == Dependency(parameter="parameter", **expected)


def test_a_default_or_none_lets_a_dependency_be_missing() -> None:
    assert not read(Bank).may_be_missing
    assert read(Bank | None).may_be_missing
    assert read(Bank, default=None).may_be_missing


def test_type_variables_of_a_generic_base_are_filled_in() -> None:
    read_in = read_dependencies(BankBox)
    assert read_in["content"].type_ is Bank
    assert read_in["others"].type_ == list[Bank]

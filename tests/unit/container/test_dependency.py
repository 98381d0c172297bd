"""Reading constructor parameters into dependencies."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass
from typing import Annotated, Any, Generic, Optional, TypeVar

import pytest

from pilotage.container.dependency import (
    Dependency,
    Qualifier,
    provided_type,
    read_dependencies,
    resolve_hints,
)
from pilotage.errors import PodDefinitionError

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
    assert resolve_hints(BankBox)["content"] is Bank
    assert resolve_hints(Bank) == {}


def returns() -> Box[Bank]: ...
async def awaits() -> Bank: ...
def iterates() -> Iterator[Bank]:
    yield Bank()


def repeats() -> Iterable[Bank]:
    yield Bank()


def generates() -> Generator[Bank, None, None]:
    yield Bank()


async def iterates_async() -> AsyncIterator[Bank]:
    yield Bank()


async def generates_async() -> AsyncGenerator[Bank, None]:
    yield Bank()


def returns_an_iterator() -> Iterator[Bank]: ...


def returns_with_a_note() -> Annotated[Bank, ["a note"]]: ...


@pytest.mark.parametrize(
    ("target", "provided"),
    [
        (Bank, Bank),
        (returns, Box[Bank]),
        (awaits, Bank),
        (iterates, Bank),
        (repeats, Bank),
        (generates, Bank),
        (iterates_async, Bank),
        (generates_async, Bank),
        (returns_an_iterator, Iterator[Bank]),
        (returns_with_a_note, Bank),
    ],
)
def test_a_factory_provides_what_it_returns_or_yields(target: object, provided: object) -> None:
    assert provided_type(target) == provided


def test_a_generic_that_is_yielded_is_not_taken_for_an_iterator() -> None:
    def box() -> Box[Bank]:
        yield Box(Bank(), [])

    with pytest.raises(PodDefinitionError, match=r"^box: .* as Iterator\[Box\[Bank\]\], not Box\[Bank\]\.$"):
        provided_type(box)


@dataclass
class Settings:
    bank: Bank
    seed: InitVar[Bank]


def test_fields_of_a_dataclass_are_read_with_their_init_only_variables() -> None:
    assert resolve_hints(Settings)["bank"] is Bank
    assert isinstance(resolve_hints(Settings)["seed"], InitVar)


def test_a_dataclass_inherits_fields_whose_types_only_the_base_s_module_knows() -> None:
    namespace: dict[str, Any] = {"__name__": "elsewhere", "dataclass": dataclass, "Settings": Settings}
    exec("@dataclass\nclass More(Settings): ...", namespace)  # noqa: S102
    assert resolve_hints(namespace["More"])["bank"] is Bank


def test_a_field_of_a_dataclass_that_nobody_knows_names_its_parameter() -> None:
    @dataclass
    class Lost:
        bank: Unknown  # noqa: F821

    with pytest.raises(
        PodDefinitionError, match=r"^Lost.__init__: the type of parameter 'bank' cannot be resolved"
    ):
        resolve_hints(Lost)


@pytest.mark.parametrize("hint", ["Unknown", "Bank.branch", "Bank[", "int['x', ]"])
def test_a_hint_that_cannot_be_resolved_names_its_parameter(hint: str) -> None:
    def factory(parameter) -> Bank: ...

    factory.__annotations__["parameter"] = hint
    with pytest.raises(
        PodDefinitionError, match=r"^factory: the type of parameter 'parameter' cannot be resolved: "
    ):
        resolve_hints(factory)

"""Resolving the type hints of constructors and factories."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterable, Iterator
from dataclasses import InitVar, dataclass
from typing import Annotated, Any, Generic, TypeVar

import pytest

from pilotage.container.hints import provided_type, resolve_hints
from pilotage.errors import PodDefinitionError

T = TypeVar("T")


class Bank: ...


class Box(Generic[T]):
    def __init__(self, content: T) -> None: ...


class BankBox(Box[Bank]): ...


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
        yield Box(Bank())

    with pytest.raises(PodDefinitionError, match=r"^box: .* as Iterator\[Box\[Bank\]\], not Box\[Bank\]\.$"):
        provided_type(box)


def test_type_variables_of_a_generic_base_are_filled_in() -> None:
    assert resolve_hints(BankBox)["content"] is Bank
    assert resolve_hints(Bank) == {}


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

"""What a type provides, and which protocols it fits."""

from __future__ import annotations

from abc import ABC
from pathlib import Path
from typing import Generic, NewType, Protocol, TypeVar, runtime_checkable

import pytest

from pilotage.container.typematch import (
    is_plain,
    is_protocol,
    missing_members,
    protocol_members,
    provided_types,
    substitute,
    type_arguments,
)

K = TypeVar("K")
V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)
UserId = NewType("UserId", str)


class User: ...


class Store(Generic[K, V]): ...


class ByName(Store[str, V]): ...


class Users(ByName[User], ABC): ...


class Port(Protocol):
    name: str

    def use(self) -> None: ...


class WiderPort(Port, Protocol):
    def __call__(self) -> None: ...


class Empty(Protocol): ...


@runtime_checkable
class Source(Protocol[V_co]):
    def read(self) -> V_co: ...


class Adapter:
    name: str

    def use(self) -> None: ...


class NominalAdapter(Port): ...


@pytest.mark.parametrize(
    ("type_", "provided"),
    [
        (User, [User]),
        (Users, [Users, ByName[User], Store[str, User], ByName, Store]),
        (ByName[User], [ByName[User], Store[str, User], ByName, Store]),
        (NominalAdapter, [NominalAdapter, Port]),
        (UserId, [UserId]),
    ],
)
def test_a_type_provides_its_bases_with_their_arguments(type_: object, provided: list[object]) -> None:
    assert list(provided_types(type_)) == provided


def test_type_arguments_are_followed_through_every_level() -> None:
    assert type_arguments(Users, Store) == {K: str, V: User}
    assert type_arguments(User, Store) == {}


@pytest.mark.parametrize(
    ("hint", "filled"),
    [(V, User), (K, K), (list[V], list[User]), (Store[str, V], Store[str, User]), (int, int)],
)
def test_type_variables_are_replaced(hint: object, filled: object) -> None:
    assert substitute(hint, {V: User}) == filled


def test_only_protocols_themselves_are_protocols() -> None:
    assert [is_protocol(type_) for type_ in (Port, WiderPort, NominalAdapter, Adapter, UserId)] == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_the_members_of_a_protocol_are_what_it_declares_and_inherits() -> None:
    assert protocol_members(Port) == {"name", "use"}
    assert protocol_members(WiderPort) == {"name", "use", "__call__"}
    assert protocol_members(Source) == {"read"}
    assert protocol_members(Empty) == set()


def test_a_class_fits_a_protocol_if_it_lacks_no_member() -> None:
    assert missing_members(Adapter, Port) == []
    assert missing_members(User, Port) == ["name", "use"]


@pytest.mark.parametrize(
    ("type_", "plain"), [(str, True), (Path, True), (dict[str, User], True), (User, False), (UserId, False)]
)
def test_types_of_the_language_are_plain(type_: object, plain: bool) -> None:
    assert is_plain(type_) is plain

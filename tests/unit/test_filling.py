"""Constructors of values: as fast as plain assignment, and nothing of a value is lost by it."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, InitVar, field, replace

import pytest

from pilotage.filling import changing, unchecked
from pilotage.values import value


@value
class Narrow:
    """Has few fields, which are set one by one."""

    x: int
    y: int = 2


@value
class Wide:
    """Has enough fields to be filled while it is open."""

    a: int
    b: int = 2
    c: tuple[int, ...] = ()
    tags: dict[str, int] = field(default_factory=dict)
    kind: str = field(init=False, default="wide")

    def __post_init__(self) -> None:
        if self.a < 0:
            raise ValueError("a is negative")
        object.__setattr__(self, "c", tuple(self.c))


@value
class Doubled:
    """Takes something that is no field."""

    low: int
    twice: InitVar[int] = 0

    def __post_init__(self, twice: int) -> None:
        if twice:
            object.__setattr__(self, "low", 2 * twice)


@value(slots=False)
class Open:
    """Has no slots to be filled."""

    x: int


@value
class Derived(Narrow):
    """Has the slots of another value too."""

    z: int = 3


class Labelled(Wide):
    """A plain class that derives from a value."""


@pytest.mark.parametrize("kind", [Narrow, Wide])
def test_unchecked_makes_what_the_class_makes(kind: type[Narrow | Wide]) -> None:
    make = unchecked(kind)
    assert make(1) == kind(1)
    assert type(make(1)) is kind
    assert repr(make(1)) == repr(kind(1))


def test_unchecked_values_are_values() -> None:
    wide = unchecked(Wide)(1, 5, (3,), {"a": 1})
    assert (wide.a, wide.b, wide.c, wide.tags, wide.kind) == (1, 5, (3,), {"a": 1}, "wide")
    with pytest.raises(FrozenInstanceError):
        wide.a = 2  # type: ignore[misc] # pyright: ignore[reportAttributeAccessIssue]
    assert replace(wide, b=7) == Wide(1, 7, (3,), {"a": 1})
    assert pickle.loads(pickle.dumps(wide)) == copy.copy(wide) == wide  # noqa: S301 - our own


def test_unchecked_checks_and_converts_nothing() -> None:
    make = unchecked(Wide)
    assert make(-1).a == -1
    with pytest.raises(ValueError, match="negative"):
        Wide(-1)


def test_defaults_that_are_made_are_made_for_each_value() -> None:
    make = unchecked(Wide)
    assert make(1).tags is not make(1).tags
    assert Wide(1).tags is not Wide(1).tags


def test_what_only_post_init_reads_has_no_place_in_unchecked() -> None:
    assert unchecked(Doubled)(3) == Doubled(3)
    assert Doubled(3, 4).low == 8


@pytest.mark.parametrize("kind", [Open, Derived])
def test_where_a_class_cannot_be_filled_it_is_its_own_constructor(kind: type[Open | Derived]) -> None:
    assert unchecked(kind) is kind


def test_a_copy_has_others_in_the_fields_that_change() -> None:
    old = Wide(1, 5, (3,), {"a": 1})
    copied = changing(Wide, "tags", "b")(old, {"z": 9}, 6)
    assert copied == replace(old, b=6, tags={"z": 9})
    assert (type(copied), old.b) == (Wide, 5)


@pytest.mark.parametrize("old", [Open(1), Derived(1, 2, 3), Doubled(1)])
def test_every_value_can_be_copied_with_changes(old: Open | Derived | Doubled) -> None:
    name = "low" if isinstance(old, Doubled) else "x"
    assert changing(type(old), name)(old, 7) == replace(old, **{name: 7})


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match="missing"):
        unchecked(Wide)()  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match="unexpected"):
        Wide(1, z=2)  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]


def test_who_derives_from_a_wide_value_stays_what_it_is() -> None:
    labelled = Labelled(1, c=(4,))
    assert type(labelled) is Labelled
    assert (labelled.a, labelled.b, labelled.c, labelled.kind) == (1, 2, (4,), "wide")


def test_a_value_that_is_refused_was_filled_before() -> None:
    """What `__post_init__` sees is the value itself, closed again."""

    @value
    class Proud:
        a: int
        b: int
        c: int
        d: int

        def __post_init__(self) -> None:
            assert type(self) is Proud
            with pytest.raises(FrozenInstanceError):
                self.a = 2  # type: ignore[misc] # pyright: ignore[reportAttributeAccessIssue]

    assert Proud(1, 2, 3, 4).d == 4

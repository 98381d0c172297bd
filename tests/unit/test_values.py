"""Values: frozen dataclasses whose methods are written when they are first needed."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from dataclasses import FrozenInstanceError, InitVar, dataclass, field, fields, replace
from typing import Generic, TypeVar

import pytest

from pilotage.agent.model_request import StructuredOutputSpec
from pilotage.filling import unchecked_without
from pilotage.values import value

T = TypeVar("T")


@value
class Point:
    """A place."""

    x: int
    y: int = 2
    tags: dict[str, int] = field(default_factory=dict, compare=False)
    kind: str = field(init=False, default="point")


@value
class Named(Point):
    """A place with a name."""

    name: str = "here"


@value(slots=False)
class Box(Generic[T]):
    """Holds one thing."""

    content: T


@value
class Checked:
    """Knows its bounds."""

    low: int
    high: InitVar[int]

    def __post_init__(self, high: int) -> None:
        if self.low > high:
            raise ValueError("low is above high")


@value
class Spoken:
    """Has words of its own."""

    text: str

    def __repr__(self) -> str:
        return f"<{self.text}>"


@dataclass(frozen=True)
class Standard:
    """What the standard library makes of the same fields."""

    x: int
    y: int = 2


def test_a_value_behaves_like_a_frozen_dataclass() -> None:
    point = Point(1, tags={"a": 1})
    assert repr(point) == "Point(x=1, y=2, tags={'a': 1}, kind='point')"
    assert point == Point(1, 2)
    assert point != Point(2)
    assert hash(point) == hash(Point(1))
    assert [each.name for each in fields(point)] == ["x", "y", "tags", "kind"]
    assert replace(point, y=5) == Point(1, 5)
    assert dataclasses.asdict(Box(Point(3))) == {"content": {"x": 3, "y": 2, "tags": {}, "kind": "point"}}
    assert hash(Standard(1)) == hash((1, 2))
    match point:
        case Point(x, y):
            assert (x, y) == (1, 2)


def test_wrong_arguments_are_refused_from_the_first_call_on() -> None:
    @value
    class Fresh:
        a: int

    with pytest.raises(TypeError, match="missing 1 required positional argument: 'a'"):
        Fresh()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'b'"):
        Fresh(b=1)  # type: ignore[call-arg]


def test_the_first_use_may_be_any_method() -> None:
    @value
    class Fresh:
        a: int

    one = object.__new__(Fresh)
    object.__setattr__(one, "a", 1)
    assert repr(one).endswith("Fresh(a=1)")
    assert one == Fresh(1)


def test_nothing_can_be_assigned_or_deleted() -> None:
    for thing in (Point(1), Box(1)):
        with pytest.raises(FrozenInstanceError):
            thing.x = 3  # type: ignore[union-attr, misc]
        with pytest.raises(FrozenInstanceError):
            del thing.x  # type: ignore[union-attr]
    assert not hasattr(Point(1), "__dict__")


def test_values_derive_from_values_and_dataclasses_from_values() -> None:
    assert Named(1, name="there") == Named(1, 2, name="there")
    assert Named(1) != Point(1)

    @dataclass(frozen=True)
    class Marked(Spoken):
        mark: str = "!"

    assert Marked("x").mark == "!"
    assert Marked("x") == Marked("x")


def test_a_plain_class_may_derive_and_have_attributes_of_its_own() -> None:
    class Plain(Point):
        def __init__(self) -> None:
            super().__init__(7)
            self.extra = 1

    plain = Plain()
    assert (plain.x, plain.extra) == (7, 1)
    del plain.extra
    with pytest.raises(FrozenInstanceError):
        plain.x = 8  # type: ignore[misc]


def test_post_init_gets_its_arguments_and_own_methods_stay() -> None:
    assert Checked(1, 2).low == 1
    with pytest.raises(ValueError, match="low is above high"):
        Checked(3, 2)
    assert repr(Spoken("hi")) == "<hi>"
    assert Spoken("hi") == Spoken("hi")


def test_values_are_copied_and_pickled() -> None:
    point = Point(1, tags={"a": 1})
    assert copy.copy(point) == point
    assert copy.deepcopy(point).tags == {"a": 1}
    assert pickle.loads(pickle.dumps(point)) == point  # noqa: S301 - our own bytes
    assert copy.deepcopy(Box([1])) == Box([1])
    assert Box[int](1) == Box(1)


def test_the_signature_is_known_before_the_first_instance() -> None:
    @value
    class Fresh:
        a: int
        b: str = "x"

    class Derived(Fresh):
        def __init__(self) -> None:
            super().__init__(1)

    assert str(inspect.signature(Fresh)) == "(a: 'int', b: 'str' = 'x') -> None"
    assert str(inspect.signature(Derived)) == "() -> 'None'"
    assert StructuredOutputSpec.from_type(Untouched).decode({"a": 1}) == Untouched(1)


@value
class Untouched:
    """Decoded before it is ever made."""

    a: int


@value
class Field:
    """Knows how large it is when somebody asks."""

    width: int
    height: int
    area: int
    name: str = "field"

    def _make_later(self, name: str) -> int:
        assert name == "area"
        return self.width * self.height


def test_a_field_for_later_is_made_when_it_is_asked_for() -> None:
    bare = unchecked_without(Field, "area")(2, 3)
    assert bare == Field(2, 3, 6)
    assert bare.area == 6
    assert replace(unchecked_without(Field, "area")(2, 3, "meadow"), width=4) == Field(4, 3, 6, "meadow")
    kept = pickle.dumps(unchecked_without(Field, "area")(2, 3))
    assert pickle.loads(kept) == Field(2, 3, 6)  # noqa: S301 - our own bytes


def test_a_value_without_a_field_is_equal_to_one_that_has_it() -> None:
    make = unchecked_without(Field, "area")
    assert Field(2, 3, 6) == make(2, 3)
    assert make(2, 3) != Field(2, 3, 7)
    assert {make(2, 3)} == {Field(2, 3, 6)}
    assert isinstance(make(2, 3), Field)
    assert repr(make(2, 3)) == repr(Field(2, 3, 6))


def test_what_is_given_is_not_made() -> None:
    assert Field(2, 3, 7).area == 7


def test_other_names_are_unknown() -> None:
    with pytest.raises(AttributeError, match="'Field' object has no attribute 'depth'"):
        _ = Field(1, 2, 3).depth  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(AttributeError, match="'Field' object has no attribute 'depth'"):
        _ = unchecked_without(Field, "area")(1, 2).depth  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue]

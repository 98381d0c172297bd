"""Names of pods and types."""

from typing import Annotated, Generic, NewType, TypeVar

import pytest

from pilotage.container.names import enumerate_names, snake_case, target_name, type_name

T = TypeVar("T")
UserId = NewType("UserId", str)


class Box(Generic[T]): ...


@pytest.mark.parametrize(
    ("name", "snake"),
    [
        ("SampleAgent", "sample_agent"),
        ("HTTPServer2", "http_server2"),
        ("OrderV2Api", "order_v2_api"),
        ("Bank", "bank"),
        ("make_bank", "make_bank"),
        ("_Private", "_private"),
    ],
)
def test_names_are_put_in_snake_case(name: str, snake: str) -> None:
    assert snake_case(name) == snake


@pytest.mark.parametrize(
    ("hint", "name"),
    [
        (int, "int"),
        (None, "None"),
        (int | None, "int | None"),
        (Box, "Box"),
        (Box[int], "Box[int]"),
        (dict[str, Box[int]], "dict[str, Box[int]]"),
        (tuple[int, ...], "tuple[int, ...]"),
        (Annotated[int, "a note"], "int"),
        (UserId, "UserId"),
        (Box["User"], "Box[ForwardRef('User')]"),
    ],
)
def test_types_are_written_as_in_code_without_modules(hint: object, name: str) -> None:
    assert type_name(hint) == name


def test_a_target_is_called_by_its_own_name_or_by_that_of_its_class() -> None:
    assert target_name(Box) == "Box"
    assert target_name(type_name) == "type_name"
    assert target_name(Box()) == "Box"


@pytest.mark.parametrize(
    ("names", "text"), [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")]
)
def test_names_are_enumerated(names: list[str], text: str) -> None:
    assert enumerate_names(names) == text

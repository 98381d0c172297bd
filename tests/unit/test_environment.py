"""Settings in environment variables: every adapter takes the same words, and names a variable that is wrong."""

from __future__ import annotations

from dataclasses import dataclass, fields

import pytest

from pilotage.environment import Variables
from pilotage.errors import AgentDefinitionError


@dataclass
class Bounds:
    """Settings with numbers and other things."""

    size: int = 1
    seconds: float = 2.0
    is_open: bool = True
    name: str = ""


@pytest.mark.parametrize(
    ("word", "is_on"),
    [("1", True), ("TRUE", True), ("yes", True), ("on", True), ("0", False), ("No", False), (" off ", False)],
)
def test_a_switch_takes_the_words_that_people_write(word: str, is_on: bool) -> None:
    assert Variables({"X_OPEN": word}, "X_").switch("OPEN", usual=not is_on) is is_on


def test_an_empty_variable_is_not_set() -> None:
    variables = Variables({"X_OPEN": " ", "X_SIZE": "", "X_NAMES": " , "}, "X_")
    assert variables.switch("OPEN", usual=True)
    assert variables.numbers(fields(Bounds)) == {}
    assert variables.names("NAMES") == ()


def test_numbers_are_read_by_the_type_of_their_setting_and_names_at_commas() -> None:
    variables = Variables({"X_SIZE": "3", "X_SECONDS": "0.5", "X_IS_OPEN": "1", "X_NAMES": "a, b"}, "X_")
    assert variables.numbers(fields(Bounds)) == {"size": 3, "seconds": 0.5}
    assert variables.names("NAMES") == ("a", "b")


@pytest.mark.parametrize(
    ("name", "word", "message"),
    [
        ("X_SIZE", "2.5", "X_SIZE is '2.5'. Write a positive whole number."),
        ("X_SIZE", "0", "X_SIZE is '0'. Write a positive whole number."),
        ("X_SECONDS", "nan", "X_SECONDS is 'nan'. Write a positive number."),
        ("X_SECONDS", "inf", "X_SECONDS is 'inf'. Write a positive number."),
    ],
)
def test_a_number_that_cannot_be_is_named_with_its_variable(name: str, word: str, message: str) -> None:
    with pytest.raises(AgentDefinitionError) as caught:
        Variables({name: word}, "X_").numbers(fields(Bounds))
    assert str(caught.value) == message

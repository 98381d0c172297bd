"""From what a person types to commands."""

from __future__ import annotations

import pytest

from pilotage.models.offline.grammar import SpokenCommand, Word, parse, substituted
from pilotage.models.offline.words import PRONOUNS, Verb

NAMES = ["nickname", "pay", "docs.find"]


def spelled(command: SpokenCommand) -> str:
    """A command as a line: its verb, then its words; quoted ones in quotes, JSON in bars."""
    return " ".join([command.verb.value if command.verb else "-", *map(_word, command.words)])


def _word(word: Word) -> str:
    if word.key:
        return f"{word.key}={word.text}"
    if word.json is not None:
        return f"|{word.text}|"
    return f"'{word.text}'" if word.is_quoted else word.text


@pytest.mark.parametrize(
    ("typed", "stages"),
    [
        ("", []),
        ("  \n ", []),
        ("greet Ada", [["greet Ada"]]),
        ("Hello!", [["greet"]]),
        ("LIST files", [["list files"]]),
        ("read a.txt.", [["read a.txt"]]),
        ("please can you read a.txt please", [["read a.txt"]]),
        ("read a.txt and read b.txt", [["read a.txt", "read b.txt"]]),
        ("read a.txt, read b.txt", [["read a.txt", "read b.txt"]]),
        ("read a.txt; status", [["read a.txt", "status"]]),
        ("- read a.txt\n- read b.txt", [["read a.txt", "read b.txt"]]),
        ("1. list docs\n2. read a.md", [["list docs", "read a.md"]]),
        ("Read a.txt. Write b.txt: hello", [["read a.txt", "write b.txt 'hello'"]]),
        ("read a.txt and b.txt", [["read a.txt and b.txt"]]),
        ("read a.txt then list files", [["read a.txt"], ["list files"]]),
        ("read a.txt and then list files", [["read a.txt"], ["list files"]]),
        ("Read a.txt. Then write it to b.txt.", [["read a.txt"], ["write it to b.txt"]]),
        ("remember that I like tea and cake", [["remember that I like tea and cake"]]),
        ("look up ports", [["search ports"]]),
        ("search for 'red fish' in docs", [["search for 'red fish' in docs"]]),
        ('search "a, b; c then d"', [["search 'a, b; c then d'"]]),
        ("search for `x` now", [["search for 'x' now"]]),
        ("note it's fine", [["remember it's fine"]]),
        ("write a.txt: one, two and three", [["write a.txt 'one, two and three'"]]),
        ("write a.txt:\none\ntwo", [["write a.txt 'one\ntwo'"]]),
        ("write a.txt: one\nlist files", [["write a.txt 'one'", "list files"]]),
        ("write a.txt ```py\nx = 1\n```", [["write a.txt 'x = 1\n'"]]),
        ("pay to=DE-1 amount=12.50", [["- to=DE-1 amount=12.50"]]),
        ('pay to="Ada L." amount=3', [["- to=Ada L. amount=3"]]),
        ('nickname(name="Ada")', [["- name=Ada"]]),
        ("docs.find(ports)", [["- ports"]]),
        ("call nickname with Ada", [["- with Ada"]]),
        ("use the tool nickname for Ada", [["- for Ada"]]),
        ('pay {"to": "DE-1", "amount": 3}', [['- |{"to": "DE-1", "amount": 3}|']]),
        ("run echo {x}", [["run echo {x}"]]),
        ("What are ports?", [["search ports"]]),
        ("what is the weather in Oslo", [["search weather in Oslo"]]),
        ("tell me about ports", [["search ports"]]),
        ("ok, read a.txt", [["read a.txt"]]),
        ("ok", [["thanks"]]),
        ("What's a port?", [["search port"]]),
        ("I want to see a.txt", [["read a.txt"]]),
        ("What can you do?", [["help"]]),
        ("who are you", [["help"]]),
        ("refund 12.50 for A-17", [["- refund 12.50 for A-17"]]),
        ("nickname Ada and nickname Grace", [["- Ada", "- Grace"]]),
    ],
)
def test_what_is_typed_becomes_stages_of_commands(typed: str, stages: list[list[str]]) -> None:
    assert [[spelled(each) for each in stage] for stage in parse(typed, NAMES)] == stages


@pytest.mark.parametrize(
    ("typed", "is_negated"),
    [
        ("don't delete a.txt", True),
        ("do not delete a.txt", True),
        ("never send that", True),
        ("remember that I have no car", False),
        ("run grep without colour", False),
        ("delete a.txt", False),
    ],
)
def test_a_command_that_says_what_not_to_do_is_marked(typed: str, is_negated: bool) -> None:
    ((command,),) = parse(typed)
    assert command.is_negated is is_negated


def test_what_came_before_takes_the_place_of_it() -> None:
    ((command,),) = parse("write it to it.txt")
    assert (
        spelled(substituted(command, "then delete b.txt", PRONOUNS)) == "write 'then delete b.txt' to it.txt"
    )


def test_a_command_can_be_shown_as_it_was_typed() -> None:
    ((command,),) = parse("Write 'good day' to a.txt")
    assert (command.text, command.verb) == ("Write good day to a.txt", Verb.WRITE)

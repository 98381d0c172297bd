"""Which tool a command means, and what it is called with."""

from __future__ import annotations

import pytest
from tests.unit.models.offline.shop import NAMES, TOOLS

from pilotage.jsonvalue import JsonValue
from pilotage.models.offline.arguments import Filled, calls_of
from pilotage.models.offline.choosing import choose, rated
from pilotage.models.offline.grammar import parse


def understood(typed: str) -> list[tuple[str, tuple[Filled, ...]]]:
    """The tool and the calls of each command."""
    found: list[tuple[str, tuple[Filled, ...]]] = []
    for stage in parse(typed, NAMES):
        for command in stage:
            choice = choose(command, TOOLS)
            if choice is not None:
                tool = choice.tool
                found.append((tool.name, calls_of(command, tool.name, tool.parameters)))
    return found


@pytest.mark.parametrize(
    ("typed", "tool", "arguments"),
    [
        ("greet Ada", "nickname", {"name": "Ada"}),
        ("nickname Ada", "nickname", {"name": "Ada"}),
        ("nickname(name='Ada')", "nickname", {"name": "Ada"}),
        ('call nickname with {"name": "Ada"}', "nickname", {"name": "Ada"}),
        ("list", "list_files", {}),
        ("list files", "list_files", {}),
        ("ls src", "list_files", {"path": "src"}),
        ("list the files in src", "list_files", {"path": "src"}),
        ("read a.txt", "read_file", {"path": "a.txt"}),
        ("show me a.txt", "read_file", {"path": "a.txt"}),
        ("read the file notes/x.md limit 5", "read_file", {"path": "notes/x.md", "limit": 5}),
        ("read a.txt limit=5", "read_file", {"path": "a.txt", "limit": 5}),
        ("write hello to notes.txt", "write_file", {"path": "notes.txt", "content": "hello"}),
        ("write notes.txt: a and b", "write_file", {"path": "notes.txt", "content": "a and b"}),
        ("save 'good day' as x.txt", "write_file", {"path": "x.txt", "content": "good day"}),
        ("search for 'red fish' in docs", "search", {"query": "red fish", "path": "docs"}),
        ("search salt and pepper", "search", {"query": "salt and pepper"}),
        ("look up ports", "search", {"query": "ports"}),
        ("What are ports?", "search", {"query": "ports"}),
        ("run pytest -q tests", "run_command", {"command": "pytest -q tests"}),
        ("status of A-17", "order_status", {"order_id": "A-17"}),
        ("what is the status of order A-17?", "order_status", {"order_id": "A-17"}),
        ("pay 12.50 USD to DE-1", "pay", {"to": "DE-1", "amount": "12.50", "currency": "USD"}),
        ("pay DE-1 12.50", "pay", {"to": "DE-1", "amount": "12.50"}),
        ("pay amount 3 to DE-1", "pay", {"to": "DE-1", "amount": "3"}),
        ("what is the weather in New York?", "weather", {"city": "New York"}),
        ("weather Oslo day=Friday", "weather", {"city": "Oslo", "day": "Friday"}),
        ("add 2 and 3", "add", {"a": 2, "b": 3}),
        ("remember that I like tea and cake", "remember", {"fact": "I like tea and cake"}),
        (
            "tag Ada, Grace and Tim with label friends",
            "tag",
            {"names": ["Ada", "Grace", "Tim"], "label": "friends"},
        ),
        ("total 1, 2 and 3", "total", {"numbers": [1, 2, 3]}),
        ("total numbers=4", "total", {"numbers": [4]}),
        ("total [1, 2]", "total", {"numbers": [1, 2]}),
        ('tag ["Ada"] label=x urgent=yes', "tag", {"names": ["Ada"], "label": "x", "urgent": True}),
    ],
)
def test_a_command_is_a_call(typed: str, tool: str, arguments: dict[str, JsonValue]) -> None:
    assert understood(typed) == [(tool, (Filled(arguments),))]


@pytest.mark.parametrize(
    ("typed", "tool", "arguments"),
    [
        (
            "read a.txt, b.txt and c.txt",
            "read_file",
            [{"path": "a.txt"}, {"path": "b.txt"}, {"path": "c.txt"}],
        ),
        ("greet Ada and Grace", "nickname", [{"name": "Ada"}, {"name": "Grace"}]),
        ("how is the weather in Oslo and in Rome", "weather", [{"city": "Oslo"}, {"city": "Rome"}]),
    ],
)
def test_a_command_about_several_things_is_several_calls(
    typed: str, tool: str, arguments: list[dict[str, JsonValue]]
) -> None:
    assert understood(typed) == [(tool, tuple(map(Filled, arguments)))]


@pytest.mark.parametrize(
    ("typed", "arguments", "missing"),
    [
        ("write notes.txt", {"path": "notes.txt"}, ("content",)),
        ("pay DE-1", {"to": "DE-1"}, ("amount",)),
        ("add 2", {"a": 2}, ("b",)),
        ("add 2 and three", {"a": 2}, ("b",)),
        ("status", {}, ("order_id",)),
        ("total 1 and two", {}, ("numbers",)),
        ('total ["one"]', {}, ("numbers",)),
        ('nickname {"name": 1}', {}, ("name",)),
    ],
)
def test_what_a_command_does_not_say_is_missing(
    typed: str, arguments: dict[str, JsonValue], missing: tuple[str, ...]
) -> None:
    ((_, filled),) = understood(typed)
    assert filled == (Filled(arguments, missing),)


@pytest.mark.parametrize(
    ("typed", "refused"),
    [
        ("read a.txt limit=many", ("limit=many",)),
        ("read a.txt colour=red", ("colour=red",)),
        ("pay to DE-1 amount=much", ("amount=much",)),
    ],
)
def test_what_is_named_and_does_not_fit_is_refused(typed: str, refused: tuple[str, ...]) -> None:
    ((_, (filled,)),) = understood(typed)
    assert filled.refused == refused


@pytest.mark.parametrize(
    "typed", ["refund 3", "delete a.txt", "count the words in a.txt", "explain", "the meaning of life"]
)
def test_a_command_that_no_tool_is_for_means_none(typed: str) -> None:
    assert understood(typed) == []


def test_a_choice_says_why() -> None:
    ((command,),) = parse("read the file a.txt", NAMES)
    read = next(tool for tool in TOOLS if tool.name == "read_file")
    assert rated(command, read).why == ("its name means 'read'", "its name has 'file'")


def test_of_tools_that_fit_alike_the_one_is_taken_that_needs_nothing_more() -> None:
    first, second = (tool for tool in TOOLS if tool.name in ("read_file", "write_file"))
    ((command,),) = parse("file a.txt")
    for tools in ((first, second), (second, first)):
        choice = choose(command, tools)
        assert choice is not None
        assert choice.tool.name == "read_file"

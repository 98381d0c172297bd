"""The promises of the port of tool pins."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from pilotage.agent.ports.tool_pins import IToolPins
from pilotage.agent.tools.listed import ListedTool
from pilotage.errors import AgentDefinitionError
from pilotage.testing.conformance.kit import Kit

READ = ListedTool(
    "read",
    "Read a file.",
    {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    {"type": "object", "properties": {"size": {"type": "integer", "minimum": 0, "default": 1.5}}},
    {"readOnlyHint": True, "title": "Read\u202e 📄", "more": [None, {"a": []}]},
)
WRITE = ListedTool("write", "Write a file.", {"type": "object"})
NAMES = ("read", "Datei lesen 💶", "a'b\"c\\d", "files:read\x00\u202e")


class ToolPinsConformance(Kit):
    """Conformance tests of every port of tool pins.

    Fixtures to give: `tool_pins`, over an empty store, and, where a store can be opened twice, `second_tool_pins`:
    another adapter over the same store, as a second process has it.
    """

    @pytest.fixture
    def second_tool_pins(self, tool_pins: IToolPins) -> IToolPins:
        return tool_pins

    async def test_no_tool_has_a_pin_at_first(self, tool_pins: IToolPins) -> None:
        assert list(await tool_pins.pins_of("files")) == []
        assert list(await tool_pins.list_pins()) == []

    @pytest.mark.parametrize("name", NAMES)
    async def test_a_pin_says_what_was_accepted_by_whom_and_when(
        self, tool_pins: IToolPins, second_tool_pins: IToolPins, name: str
    ) -> None:
        tool = replace(READ, name=name)
        (pin,) = await tool_pins.accept(f"server {name}", [tool], by="ada")
        assert (pin.source, pin.tool, pin.definition, pin.by) == (f"server {name}", name, tool, "ada")
        assert pin.digest == tool.digest
        assert pin.accepted_at is not None
        assert pin.accepted_at.utcoffset() is not None
        assert list(await second_tool_pins.pins_of(f"server {name}")) == [pin]
        assert list(await second_tool_pins.list_pins()) == [pin]

    async def test_the_person_of_a_pin_may_be_unknown(self, tool_pins: IToolPins) -> None:
        assert [pin.by for pin in await tool_pins.accept("files", [READ])] == [None]
        assert [pin.by for pin in await tool_pins.accept_first("mail", [READ])] == [None]

    async def test_a_tool_without_schemas_comes_back_as_it_was(self, tool_pins: IToolPins) -> None:
        (pin,) = await tool_pins.accept("files", [ListedTool("bare")])
        assert pin.definition == ListedTool("bare")
        assert pin.definition.output_schema is None

    async def test_a_new_definition_replaces_the_one_that_its_tool_had(
        self, tool_pins: IToolPins, second_tool_pins: IToolPins
    ) -> None:
        await tool_pins.accept("files", [READ, WRITE], by="ada")
        changed = replace(READ, description="Read any file.")
        pins = await second_tool_pins.accept("files", [changed], by="bob")
        assert [(pin.definition, pin.by) for pin in pins] == [(changed, "bob"), (WRITE, "ada")]
        assert list(await tool_pins.pins_of("files")) == list(pins)

    async def test_a_definition_that_is_pinned_already_keeps_its_pin(self, tool_pins: IToolPins) -> None:
        (first,) = await tool_pins.accept("files", [READ], by="ada")
        assert list(await tool_pins.accept("files", [READ], by="bob")) == [first]
        assert list(await tool_pins.pins_of("files")) == [first]

    async def test_a_source_that_has_a_pin_gets_no_first_ones(
        self, tool_pins: IToolPins, second_tool_pins: IToolPins
    ) -> None:
        first = await tool_pins.accept_first("files", [READ], by="ada")
        assert [(pin.definition, pin.by) for pin in first] == [(READ, "ada")]
        again = await second_tool_pins.accept_first(
            "files", [replace(READ, description="Delete a file."), WRITE], by="bob"
        )
        assert list(again) == list(first)
        assert list(await tool_pins.pins_of("files")) == list(first)

    async def test_of_many_first_callers_one_counts_and_all_learn_which(
        self, tool_pins: IToolPins, second_tool_pins: IToolPins
    ) -> None:
        lists = [
            [replace(READ, description=f"{number}"), ListedTool(f"extra {number}")] for number in range(10)
        ]
        ports = [tool_pins, second_tool_pins] * 5
        pinned = await asyncio.gather(
            *(port.accept_first("files", tools) for port, tools in zip(ports, lists, strict=True))
        )
        assert len({tuple(pin.digest for pin in pins) for pins in pinned}) == 1
        assert len(pinned[0]) == 2
        assert list(await tool_pins.pins_of("files")) == list(pinned[0])

    async def test_many_callers_at_once_pin_their_tools_all(
        self, tool_pins: IToolPins, second_tool_pins: IToolPins
    ) -> None:
        ports = [tool_pins, second_tool_pins] * 5
        tools = [ListedTool(f"tool {number}") for number in range(10)]
        await asyncio.gather(
            *(port.accept("files", [tool, READ]) for port, tool in zip(ports, tools, strict=True))
        )
        assert [pin.definition for pin in await tool_pins.pins_of("files")] == [READ, *tools]

    async def test_sources_do_not_share_pins(self, tool_pins: IToolPins) -> None:
        await tool_pins.accept("files", [READ])
        await tool_pins.accept_first("mail", [WRITE])
        assert [pin.tool for pin in await tool_pins.pins_of("files")] == ["read"]
        assert [pin.tool for pin in await tool_pins.pins_of("mail")] == ["write"]
        assert await tool_pins.withdraw("mail", ["read"]) == 0
        assert [(pin.source, pin.tool) for pin in await tool_pins.list_pins()] == [
            ("files", "read"),
            ("mail", "write"),
        ]

    async def test_names_of_sources_and_tools_are_compared_by_every_letter(
        self, tool_pins: IToolPins
    ) -> None:
        await tool_pins.accept("files", [READ, replace(READ, name="Read"), replace(READ, name="read ")])
        assert len(await tool_pins.pins_of("files")) == 3
        assert [*await tool_pins.pins_of("Files"), *await tool_pins.pins_of("file_")] == []
        assert await tool_pins.withdraw("files", ["READ", "rea_"]) == 0

    async def test_pins_are_listed_by_source_and_tool(self, tool_pins: IToolPins) -> None:
        for source, names in (("mail", "ba"), ("Files", "c"), ("files", "dAb")):
            await tool_pins.accept(source, [ListedTool(name) for name in names])
        assert [(pin.source, pin.tool) for pin in await tool_pins.list_pins()] == [
            *[("Files", "c"), ("files", "A"), ("files", "b"), ("files", "d")],
            *[("mail", "a"), ("mail", "b")],
        ]
        assert [pin.tool for pin in await tool_pins.pins_of("files")] == ["A", "b", "d"]

    async def test_a_withdrawn_pin_is_gone_for_all_processes(
        self, tool_pins: IToolPins, second_tool_pins: IToolPins
    ) -> None:
        await tool_pins.accept("files", [READ, WRITE])
        assert await second_tool_pins.withdraw("files", ["read", "read", "no such tool"]) == 1
        assert [pin.tool for pin in await tool_pins.pins_of("files")] == ["write"]
        assert await tool_pins.withdraw("files", ["read"]) == 0
        assert await tool_pins.withdraw("files", []) == 0
        assert await tool_pins.withdraw("files", ["write"]) == 1
        assert [pin.definition for pin in await tool_pins.accept_first("files", [READ])] == [READ]

    async def test_nothing_is_pinned_for_an_empty_list(self, tool_pins: IToolPins) -> None:
        assert list(await tool_pins.accept("files", [])) == []
        assert list(await tool_pins.accept_first("files", [])) == []
        assert [pin.tool for pin in await tool_pins.accept_first("files", [READ])] == ["read"]

    @pytest.mark.parametrize(
        "wrong",
        [
            (" ", [READ], "ada"),
            (" ", [], "ada"),
            ("files", [READ], " "),
            ("files", [READ, WRITE, replace(READ, description="Read twice.")], "ada"),
        ],
        ids=["a blank source", "a blank source of nothing", "a blank person", "two tools of one name"],
    )
    async def test_what_cannot_be_accepted_changes_nothing(
        self, tool_pins: IToolPins, wrong: tuple[str, list[ListedTool], str]
    ) -> None:
        source, tools, by = wrong
        with pytest.raises(AgentDefinitionError):
            await tool_pins.accept(source, tools, by=by)
        with pytest.raises(AgentDefinitionError):
            await tool_pins.accept_first(source, tools, by=by)
        assert list(await tool_pins.list_pins()) == []

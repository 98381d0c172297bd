"""The kit of the port of tool pins notices what it is there for: pins with one bug each."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from pilotage.agent.ports.tool_pins import ToolPin
from pilotage.agent.tools import ListedTool
from pilotage.testing import MemoryStore, MemoryToolPins
from pilotage.testing.conformance.tool_pins import ToolPinsConformance
from pilotage.testing.tables import MemoryTables
from tests.conformance.planted import failing_tests


class KeepsThemToItself(MemoryToolPins):
    def __init__(self, tables: MemoryTables) -> None:
        super().__init__(MemoryTables(tables.clock))


class IgnoresCase(MemoryToolPins):
    async def pins_of(self, source: str) -> Sequence[ToolPin]:
        return [pin for pin in await self.list_pins() if pin.source.lower() == source.lower()]


class SharesSources(MemoryToolPins):
    async def pins_of(self, source: str) -> Sequence[ToolPin]:
        return [pin for pin in await self.list_pins() if pin.source and source]


class SortsWithoutCase(MemoryToolPins):
    async def list_pins(self) -> Sequence[ToolPin]:
        return sorted(await super().list_pins(), key=lambda pin: (pin.source.lower(), pin.tool.lower()))


class SortsByTime(MemoryToolPins):
    async def pins_of(self, source: str) -> Sequence[ToolPin]:
        order = list(self._tables.pins)
        return sorted(await super().pins_of(source), key=lambda pin: order.index((pin.source, pin.tool)))


class ReplacesTheWholeSource(MemoryToolPins):
    async def accept(
        self, source: str, tools: Sequence[ListedTool], *, by: str | None = None
    ) -> Sequence[ToolPin]:
        await self.withdraw(source, [pin.tool for pin in await self.pins_of(source)])
        return await super().accept(source, tools, by=by)


class PinsAnew(MemoryToolPins):
    async def accept(
        self, source: str, tools: Sequence[ListedTool], *, by: str | None = None
    ) -> Sequence[ToolPin]:
        known = {pin.tool for pin in await self.pins_of(source)}
        if len({tool.name for tool in tools}) == len(tools):
            await self.withdraw(source, [tool.name for tool in tools if tool.name in known])
        return await super().accept(source, tools, by=by)


class KeepsTheOldDefinition(MemoryToolPins):
    async def accept(
        self, source: str, tools: Sequence[ListedTool], *, by: str | None = None
    ) -> Sequence[ToolPin]:
        known = {pin.tool for pin in await self.pins_of(source)}
        if {tool.name for tool in tools} <= known:
            return await self.pins_of(source)
        return await super().accept(source, tools, by=by)


class AlwaysFirst(MemoryToolPins):
    async def accept_first(
        self, source: str, tools: Sequence[ListedTool], *, by: str | None = None
    ) -> Sequence[ToolPin]:
        return await self.accept(source, tools, by=by)


class FirstForNewTools(MemoryToolPins):
    async def accept_first(
        self, source: str, tools: Sequence[ListedTool], *, by: str | None = None
    ) -> Sequence[ToolPin]:
        known = {pin.tool for pin in await self.pins_of(source)}
        return await self.accept(source, [tool for tool in tools if tool.name not in known], by=by)


class LooksThenWrites(MemoryToolPins):
    async def accept_first(
        self, source: str, tools: Sequence[ListedTool], *, by: str | None = None
    ) -> Sequence[ToolPin]:
        known = await self.pins_of(source)
        await asyncio.sleep(0)
        return known or await self.accept(source, tools, by=by)


class AnswersWithItsOwn(MemoryToolPins):
    async def accept_first(
        self, source: str, tools: Sequence[ListedTool], *, by: str | None = None
    ) -> Sequence[ToolPin]:
        await super().accept_first(source, tools, by=by)
        return [ToolPin(source, tool, by, self._tables.clock.now()) for tool in tools]


class ForgetsWho(MemoryToolPins):
    async def accept(
        self, source: str, tools: Sequence[ListedTool], *, by: str | None = None
    ) -> Sequence[ToolPin]:
        return await super().accept(source, tools)


class HasNoTime(MemoryToolPins):
    async def list_pins(self) -> Sequence[ToolPin]:
        return [replace(pin, accepted_at=None) for pin in await super().list_pins()]


class KeepsNoHints(MemoryToolPins):
    async def accept(
        self, source: str, tools: Sequence[ListedTool], *, by: str | None = None
    ) -> Sequence[ToolPin]:
        return await super().accept(source, [replace(tool, hints={}) for tool in tools], by=by)


class TakesNoSchemaForAnEmptyOne(MemoryToolPins):
    async def list_pins(self) -> Sequence[ToolPin]:
        return [
            replace(pin, definition=replace(pin.definition, output_schema=pin.definition.output_schema or {}))
            for pin in await super().list_pins()
        ]


class NeverWithdraws(MemoryToolPins):
    async def withdraw(self, source: str, tools: Sequence[str]) -> int:
        return len([pin for pin in await self.pins_of(source) if pin.tool in tools])


class CountsWhatItWasAsked(MemoryToolPins):
    async def withdraw(self, source: str, tools: Sequence[str]) -> int:
        await super().withdraw(source, tools)
        return len(tools)


class WithdrawsFromAll(MemoryToolPins):
    async def withdraw(self, source: str, tools: Sequence[str]) -> int:
        return sum([await MemoryToolPins.withdraw(self, pin.source, tools) for pin in await self.list_pins()])


class TakesTheLastOfTwo(MemoryToolPins):
    async def accept(
        self, source: str, tools: Sequence[ListedTool], *, by: str | None = None
    ) -> Sequence[ToolPin]:
        return await super().accept(source, list({tool.name: tool for tool in tools}.values()), by=by)


class NeedsNoName(MemoryToolPins):
    async def accept(
        self, source: str, tools: Sequence[ListedTool], *, by: str | None = None
    ) -> Sequence[ToolPin]:
        return await super().accept(source.strip() or "unknown", tools, by=by)


class WritesOneByOne(MemoryToolPins):
    async def accept(
        self, source: str, tools: Sequence[ListedTool], *, by: str | None = None
    ) -> Sequence[ToolPin]:
        for tool in tools:
            if tool.name in {pin.tool for pin in await self.pins_of(source)} and tools.index(tool):
                await super().accept(source, [tool, tool], by=by)
            await super().accept(source, [tool], by=by)
        return await self.pins_of(source)


BUGS = [
    KeepsThemToItself,
    IgnoresCase,
    SharesSources,
    SortsWithoutCase,
    SortsByTime,
    ReplacesTheWholeSource,
    PinsAnew,
    KeepsTheOldDefinition,
    AlwaysFirst,
    FirstForNewTools,
    LooksThenWrites,
    AnswersWithItsOwn,
    ForgetsWho,
    HasNoTime,
    KeepsNoHints,
    TakesNoSchemaForAnEmptyOne,
    NeverWithdraws,
    CountsWhatItWasAsked,
    WithdrawsFromAll,
    TakesTheLastOfTwo,
    NeedsNoName,
    WritesOneByOne,
]


def fixtures(pins: type[MemoryToolPins]) -> Mapping[str, object]:
    tables = MemoryStore().tables
    return {"tool_pins": pins(tables), "second_tool_pins": pins(tables)}


async def test_the_kit_finds_nothing_in_pins_without_a_bug() -> None:
    assert await failing_tests(ToolPinsConformance, lambda: fixtures(MemoryToolPins)) == []


@pytest.mark.parametrize("bug", BUGS)
async def test_the_kit_notices_a_bug(bug: type[MemoryToolPins]) -> None:
    assert await failing_tests(ToolPinsConformance, lambda: fixtures(bug)) != []

"""The kit of the switch port notices what it is there for: switches with one bug each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from pilotage.agent.ports.permissions import Switch, SwitchedOff
from pilotage.testing import MemoryStore, MemorySwitches
from pilotage.testing.conformance.switches import SwitchesConformance
from pilotage.testing.tables import MemoryTables
from tests.conformance.planted import failing_tests


class KeepsThemToItself(MemorySwitches):
    def __init__(self, tables: MemoryTables) -> None:
        super().__init__(MemoryTables(tables.clock))


class ForgetsTheKind(MemorySwitches):
    async def first_off(self, switches: Sequence[Switch]) -> SwitchedOff | None:
        names = {switch.name for switch in switches}
        return next((off for off in await self.list_off() if off.switch.name in names), None)


class IgnoresCase(MemorySwitches):
    async def first_off(self, switches: Sequence[Switch]) -> SwitchedOff | None:
        return await super().first_off([replace(each, name=each.name.lower().strip()) for each in switches])


class TakesTheLastReason(MemorySwitches):
    async def turn_off(self, switch: Switch, *, reason: str, by: str | None = None) -> SwitchedOff:
        await self.turn_on(switch)
        return await super().turn_off(switch, reason=reason, by=by)


class NeverSwitchesOn(MemorySwitches):
    async def turn_on(self, switch: Switch) -> bool:
        return switch in self._tables.switches


class AlwaysSaysItDid(MemorySwitches):
    async def turn_on(self, switch: Switch) -> bool:
        await super().turn_on(switch)
        return True


class LooksAtTheFirstOnly(MemorySwitches):
    async def first_off(self, switches: Sequence[Switch]) -> SwitchedOff | None:
        return await super().first_off(switches[:1])


class AnswersInItsOwnOrder(MemorySwitches):
    async def first_off(self, switches: Sequence[Switch]) -> SwitchedOff | None:
        return next((off for off in await self.list_off() if off.switch in switches), None)


class SortsByName(MemorySwitches):
    async def list_off(self) -> Sequence[SwitchedOff]:
        return sorted(await super().list_off(), key=lambda off: off.switch.name)


class ForgetsWho(MemorySwitches):
    async def turn_off(self, switch: Switch, *, reason: str, by: str | None = None) -> SwitchedOff:
        return await super().turn_off(switch, reason=reason)


class HasNoTime(MemorySwitches):
    async def turn_off(self, switch: Switch, *, reason: str, by: str | None = None) -> SwitchedOff:
        return self._tables.switches.setdefault(switch, SwitchedOff(switch, reason, by))


class NeedsNoReason(MemorySwitches):
    async def turn_off(self, switch: Switch, *, reason: str, by: str | None = None) -> SwitchedOff:
        return await super().turn_off(switch, reason=reason.strip() or "because", by=by)


class TakesNothingForEverything(MemorySwitches):
    async def first_off(self, switches: Sequence[Switch]) -> SwitchedOff | None:
        return await super().first_off(switches or [off.switch for off in await self.list_off()])


BUGS = [
    KeepsThemToItself,
    ForgetsTheKind,
    IgnoresCase,
    TakesTheLastReason,
    NeverSwitchesOn,
    AlwaysSaysItDid,
    LooksAtTheFirstOnly,
    AnswersInItsOwnOrder,
    SortsByName,
    ForgetsWho,
    HasNoTime,
    NeedsNoReason,
    TakesNothingForEverything,
]


def fixtures(switches: type[MemorySwitches]) -> Mapping[str, object]:
    tables = MemoryStore().tables
    return {"switches": switches(tables), "second_switches": switches(tables)}


async def test_the_kit_finds_nothing_in_switches_without_a_bug() -> None:
    assert await failing_tests(SwitchesConformance, lambda: fixtures(MemorySwitches)) == []


@pytest.mark.parametrize("bug", BUGS)
async def test_the_kit_notices_a_bug(bug: type[MemorySwitches]) -> None:
    assert await failing_tests(SwitchesConformance, lambda: fixtures(bug)) != []

"""What the operators of an application decide, in the tables of a store: switches, and pins of tools."""

from __future__ import annotations

from collections.abc import Sequence

from pilotage.agent.ports.permissions import IAgentSwitches, Switch, SwitchedOff
from pilotage.agent.ports.tool_pins import IToolPins, ToolPin, pins_to_add
from pilotage.agent.tools.listed import ListedTool
from pilotage.jsonvalue import canonical_json, parsed
from pilotage.testing.tables import OverTables


class MemorySwitches(OverTables, IAgentSwitches):
    """Switches in the tables of a store; `MemorySwitches(store.tables)` for another process.

    An application has them only if they are added: `Application.add(store.switches)`.
    """

    async def turn_off(self, switch: Switch, *, reason: str, by: str | None = None) -> SwitchedOff:
        off = SwitchedOff(switch, reason, by, self._tables.clock.now())
        return self._tables.switches.setdefault(switch, off)

    async def turn_on(self, switch: Switch) -> bool:
        return self._tables.switches.pop(switch, None) is not None

    async def first_off(self, switches: Sequence[Switch]) -> SwitchedOff | None:
        off = (self._tables.switches.get(switch) for switch in switches)
        return next((each for each in off if each is not None), None)

    async def list_off(self) -> Sequence[SwitchedOff]:
        return list(self._tables.switches.values())


class MemoryToolPins(OverTables, IToolPins):
    """Pins of tools in the tables of a store; `MemoryToolPins(store.tables)` for another process."""

    async def pins_of(self, source: str) -> Sequence[ToolPin]:
        return [pin for pin in await self.list_pins() if pin.source == source]

    async def list_pins(self) -> Sequence[ToolPin]:
        return [
            ToolPin(source, ListedTool.from_payload(parsed(text)), by, at)
            for (source, _), (text, by, at) in sorted(self._tables.pins.items())
        ]

    async def accept(
        self, source: str, tools: Sequence[ListedTool], *, by: str | None = None
    ) -> Sequence[ToolPin]:
        added = pins_to_add(source, await self.pins_of(source), tools, by=by)
        texts = {name: canonical_json(pin.definition.to_payload()) for name, pin in added.items()}
        now = self._tables.clock.now()
        self._tables.pins.update({(source, name): (text, by, now) for name, text in texts.items()})
        return await self.pins_of(source)

    async def accept_first(
        self, source: str, tools: Sequence[ListedTool], *, by: str | None = None
    ) -> Sequence[ToolPin]:
        known = await self.pins_of(source)
        pins_to_add(source, known, tools, by=by)
        return known or await self.accept(source, tools, by=by)

    async def withdraw(self, source: str, tools: Sequence[str]) -> int:
        found = [self._tables.pins.pop((source, tool), None) for tool in set(tools)]
        return sum(each is not None for each in found)

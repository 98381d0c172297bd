"""The switch port in memory: what is off, with the clock of the store."""

from __future__ import annotations

from collections.abc import Sequence

from pilotage.agent.ports.switches import IAgentSwitches, Switch, SwitchedOff
from pilotage.testing.tables import MemoryTables


class MemorySwitches(IAgentSwitches):
    """Switches in the tables of a store: `MemorySwitches(store.tables)` is what another process has of them.

    An application has them only if it is given them: `Application.add(store.switches)`.
    """

    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables

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

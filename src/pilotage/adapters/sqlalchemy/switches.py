"""`SqlAlchemySwitches`: the switches that are off, for all processes on one database."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, delete, select

from pilotage.adapters.sqlalchemy.columns import now
from pilotage.adapters.sqlalchemy.database import Database
from pilotage.adapters.sqlalchemy.errors import ConflictingWriteError
from pilotage.adapters.sqlalchemy.mapping import Stored
from pilotage.adapters.sqlalchemy.statements import bulk_insert, in_keys
from pilotage.adapters.sqlalchemy.tables import switches
from pilotage.agent.ports.switches import IAgentSwitches, Switch, SwitchedOff, SwitchKind

_IS_SWITCH = (switches.c.kind == bindparam("what"), switches.c.name == bindparam("called"))

_TURN_OFF = bulk_insert(
    switches, ("kind", "name", "reason", "by"), lambda _: {"since": now()}, skips_known=True
)
_TURN_ON = delete(switches).where(*_IS_SWITCH)
_ONE = select(switches).where(*_IS_SWITCH)
_SOME = select(switches).where(in_keys(switches, "kind", "name"))
_ALL = select(switches).order_by(switches.c.position)


class SqlAlchemySwitches(IAgentSwitches):
    """Switches in a database. Every action of a run reads them, so an application has them only if it adds them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def turn_off(self, switch: Switch, *, reason: str, by: str | None = None) -> SwitchedOff:
        off = SwitchedOff(switch, reason, by)
        place = {"what": switch.kind.value, "called": switch.name}
        row = {"kind": switch.kind.value, "name": switch.name, "reason": off.reason, "by": off.by}

        def work(connection: Connection) -> SwitchedOff:
            _TURN_OFF.run(connection, [row])
            found = connection.execute(_ONE, place).mappings().first()
            if found is None:
                raise ConflictingWriteError(f"{switch} was switched on at the same time")
            return _off(found)

        return await self._database.write(work, may_be_repeated=True)

    async def turn_on(self, switch: Switch) -> bool:
        place = {"what": switch.kind.value, "called": switch.name}
        return await self._database.write(lambda connection: connection.execute(_TURN_ON, place).rowcount > 0)

    async def first_off(self, switches: Sequence[Switch]) -> SwitchedOff | None:
        if not switches:
            return None
        keys = [(switch.kind.value, switch.name) for switch in switches]
        off = {each.switch: each for each in await self._database.rows(_SOME, {"keys": keys}, _off)}
        return next((off[switch] for switch in switches if switch in off), None)

    async def list_off(self) -> Sequence[SwitchedOff]:
        return await self._database.rows(_ALL, {}, _off)


def _off(values: Stored) -> SwitchedOff:
    switch = Switch(SwitchKind(values["kind"]), values["name"])
    return SwitchedOff(switch, values["reason"], values["by"], values["since"])

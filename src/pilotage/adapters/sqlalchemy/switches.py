"""`SqlAlchemySwitches`: the switches that are off, for all processes on one database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from sqlalchemy import Connection, Executable, bindparam, delete, func, select

from pilotage.adapters.sqlalchemy.columns import MomentColumn, now
from pilotage.adapters.sqlalchemy.database import Database
from pilotage.adapters.sqlalchemy.entry_counts import WHOLE, add_entries, check_counted, counted
from pilotage.adapters.sqlalchemy.errors import ConflictingWriteError
from pilotage.adapters.sqlalchemy.mapping import Stored, Values
from pilotage.adapters.sqlalchemy.statements import bulk_insert, in_keys
from pilotage.adapters.sqlalchemy.stored_entries import StoredEntry
from pilotage.adapters.sqlalchemy.tables import switches
from pilotage.agent.ports.permissions import IAgentSwitches, Switch, SwitchedOff, SwitchKind

_IS_SWITCH = (switches.c.kind == bindparam("what"), switches.c.name == bindparam("called"))

_TURN_OFF = bulk_insert(
    switches,
    ("kind", "name", "reason", "by", "code"),
    lambda given: {"since": func.coalesce(given["given_at"], now())},
    extra={"given_at": MomentColumn()},
    skips_known=True,
)
_TURN_ON = delete(switches).where(*_IS_SWITCH)
_ONE = select(switches).where(*_IS_SWITCH)
_SOME = select(switches).where(in_keys(switches, "kind", "name"))
_SOME_COUNTED = counted(switches, (), in_keys(switches, "kind", "name"))
_ALL = select(switches).order_by(switches.c.position)
_ALL_COUNTED = counted(switches, ()).order_by(switches.c.position)


class SqlAlchemySwitches(IAgentSwitches):
    """Switches in a database. Every action of a run reads them, so an application has them only if it adds them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def _make(self) -> Callable[[Stored], SwitchedOff]:
        return partial(_SWITCHES.read, self._database.engines.codes)

    async def turn_off(self, switch: Switch, *, reason: str, by: str | None = None) -> SwitchedOff:
        off = SwitchedOff(switch, reason, by)
        place = {"what": switch.kind.value, "called": switch.name}
        row: Values = {"kind": switch.kind.value, "name": switch.name, "reason": off.reason, "by": off.by}
        self._database.engines.codes.add(switches, row, time="since")

        def work(connection: Connection) -> SwitchedOff:
            number = _TURN_OFF.run(connection, [row])
            add_entries(self._database.engines.codes, connection, switches, number)
            found = connection.execute(_ONE, place).mappings().first()
            if found is None:
                raise ConflictingWriteError(f"{switch} was switched on at the same time")
            return _SWITCHES.decoded(found)

        return await self._database.write(work, may_be_repeated=True)

    async def turn_on(self, switch: Switch) -> bool:
        place = {"what": switch.kind.value, "called": switch.name}

        def work(connection: Connection) -> bool:
            number = connection.execute(_TURN_ON, place).rowcount
            add_entries(self._database.engines.codes, connection, switches, -number)
            return number > 0

        return await self._database.write(work)

    async def first_off(self, switches: Sequence[Switch]) -> SwitchedOff | None:
        if not switches:
            return None
        keys = [(switch.kind.value, switch.name) for switch in switches]
        off = {each.switch: each for each in await self._read(_SOME, _SOME_COUNTED, {"keys": keys})}
        return next((off[switch] for switch in switches if switch in off), None)

    async def list_off(self) -> Sequence[SwitchedOff]:
        return await self._read(_ALL, _ALL_COUNTED, {})

    async def _read(
        self, query: Executable, query_counted: Executable, given: dict[str, Any]
    ) -> list[SwitchedOff]:
        """Read switches that are off, with one query; with codes it is the one that finds a deleted switch."""
        codes = self._database.engines.codes
        if not codes.is_on:
            return await self._database.rows(query, given, self._make)

        def look(connection: Connection) -> list[SwitchedOff]:
            found = connection.execute(query_counted, {**given, "of_scope": WHOLE}).mappings().all()
            check_counted(codes, connection, switches, found[0])
            return [self._make(values) for values in found if values["name"] is not None]

        return await self._database.read(look)


def _off(values: Stored) -> SwitchedOff:
    switch = Switch(SwitchKind(values["kind"]), values["name"])
    return SwitchedOff(switch, values["reason"], values["by"], values["since"])


_SWITCHES = StoredEntry(switches, lambda stored: f"the switch of {stored['kind']} {stored['name']!r}", _off)

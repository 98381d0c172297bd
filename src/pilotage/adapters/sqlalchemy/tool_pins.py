"""`SqlAlchemyToolPins`: the accepted definitions of tools, for all processes on one database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from sqlalchemy import Connection, bindparam, delete, func, select

from pilotage.adapters.sqlalchemy.columns import MomentColumn, now
from pilotage.adapters.sqlalchemy.database import Database
from pilotage.adapters.sqlalchemy.entry_counts import WHOLE, add_entries, check_counted, counted
from pilotage.adapters.sqlalchemy.mapping import Stored, Values
from pilotage.adapters.sqlalchemy.statements import bulk_insert
from pilotage.adapters.sqlalchemy.stored_entries import StoredEntry
from pilotage.adapters.sqlalchemy.tables import tool_pins
from pilotage.agent.ports.tool_pins import IToolPins, ToolPin, pins_to_add
from pilotage.agent.tools.listed import ListedTool
from pilotage.jsonvalue import canonical_json, parsed

_OF_SOURCE = tool_pins.c.source == bindparam("of")
_ALL, _ALL_COUNTED = select(tool_pins), counted(tool_pins, ())
_SOME, _SOME_COUNTED = select(tool_pins).where(_OF_SOURCE), counted(tool_pins, (), _OF_SOURCE)
_DELETE = delete(tool_pins).where(_OF_SOURCE, tool_pins.c.tool.in_(bindparam("tools", expanding=True)))
_INSERT = bulk_insert(
    tool_pins,
    ("source", "tool", "digest", "definition", "by", "code"),
    lambda given: {"accepted_at": func.coalesce(given["given_at"], now())},
    extra={"given_at": MomentColumn()},
)


class SqlAlchemyToolPins(IToolPins):
    """Pins of tools in a database. What is accepted replaces what was, in one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def pins_of(self, source: str) -> Sequence[ToolPin]:
        return await self._database.read(partial(self._pins, source=source))

    async def list_pins(self) -> Sequence[ToolPin]:
        return await self._database.read(partial(self._pins, source=None))

    async def accept(
        self, source: str, tools: Sequence[ListedTool], *, by: str | None = None
    ) -> Sequence[ToolPin]:
        pins_to_add(source, (), tools, by=by)

        def work(connection: Connection) -> Sequence[ToolPin]:
            known = self._locked(connection, source)
            self._replace(connection, source, pins_to_add(source, known, tools, by=by))
            return self._pins(connection, source=source)

        return await self._database.write(work, may_be_repeated=True)

    async def accept_first(
        self, source: str, tools: Sequence[ListedTool], *, by: str | None = None
    ) -> Sequence[ToolPin]:
        first = pins_to_add(source, (), tools, by=by)

        def work(connection: Connection) -> Sequence[ToolPin]:
            if not self._locked(connection, source):
                self._replace(connection, source, first)
            return self._pins(connection, source=source)

        return await self._database.write(work, may_be_repeated=True)

    async def withdraw(self, source: str, tools: Sequence[str]) -> int:
        def work(connection: Connection) -> int:
            self._locked(connection, source)
            number = self._delete(connection, source, tools)
            add_entries(self._database.codes, connection, tool_pins, -number)
            return number

        return await self._database.write(work)

    def _locked(self, connection: Connection, source: str) -> Sequence[ToolPin]:
        """Return the pins of a source, which no other transaction changes before this one ends."""
        self._database.engines.take_turns(connection, "tool pins", ascii(source))
        return self._pins(connection, source=source)

    def _replace(self, connection: Connection, source: str, pins: Mapping[str, ToolPin]) -> None:
        if pins:
            removed = self._delete(connection, source, list(pins))
            _INSERT.run(connection, [self._row(pin) for pin in pins.values()])
            add_entries(self._database.codes, connection, tool_pins, len(pins) - removed)

    def _delete(self, connection: Connection, source: str, tools: Sequence[str]) -> int:
        return connection.execute(_DELETE, {"of": source, "tools": list(tools)}).rowcount if tools else 0

    def _row(self, pin: ToolPin) -> Values:
        row: Values = {
            "source": pin.source,
            "tool": pin.tool,
            "digest": pin.digest,
            "definition": canonical_json(pin.definition.to_payload()),
            "by": pin.by,
        }
        self._database.codes.add(tool_pins, row, time="accepted_at")
        return row

    def _pins(self, connection: Connection, *, source: str | None) -> Sequence[ToolPin]:
        """Read pins, with one query; with codes it is the one that finds a deleted pin."""
        codes, given = self._database.codes, {} if source is None else {"of": source}
        if codes.is_on:
            query = _ALL_COUNTED if source is None else _SOME_COUNTED
            found = connection.execute(query, {**given, "of_scope": WHOLE}).mappings().all()
            check_counted(codes, connection, tool_pins, found[0])
        else:
            found = connection.execute(_ALL if source is None else _SOME, given).mappings().all()
        pins = [_PINS.read(codes, each) for each in found if each["tool"] is not None]
        return sorted(pins, key=lambda pin: (pin.source, pin.tool))


def _pin(values: Stored) -> ToolPin:
    definition = ListedTool.from_payload(parsed(values["definition"]))
    if (definition.name, definition.digest) != (values["tool"], values["digest"]):
        raise ValueError("the definition is not the one of its name and digest")
    return ToolPin(values["source"], definition, values["by"], values["accepted_at"])


_PINS = StoredEntry(
    tool_pins, lambda stored: f"the pin of tool {stored['tool']!r} of {stored['source']!r}", _pin
)

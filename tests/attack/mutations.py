"""Random changes of stored rows, and everything that people and programs get to see of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    MetaData,
    Table,
    and_,
    create_engine,
    delete,
    insert,
    select,
    update,
)
from sqlalchemy.engine import Engine
from sqlalchemy.exc import SQLAlchemyError

from pilotage import Application
from pilotage.adapters.sqlalchemy import StoreOnDemand
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from pilotage.adapters.sqlalchemy.supported import database_url
from pilotage.agent import RunKey
from pilotage.agent.ports.budget import BudgetPeriod
from pilotage.agent.ports.costs import CostField
from pilotage.agent.ports.memory import MemoryScope
from pilotage.agent.ports.outbox import IAgentOutbox, OutboxEntry
from pilotage.agent.principal import Principal
from pilotage.errors import PilotageError
from pilotage.inbound.problems import problem_of
from pilotage.runtime import AgentRuns
from pilotage.runtime.heads import RunHead, differences
from tests.attack.outsiders import Reader, is_raw
from tests.golden.place import Place

UNSEEN = {
    "pilotage_schema": "the version of the tables: an application does not start with another one",
    "pilotage_leases": "who may try next: the journal decides who writes, and a lease runs out",
    "pilotage_budget_holds": "calls under way: a hold lapses by itself, and the spending has codes",
    "pilotage_memory_words": "an index: a memory that it does not lead to is as one that was forgotten",
    "pilotage_keys": "the ids of the keys: an application without any of them does not start",
}
"""Tables that no answer is made of, and why."""

Row = dict[str, Any]
NUMBER_BITS = 40


@dataclass
class Mutation:
    """A change of one row: how it was and how it is, each None where there is no such row."""

    table: Table
    before: Row | None
    after: Row | None

    def __str__(self) -> str:
        name = self.table.name
        if self.before is None or self.after is None:
            return f"{name}: {'row inserted' if self.before is None else 'row deleted'} {self.before or self.after}"
        changed = {
            key: (self.before[key], self.after[key])
            for key in self.before
            if self.before[key] != self.after[key] or type(self.before[key]) is not type(self.after[key])
        }
        return f"{name}: {changed} of {self.before}"

    def apply(self, connection: Connection) -> None:
        _change(connection, self.table, self.before, self.after)

    def revert(self, connection: Connection) -> None:
        if self.before is not None and self.after is None:
            # An application that was opened meanwhile may have written the row again, such as that of its key.
            connection.execute(delete(self.table).where(_is_row(self.table, self.before)))
        _change(connection, self.table, self.after, self.before)


def _change(connection: Connection, table: Table, before: Row | None, after: Row | None) -> None:
    if before is None:
        connection.execute(insert(table).values(after))
        return
    found = _is_row(table, before)
    if after is None:
        done = connection.execute(delete(table).where(found))
    else:
        done = connection.execute(update(table).where(found).values(after))
    if done.rowcount != 1:
        raise ValueError(f"{done.rowcount} rows of {table.name} changed")


def _is_row(table: Table, row: Row) -> ColumnElement[bool]:
    return and_(*(column == row[column.name] for column in table.primary_key))


class Attacker:
    """Somebody who can write every table of a database, as the database has them."""

    def __init__(self, place: Place, random: Random) -> None:
        self._engine: Engine = create_engine(database_url(place.settings.url))
        self._random = random
        metadata = MetaData()
        metadata.reflect(self._engine, only=lambda name, _: name.startswith("pilotage_"))
        self._rows: list[tuple[Table, list[Row]]] = []
        with self._engine.connect() as connection:
            for table in metadata.sorted_tables:
                rows = [dict(row) for row in connection.execute(select(table)).mappings()]
                if rows:
                    self._rows.append((table, rows))
        self.tables = {table.name for table, _ in self._rows}
        self._runs = {row["position"]: str(row["run_id"]) for row in self.rows_of("pilotage_runs")}

    def close(self) -> None:
        self._engine.dispose()

    def rows_of(self, name: str) -> list[Row]:
        return next((rows for table, rows in self._rows if table.name == name), [])

    def runs_of(self, mutation: Mutation) -> set[str]:
        """The runs that a mutation concerns."""
        found: set[str] = set()
        for row in (mutation.before, mutation.after):
            if row is None:
                continue
            name = mutation.table.name
            if name == "pilotage_journal":
                found |= {self._runs.get(row["run"], ""), self._runs.get(row["place"] // 2**32, "")}
            elif name == "pilotage_blobs":
                found |= {
                    self._runs[each["run"]]
                    for each in self.rows_of("pilotage_journal")
                    if row["digest"] in (each["record_blob"], each["view_blob"])
                }
            elif name == "pilotage_turns":
                found |= {
                    str(each["run_id"])
                    for each in self.rows_of("pilotage_runs")
                    if each["conversation_id"] == row["conversation_id"]
                }
            else:
                found.add(str(row.get("run_id") or ""))
        return {run_id for run_id in found if run_id.strip() and "\x00" not in run_id}

    @contextmanager
    def mutated(self) -> Iterator[Mutation]:
        """Change something that the database lets be changed, for the length of a block."""
        mutation = self.draw()
        with self.applied(mutation):
            yield mutation

    def draw(self) -> Mutation:
        """Return a change that the database allows."""
        while True:
            mutation = self._draw()
            try:
                with self.applied(mutation):
                    return mutation
            except (SQLAlchemyError, OverflowError, TypeError, ValueError):
                continue

    @contextmanager
    def applied(self, mutation: Mutation) -> Iterator[None]:
        """Change a row for the length of a block."""
        with self._engine.begin() as connection:
            mutation.apply(connection)
        try:
            yield
        finally:
            with self._engine.begin() as connection:
                mutation.revert(connection)

    def _draw(self) -> Mutation:
        random = self._random
        # Journals have most rows; the other tables are attacked as often.
        table, rows = random.choice(self._rows)
        row = random.choice(rows)
        if random.random() < 0.1:
            return Mutation(table, row, None)
        if random.random() < 0.03 and (copy := self._copy(table, row)) is not None:
            return Mutation(table, None, copy)
        names = [column.name for column in table.columns]
        changed = dict(row)
        while changed == row:
            for name in random.sample(names, min(len(names), random.choice((1, 1, 1, 2)))):
                changed[name] = self._other(row[name], [each[name] for each in rows])
        return Mutation(table, row, changed)

    def _copy(self, table: Table, row: Row) -> Row | None:
        """The same row once more, under another key."""
        copy = dict(row)
        for column in table.primary_key:
            if isinstance(row[column.name], int):
                copy[column.name] = row[column.name] + self._random.choice((1, 1_000))
                return copy
        return None

    def _other(self, value: Any, others: Sequence[Any]) -> Any:
        """Another value: one of the column, nothing, or the value with a change."""
        random = self._random
        pick = random.random()
        if pick < 0.25:
            return random.choice(others)
        if pick < 0.32:
            return None
        match value:
            case bool():
                return not value
            case int():
                return random.choice(
                    (value + 1, value - 1, 0, -1, -value, random.getrandbits(NUMBER_BITS), value * 1_000)
                )
            case float():
                return value + 1
            case str():
                return self._other_text(value)
            case bytes() | memoryview():
                given = bytearray(value)
                if not given:
                    return b"x"
                given[random.randrange(len(given))] ^= 1 << random.randrange(8)
                return bytes(given)
            case datetime():
                return value + timedelta(microseconds=random.choice((1, -1, 10**6, -(10**12))))
            case _:
                return random.choice(("", "x", 0, 1))

    def _other_text(self, value: str) -> str:
        random = self._random
        match random.randrange(6):
            case 0:
                return ""
            case 1:
                return value[: len(value) // 2]
            case 2:
                return f"{value} "
            case 3:
                return random.choice(("null", "[]", "{}", "~", "\\", "x", "0", '"', "[" * 5_000))
            case _ if not value:
                return "x"
            case _:
                at = random.randrange(len(value))
                return (
                    value[:at] + chr((ord(value[at]) + random.choice((1, 2, 13))) % 0xD000) + value[at + 1 :]
                )


Answers = dict[str, str]


@dataclass
class Watch:
    """Everything that is to be seen of some runs: of the service, the ports and HTTP, and what a resume reads."""

    app: Application
    http: Reader
    tenant: str = "default"
    known: frozenset[str] = frozenset()
    """The runs that there are; others are asked for by programs only, not over HTTP."""
    raw: list[str] = field(default_factory=list[str])
    """Answers that were no answers and no named errors."""

    @property
    def runs(self) -> AgentRuns:
        return self.app.get(AgentRuns)

    @property
    def _store(self) -> SqlAlchemyStore:
        return self.app.get(StoreOnDemand).open()

    async def answers(self, run_ids: Sequence[str]) -> Answers:
        found: Answers = {}
        for name, ask in {
            **self._general(),
            **{k: v for run_id in run_ids for k, v in self._of_run(run_id).items()},
        }.items():
            found[name] = await self._asked(name, ask)
        for run_id in run_ids:
            # Claims are no record and may change, but not into an error without a name.
            await self._asked(f"claims {run_id}", lambda run_id=run_id: self.runs.claims(run_id))
        over_http = await self.http.answers([run_id for run_id in run_ids if run_id in self.known])
        self.raw += [f"{name}: {answer}" for name, answer in over_http.items() if is_raw(answer)]
        return found | over_http

    async def problem(self, run_ids: Sequence[str], heads: Sequence[RunHead]) -> str | None:
        """What `verify` and the comparison of heads find."""
        for run_id in run_ids:
            found = await self._asked(f"verify {run_id}", lambda run_id=run_id: self.runs.verify(run_id))
            if found.startswith("error "):
                return found
        wanted = [head for head in heads if head.run.run_id in run_ids]
        found_heads = await self._asked("heads", lambda: differences(self.runs.services, wanted))
        return None if found_heads == "[]" else found_heads

    def _general(self) -> dict[str, Callable[[], Awaitable[object]]]:
        runs, by = self.runs, Principal("ada", self.tenant)
        outbox, store = self.app.get(IAgentOutbox), self._store
        return {
            "list": lambda: runs.list(limit=200, principal=by),
            "parked": lambda: outbox.list_parked(self.tenant),
            "conversation": lambda: runs.services.conversations.tenant_history(self.tenant, "talk"),  # type: ignore[union-attr]
            "memory": lambda: store.memory.export(MemoryScope(self.tenant, "ada")),
            "switches": store.switches.list_off,
            "pins": store.tool_pins.list_pins,
            "costs": lambda: runs.costs(by=tuple(CostField), principal=by),
            "spending": lambda: store.spending.spent(self.tenant, BudgetPeriod.MONTH),
        }

    def _of_run(self, run_id: str) -> dict[str, Callable[[], Awaitable[object]]]:
        runs, run = self.runs, RunKey(self.tenant, run_id)
        services = runs.services

        async def rows() -> object:
            record = await runs._records.checked(run_id, None)
            return [(row, row.record, row.view, row.created_at) for row in record.rows], record.damage

        async def events() -> object:
            return [event async for event in runs.events(run_id, follow=False)]

        asked: dict[str, Callable[[], Awaitable[object]]] = {
            "get": lambda: runs.get(run_id),
            "result": lambda: runs.result(run_id),
            "evidence": lambda: runs.evidence(run_id),
            "prompts": lambda: runs.prompts(run_id),
            "questions": lambda: runs.questions(run_id),
            "answers": lambda: runs.waiting_answers(run_id),
            "events": events,
            "record": rows,
            "audit": lambda: self._store.audit_log.list_by_run(Principal("ada", self.tenant), run_id),
            "signals": lambda: services.signals.list_pending(run_id),
            "facts": lambda: _all_of(services.outbox.read(run)),  # type: ignore[union-attr]
        }
        return {f"{name} {run_id}": ask for name, ask in asked.items()}

    async def _asked(self, name: str, ask: Callable[[], Awaitable[object]]) -> str:
        try:
            return repr(await ask())
        except PilotageError as error:
            if problem_of(error).status >= 500:
                self.raw.append(f"{name}: {type(error).__name__}: {error}")
            return f"error {type(error).__name__}: {error}"
        except Exception as error:  # noqa: BLE001 - this is what is looked for
            self.raw.append(f"{name}: raw {type(error).__name__}: {error}")
            return f"error {type(error).__name__}"


async def _all_of(entries: AsyncIterator[OutboxEntry]) -> list[object]:
    # Of its delivery only the relay gets to know.
    return [(entry.run, entry.number, entry.event, entry.created_at) async for entry in entries]

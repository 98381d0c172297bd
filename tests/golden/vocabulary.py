"""The words that are stored: kinds, stages, labels, keys, codes and columns, as a database in SQLite has them."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing

from pilotage.agent import IAgentJournal, JournalRow, JsonValue, RunKey
from pilotage.runtime import AgentRuns
from tests.golden.place import Place
from tests.golden.reading import all_runs

Vocabulary = dict[str, JsonValue]

DEPTH = 3
GIVEN = frozenset(
    "arguments calls content executed input modified_payload output payload schema state structured_output "
    "task task_input".split()
)
"""Keys below which the words are those of agents and callers."""
GIVEN_BY_KIND = {
    "tool_call": frozenset({"asked", "result"}),
    "step": frozenset({"asked", "result"}),
    "value": frozenset({"result"}),
}
"""The same for one kind of action."""
NAMES = frozenset(
    "ask caught colleague fail kid kids letter look measure note pack page pick post research rounds ship sides "
    "stamp write writing".split()
)
"""Names of tools, children, branches and loops of the golden agents."""
VALUES = frozenset(
    "action_kind allowed_decisions awaits axes boundary code confidentiality decision finish_reason integrity "
    "interruption kind reason role source stage status strategy transition".split()
)
"""Keys whose values are words too, not sentences."""
_WORD = re.compile(r"[a-z][a-z0-9_.]*")


async def vocabulary_of(place: Place) -> Vocabulary:
    """The words in the database of a place."""
    words = _Words()
    async with place.process() as app:
        journal = app.get(IAgentJournal)
        async for state in all_runs(app.get(AgentRuns)):
            async for row in journal.read(RunKey(state.tenant_id, state.id)):
                words.take_row(row)
    with closing(sqlite3.connect(place.folder / "pilotage.db")) as connection:
        words.take_tables(connection)
    return words.sorted()


class _Words:
    """Words that were found, by where they stand."""

    def __init__(self) -> None:
        self._found: dict[str, set[str]] = {}

    def sorted(self) -> Vocabulary:
        return {where: list[JsonValue](sorted(words)) for where, words in sorted(self._found.items())}

    def take_row(self, row: JournalRow) -> None:
        kind, stage = row.kind.value if row.kind else "", row.stage.value
        self._add("rows", f"{kind}/{stage}")
        self._add("idempotency", row.idempotency.value)
        self._add("steps", _structure_of(row.action_id))
        for part in ("record", "view"):
            payload = _with_events(getattr(row, part))
            where = f"{part} of {kind}/{stage}"
            if payload is None or isinstance(payload, dict):
                self._take(where, payload or {}, cut=GIVEN | GIVEN_BY_KIND.get(kind, frozenset()))
            elif isinstance(payload, str | int | float | list):
                self._add(where, "(a value)")
            else:
                self._add(where, f"({type(payload).__name__})")

        if row.events:
            _, *items = json.loads(row.events)
            self._take("view of /told", _with_events({"items": items}), cut=GIVEN)

    def take_tables(self, connection: sqlite3.Connection) -> None:
        names = "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'pilotage%'"
        for (table,) in connection.execute(names).fetchall():
            for column in connection.execute(f"PRAGMA table_info({table})"):
                self._add(f"columns of {table}", column[1])
        self._take_documents(connection, "state", "SELECT 'of runs', state FROM pilotage_runs")
        self._take_documents(connection, "fact", "SELECT event_type, payload FROM pilotage_outbox")
        self._take_documents(connection, "evidence", "SELECT kind, document FROM pilotage_evidence")
        controls = "SELECT kind, payload FROM pilotage_signals WHERE kind IN ('approval_decision', 'cancel', 'pause')"
        self._take_documents(connection, "signal", controls)
        for column in ("status", "awaits"):
            for (word,) in connection.execute(f"SELECT DISTINCT {column} FROM pilotage_runs"):  # noqa: S608 - ours
                self._add(f"values of {column}", str(word))

    def _take_documents(self, connection: sqlite3.Connection, what: str, query: str) -> None:
        for kind, document in connection.execute(query):
            # The mark in front says how the payload of a fact is written.
            self._take(f"{what} {kind}", json.loads(document.removeprefix("@")), cut=GIVEN)

    def _take(self, where: str, payload: object, cut: frozenset[str]) -> None:
        for path, leaf in _paths(payload, cut, DEPTH):
            self._add(where, path)
            key = path.rpartition(".")[2].removesuffix("[]")
            if key in VALUES and isinstance(leaf, str) and _WORD.fullmatch(leaf):
                self._add(f"values of {key}", leaf)

    def _add(self, where: str, word: str) -> None:
        self._found.setdefault(where, set()).add(word)


def _with_events(payload: object) -> object:
    """A payload whose items are events as far as they are stored; what follows from rows has no words of its own."""
    if not isinstance(payload, dict) or "items" not in payload:
        return payload
    items = payload["items"]
    return {**payload, "items": [], "events": [each for each in items if isinstance(each, dict)]}


def _paths(
    payload: object, cut: frozenset[str], depth: int, before: str = ""
) -> Iterator[tuple[str, object]]:
    """The keys of a payload with the values behind them, items of lists as one."""
    if isinstance(payload, Mapping):
        for key, each in payload.items():
            yield f"{before}{key}", each
            if depth > 1 and key not in cut:
                yield from _paths(each, cut, depth - 1, f"{before}{key}.")
    elif isinstance(payload, list | tuple):
        path = before.removesuffix(".") + "[]"
        for each in payload:
            if isinstance(each, str):
                yield path, each
            else:
                yield from _paths(each, cut, depth, f"{path}.")


def _structure_of(step_id: str) -> str:
    """A step id without ordinals and names that are not the library's."""
    return "/".join(map(_label_of, step_id.split("/")))


def _label_of(segment: str) -> str:
    label = re.sub(r"\d+", "N", segment)
    parts = re.split(r"([:#])", label)
    if parts[0] == "packet":
        return "packet:NAME#N"
    return "".join("NAME" if part in NAMES else part for part in parts)

"""Folded stretches of a loop of the library: turns whose calls replay does not make again. Pure.

The row of a stretch names its scope and the numbers of its first and last call. Each of these calls asked a model or
called a tool, has its outcome, and has no rows beside or inside of it. So the loop gets its replies and results from
the rows, and everything else follows from them as it did before: the row holds no message.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pilotage.agent.events import AgentEventKind
from pilotage.agent.ports.persistence import JournalRow, JournalStage
from pilotage.agent.recovery import AgentActionKind
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.record_fields import DamagedRecordError, count_field, counts_field, decode_row

_FOLDED, _AFTER = JournalStage.FOLDED, JournalStage.AFTER
CALLS = (AgentActionKind.MODEL_CALL, AgentActionKind.TOOL_CALL)
_OUTCOMES = frozenset({words.RESULT, words.ERROR})
_EDGES = 2
_NONE = range(0)
_WARNING = AgentEventKind.ARTIFACT.value
_BETWEEN = f"{words.SEPARATOR}{words.FOLDED_TURNS}"


class Stretch(NamedTuple):
    """The calls `first` to `last` of a scope, as the row `seq` folds them.

    Of the events in the rows before, the program emitted those after the number `emitted` up to `emitted_then` in it.
    """

    path: str
    first: int
    last: int
    seq: int
    turns: int = 0
    emitted: int = 0
    emitted_then: int = 0

    @property
    def id(self) -> str:
        """The id of its row."""
        return stretch_id(self.path, self.first, self.last)


def stretch_id(path: str, first: int, last: int) -> str:
    """Return the id of the row that folds the calls of a scope from one number to another."""
    return f"{path}{_BETWEEN}{first}-{last}"


def is_stretch(row: JournalRow) -> bool:
    """Return whether a row folds a stretch of a loop; ids of branches and turns have an ordinal there."""
    return row.stage is _FOLDED and row.action_id.rpartition("/")[2].startswith(words.FOLDED_TURNS)


def stretch_of(row: JournalRow) -> Stretch:
    """Return the stretch that a row folds.

    Raises:
        DamagedRecordError: its id names none.
    """
    path, _, numbers = row.action_id.rpartition(_BETWEEN)
    first, _, last = numbers.partition("-")
    if not (path and first.isdecimal() and last.isdecimal() and 0 < int(first) <= int(last)):
        raise DamagedRecordError("id", "that of folded turns", seq=row.seq, action_id=row.action_id)
    turns, emitted = decode_row(row, _counts_in)
    if emitted and (len(emitted) != _EDGES or emitted[0] > emitted[1]):
        raise DamagedRecordError(words.EMITTED, "two numbers of events", seq=row.seq, action_id=row.action_id)
    edges = emitted or (0, 0)
    return Stretch(path, int(first), int(last), row.seq, turns=turns, emitted=edges[0], emitted_then=edges[1])


def _counts_in(record: JsonObject) -> tuple[int, Sequence[int]]:
    emitted = counts_field(record, words.EMITTED) if words.EMITTED in record else ()
    return count_field(record, words.TURNS), emitted


def is_plain_outcome(row: JournalRow) -> bool:
    """Return whether a row alone says what its call gave: a stretch may hold it."""
    record = row.record
    return (
        row.stage is _AFTER
        and row.kind in CALLS
        and row.turn is None
        and isinstance(record, dict)
        and is_plain_record(row.kind, record)
    )


def is_plain_record(kind: AgentActionKind | None, record: object) -> bool:
    """Return whether a record is the whole outcome of a call: a reply that was left or failed is none."""
    if not isinstance(record, dict):
        return False
    if kind is AgentActionKind.MODEL_CALL:
        return words.RESULT in record and record.keys().isdisjoint(_NO_WHOLE_REPLY)
    return not record.keys().isdisjoint(_OUTCOMES) and record.keys().isdisjoint(_NO_OUTCOME)


_NO_OUTCOME = frozenset({words.CUT_SHORT, words.SKIPPED, words.NOT_RECORDED})
_NO_WHOLE_REPLY = _NO_OUTCOME | {words.ERROR, words.LEFT, words.PROBLEMS, words.RESTARTS}


def fold_mismatch(rows: Sequence[JournalRow]) -> str | None:
    """Return which row folds other calls than its own, in words; None if there is none."""
    try:
        stretches = Stretches(rows)
    except DamagedRecordError as error:
        return str(error)
    if stretches:
        stretches.rest_of(rows)
    return stretches.mismatch()


class Stretches:
    """The stretches of a record, and the rows inside of them."""

    def __init__(self, rows: Iterable[JournalRow]) -> None:
        self._by_path: dict[str, list[Stretch]] = {}
        self._inside: dict[str, list[JournalRow]] = {}
        for row in rows:
            if row.stage is _FOLDED and is_stretch(row):
                stretch = stretch_of(row)
                self._by_path.setdefault(stretch.path, []).append(stretch)
                self._inside[stretch.id] = []
        for found in self._by_path.values():
            found.sort()
        self._rows_of_program = [each.seq for each in self.of_program]
        self._firsts = {path: [each.first for each in found] for path, found in self._by_path.items()}

    def __bool__(self) -> bool:
        return bool(self._by_path)

    def rest_of(self, rows: Iterable[JournalRow]) -> list[JournalRow]:
        """Return the rows of actions that are not inside of a stretch; the outcomes inside are kept for the loop."""
        rest: list[JournalRow] = []
        # Most rows are in the stretch of the row before them, or in the next one.
        path, first, last, until, inside = "", 1, 0, 0, list[JournalRow]()
        for row in rows:
            number = row.number
            if not number:
                rest.append(row)
                continue
            above = row.action_id.rpartition("/")[0]
            if above != path or not first <= number <= last or row.seq > until:
                stretch = self._around(above, number, row.seq)
                if stretch is None:
                    rest.append(row)
                    continue
                path, first, last, until = stretch.path, stretch.first, stretch.last, stretch.seq
                inside = self._inside[stretch.id]
            if row.stage is _AFTER:
                inside.append(row)
        return rest

    def over(self, row: JournalRow) -> Stretch | None:
        """Return the stretch that a row is inside of; None if replay makes its call again."""
        return self._around(row.action_id.rpartition("/")[0], row.number, row.seq) if row.number else None

    def _around(self, path: str, number: int, seq: int) -> Stretch | None:
        """Return the stretch that a row of a call is inside of."""
        firsts = self._firsts.get(path)
        if firsts is None:
            return None
        place = bisect_right(firsts, number) - 1
        found = self._by_path[path][place]
        return found if place >= 0 and number <= found.last and seq <= found.seq else None

    def silent(self, rows: Sequence[JournalRow]) -> Iterator[JournalRow]:
        """Yield the rows with events that folded turns emitted, and with no other ones."""
        if not self.of_program:
            return
        coming: int | None = None
        for row in reversed(rows):
            text = row.events
            if row.stage is JournalStage.TOLD:
                coming = None
            elif text:
                first, emitted = _first_in(text), self.emitted_at(row.seq)
                if coming is not None and first in emitted and coming - 1 in emitted and _WARNING not in text:
                    yield row
                coming = first

    def emitted_at(self, seq: int) -> range:
        """Return the numbers of the events in a row that folded turns of the program emitted."""
        place = bisect_left(self._rows_of_program, seq)
        if place == len(self._rows_of_program):
            return _NONE
        found = self.of_program[place]
        return range(found.emitted + 1, found.emitted_then + 1)

    def at(self, path: str, number: int) -> Stretch | None:
        """Return the stretch that begins with a call."""
        firsts = self._firsts.get(path)
        if firsts is None:
            return None
        place = bisect_right(firsts, number) - 1
        return self._by_path[path][place] if place >= 0 and firsts[place] == number else None

    def turns_in(self, stretch: Stretch) -> list[list[JournalRow]]:
        """Return the outcomes inside of a stretch, turn by turn: that of a reply, then those of the calls it asked for.

        Raises:
            DamagedRecordError: they are not the ones that the row of the stretch names.
        """
        rows = sorted(self._inside[stretch.id], key=lambda row: row.number)
        if [row.number for row in rows] != list(range(stretch.first, stretch.last + 1)):
            raise _misfit(stretch)
        turns: list[list[JournalRow]] = []
        for row in rows:
            if row.kind is AgentActionKind.MODEL_CALL:
                turns.append([row])
            elif turns:
                turns[-1].append(row)
            else:
                raise _misfit(stretch)
        if len(turns) != stretch.turns:
            raise _misfit(stretch)
        return turns

    def mismatch(self) -> str | None:
        """Return which stretch is not what its row says, in words; None if there is none."""
        for stretch in (each for found in self._by_path.values() for each in found):
            try:
                turns = self.turns_in(stretch)
            except DamagedRecordError as error:
                return str(error)
            rows = [row for turn in turns for row in turn]
            if not all(map(is_plain_outcome, rows)):
                return f"row {stretch.seq} folds a call that has more to it than its outcome"
        return None

    @property
    def of_program(self) -> Sequence[Stretch]:
        """The stretches of the run's own loop, in their order."""
        return self._by_path.get(words.RUN, ())


def _first_in(text: str) -> int:
    """Return the number of the first event that a row names; 0 for a text that the reader of events will refuse."""
    number = text[1:].partition(",")[0]
    return int(number) if number.isdecimal() else 0


def _misfit(stretch: Stretch) -> DamagedRecordError:
    return DamagedRecordError("rows", "the calls that it folds", seq=stretch.seq, action_id=stretch.id)

"""Folded stretches of a loop of the library: turns whose calls replay does not make again. Pure.

The row of a stretch names its scope and the numbers of its first and last call. Each of these calls asked a model or
called a tool, has its outcome, and has no rows beside or inside of it. So the loop gets its replies and results from
the rows, and everything else follows from them as it did before: the row holds no message.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pilotage.agent.ports.persistence import JournalRow, JournalStage
from pilotage.agent.recovery import AgentActionKind
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.record_fields import DamagedRecordError, counts_field, record_of

_FOLDED, _AFTER = JournalStage.FOLDED, JournalStage.AFTER
CALLS = (AgentActionKind.MODEL_CALL, AgentActionKind.TOOL_CALL)
_OUTCOMES = frozenset({words.RESULT, words.ERROR})
_EDGES = 2
_BETWEEN = f"{words.SEPARATOR}{words.FOLDED_TURNS}"


class Stretch(NamedTuple):
    """The calls `first` to `last` of a scope, as the row `seq` folds them.

    Of the events in the rows before, the program emitted those behind number `told` up to `told_then` in these turns.
    """

    path: str
    first: int
    last: int
    seq: int
    told: int = 0
    told_then: int = 0

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
    record = record_of(row)
    told = counts_field(record, words.TOLD) if words.TOLD in record else ()
    if told and (len(told) != _EDGES or told[0] > told[1]):
        raise DamagedRecordError(words.TOLD, "two numbers of events", seq=row.seq, action_id=row.action_id)
    return Stretch(path, int(first), int(last), row.seq, *told)


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
        self._firsts = {path: [each.first for each in found] for path, found in self._by_path.items()}

    def __bool__(self) -> bool:
        return bool(self._by_path)

    def take(self, row: JournalRow) -> bool:
        """Return whether a row is one of a call inside of a stretch; then its outcome is kept for the loop."""
        path, _, _ = row.action_id.rpartition("/")
        found = self._by_path.get(path)
        if found is None or not row.number:
            return False
        place = bisect_right(self._firsts[path], row.number) - 1
        if place < 0 or row.number > found[place].last or row.seq > found[place].seq:
            return False
        if row.stage is _AFTER:
            self._inside[found[place].id].append(row)
        return True

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
        rows = sorted(self._inside[stretch.id], key=_number)
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
        return turns

    @property
    def of_program(self) -> Sequence[Stretch]:
        """The stretches of the run's own loop, in their order."""
        return self._by_path.get(words.RUN, ())


def _misfit(stretch: Stretch) -> DamagedRecordError:
    return DamagedRecordError("rows", "the calls that it folds", seq=stretch.seq, action_id=stretch.id)


def _number(row: JournalRow) -> int:
    return row.number

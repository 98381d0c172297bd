"""The record of a run as the replay kernel reads it: numbered calls, their outcomes, and the order of turns. Pure.

A row says of which scope and number its call is. Rows of calls inside a call that has an outcome, or inside a folded
branch, are not read: replay does not enter them. The rest is sorted by *level*: level 0 is outside of every call
without outcome, level 1 inside of one, and so on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import Enum, StrEnum
from typing import Any, Protocol

from pilotage.values import value

TASK = "task:"
"""The first letters of the last part of a path, where the scope is an implicit branch."""
_INSIDE_CALLS = ("tool:", "step:")
"""The same, where the scope is inside of a call."""


@value
class CallIdentity:
    """The request of the program in one call."""

    kind: str
    label: str
    fingerprint: str

    def fits(self, recorded: CallIdentity) -> bool:
        """Return whether the recorded call is this one."""
        return self == recorded

    def __str__(self) -> str:
        return f"{self.kind} {self.label!r} ({self.fingerprint})"


class Requested(Protocol):
    """The request of a program in one call, as far as the kernel compares it with the record."""

    def fits(self, recorded: CallIdentity, /) -> bool:
        """Return whether the recorded call is this one."""
        ...


class RowStage(StrEnum):
    """The meaning of a row for its call; FOLDED and CHANGED rows belong to a scope, CLAIMED rows to the run."""

    CLAIMED = "claimed"
    """An attempt began, and with it the program: the time before it does not count."""
    BESIDE = "beside"
    """A question or signal of the call: it was made."""
    BEGUN = "begun"
    ENDED = "ended"
    CUT = "cut"
    """The program cut the call short."""
    SKIPPED = "skipped"
    """A person decided that the call is passed over: the program does not ask for it any more."""
    FOLDED = "folded"
    """The branch with this path has ended."""
    RETURNED = "returned"
    """The program had returned: a person was asked about its answer."""
    CHANGED = "changed"
    """A gate in front of the next number was answered with True; the label is its name."""


@value
class RecordRow:
    """One row as the kernel reads it; `outcome` is not looked into.

    `takes_turn` is False for an outcome that the program got without its turn. `passed` of a CUT row is the number of
    turns and cuts in its domain before it. `at` is the time of the row in seconds.
    """

    stage: RowStage
    scope: str
    number: int
    asked: CallIdentity
    id: str
    takes_turn: bool = True
    passed: int = 0
    at: float = 0.0
    outcome: Any = None


# Looking a member up costs as much as a call.
_CLAIMED, _BESIDE, _BEGUN, _ENDED = RowStage.CLAIMED, RowStage.BESIDE, RowStage.BEGUN, RowStage.ENDED
_CUT, _SKIPPED, _FOLDED = RowStage.CUT, RowStage.SKIPPED, RowStage.FOLDED
_RETURNED, _CHANGED = RowStage.RETURNED, RowStage.CHANGED

NOT_ALONE, WAS_HELD = -1, -2
"""The epochs of calls that began beside other tasks, and of calls that had to wait before they began."""


class CallState(Enum):
    """The progress of a call in this attempt."""

    EXPECTED = "recorded, not made yet"
    MADE = "made, not awaited"
    WAITING = "its outcome waits for its turn"
    UNCUT = "recorded as cut short, not cut yet"
    HELD = "held until the end of the record"
    UNDER_WAY = "under way"
    PARKED = "parked"
    ENDED = "ended"


class Call:
    """One call, from the record or from the program, until the program has its outcome.

    The defaults are attributes of the class: most calls change few of them, and every effect makes a call.
    """

    identity: CallIdentity | None = None
    """The recorded request; of a call with a question or signal only, its id."""
    state: CallState = CallState.EXPECTED
    domain: Domain
    """There from when the call is made."""
    end: RecordRow | None = None
    """The recorded outcome."""
    has_begun: bool = False
    """Whether an earlier attempt began it."""
    has_inside: bool = False
    """Whether calls inside of it are recorded that replay enters."""
    level: int = 0
    first: int = 0
    """The place of its first row in the record."""
    last: int = 0
    """The place of the row with its outcome."""
    took: float = 0.0
    """The most seconds that the program took to make it or to cut it short, from the row before that in its scope."""
    has_made: bool = False
    """Whether calls inside of it were made in this attempt."""
    is_repeatable: bool = True
    has_not_acted: bool = False
    """Whether it has begun and has certainly taken no effect yet."""
    is_ordered: bool = True
    """Whether its outcome takes a turn beside other tasks; False if it is awaited together with those of the others."""
    is_sync: bool = False
    """Whether it cannot wait: it only reads, and begins at once."""
    was_waiting: bool = False
    """Whether an earlier attempt may have waited in it without a row."""
    is_only_asked: bool = False
    """Whether it began before the end of the record, so that people are asked about it: it must not act before."""
    is_struck: bool = False
    """Whether the program has cancelled it before its recorded place."""
    epoch: int = NOT_ALONE
    """The epoch of its domain if it began when only the owner had made calls there."""
    inner: int = 0
    """The number of calls inside of it that have not ended."""
    takes_turn: bool = False
    """Whether its outcome, recorded in this attempt, takes a turn."""
    cut_at: int | None = None
    """Its place among the turns, if the program has cut it short in this attempt."""
    wait: str | None = None
    """The wait that it is parked for, if that may be withdrawn."""

    def __init__(self, path: str, number: int, asked: Requested, call_id: str = "") -> None:
        self.path = path
        self.number = number
        self.asked = asked
        self.id = call_id

    @property
    def is_cut(self) -> bool:
        """Return whether the record says that the program cut it short."""
        return self.end is not None and self.end.stage is _CUT

    def __str__(self) -> str:
        return self.id or f"{self.path} call {self.number}: {self.asked}"


class Domain:
    """Scopes whose outcomes share one order: a scope with its implicit branches."""

    __slots__ = ("around", "epoch", "held", "keeps_turn", "moves", "others", "owner", "passed", "turns")

    def __init__(self, owner: object, around: Call | None, recorded: Iterable[Call]) -> None:
        self.owner = owner
        self.around = around
        """The call that the domain is inside of."""
        self.others: set[object] = set()
        """The tasks besides the owner that have made calls and have not ended."""
        self.epoch = 0
        """Changes when a further task makes or awaits a call."""
        self.turns: deque[Call] = deque(recorded)
        """Calls whose outcomes wait for their turn, recorded ones first."""
        self.passed = 0
        """The number of turns and cuts so far."""
        self.held: list[Call] = []
        self.keeps_turn = 0
        """The number of outcomes that are recorded and not ready: hooks look at them before the program."""
        self.moves = 0
        """Changes whenever a call is made, asked for, ended or cancelled, and when a task ends."""


class CallScope:
    """A scope: numbers its calls."""

    __slots__ = ("branches", "domain", "number", "path", "recorded", "skipped")

    def __init__(
        self,
        path: str,
        domain: Domain,
        recorded: dict[int, Call],
        skipped: Collection[int] = (),
    ) -> None:
        self.path = path
        self.domain = domain
        self.recorded = recorded
        self.number = 0
        self.skipped = skipped
        """The numbers that are passed over."""
        self.branches: dict[str, int] = {}


def domain_of(path: str) -> str:
    """Return the path of the scope with which a scope shares its order of outcomes: that above implicit branches."""
    while path.rpartition("/")[2].startswith(TASK):
        path = path.rpartition("/")[0]
    return path


class Record:
    """The recorded calls of a run that replay enters."""

    def __init__(self, rows: Iterable[RecordRow] = ()) -> None:
        self.scopes: dict[str, dict[int, Call]] = {}
        self.orders: dict[str, list[Call]] = {}
        """The calls that take a turn or were cut short, by domain, in the order in which the program got them."""
        self.folds: dict[str, RecordRow] = {}
        self.gates: set[tuple[str, int, str]] = set()
        self.fold_levels: dict[str, int] = {}
        """The levels of the folded branches that replay comes to."""
        self.unwritten: dict[str, int] = {}
        """The levels of calls without rows, inside of which calls are recorded: they only read, and were under way."""
        self.skipped: dict[str, set[int]] = {}
        """The numbers of the calls that are passed over, by scope."""
        self.answer: Call | None = None
        """The end of the program, if a person was asked about its answer: recorded like a call without outcome."""
        self._passed_over: set[str] = set()
        self._unnumbered: dict[str, Call] = {}
        self._read(rows)
        self._move_gates()
        self._drop_finished()
        self.left = self._count_levels()
        """The number of calls by level."""

    def calls(self) -> Iterator[Call]:
        """Return the recorded calls that the program must make again."""
        for numbered in self.scopes.values():
            yield from numbered.values()
        yield from self._unnumbered.values()

    def goes_on(self, path: str, number: int) -> bool:
        """Return whether a call after this number is recorded in the scope, or the end of its program."""
        is_before_answer = self.answer is not None and self.answer.path == path
        return is_before_answer or any(later > number for later in self.scopes.get(path, ()))

    def unnumbered(self, call_id: str) -> Call | None:
        """Return the recorded call of this id, if it was stored without a number."""
        return self._unnumbered.get(call_id) if self._unnumbered else None

    def _read(self, rows: Iterable[RecordRow]) -> None:
        started, last = 0.0, dict[str, float]()
        for place, row in enumerate(rows):
            stage, took = row.stage, 0.0
            if stage is _CLAIMED:
                started, last = row.at, {}
                continue
            if row.at:
                took = row.at - last.get(row.scope, started)
                last[row.scope] = row.at
            if stage is _FOLDED:
                self.folds[row.id] = row
            elif stage is _RETURNED:
                self.answer = self.answer or _recorded(row, place)
                self.answer.took = max(self.answer.took, took)
            elif stage is _CHANGED:
                self.gates.add((row.scope, row.number, row.asked.label))
            else:
                self._read_call(row, stage, took, place)

    def _read_call(self, row: RecordRow, stage: RowStage, took: float, place: int) -> None:
        call = self._call_of(row, place)
        if stage is _SKIPPED:
            self._skip(call)
            return
        if stage is not _BESIDE:
            call.asked = call.identity = row.asked
        if call.end is not None:
            return  # A repetition inside of a call that was repeated: the first outcome counts.
        if took > call.took and not (stage is _ENDED and call.has_begun):
            call.took = took
        if stage is _BEGUN:
            call.has_begun = True
        elif stage is not _BESIDE:
            call.end, call.last = row, place
            if stage is _CUT:
                self.orders.setdefault(domain_of(row.scope), []).insert(row.passed, call)
            elif row.takes_turn and row.number:
                self.orders.setdefault(domain_of(row.scope), []).append(call)

    def _skip(self, call: Call) -> None:
        """Take a call out of the record, with its turn: rows after this one count turns without it."""
        self._passed_over.add(call.id)
        self._drop(call)
        order = self.orders.get(domain_of(call.path), [])
        if call in order:
            order.remove(call)
        if call.number:
            self.skipped.setdefault(call.path, set()).add(call.number)

    def _move_gates(self) -> None:
        """Move the gates of a skipped call to the call before it."""
        if self.skipped and self.gates:
            self.gates = {(path, self._before(path, number), name) for path, number, name in self.gates}

    def _before(self, path: str, number: int) -> int:
        skipped = self.skipped.get(path, ())
        while number in skipped:
            number -= 1
        return number

    def _call_of(self, row: RecordRow, place: int) -> Call:
        if not row.number:
            return self._unnumbered.get(row.id) or self._unnumbered.setdefault(row.id, _recorded(row, place))
        numbered = self.scopes.get(row.scope)
        if numbered is None:
            numbered = self.scopes[row.scope] = {}
        return numbered.get(row.number) or numbered.setdefault(row.number, _recorded(row, place))

    def _drop_finished(self) -> None:
        """Drop the calls inside of what is finished, and give the others their level."""
        by_id = {call.id: call for call in self.calls()}
        finished = {call.id for call in by_id.values() if call.end is not None} | self.folds.keys()
        finished |= self._passed_over
        levels = _Levels(finished, by_id, self.unwritten)
        dropped: set[Call] = set()
        for call in by_id.values():
            level = levels.of(call.path)
            if level is None:
                dropped.add(call)
                self._drop(call)
            else:
                call.level = level
        for path in self.folds:
            level = levels.of(path.rpartition("/")[0])
            if level is not None:
                self.fold_levels[path] = level
        if dropped:
            for path, order in self.orders.items():
                self.orders[path] = [each for each in order if each not in dropped]

    def _drop(self, call: Call) -> None:
        self._unnumbered.pop(call.id, None)
        self.scopes.get(call.path, {}).pop(call.number, None)

    def _count_levels(self) -> list[int]:
        levels = [call.level for call in self.calls()] + [*self.fold_levels.values()]
        if self.answer is not None:
            levels.append(0)
        left = [0] * (max(levels, default=-1) + 1)
        for level in levels:
            left[level] += 1
        return left


def _recorded(row: RecordRow, place: int) -> Call:
    call = Call(row.scope, row.number, row.asked, row.id)
    call.identity, call.first = row.asked, place
    return call


class _Levels:
    """Finds the levels of scopes, marks the calls around them, and collects those that have no rows."""

    def __init__(self, finished: set[str], by_id: Mapping[str, Call], unwritten: dict[str, int]) -> None:
        self._finished = finished
        self._by_id = by_id
        self._unwritten = unwritten
        self._known: dict[str, int | None] = {"": 0}

    def of(self, path: str) -> int | None:
        """Return the number of calls without outcome around a scope; None if it is inside of something finished."""
        known = self._known
        if path not in known:
            known[path] = None if path in self._finished else self._find(path)
        return known[path]

    def _find(self, path: str) -> int | None:
        above, _, name = path.rpartition("/")
        level = self.of(above)
        if level is None:
            return None
        around = self._by_id.get(path)
        if around is not None:
            around.has_inside = True
            return level + 1
        if name.startswith(_INSIDE_CALLS):
            self._unwritten[path] = level
            return level + 1
        return level

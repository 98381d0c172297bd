"""The record of a run as the replay kernel reads it: numbered calls, their outcomes, and the order of turns. Pure.

A row says of which scope and number its call is. Rows of calls inside a call that has an outcome, or inside a folded
branch, are not read: replay does not enter them. The rest is sorted by *level*: level 0 is outside of every call
without outcome, level 1 inside of one, and so on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum, StrEnum

from pilotage.values import value

TASK = "task:"
"""The first letters of the last part of a path, where the scope is an implicit branch."""


@value
class CallIdentity:
    """What the program asks for in one call. `formerly` are the label and fingerprint it had under earlier names."""

    kind: str
    label: str
    fingerprint: str
    formerly: tuple[tuple[str, str], ...] = ()

    def fits(self, recorded: CallIdentity) -> bool:
        """Return whether the recorded call is this one."""
        if self.kind != recorded.kind:
            return False
        names = ((self.label, self.fingerprint), *self.formerly)
        return (recorded.label, recorded.fingerprint) in names

    def __str__(self) -> str:
        return f"{self.kind} {self.label!r} ({self.fingerprint})"


class RowStage(StrEnum):
    """What a row says of its call; FOLDED, SKIPPED and CHANGED rows belong to a scope, CLAIMED rows to the run."""

    CLAIMED = "claimed"
    """An attempt began: the time before it, in which the run may have been paused, does not count."""
    BESIDE = "beside"
    """A question or signal of the call: it was made."""
    BEGUN = "begun"
    ENDED = "ended"
    CUT = "cut"
    """The program cut the call short."""
    FOLDED = "folded"
    """The branch with this path has ended."""
    SKIPPED = "skipped"
    """A stretch of the scope is folded; `number` is the first number behind it."""
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
    outcome: object = None


NOT_ALONE, WAS_HELD = -1, -2
"""The epochs of calls that began beside other tasks, and of calls that had to wait before they began."""


class CallState(Enum):
    """Where a call stands in this attempt."""

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

    id: str = ""
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
    took: float = 0.0
    """The seconds between its last row and the row before that."""
    is_repeatable: bool = True
    is_struck: bool = False
    """Whether the program has cancelled it before its recorded place."""
    epoch: int = NOT_ALONE
    """The epoch of its domain if it began when only the owner had made calls there."""
    inner: int = 0
    """The number of calls inside of it that have not ended."""
    wait: str | None = None
    """The wait that it is parked for, if that may be withdrawn."""

    def __init__(self, path: str, number: int, asked: CallIdentity) -> None:
        self.path = path
        self.number = number
        self.asked = asked

    @property
    def is_cut(self) -> bool:
        """Return whether the record says that the program cut it short."""
        return self.end is not None and self.end.stage is RowStage.CUT

    def __str__(self) -> str:
        return f"{self.path} call {self.number}: {self.asked}"


class Domain:
    """Scopes whose outcomes share one order: a scope with its implicit branches."""

    __slots__ = ("around", "epoch", "held", "moves", "others", "owner", "passed", "turns")

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
        self.moves = 0
        """Changes whenever a call is made, asked for, ended or cancelled, and when a task ends."""


class CallScope:
    """A scope: numbers its calls."""

    __slots__ = ("branches", "domain", "number", "path", "recorded")

    def __init__(self, path: str, domain: Domain, recorded: dict[int, Call]) -> None:
        self.path = path
        self.domain = domain
        self.recorded = recorded
        self.number = 0
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
        self.skips: dict[str, RecordRow] = {}
        self.gates: set[tuple[str, int, str]] = set()
        self._unnumbered: dict[str, Call] = {}
        self._read(rows)
        self._drop_finished()
        self.left = self._count_levels()
        """The number of calls by level."""

    def calls(self) -> Iterator[Call]:
        """Return the recorded calls that the program must make again."""
        for numbered in self.scopes.values():
            yield from numbered.values()
        yield from self._unnumbered.values()

    def goes_on(self, path: str, number: int) -> bool:
        """Return whether a call behind this number is recorded in the scope."""
        return any(later > number for later in self.scopes.get(path, ()))

    def unnumbered(self, call_id: str) -> Call | None:
        """Return the recorded call of this id, if it was stored without a number."""
        return self._unnumbered.get(call_id) if self._unnumbered else None

    def _read(self, rows: Iterable[RecordRow]) -> None:
        before = 0.0
        for row in rows:
            match row.stage:
                case RowStage.FOLDED:
                    self.folds[row.id] = row
                case RowStage.SKIPPED:
                    self.skips[row.scope] = row
                case RowStage.CLAIMED:
                    pass
                case RowStage.CHANGED:
                    self.gates.add((row.scope, row.number, row.asked.label))
                case _:
                    self._read_call(row, row.at - before)
            before = row.at

    def _read_call(self, row: RecordRow, took: float) -> None:
        call = self._call_of(row)
        if call.end is not None:
            return  # A repetition inside of a call that was repeated: the first outcome counts.
        call.took = took
        if row.stage is RowStage.BEGUN:
            call.has_begun = True
        elif row.stage is not RowStage.BESIDE:
            call.end = row
            order = self.orders.setdefault(domain_of(row.scope), [])
            if row.stage is RowStage.CUT:
                order.insert(row.passed, call)
            elif row.takes_turn and row.number:
                order.append(call)

    def _call_of(self, row: RecordRow) -> Call:
        if row.number:
            numbered = self.scopes.setdefault(row.scope, {})
            return numbered.get(row.number) or numbered.setdefault(row.number, _recorded(row))
        return self._unnumbered.get(row.id) or self._unnumbered.setdefault(row.id, _recorded(row))

    def _drop_finished(self) -> None:
        """Drop the calls inside of what is finished, and give the others their level."""
        by_id = {call.id: call for call in self.calls()}
        finished = {call.id for call in by_id.values() if call.end is not None} | self.folds.keys()
        finished |= {call.id for call in by_id.values() if self._is_skipped(call)}
        levels: dict[str, int | None] = {}
        dropped: set[Call] = set()
        for call in by_id.values():
            level = _level(call.path, finished, by_id, levels)
            if level is None or self._is_skipped(call):
                dropped.add(call)
                self._drop(call)
            else:
                call.level = level
        if dropped:
            for path, order in self.orders.items():
                self.orders[path] = [each for each in order if each not in dropped]

    def _is_skipped(self, call: Call) -> bool:
        skip = self.skips.get(call.path)
        return skip is not None and call.number < skip.number

    def _drop(self, call: Call) -> None:
        self._unnumbered.pop(call.id, None)
        self.scopes.get(call.path, {}).pop(call.number, None)

    def _count_levels(self) -> list[int]:
        left: list[int] = []
        for call in self.calls():
            left += [0] * (call.level + 1 - len(left))
            left[call.level] += 1
        return left


def _recorded(row: RecordRow) -> Call:
    call = Call(row.scope, row.number, row.asked)
    call.id = row.id
    return call


def _level(
    path: str, finished: set[str], by_id: Mapping[str, Call], levels: dict[str, int | None]
) -> int | None:
    """Return the number of calls without outcome around a scope; None if it is inside of something finished."""
    if not path:
        return 0
    if path not in levels:
        if path in finished:
            levels[path] = None
        else:
            above = _level(path.rpartition("/")[0], finished, by_id, levels)
            around = by_id.get(path)
            if around is not None and above is not None:
                around.has_inside = True
                above += 1
            levels[path] = above
    return levels[path]

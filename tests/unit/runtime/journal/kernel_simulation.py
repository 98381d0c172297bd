"""A simulation of programs over the replay kernel: every order of events, records cut at every row.

Programs are coroutines over the operations below. A world without clock or event loop drives them: at each point it
chooses which task moves, which call ends, which timer fires, or that the program is at rest. `explore` tries all
choices. The world checks by itself, without the kernel's own counts, that outcomes are the recorded ones, come in the
recorded order, and that nothing begins before the end of the record.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pilotage.runtime.journal.decisions import (
    AnswerGates,
    Begin,
    CutShort,
    Deliver,
    Diverge,
    End,
    GateAnswer,
    HeldGate,
    Hold,
    Pause,
    PutOff,
    Release,
    ReturnAtOnce,
    StandStill,
    Withdraw,
)
from pilotage.runtime.journal.kernel import Kernel
from pilotage.runtime.journal.positions import (
    Call,
    CallIdentity,
    CallScope,
    CallState,
    Domain,
    Record,
    RecordRow,
    RowStage,
)


class WrongError(AssertionError):
    """A law is broken."""


class CancelledError(BaseException):
    """What a program gets when it is cancelled."""


class OverError(BaseException):
    """The attempt is over."""


@dataclass(eq=False)
class Op:
    """What a program asks the world for; `kind` is one of the functions below."""

    kind: str
    label: str = ""
    given: Any = None
    body: Callable[[], Coroutine[Any, Any, Any]] | None = None

    def __await__(self) -> Generator[Op, Any, Any]:
        result = yield self
        return result


def read(label: str, given: object = None) -> Op:
    """A call that may be repeated; it writes no row before it begins."""
    return Op("read", label, given)


def quick(label: str, given: object = None) -> Op:
    """A read that returns at once."""
    return Op("quick", label, given)


def pay(label: str, given: object = None) -> Op:
    """A call that may not be repeated."""
    return Op("pay", label, given)


def approve(label: str, given: object = None) -> Op:
    """A call that waits for a person before it begins."""
    return Op("approve", label, given)


def tool(label: str, body: Callable[[], Coroutine[Any, Any, Any]]) -> Op:
    """A call that may not be repeated and makes calls itself."""
    return Op("tool", label, None, body)


def changed(name: str) -> Op:
    return Op("changed", name)


def made(call: Op) -> Op:
    """Make a call now; the result is awaited with `awaited`."""
    return Op("made", given=call)


def awaited(call: object) -> Op:
    return Op("awaited", given=call)


def spawn(body: Coroutine[Any, Any, Any]) -> Op:
    return Op("spawn", given=body)


def join(*tasks: Task) -> Op:
    """Wait until the tasks have ended."""
    return Op("join", given=(tasks, len(tasks)))


def first(*tasks: Task) -> Op:
    """Wait until one of the tasks has ended; returns those that have."""
    return Op("join", given=(tasks, 1))


def stop(*tasks: Task) -> Op:
    return Op("stop", given=tasks)


def turn() -> Op:
    """Let the others move once, as `asyncio.sleep(0)` does."""
    return Op("turn")


def toss() -> Op:
    """Return 0 or 1: chance that no record has."""
    return Op("toss")


def timer() -> Op:
    """Start a timer of the program's own: it may cancel the task at any moment until `calm`."""
    return Op("timer")


def calm(armed: object) -> Op:
    """Stop a timer; returns whether it has fired."""
    return Op("calm", given=armed)


@dataclass(eq=False)
class Task:
    """A task of the program."""

    body: Coroutine[Any, Any, Any]
    place: CallScope
    around: Call | None = None
    is_owner: bool = False
    result: Any = None
    error: BaseException | None = None
    is_done: bool = False
    waits_for: tuple[Sequence[Task], int] | None = None
    call: Call | None = None
    gate: Call | None = None
    is_cancelled: bool = False
    put_off: bool = False
    has_outcome: bool = False
    """Whether it is about to get the outcome of a call."""
    domains: list[Domain] = field(default_factory=list)


@dataclass
class Timer:
    task: Task
    has_fired: bool = False


@dataclass
class Arrived:
    """The result of a call has arrived; its task takes it in when it runs."""

    call: Call
    value: Any


@dataclass
class Ended:
    """How an attempt ended: the rows that were added to the record, the output, what began."""

    rows: tuple[RecordRow, ...]
    how: str
    output: Any
    begun: list[str]
    over: Pause | Diverge | None


Program: TypeAlias = Callable[[], Coroutine[Any, Any, Any]]
MOST_STEPS = 400


class Chooser:
    """Repeats given choices, then takes the first one each time."""

    def __init__(self, given: Sequence[int]) -> None:
        self._given = given
        self.taken: list[int] = []
        self.counts: list[int] = []

    def choose(self, count: int) -> int:
        index = len(self.taken)
        choice = self._given[index] if index < len(self._given) else 0
        self.taken.append(choice)
        self.counts.append(count)
        return choice


class World:
    """One attempt at a program over a record."""

    kernel_type: type[Kernel] = Kernel
    rests_live = True
    """Whether live outcomes wait for their turn. A switch for mutants, like those below."""
    rests = True
    """Whether the program must be at rest for a turn."""
    writes_bit = True
    """Whether rows say that an outcome took no turn."""
    cut_by_row = False
    """Whether cuts are put into the order by their row instead of their place."""

    def __init__(
        self,
        program: Program,
        rows: Sequence[RecordRow],
        chooser: Chooser,
        attempt: int,
        answers: frozenset[str],
    ) -> None:
        self.rows = list(rows)
        self.count = len(rows)
        self.chooser = chooser
        self.attempt = attempt
        self.answers = answers
        self.kernel = self.kernel_type(Record(rows))
        self.recorded = {(row.scope, row.number): row for row in _entered(rows) if _is_end(row)}
        self.expected = _expected_order(rows)
        self.got: dict[tuple[str, int], RecordRow] = {}
        scope = self.kernel.open_scope("run", None)
        self.root = Task(program(), scope, is_owner=True)
        scope.domain.owner = self.root
        self.domains = [scope.domain]
        self.ready: deque[tuple[Task, Any, BaseException | None]] = deque([(self.root, None, None)])
        self.tasks = [self.root]
        self.under_way: dict[Call, tuple[Task, Op]] = {}
        self.parked: dict[Call, tuple[Task, Op]] = {}
        self.known: dict[Call, Any] = {}
        self.arriving: set[Call] = set()
        self.ops: dict[Call, tuple[Task, Op]] = {}
        self.timers: list[Timer] = []
        self.begun: list[str] = []
        self.ordinals: dict[tuple[str, str], int] = {}
        self.ids: dict[Call, str] = {}
        self.now: tuple[Task, Any, BaseException | None] | None = None
        """What the running task gets without waiting."""

    # Running

    def run(self) -> Ended:
        try:
            return self._run()
        finally:
            for task in self.tasks:
                task.body.close()

    def _run(self) -> Ended:
        for _ in range(MOST_STEPS):
            if self.kernel.over is not None:
                return self._ended("diverged" if isinstance(self.kernel.over, Diverge) else "paused")
            if self.root.is_done and all(task.is_done for task in self.tasks):
                match self.kernel.program_ended():
                    case End():
                        return self._ended("completed")
                    case Hold():
                        raise WrongError("waits for tasks that have ended")
                    case _:
                        continue
            moves = self._moves()
            if not moves:
                raise WrongError(f"stands still for ever: {[str(each) for each in self.ops]}")
            moves[self.chooser.choose(len(moves)) if len(moves) > 1 else 0]()
        raise WrongError("does not end")

    def _ended(self, how: str) -> Ended:
        error = self.root.error
        if how == "completed" and error is not None:
            raise WrongError(f"the program failed: {error!r}")
        if how == "completed" and self._left():
            raise WrongError(f"the program ended, and left out {self._left()}")
        if how == "paused" and any(self._may_finish(call) for call in self.under_way):
            raise WrongError(f"paused while {[str(call) for call in self.under_way]} are under way")
        if how == "diverged" and self.begun:
            raise WrongError(f"diverged, and began {self.begun}")
        return Ended(tuple(self.rows), how, self.root.result, self.begun, self.kernel.over)

    def _moves(self) -> list[Callable[[], None]]:
        """Return what can happen next; the first is the most ordinary."""
        moves: list[Callable[[], None]] = []
        if self.ready:
            moves.append(self._step)
        moves += [lambda call=call: self._finish(call) for call in self.under_way if self._may_finish(call)]
        is_idle = not moves
        moves += [lambda timer=timer: self._fire(timer) for timer in self.timers if not timer.has_fired]
        if not self.ready or not self.rests:
            turns = [
                lambda domain=domain: self._rest(domain) for domain in self.domains if self._has_turn(domain)
            ]
            moves += turns
            if not turns:
                moves += self._stills(is_idle=is_idle, has_timers=bool(moves))
        return moves

    def _may_finish(self, call: Call) -> bool:
        return self.ops[call][1].kind != "tool" and call not in self.arriving

    def _has_turn(self, domain: Domain) -> bool:
        kernel = self.kernel
        if kernel._gates.waiting_in(domain) and (domain.turns or not kernel.is_replaying):
            return True
        if not domain.turns:
            return any(kernel._may_begin(call) for call in domain.held)
        ready = [call for call in self._first_turns(domain) if not self._comes_behind_another_call(call)]
        return any(call.state is CallState.WAITING or call.is_struck for call in ready)

    def _comes_behind_another_call(self, call: Call) -> bool:
        return self.kernel._unmade_before(call) is not None

    def _first_turns(self, domain: Domain) -> list[Call]:
        return [domain.turns[0]]

    def _rest(self, domain: Domain) -> None:
        before = domain.moves
        decision = self.kernel.rest(domain)
        if not isinstance(decision, Deliver | CutShort | Release | AnswerGates):
            raise WrongError(f"no turn, but {decision}")
        if domain.moves == before:
            raise WrongError("a turn is no movement")
        self._obey(decision)

    def _stills(self, *, is_idle: bool, has_timers: bool) -> list[Callable[[], None]]:
        """Return the end of patience, if the attempt stands still; timers of the program may come first."""
        for domain in self.domains:
            decision = self.kernel.rest(domain)
            is_still = isinstance(decision, StandStill) and is_idle and not has_timers
            if isinstance(decision, Pause) or is_still:
                return [lambda still=decision: self._confirm(still)]
        return []

    def _confirm(self, still: StandStill | Pause) -> None:
        decision = self.kernel.confirm(still)
        if isinstance(decision, AnswerGates | Release):
            self._obey(decision)

    def _obey(self, decision: Deliver | CutShort | Release | AnswerGates) -> None:
        match decision:
            case Deliver(call, row):
                task = self.ops[call][0]
                if row is not None:
                    self._check_delivery(call, row)
                outcome = row.outcome if row is not None else self.known.pop(call)
                self._wake(task, outcome)
            case CutShort(call, passed):
                self._write_cut(call, passed)
                self._wake(self.ops[call][0], None, CancelledError())
            case Release(calls):
                for call in calls:
                    self._begin(call, *self.ops[call], is_again=call.has_begun)
            case AnswerGates(gates, answer):
                for task in self.tasks:
                    if task.gate in gates:
                        self._answer_gate(task, answer, task.gate)

    def _wake(self, task: Task, value: Any, error: BaseException | None = None) -> None:
        task.call = None
        task.has_outcome = True
        self.ready.append((task, value, error))

    # The program

    def _step(self) -> None:
        task, value, error = self.ready.popleft()
        self.now = None
        if task.is_done:
            return
        task.has_outcome = False
        if isinstance(value, Arrived):
            if task.call is value.call:
                self._outcome(value.call, value.value)
        elif task.is_cancelled and error is None:
            task.is_cancelled = False
            self.now = (task, None, CancelledError())
        else:
            self.now = (task, value, error)
        while self.now is not None:
            _, value, error = self.now
            self.now = None
            try:
                op = task.body.throw(error) if error is not None else task.body.send(value)
            except StopIteration as end:
                self._task_ended(task, end.value, None)
            except (RuntimeError, CancelledError, OverError) as end:
                self._task_ended(task, None, end)
            else:
                self._carry_out(task, op)

    def _task_ended(self, task: Task, result: Any, error: BaseException | None) -> None:
        task.is_done, task.result, task.error = True, result, error
        for domain in task.domains:
            self.kernel.task_ended(domain, task)
        if task.around is not None:
            value = result if error is None else repr(error)
            self.ready.append((self.ops[task.around][0], Arrived(task.around, value), None))
        for other in self.tasks:
            if other.waits_for is not None:
                self._look_at_join(other)

    def _look_at_join(self, task: Task) -> None:
        tasks, count = task.waits_for or ((), 0)
        done = [each for each in tasks if each.is_done]
        if len(done) >= count:
            task.waits_for = None
            self.ready.append((task, done, None))

    def _carry_out(self, task: Task, op: Op) -> None:
        match op.kind:
            case "spawn":
                child = Task(op.given, task.place)
                self.tasks.append(child)
                self.ready.append((child, None, None))
                self.now = (task, child, None)
            case "join":
                task.waits_for = op.given
                self._look_at_join(task)
            case "stop":
                for each in op.given:
                    self._cancel(each)
                self.now = (task, None, None)
            case "turn":
                self.ready.append((task, None, None))
            case "timer":
                self.timers.append(Timer(task))
                self.now = (task, self.timers[-1], None)
            case "toss":
                self.now = (task, self.chooser.choose(2), None)
            case "calm":
                self._calm(task, op.given)
            case _:
                self._carry_out_call(task, op)

    def _carry_out_call(self, task: Task, op: Op) -> None:
        match op.kind:
            case "changed":
                self._gate(task, op)
            case "made":
                self.now = (task, (self._make(task, op.given), op.given), None)
            case "awaited":
                self._ask(task, *op.given)
            case _:
                self._ask(task, self._make(task, op), op)

    def _calm(self, task: Task, armed: Timer) -> None:
        has_fired, armed.has_fired = armed.has_fired, True
        if has_fired:
            task.put_off = False
        self.now = (task, has_fired, None)

    def _fire(self, armed: Timer) -> None:
        armed.has_fired = True
        self._cancel(armed.task)

    def _cancel(self, task: Task) -> None:
        if task.is_done:
            return
        call = task.call
        if task.has_outcome:
            task.put_off = True
            return
        if call is None:
            self._cancel_outside(task)
            return
        if call in self.under_way and not self._may_cut(call):
            task.put_off = True
            return
        match self.kernel.cancel(call):
            case CutShort(passed=passed) | Withdraw(passed=passed):
                self._drop(call)
                self._write_cut(call, passed)
                self._wake(task, None, CancelledError())
            case PutOff():
                task.put_off = True
            case Hold():
                pass
            case _:
                self._wake(task, None, OverError())

    def _cancel_outside(self, task: Task) -> None:
        if task.waits_for is not None or task.gate is not None:
            task.waits_for = task.gate = None
            self.ready.append((task, None, CancelledError()))
        else:
            task.is_cancelled = True

    def _may_cut(self, call: Call) -> bool:
        return call.is_repeatable

    def _drop(self, call: Call) -> None:
        self.under_way.pop(call, None)
        self.parked.pop(call, None)

    def _write_cut(self, call: Call, passed: int | None) -> None:
        """Write the row of a cut, if it is a new one; check it, if it is a recorded one."""
        if passed is None:
            self._check_delivery(call, None)
        else:
            if call.has_begun and not call.asked.kind == "approve":
                raise WrongError(f"{call} has begun and is cut short")
            self.rows.append(self._row(RowStage.CUT, call, outcome="cut", passed=passed))

    # Calls

    def _place_of(self, task: Task, name: str) -> CallScope:
        if not task.is_owner:
            task.place = self.kernel.branch(task.place, name)
            task.is_owner = True
        return task.place

    def _make(self, task: Task, op: Op) -> Call:
        scope = self._place_of(task, f"{op.label}:{op.given}")
        self._see(task, scope.domain)
        asked = CallIdentity(op.kind, op.label, f"{op.given}")
        call = self.kernel.make(scope, asked, is_repeatable=op.kind in ("read", "quick"))
        ordinal = self.ordinals[scope.path, op.label] = self.ordinals.get((scope.path, op.label), 0) + 1
        self.ids[call] = f"{scope.path}/{op.label}#{ordinal}"
        return call

    def _see(self, task: Task, domain: Domain) -> None:
        if self.kernel.see(domain, task):
            task.domains.append(domain)

    def _ask(self, task: Task, call: Call, op: Op) -> None:
        self._see(task, call.domain)
        self.ops[call] = (task, op)
        task.call = call
        decision = self.kernel.ask(call, is_struck=task.put_off)
        if isinstance(decision, CutShort) or call.is_struck:
            task.put_off = False
        match decision:
            case Begin(is_again):
                if task.put_off and not is_again:
                    raise WrongError(f"{call} begins in a task that was cancelled")
                self._begin(call, task, op, is_again=is_again)
            case ReturnAtOnce(row):
                self._check_delivery(call, row)
                task.call = None
                self.now = (task, row.outcome, None)
            case Hold():
                pass
            case CutShort(passed=passed):
                self._write_cut(call, passed)
                task.call = None
                self.now = (task, None, CancelledError())
            case _:
                self._wake(task, None, OverError())

    def _begin(self, call: Call, task: Task, op: Op, *, is_again: bool) -> None:
        self._check_begin(call)
        if call.identity is None:
            self.begun.append(str(call))
        if op.kind == "approve" and self.ids[call] not in self.answers:
            self.rows.append(self._row(RowStage.BESIDE, call))
            self.parked[call] = (task, op)
            self.kernel.park(call, self.ids[call])
            return
        if op.kind in ("pay", "approve", "tool") and not is_again:
            self.rows.append(self._row(RowStage.BEGUN, call))
            call.has_begun = True
        self.under_way[call] = (task, op)
        if op.kind == "quick":
            self._outcome(call, self._value(op), is_at_once=call.state is CallState.UNDER_WAY)
        elif op.kind == "tool":
            self._enter_tool(call, task, op)

    def _enter_tool(self, call: Call, task: Task, op: Op) -> None:
        assert op.body is not None
        path = self.ids[call]
        scope = self.kernel.open_scope(path, None, call)
        inside = Task(op.body(), scope, around=call, is_owner=True)
        scope.domain.owner = inside
        self.domains.append(scope.domain)
        self.tasks.append(inside)
        self.ready.append((inside, None, None))

    def _value(self, op: Op) -> str:
        return f"{op.label}({op.given})@{self.attempt}"

    def _finish(self, call: Call) -> None:
        task, op = self.ops[call]
        self.arriving.add(call)
        self.ready.append((task, Arrived(call, self._value(op)), None))

    def _outcome(self, call: Call, value: Any, *, is_at_once: bool = False) -> None:
        task = self.ops[call][0]
        del self.under_way[call]
        takes_turn = self.kernel.known(call, is_at_once=is_at_once)
        bit = takes_turn or not self.writes_bit
        self.rows.append(self._row(RowStage.ENDED, call, takes_turn=bit, outcome=value))
        if not takes_turn:
            task.call = None
            self.now = (task, value, None)
        elif not self.rests_live:
            call.domain.turns.remove(call)
            self.kernel._leave(call)
            self._wake(task, value)
        else:
            self.known[call] = value

    def _row(
        self, stage: RowStage, call: Call, *, takes_turn: bool = True, outcome: object = None, passed: int = 0
    ) -> RecordRow:
        if self.cut_by_row and stage is RowStage.CUT:
            passed = 10_000
        return RecordRow(
            stage, call.path, call.number, call.asked, self.ids[call], takes_turn, passed, outcome=outcome
        )

    def _gate(self, task: Task, op: Op) -> None:
        match self.kernel.gate(task.place, op.label):
            case HeldGate(gate):
                task.gate = gate
            case GateAnswer() as answer:
                if answer.is_new:
                    self._write_gate(task, op.label, task.place.number)
                self.now = (task, answer.is_open, None)
            case _:
                self._wake(task, None, OverError())

    def _answer_gate(self, task: Task, answer: GateAnswer, gate: Call) -> None:
        task.gate = None
        if answer.is_new:
            self._write_gate(task, gate.asked.label, gate.number)
        self.ready.append((task, answer.is_open, None))

    def _write_gate(self, task: Task, name: str, number: int) -> None:
        self.rows.append(
            RecordRow(RowStage.CHANGED, task.place.path, number, CallIdentity("gate", name, ""), name)
        )

    # Checks

    def _left(self) -> list[str]:
        """Return the recorded calls that are not used yet."""
        outcomes = [place for place in self.recorded if place not in self.got]
        made = {(call.path, call.number) for call in self.ids}
        opened = [(row.scope, row.number) for row in _entered(self.rows[: self.count]) if row.number]
        return [str(place) for place in outcomes + [place for place in opened if place not in made]]

    def _check_begin(self, call: Call) -> None:
        left = self._left()
        if call.identity is not None:
            left = [str(place) for place in self.recorded if place not in self.got]
        if call.has_inside:
            inside = {str((row.scope, row.number)) for row in self.rows if "order" in row.scope}
            left = [place for place in left if place not in inside]
        if left:
            raise WrongError(f"{call} begins while these are not used: {left}")

    def _check_delivery(self, call: Call, row: RecordRow | None) -> None:
        place = (call.path, call.number)
        recorded = self.recorded.get(place)
        if recorded is None or (row is not None and row.outcome != recorded.outcome):
            raise WrongError(f"{call} gets {row}, recorded is {recorded}")
        asked = self.ops[call][1]
        if (recorded.asked.label, recorded.asked.fingerprint) != (asked.label, f"{asked.given}"):
            raise WrongError(f"{asked} gets the outcome of {recorded.asked}")
        self.got[place] = recorded
        if recorded.takes_turn and self.expected:
            due = self.expected.popleft()
            if due != place:
                raise WrongError(f"{place} comes before {due}")


def _is_end(row: RecordRow) -> bool:
    return row.stage in (RowStage.ENDED, RowStage.CUT)


def _entered(rows: Sequence[RecordRow]) -> list[RecordRow]:
    """Return the rows that are not inside of a call that has ended."""
    ended = {row.id for row in rows if _is_end(row)}
    return [row for row in rows if not any(f"{row.scope}/".startswith(f"{each}/") for each in ended)]


def _expected_order(rows: Sequence[RecordRow]) -> deque[tuple[str, int]]:
    """Return the order in which the program must get the outcomes that take turns; nothing for nested calls."""
    if any("tool" in row.asked.kind for row in rows):
        return deque()
    order: list[tuple[str, int]] = []
    for row in rows:
        if row.stage is RowStage.CUT:
            order.insert(row.passed, (row.scope, row.number))
        elif row.stage is RowStage.ENDED and row.takes_turn:
            order.append((row.scope, row.number))
    return deque(order)


def explore(
    world: type[World],
    program: Program,
    rows: Sequence[RecordRow] = (),
    *,
    attempt: int = 1,
    answers: frozenset[str] = frozenset(),
    most: int = 100_000,
) -> Iterator[Ended]:
    """Return the end of an attempt over a record for every schedule."""
    stack: list[list[int]] = [[]]
    for _ in range(most):
        if not stack:
            return
        given = stack.pop()
        chooser = Chooser(given)
        ended = world(program, rows, chooser, attempt, answers).run()
        for index in range(len(given), len(chooser.taken)):
            stack += [[*chooser.taken[:index], other] for other in range(1, chooser.counts[index])]
        yield ended
    raise WrongError("too many schedules")


Awaited: TypeAlias = Awaitable[Any]

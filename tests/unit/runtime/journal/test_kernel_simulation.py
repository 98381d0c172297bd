"""The replay kernel under every schedule of small programs, cut at every row, also twice, and with each law off."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import pytest
from tests.unit.runtime.journal.kernel_simulation import (
    CancelledError,
    Ended,
    Program,
    Task,
    World,
    WrongError,
    approve,
    awaited,
    calm,
    changed,
    explore,
    first,
    join,
    made,
    pay,
    quick,
    read,
    spawn,
    stop,
    timer,
    tool,
    toss,
    turn,
)

from pilotage.runtime.journal.decisions import (
    END,
    IDLE,
    CutShort,
    OnAsk,
    OnCancel,
    OnEnd,
    OnRest,
    Pause,
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


async def sequence() -> Any:
    price = await read("price")
    await pay("pay", price)
    return await read("end", price)


async def side_by_side() -> Any:
    async def one(number: int) -> None:
        seen.append(await read("read", number))

    seen: list[str] = []
    tasks = [await spawn(one(number)) for number in range(2)]
    await join(*tasks)
    return await pay("pay", ",".join(seen))


async def as_completed() -> Any:
    async def one(number: int) -> Any:
        return await read("read", number)

    tasks = [await spawn(one(number)) for number in range(2)]
    done: list[Task] = []
    while len(done) < 2:
        more = await first(*[task for task in tasks if task not in done])
        for task in more:
            await pay("pay", task.result)
        done += more


async def first_wins() -> Any:
    async def one(number: int) -> Any:
        return await read("read", number)

    tasks = [await spawn(one(number)) for number in range(2)]
    done = list(await first(*tasks))
    await stop(*[task for task in tasks if task not in done])
    await join(*tasks)
    return await pay("pay", ",".join(str(task.result) for task in done))


async def workers() -> Any:
    todo, out = [0, 1, 2], []

    async def work() -> None:
        while todo:
            item = todo.pop(0)
            out.append(await read("read", item))

    tasks = [await spawn(work()) for _ in range(2)]
    await join(*tasks)
    return await pay("pay", ",".join(out))


async def shared_total() -> Any:
    total = 0

    async def work(number: int) -> None:
        nonlocal total
        await read("read", number)
        total = total * 3 + number
        await pay("pay", total)

    await join(*[await spawn(work(number)) for number in (1, 2)])


async def slow_hand_over() -> Any:
    """The result of one task reaches another through a chain of tasks that make no call."""
    seen: list[int] = []

    async def hop() -> None:
        await turn()
        await turn()
        seen.append(1)

    async def one() -> None:
        await read("a")
        await spawn(hop())

    async def two() -> None:
        await read("b")
        await pay("pay", len(seen))

    await join(await spawn(one()), await spawn(two()))


async def made_then_awaited() -> Any:
    calls = [await made(read("read", number)) for number in range(2)]
    await made(pay("never awaited"))

    async def wait(call: object) -> Any:
        return await awaited(call)

    tasks = [await spawn(wait(call)) for call in calls]
    await join(*tasks)
    return await pay("pay", ",".join(task.result for task in tasks))


async def quick_beside_slow() -> Any:
    seen: list[str] = []

    async def one() -> None:
        seen.append(await quick("now"))
        seen.append(await read("read"))

    async def two() -> None:
        await read("other")
        seen.append(await quick("now", 2))
        await pay("pay", len(seen))

    await join(await spawn(one()), await spawn(two()))


async def time_out() -> Any:
    async def limited(number: int) -> Any:
        armed = await timer()
        try:
            out = await read("slow", number)
        except CancelledError:
            if not await calm(armed):
                raise
            return await read("other", number)
        await calm(armed)
        return out

    task = await spawn(limited(1))
    beside = await read("beside")
    await join(task)
    return await pay("pay", f"{beside},{task.result}")


async def time_out_over_payment() -> Any:
    """The timer may strike in the payment, which comes to its end, and then stops the next call."""
    armed = await timer()
    try:
        await pay("pay", 1)
        await pay("pay", 2)
    except CancelledError:
        if not await calm(armed):
            raise
        return await pay("give up")
    await calm(armed)
    return await read("end")


async def aborted_group() -> Any:
    async def bad() -> None:
        await read("bad")

    async def two(number: int) -> None:
        await pay("one", number)
        await pay("two", number)

    others = [await spawn(two(1))]
    failing = await spawn(bad())
    await join(failing)
    await stop(*others)
    await join(*others)
    return await pay("refund")


async def cut_order() -> Any:
    """A timer cuts a read while another outcome waits for its turn."""
    seen: list[str] = []

    async def limited() -> None:
        armed = await timer()
        try:
            await read("slow")
        except CancelledError:
            if not await calm(armed):
                raise
            seen.append("cut")
            return
        seen.append("done")
        await calm(armed)

    async def beside() -> None:
        await read("a")
        await pay("b", ",".join(seen))

    await join(await spawn(limited()), await spawn(beside()))


async def one_approval() -> Any:
    async def ask() -> Any:
        return await approve("transfer", 1)

    async def work() -> Any:
        await pay("pay", 1)
        return await read("read")

    await join(await spawn(ask()), await spawn(work()))
    return await pay("end")


async def two_approvals() -> Any:
    async def ask(number: int) -> Any:
        return await approve("transfer", number)

    await join(*[await spawn(ask(number)) for number in (1, 2)])
    return await pay("end")


async def withdrawn_approval() -> Any:
    async def ask() -> Any:
        return await approve("transfer", 1)

    task = await spawn(ask())
    await read("news")
    await stop(task)
    await join(task)
    return await pay("end", task.error is None)


async def nested() -> Any:
    async def body() -> Any:
        price = await read("price")
        return await pay("inner", price)

    async def outer() -> Any:
        return await tool("order", body)

    task = await spawn(outer())
    await read("beside")
    await join(task)
    return await pay("end", task.result)


async def nested_tasks() -> Any:
    async def body() -> Any:
        seen: list[str] = []

        async def one(number: int) -> None:
            seen.append(await read("read", number))

        await join(*[await spawn(one(number)) for number in range(2)])
        return await pay("inner", ",".join(seen))

    return await tool("order", body)


HONEST: list[Program] = [
    sequence,
    side_by_side,
    as_completed,
    first_wins,
    workers,
    shared_total,
    slow_hand_over,
    made_then_awaited,
    quick_beside_slow,
    time_out,
    time_out_over_payment,
    aborted_group,
    cut_order,
    one_approval,
    two_approvals,
    withdrawn_approval,
    nested,
    nested_tasks,
]

Rows = tuple[RecordRow, ...]


def waits_in(rows: Rows) -> frozenset[str]:
    return frozenset(row.id for row in rows if row.stage is RowStage.BESIDE)


def generations(world: type[World], program: Program, cuts: int, most: int = 400) -> tuple[int, int]:
    """Try a program under all schedules, cut the records at every row, and again; return schedules and records tried.

    Paused attempts go on with all answers given. A program must complete with the same output over its whole record.
    """
    tried: dict[tuple[Rows, frozenset[str]], None] = {}
    schedules = 0
    todo: deque[tuple[Rows, frozenset[str], int]] = deque([((), frozenset(), 0)])
    while todo:
        rows, answers, generation = todo.popleft()
        if (rows, answers) in tried:
            continue
        tried[rows, answers] = None
        ends: dict[Rows, Ended] = {}
        for ended in explore(world, program, rows, attempt=generation + 1, answers=answers):
            schedules += 1
            if ended.how == "diverged":
                raise WrongError(f"{program.__name__} diverged over {rows}: {ended.over}")
            ends[ended.rows] = ended
        for ended in sample(list(ends.values()), most if generation == 0 else max(1, most // 20)):
            check_whole(world, program, ended, answers)
            if generation < cuts:
                todo += [(ended.rows[:cut], answers, generation + 1) for cut in range(len(ended.rows))]
            if ended.how == "paused":
                todo.append((ended.rows, answers | waits_in(ended.rows), generation))
    return schedules, len(tried)


def sample(ends: list[Ended], most: int) -> list[Ended]:
    """Return at most this many of the ends, spread evenly."""
    step = max(1, len(ends) // most)
    return ends[::step]


def check_whole(world: type[World], program: Program, ended: Ended, answers: frozenset[str]) -> None:
    """Check that the whole record leads to the same end, with nothing begun and no row added."""
    if ended.how != "completed":
        return
    again = next(iter(explore(world, program, ended.rows, attempt=99, answers=answers)))
    if (again.how, again.output, again.rows, again.begun) != ("completed", ended.output, ended.rows, []):
        raise WrongError(f"the whole record leads to {again}")


@pytest.mark.parametrize("program", HONEST, ids=lambda program: program.__name__)
def test_no_schedule_and_no_cut_changes_what_a_program_gets(program: Program) -> None:
    schedules, records = generations(World, program, cuts=2, most=100)
    assert schedules >= records > 1


def composed(kinds: Sequence[Callable[..., Any]], ends_with: str, count: int = 2) -> Program:
    """Return a program of some tasks that share the calls; every argument depends on all outcomes so far."""

    async def program() -> Any:
        seen: list[str] = []

        async def work(calls: Sequence[Callable[..., Any]]) -> None:
            for call in calls:
                seen.append(await call(call.__name__, len(seen)))

        tasks = [await spawn(work(kinds[number::count])) for number in range(count)]
        if ends_with == "stop":
            await first(*tasks)
            await stop(*tasks)
        await join(*tasks)
        return await pay("end", ",".join(seen))

    program.__name__ = f"{'_'.join(kind.__name__ for kind in kinds)}_{ends_with}_{count}"
    return program


FAMILY = [
    composed(kinds, ends_with)
    for kinds in product((read, pay, quick, approve), repeat=4)
    for ends_with in ("join", "stop")
]


THREE_TASKS = [
    composed(kinds, ends_with, 3)
    for kinds in product((read, pay, quick), repeat=4)
    for ends_with in ("join", "stop")
]


@pytest.mark.parametrize("part", range(8))
def test_programs_composed_of_all_kinds_of_calls_never_diverge(part: int) -> None:
    for program in [*FAMILY[part::96], *THREE_TASKS[part::81]]:
        generations(World, program, cuts=1, most=8)


async def coin() -> Any:
    await read("price")
    if await toss():
        await pay("pay a")
    else:
        await pay("pay b")
    return await pay("end")


async def random_arguments() -> Any:
    async def one(number: int) -> None:
        await pay("pay", (number, await toss()))

    await join(*[await spawn(one(number)) for number in range(2)])


async def leaves_out() -> Any:
    await read("price")
    if await toss():
        await pay("pay")


async def inserts() -> Any:
    if await toss():
        await read("new")
    await read("price")
    return await pay("pay")


async def other_order() -> Any:
    async def one(number: int) -> None:
        await pay("pay", number)

    numbers = (0, 1) if await toss() else (1, 0)
    await join(*[await spawn(one(number)) for number in numbers])
    return await pay("end", numbers[0])


DISHONEST: list[Program] = [coin, random_arguments, leaves_out, inserts, other_order]


def dishonest(world: type[World], program: Program) -> int:
    """Try a program that depends on chance; return how many attempts diverged. The world checks that nothing began."""
    diverged = 0
    for ended in explore(world, program):
        for cut in range(len(ended.rows) + 1):
            ends = list(explore(world, program, ended.rows[:cut], attempt=2))
            diverged += sum(1 for each in ends if each.how == "diverged")
    return diverged


@pytest.mark.parametrize("program", DISHONEST, ids=lambda program: program.__name__)
def test_a_program_that_depends_on_chance_diverges_before_anything_new_begins(program: Program) -> None:
    assert dishonest(World, program) > 0


async def twins() -> Any:
    out: list[str] = []

    async def work(number: int) -> None:
        out.append(await read("same"))
        out.append(await pay("pay", number))

    await join(*[await spawn(work(number)) for number in range(2)])
    return await pay("end", ",".join(out))


HONEST.append(twins)


async def before_the_change() -> Any:
    async def one(number: int) -> None:
        await read("read", number)

    await join(*[await spawn(one(number)) for number in range(2)])
    return await pay("pay")


async def behind_a_gate() -> Any:
    async def one(number: int) -> None:
        await read("read", number)

    if await changed("check first"):
        await pay("check first")
    await join(*[await spawn(one(number)) for number in range(2)])
    if await changed("check last"):
        await pay("check last")
    return await pay("pay")


def checks_in(rows: Rows) -> list[str]:
    return [row.asked.label for row in rows if row.stage is RowStage.BEGUN and row.asked.label != "pay"]


def test_new_calls_behind_gates_never_diverge_and_gates_keep_their_answer() -> None:
    records = {ended.rows for ended in explore(World, before_the_change)}
    prefixes = {rows[:cut] for rows in records for cut in range(len(rows) + 1)}
    for rows in prefixes:
        for ended in explore(World, behind_a_gate, rows, attempt=2):
            assert ended.how == "completed"
            assert ("check first" in checks_in(ended.rows)) == (not rows)
            for cut in range(len(rows), len(ended.rows) + 1):
                again = next(iter(explore(World, behind_a_gate, ended.rows[:cut], attempt=3)))
                assert again.how == "completed"
                assert checks_in(again.rows) == checks_in(ended.rows)


class NoPositions(Kernel):
    """Law 1 off: whatever has the number is taken for the recorded call."""

    def _fits(self, recorded: Call, asked: CallIdentity) -> bool:
        return True


class NoOccurrences(Kernel):
    """Law 1 off: tasks with equal first calls share a name."""

    def branch(self, scope: CallScope, name: str) -> CallScope:
        scope.branches.clear()
        return super().branch(scope, name)


class NothingHeld(Kernel):
    """Law 2 off."""

    def _may_begin(self, call: Call) -> bool:
        return True


class OutcomesOnly(Kernel):
    """Law 2 weaker: recorded calls without outcome need not be made again before new ones begin."""

    def __init__(self, record: Record) -> None:
        for call in record.calls():
            record.left[call.level] -= call.end is None
        super().__init__(record)

    def _use(self, call: Call) -> None:
        if call.end is not None:
            super()._use(call)


class InsideFirst(Kernel):
    """Law 2 off for calls with recorded calls inside."""

    def _may_begin(self, call: Call) -> bool:
        return call.has_inside or super()._may_begin(call)


class AnyOrder(Kernel):
    """Law 3 off: the last outcome that is asked for comes first."""

    def _take_turn(self, domain: Domain, call: Call) -> OnRest:
        waiting = [each for each in domain.turns if each.state is CallState.WAITING]
        if waiting:
            domain.turns.remove(waiting[-1])
            domain.turns.appendleft(waiting[-1])
        return super()._take_turn(domain, domain.turns[0])


class AloneAtFirst(Kernel):
    """Law 3 off: a call that began when the owner was alone takes no turn, whoever came since."""

    def _is_free(self, call: Call, domain: Domain, *, is_at_once: bool) -> bool:
        return call.epoch >= 0 or super()._is_free(call, domain, is_at_once=is_at_once)


class HeldAtOnce(Kernel):
    """Law 3 off: a call that was held may return at once."""

    def _is_free(self, call: Call, domain: Domain, *, is_at_once: bool) -> bool:
        return is_at_once or super()._is_free(call, domain, is_at_once=is_at_once)


class CutsNotAwaited(Kernel):
    """Law 4 off: outcomes do not wait for a cut before them."""

    def _take_turn(self, domain: Domain, call: Call) -> OnRest:
        for index, each in enumerate(domain.turns):
            if each.state is CallState.WAITING:
                del domain.turns[index]
                domain.turns.appendleft(each)
                break
        return super()._take_turn(domain, domain.turns[0])


class CutsHeldCalls(Kernel):
    """Law 4 off: a held call is cut short when it is cancelled."""

    def cancel(self, call: Call) -> OnCancel:
        if call.state is CallState.HELD and self._may_cut(call):
            call.domain.held.remove(call)
            return CutShort(call, self._cut(call, call.domain))
        return super().cancel(call)


class CutsPayments(Kernel):
    """Law 4 off: what may not be repeated is cut short."""

    def make(
        self, scope: CallScope, asked: CallIdentity, is_repeatable: bool = True, call_id: str = ""
    ) -> Call:
        return super().make(scope, asked, is_repeatable=True, call_id=call_id)


class StrikesNobody(Kernel):
    """Law 4 off: a cancellation that was put off does not strike."""

    def ask(self, call: Call, is_struck: bool = False) -> OnAsk:
        return super().ask(call)


class PausesAtOnce(Kernel):
    """Law 5 off: the attempt pauses when anything is parked."""

    def rest(self, domain: Domain) -> OnRest:
        return Pause(frozenset(self._waits.values())) if self._waits else super().rest(domain)


class StandsStill(Kernel):
    """Law 6 off."""

    def _stand_still(self, due: Call) -> Any:
        return IDLE


class EndsEarly(Kernel):
    """Law 7 off."""

    def program_ended(self) -> OnEnd:
        return END


def with_kernel(kernel: type[Kernel]) -> type[World]:
    return type(kernel.__name__, (World,), {"kernel_type": kernel})


class NoRest(World):
    """Law 3 off: turns are taken while the program moves."""

    rests = False


class NoRestLive(World):
    """Law 3 off for live outcomes only."""

    rests_live = False


class NoBit(World):
    """Law 3 off: rows do not say that an outcome took no turn."""

    writes_bit = False


class CutByRow(World):
    """Law 4 off: a cut has its place by its row."""

    cut_by_row = True


MUTANTS: list[type[World]] = [
    *map(
        with_kernel,
        (
            NoPositions,
            NoOccurrences,
            NothingHeld,
            OutcomesOnly,
            InsideFirst,
            AnyOrder,
            AloneAtFirst,
            HeldAtOnce,
            CutsNotAwaited,
            CutsHeldCalls,
            CutsPayments,
            StrikesNobody,
            PausesAtOnce,
            StandsStill,
            EndsEarly,
        ),
    ),
    NoRest,
    NoRestLive,
    NoBit,
    CutByRow,
]


def caught_by(world: type[World]) -> Iterator[str]:
    """Return the programs that a mutant fails."""
    small = [
        coin,
        leaves_out,
        time_out_over_payment,
        withdrawn_approval,
        slow_hand_over,
        nested,
        one_approval,
    ]
    for program in dict.fromkeys([*small, quick_beside_slow, cut_order, twins, *HONEST, *DISHONEST]):
        try:
            if program in HONEST:
                generations(world, program, cuts=1, most=20)
            else:
                dishonest(world, program)
        except WrongError as error:
            yield f"{program.__name__}: {error!r}"


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_the_simulation_fails_with_a_law_switched_off(mutant: type[World]) -> None:
    assert any(caught_by(mutant))


def main() -> None:
    """Print how much was tried."""
    total = records = 0
    for program in [*HONEST, *FAMILY, *THREE_TASKS]:
        begin = time.time()
        try:
            schedules, count = generations(World, program, cuts=2, most=400 if program in HONEST else 40)
        except WrongError as error:
            print(program.__name__, "WRONG", str(error)[:1500])
            continue
        total, records = total + schedules, records + count
        if program in HONEST:
            print(f"{program.__name__:24} {schedules:8} {count:7} {time.time() - begin:6.1f} s", flush=True)
    print(f"{total} schedules over {records} records")
    for program in DISHONEST:
        print(f"{program.__name__:24} {dishonest(World, program)} diverged")
    for mutant in MUTANTS:
        caught = list(caught_by(mutant))
        print(f"{mutant.__name__:20} {len(caught):3} {caught[0][:150] if caught else 'SURVIVES'}")


if __name__ == "__main__":
    main()

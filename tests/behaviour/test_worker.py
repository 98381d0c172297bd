"""Workers: runs that nobody drives are taken up, by one process each, and left in good order when it stops."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from tests.behaviour.bureau import (
    CANCELLED,
    COMPLETED,
    REJECTED,
    TIMED_OUT,
    WAITING,
    Bureau,
    Counter,
    SlowModel,
    asked,
    hired,
    nobody_is_left,
    started,
    triple,
)
from tests.behaviour.family import Family, member
from tests.behaviour.family import start as start_family
from tests.behaviour.newsdesk import let_run, pass_time
from tests.behaviour.office import Worker

from pilotage import AgentSignalKind, AgentStatus, Application, RunContext
from pilotage.agent import AgentApprovalRequest, AgentSignal, ApprovalSubject, IAgentApprovalHandler, ToolRisk
from pilotage.agent.ports.architecture import Dependencies
from pilotage.agent.ports.journal import CommitOutcome, JournalCommit
from pilotage.agent.ports.leases import POISONED_FROM, BacklogEntry, Lease
from pilotage.agent.ports.persistence import JournalStage, RunKey
from pilotage.agent.state import AgentSituation
from pilotage.errors import AgentDefinitionError, AgentPersistenceConfigurationError
from pilotage.runtime import WorkerSettings
from pilotage.runtime.delivery.watchdog import ProcessOfItsOwn
from pilotage.runtime.journal.interruptions import StoreUnavailable
from pilotage.runtime.plugin import initialize
from pilotage.runtime.runs import AgentRuns
from pilotage.testing import MemoryBacklog, MemoryJournal, ProcessStopped, StopBefore, VirtualClock
from pilotage.testing.encoded import EncodedRow

SETTINGS = WorkerSettings(concurrency=3, poll_seconds=2.0, grace_seconds=10.0)
LEASE_SECONDS = 30


class Story:
    """A bureau with an agent; some of its processes have a worker."""

    def __init__(self, name: str = "worker", **spec: object) -> None:
        self.bureau, self.agent = Bureau(), hired(name, **spec)
        self.clock, self.world = self.bureau.clock, self.bureau.world
        self.counter = Counter(self.world)

    @asynccontextmanager
    async def working(
        self,
        program: Callable[[Worker], Awaitable[object]],
        *pods: object,
        settings: WorkerSettings = SETTINGS,
        backlog: MemoryBacklog | None = None,
        **more: object,
    ) -> AsyncGenerator[AgentRuns, None]:
        """A process with a worker."""
        given = (*pods, settings, backlog or self.bureau.store.backlog)
        async with self.bureau.process(self.agent, program, *given, **more) as runs:  # type: ignore[arg-type]
            yield runs

    async def status(self, run_id: str) -> tuple[str, str | None, str | None]:
        return triple(await self.bureau.store.states.get(run_id))

    async def holder(self, run_id: str) -> Lease | None:
        return await self.bureau.store.leases.holder(RunKey("default", run_id))

    async def pays(self, worker: Worker) -> object:
        await worker.desk.note("a")
        return (await worker.desk.pay(Decimal(1))).number

    async def refunds(self, worker: Worker) -> object:
        return (await worker.desk.refund(Decimal(1))).number

    async def sends_and_pays(self, worker: Worker) -> object:
        await self.counter.send("a")
        return (await worker.desk.pay(Decimal(1))).number


def soon(*events: asyncio.Event, clock: VirtualClock | None = None) -> asyncio.Task[None]:
    """Let events happen one after the other, or the grace pass, once the process has begun to stop."""

    async def happen() -> None:
        await let_run(200)
        for event in events:
            event.set()
            await let_run(20)
        if clock is not None:
            clock.advance(SETTINGS.grace_seconds)

    return asyncio.create_task(happen())


async def test_a_worker_that_is_off_takes_nothing_up() -> None:
    story = Story()
    run_id = await story.bureau.dead_process(story.agent, story.pays, fault=StopBefore(3))
    async with story.working(story.pays, settings=WorkerSettings(is_on=False)):
        await pass_time(story.clock, 2 * LEASE_SECONDS)
        assert (await story.status(run_id))[0] == AgentStatus.ACTIVE


async def test_a_process_that_hands_its_runs_over_takes_up_none() -> None:
    story = Story()
    async with story.working(story.pays) as runs:
        await let_run(200)
        await runs.hand_over(0.0)
        run_id = await story.bureau.dead_process(story.agent, story.pays, fault=StopBefore(3))
        await pass_time(story.clock, 2 * LEASE_SECONDS)
        assert (await story.status(run_id))[0] == AgentStatus.ACTIVE
        assert story.world.done.count("pay 1") == 0


class CountedBacklog(MemoryBacklog):
    """A backlog that counts claims."""

    claims = 0

    async def claim(self, *given: Any, **named: Any) -> Sequence[BacklogEntry]:
        self.claims += 1
        return await super().claim(*given, **named)


async def test_a_worker_with_few_free_places_fills_them_together() -> None:
    story = Story()
    gates: list[asyncio.Event] = []

    async def waits(worker: Worker) -> object:
        gates.append(gate := asyncio.Event())
        await gate.wait()
        return "done"

    for _ in range(45):
        await story.bureau.dead_process(story.agent, story.pays, fault=StopBefore(2))
    backlog = CountedBacklog(story.bureau.store.tables)
    settings = WorkerSettings(concurrency=40)
    async with story.working(waits, settings=settings, backlog=backlog):
        await let_run(400)
        assert len(gates) == 40
        before = backlog.claims
        for gate in gates[:3]:
            gate.set()
            await let_run(100)
        assert (backlog.claims, len(gates)) == (before, 40)
        story.clock.advance(0.1)
        await let_run(100)
        assert (backlog.claims - before, len(gates)) == (1, 43)
        for gate in gates[3:8]:
            gate.set()
        await let_run(100)
        assert len(gates) == 45
        for gate in gates:
            gate.set()


async def test_a_worker_without_work_asks_once_in_a_while() -> None:
    story = Story()
    backlog = CountedBacklog(story.bureau.store.tables)
    async with story.working(story.pays, settings=WorkerSettings(), backlog=backlog):
        await let_run(50)
        before = backlog.claims
        for _ in range(40):
            story.clock.advance(0.25)
            await let_run(20)
        assert backlog.claims - before == 5


def test_a_worker_drives_many_runs_at_once() -> None:
    assert WorkerSettings().concurrency == 200


@pytest.mark.parametrize("is_own", [True, False])
async def test_in_a_process_of_its_own_the_collector_leaves_the_application_alone(is_own: bool) -> None:
    story = Story()
    pods = (ProcessOfItsOwn(),) if is_own else ()
    before = gc.get_freeze_count()  # what collecting the tests has made
    async with story.working(story.pays, *pods):
        assert (gc.get_freeze_count() > before) is is_own
    assert gc.get_freeze_count() <= (0 if is_own else before)


async def test_a_run_whose_process_died_is_taken_up_at_the_start_of_a_worker() -> None:
    story = Story()
    run_id = await story.bureau.dead_process(story.agent, story.pays, fault=StopBefore(3))
    async with story.working(story.pays):
        await let_run(200)
        assert await story.status(run_id) == COMPLETED
        assert await story.holder(run_id) is None
    assert story.world.done.count("pay 1") == 1
    assert nobody_is_left()


async def test_a_run_whose_process_dies_later_is_taken_up_when_its_lease_has_run_out() -> None:
    story = Story()
    async with story.working(story.pays):
        run_id = await story.bureau.dead_process(story.agent, story.pays, fault=StopBefore(3))
        run = RunKey("default", run_id)
        await story.bureau.store.leases.acquire(run, "the dead", LEASE_SECONDS)
        await pass_time(story.clock, LEASE_SECONDS - 1)
        assert (await story.status(run_id))[0] == AgentStatus.ACTIVE
        await pass_time(story.clock, 1 + SETTINGS.poll_seconds)
        assert await story.status(run_id) == COMPLETED


async def test_an_answer_lets_a_run_go_on_without_anybody_who_resumes_it() -> None:
    story = Story()
    async with story.bureau.process(story.agent, story.refunds) as office, story.working(story.refunds):
        waiting = await started(office, story.agent)
        await pass_time(story.clock, 10)
        assert await story.status(waiting.state.id) == WAITING
        (question,) = await office.questions(waiting.state.id)
        await office.approve(question.id)
        await let_run(200)
        assert await story.status(waiting.state.id) == COMPLETED
    assert story.world.done == ["refund 1"]


async def test_without_hints_a_slow_look_finds_the_answer() -> None:
    story = Story()
    async with story.working(story.refunds) as runs:
        waiting = await started(runs, story.agent)
        (question,) = await runs.questions(waiting.state.id)
        payload = {"request_id": question.id, "decision": "approve"}
        signal = AgentSignal("answer", waiting.state.id, AgentSignalKind.APPROVAL_DECISION, payload)
        await story.bureau.store.signals.append(signal)
        await let_run()
        assert await story.status(waiting.state.id) == WAITING
        await pass_time(story.clock, SETTINGS.poll_seconds)
        await let_run(200)
        assert await story.status(waiting.state.id) == COMPLETED


async def test_a_cancellation_reaches_a_run_that_waits() -> None:
    story = Story()
    async with story.working(story.refunds) as runs:
        waiting = await started(runs, story.agent)
        await story.bureau.store.signals.append(
            AgentSignal("stop", waiting.state.id, AgentSignalKind.CANCEL, {})
        )
        await pass_time(story.clock, SETTINGS.poll_seconds)
        assert await story.status(waiting.state.id) == CANCELLED


class Impatient(IAgentApprovalHandler):
    """Asks about everything, and takes silence for a no."""

    def __init__(self, until: datetime) -> None:
        self.until = until

    async def request_for(self, context: RunContext, subject: ApprovalSubject) -> AgentApprovalRequest | None:
        ignored = "ignored"
        return AgentApprovalRequest(
            ignored, ignored, subject.boundary, "Well?", ToolRisk(), ignored, expires_at=self.until
        )


async def test_a_question_that_nobody_answers_in_time_ends_the_run_by_itself() -> None:
    story = Story()
    impatient = Impatient(story.clock.now() + timedelta(minutes=5))
    async with story.working(story.refunds, impatient) as runs:
        waiting = await started(runs, story.agent)
        assert waiting.state.wake_at == impatient.until
        await pass_time(story.clock, 290, step=10)
        assert await story.status(waiting.state.id) == WAITING
        await pass_time(story.clock, 14)
        assert await story.status(waiting.state.id) == REJECTED


async def test_a_deadline_that_human_time_counts_against_ends_a_run_that_waits() -> None:
    story = Story(timeout_seconds=60.0, human_time_counts=True)
    async with story.working(story.refunds) as runs:
        waiting = await started(runs, story.agent)
        assert waiting.state.wake_at == story.clock.now() + timedelta(seconds=60)
        await pass_time(story.clock, 64)
        assert await story.status(waiting.state.id) == TIMED_OUT


async def test_only_so_many_runs_are_taken_up_at_once() -> None:
    story = Story()
    for _ in range(5):
        await story.bureau.dead_process(story.agent, story.pays, fault=StopBefore(2))
    begun: list[str] = []
    may_end = asyncio.Event()

    async def slowly(worker: Worker) -> object:
        begun.append("run")
        await may_end.wait()
        await worker.desk.note("a")
        return "done"

    async with story.working(slowly):
        await pass_time(story.clock, 10)
        assert len(begun) == 3
        may_end.set()
        await let_run(400)
        assert len(begun) == 5
        assert len(await story.bureau.store.states.list_by_status(AgentStatus.COMPLETED)) == 5


async def test_two_workers_share_the_runs_and_drive_none_together() -> None:
    story = Story()
    for _ in range(6):
        await story.bureau.dead_process(story.agent, story.pays, fault=StopBefore(2))
    begun: dict[str, list[str]] = {"one": [], "two": []}

    def driven_by(name: str) -> Callable[[Worker], Awaitable[object]]:
        async def program(worker: Worker) -> object:
            begun[name].append("run")
            return await story.pays(worker)

        return program

    async with story.working(driven_by("one")), story.working(driven_by("two")):
        await pass_time(story.clock, 10)
    assert (len(begun["one"]), len(begun["two"])) == (3, 3)
    assert story.world.done.count("pay 1") == 6


async def test_a_run_that_has_just_begun_is_not_taken_from_who_begins_it() -> None:
    """The worker looks while the first commit of the run is under way."""
    story = Story()
    looked = asyncio.Event()

    class Curious(MemoryBacklog):
        async def claim(
            self,
            owner: str,
            seconds: float,
            limit: int,
            *,
            agents: Collection[str],
            leaving: Collection[RunKey] = (),
            suspects: bool = False,
        ) -> Sequence[BacklogEntry]:
            looked.set()
            return await super().claim(
                owner, seconds, limit, agents=agents, leaving=leaving, suspects=suspects
            )

    class Slow(MemoryJournal):
        async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
            outcomes = await super().commit(commits)
            looked.clear()
            while not looked.is_set():
                # A hint is lost on a worker that does not listen yet.
                await store.wake_ups.notify("anything")
                await asyncio.sleep(0)
            return outcomes

    store = story.bureau.store
    store.journal = Slow(store)
    async with (
        story.working(story.pays, backlog=Curious(store.tables)),
        story.bureau.process(story.agent, story.pays) as office,
    ):
        result = await started(office, story.agent)
    assert triple(result.state) == COMPLETED
    assert {row.epoch for row in await story.bureau.rows(result.state.id)} == {1}


async def test_stopping_lets_the_current_action_end_and_another_worker_goes_on() -> None:
    story = Story()
    async with story.working(story.sends_and_pays, story.counter) as runs:
        handle = await runs.start(story.agent, "A-17")
        await story.counter.begun["send a"].wait()
        ending = soon(story.counter.may_end["send a"])
    await ending
    left = await handle.result()
    assert left.status == AgentStatus.ACTIVE
    assert story.world.done == ["send a"]
    assert story.counter.stopped == []
    assert await story.holder(handle.id) is None
    assert nobody_is_left()
    async with story.working(story.sends_and_pays, story.counter):
        await let_run(200)
        assert await story.status(handle.id) == COMPLETED
    assert story.world.done == ["send a", "pay 1"]


async def test_a_model_that_speaks_may_finish_its_reply_before_the_process_stops() -> None:
    story, model = Story(), SlowModel()

    async def asks_and_pays(worker: Worker) -> object:
        reply = await asked(worker)
        return (await worker.desk.pay(Decimal(len(reply.content)))).number

    async with story.working(asks_and_pays, model=model) as runs:
        handle = await runs.start(story.agent, "A-17")
        await model.is_speaking.wait()
        ending = soon(model.go_on)
    await ending
    assert (await handle.result()).status == AgentStatus.ACTIVE
    silent = SlowModel()
    async with story.working(asks_and_pays, model=silent):
        await let_run(200)
        assert await story.status(handle.id) == COMPLETED
    assert not silent.is_speaking.is_set()


async def test_an_action_that_takes_longer_than_the_grace_is_stopped_and_a_person_is_asked() -> None:
    story = Story()
    async with story.working(story.sends_and_pays, story.counter) as runs:
        handle = await runs.start(story.agent, "A-17")
        await story.counter.begun["send a"].wait()
        ending = soon(clock=story.clock)
    await ending
    assert story.counter.stopped == ["send a"]
    assert await story.holder(handle.id) is None
    async with story.working(story.sends_and_pays, story.counter) as runs:
        await let_run(200)
        assert (await story.status(handle.id))[2] == "recovery_requires_hitl"
    assert story.world.done == ["send a"]


async def test_a_run_that_ends_while_the_process_stops_has_ended() -> None:
    story = Story()

    async def reads(worker: Worker) -> object:
        return await story.counter.read("a")

    async with story.working(reads, story.counter) as runs:
        handle = await runs.start(story.agent, "A-17")
        await story.counter.begun["read a"].wait()
        ending = soon(story.counter.may_end["read a"])
    await ending
    assert triple((await handle.result()).state) == COMPLETED


async def test_parallel_branches_all_finish_what_they_are_at() -> None:
    story = Story()

    async def both(worker: Worker) -> object:
        await asyncio.gather(story.counter.write("a"), story.counter.write("b"))
        return (await worker.desk.pay(Decimal(1))).number

    async with story.working(both, story.counter) as runs:
        handle = await runs.start(story.agent, "A-17")
        await story.counter.begun["write a"].wait()
        await story.counter.begun["write b"].wait()
        ending = soon(story.counter.may_end["write a"], story.counter.may_end["write b"])
    await ending
    assert (await handle.result()).status == AgentStatus.ACTIVE
    async with story.working(both, story.counter):
        await let_run(300)
        assert await story.status(handle.id) == COMPLETED
    assert story.world.done == ["write a", "write b", "pay 1"]


async def test_a_branch_that_stops_first_waits_for_what_the_others_are_at() -> None:
    story = Story()

    async def short(worker: Worker) -> object:
        await story.counter.write("a")
        return (await worker.desk.pay(Decimal(1))).number

    async def both(worker: Worker) -> object:
        return await asyncio.gather(short(worker), story.counter.send("b"))

    async with story.working(both, story.counter) as runs:
        handle = await runs.start(story.agent, "A-17")
        await story.counter.begun["write a"].wait()
        await story.counter.begun["send b"].wait()
        ending = soon(story.counter.may_end["write a"], story.counter.may_end["send b"])
    await ending
    assert (await handle.result()).status == AgentStatus.ACTIVE
    async with story.working(both, story.counter):
        await let_run(300)
        assert await story.status(handle.id) == COMPLETED
    assert sorted(story.world.done) == ["pay 1", "send b", "write a"]


async def test_a_run_that_is_started_while_the_process_stops_is_left_to_others() -> None:
    story = Story()
    async with story.working(story.pays) as runs:
        await runs.hand_over(SETTINGS.grace_seconds)
        result = await started(runs, story.agent)
        assert result.status == AgentStatus.ACTIVE
    assert story.world.done == []
    async with story.working(story.pays):
        await let_run(200)
        assert await story.status(result.state.id) == COMPLETED


async def test_an_answer_that_answers_nothing_does_not_keep_a_worker_busy() -> None:
    story = Story()
    claims = 0

    class Counting(MemoryBacklog):
        async def claim(
            self,
            owner: str,
            seconds: float,
            limit: int,
            *,
            agents: Collection[str],
            leaving: Collection[RunKey] = (),
            suspects: bool = False,
        ) -> Sequence[BacklogEntry]:
            nonlocal claims
            leases = await super().claim(
                owner, seconds, limit, agents=agents, leaving=leaving, suspects=suspects
            )
            claims += len(leases)
            return leases

    async with story.working(story.refunds, backlog=Counting(story.bureau.store.tables)) as runs:
        waiting = await started(runs, story.agent)
        payload = {"request_id": f"{waiting.state.id}:never", "decision": "approve"}
        await story.bureau.store.signals.append(
            AgentSignal("lost", waiting.state.id, AgentSignalKind.APPROVAL_DECISION, payload)
        )
        await pass_time(story.clock, 60)
        assert 3 <= claims <= 7
        (question,) = await runs.questions(waiting.state.id)
        await runs.approve(question.id)
        await pass_time(story.clock, 64)
        assert await story.status(waiting.state.id) == COMPLETED


async def test_runs_of_agents_that_the_application_does_not_have_are_left_and_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    story, stranger = Story(), Story("stranger")
    stranger.bureau = story.bureau
    run_id = await story.bureau.dead_process(stranger.agent, story.pays, fault=StopBefore(3))
    with caplog.at_level(logging.WARNING, "pilotage.worker"):
        async with story.working(story.pays):
            await pass_time(story.clock, 200)
    assert (await story.status(run_id))[0] == AgentStatus.ACTIVE
    assert await story.holder(run_id) is None
    assert [record.getMessage() for record in caplog.records] == [
        "runs of agent 'stranger' wait, and application 'bureau' does not have it: they are left to others."
    ]


class Deaf(MemoryBacklog):
    """A backlog that cannot be reached at first."""

    silent = 2

    async def claim(
        self,
        owner: str,
        seconds: float,
        limit: int,
        *,
        agents: Collection[str],
        leaving: Collection[RunKey] = (),
        suspects: bool = False,
    ) -> Sequence[BacklogEntry]:
        if self.silent:
            self.silent -= 1
            raise OSError("the store does not answer")
        return await super().claim(owner, seconds, limit, agents=agents, leaving=leaving, suspects=suspects)


async def test_a_store_that_does_not_answer_is_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    story = Story()
    run_id = await story.bureau.dead_process(story.agent, story.pays, fault=StopBefore(3))
    async with story.working(story.pays, backlog=Deaf(story.bureau.store.tables)):
        await pass_time(story.clock, 3 * SETTINGS.poll_seconds)
        await let_run(200)
        assert await story.status(run_id) == COMPLETED
    assert {record.getMessage() for record in caplog.records} == {
        "the backlog cannot be read, and is tried again: OSError: the store does not answer"
    }


async def test_the_words_of_an_error_that_ends_an_attempt_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    story = Story()
    run_id = await story.bureau.dead_process(story.agent, story.pays, fault=StopBefore(3))

    async def breaks(worker: Worker) -> object:
        raise StoreUnavailable("the disk is full")

    async with story.working(breaks):
        await pass_time(story.clock, SETTINGS.poll_seconds)
    words = f"an attempt at run {run_id} ended: StoreUnavailable: the disk is full"
    assert words in [record.getMessage() for record in caplog.records]


class BrokenRows(list[EncodedRow]):
    """Rows on a disk that cannot be read."""

    def __iter__(self) -> Iterator[EncodedRow]:
        raise OSError("the disk is broken")

    def __getitem__(self, place: Any) -> Any:
        raise OSError("the disk is broken")


async def test_a_run_that_cannot_be_taken_up_rests_and_does_not_hold_up_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    story = Story()
    run_id = await story.bureau.dead_process(story.agent, story.pays, fault=StopBefore(3))
    other = await story.bureau.dead_process(story.agent, story.pays, fault=StopBefore(3))
    story.world.done.clear()
    tables = story.bureau.store.tables
    journal = tables.journals.find("default", run_id)
    assert journal is not None
    whole, journal.rows = journal.rows, BrokenRows(journal.rows)
    async with story.working(story.pays, settings=WorkerSettings(concurrency=1)):
        await pass_time(story.clock, 10)
        assert await story.status(other) == COMPLETED
        assert (await story.status(run_id))[0] == AgentStatus.ACTIVE
        journal.rows = whole
        await pass_time(story.clock, 20)
        assert await story.status(run_id) == COMPLETED
    words = f"run {run_id} cannot be taken up now: OSError: the disk is broken"
    assert {record.getMessage() for record in caplog.records} == {words}
    assert caplog.records


async def test_a_run_with_a_damaged_record_is_interrupted_and_not_taken_up_again() -> None:
    story = Story()
    run_id = await story.bureau.dead_process(story.agent, story.pays, fault=StopBefore(3))
    story.world.done.clear()
    journal = story.bureau.store.tables.journals.find("default", run_id)
    assert journal is not None
    first = journal.rows[0]
    journal.rows[0] = replace(first, record_text="{}")
    async with story.working(story.pays) as runs:
        await pass_time(story.clock, 60)
        state = await runs.get(run_id)
        assert triple(state) == ("interrupted", "interrupted", "recovery_requires_hitl")
        assert "damaged at row 1 (run): it was changed" in str(state.current_activity)
        rows = len(await story.bureau.rows(run_id))
        await pass_time(story.clock, 60)
        assert len(await story.bureau.rows(run_id)) == rows
        journal.rows[0] = first
        await (await runs.resume(run_id)).result()
        assert await story.status(run_id) == COMPLETED


async def test_the_answer_to_a_child_lets_the_run_above_it_go_on() -> None:
    family = Family(has_leases=True)

    async def parent(deps: Dependencies, prompt: str) -> object:
        return await deps.runtime.spawn_child("kid", "child", {"task": "work"})

    async def child(deps: Dependencies, prompt: str) -> object:
        return await family.hands.ask("it")

    agents = (member("parent", parent), member("child", child))
    async with family.process(*agents, add=(SETTINGS, family.store.backlog)) as runs:
        waiting = await start_family(runs, agents[0])
        assert waiting.status == AgentStatus.INTERRUPTED
        await family.answer(runs, waiting.state.id)
        await pass_time(family.clock, SETTINGS.poll_seconds)
        await let_run(300)
        assert (await runs.get(waiting.state.id)).status is AgentStatus.COMPLETED
        assert await family.store.leases.holder(RunKey("default", waiting.state.id)) is None
    assert family.world.done == {"it": 1}
    assert nobody_is_left()


async def test_a_family_is_left_together_and_taken_up_together() -> None:
    family = Family(has_leases=True)
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def parent(deps: Dependencies, prompt: str) -> object:
        done = await deps.runtime.spawn_child("kid", "child", {"task": "work"})
        return [done, await family.hands.write("parent's")]

    async def child(deps: Dependencies, prompt: str) -> object:
        await family.hands.write("child's first")
        begun.set()
        await may_end.wait()
        return await family.hands.write("child's second")

    agents = (member("parent", parent), member("child", child))
    add = (SETTINGS, family.store.backlog)
    async with family.process(*agents, add=add) as runs:
        handle = await runs.start(agents[0], "go")
        await begun.wait()
        ending = soon(may_end)
    await ending
    assert (await handle.result()).status == AgentStatus.ACTIVE
    assert {state.status for state in await family.states()} == {AgentStatus.ACTIVE}
    async with family.process(*agents, add=add) as runs:
        await let_run(300)
        assert (await runs.get(handle.id)).status is AgentStatus.COMPLETED
    assert family.world.done == {"child's first": 1, "child's second": 1, "parent's": 1}
    assert nobody_is_left()


@pytest.mark.parametrize("is_poisoned", [False, True])
@pytest.mark.parametrize("waits", [False, True])
async def test_a_child_whose_parent_is_over_is_cancelled(*, waits: bool, is_poisoned: bool) -> None:
    family = Family(has_leases=True)

    async def parent(deps: Dependencies, prompt: str) -> object:
        return await deps.runtime.spawn_child("kid", "child", {"task": "work"})

    async def child(deps: Dependencies, prompt: str) -> object:
        await family.hands.write("paid")
        return await (family.hands.ask("it") if waits else family.hands.write("again"))

    agents = (member("parent", parent), member("child", child))
    async with family.process(*agents, fault=None if waits else StopBefore(5)) as runs:
        with suppress(ProcessStopped):
            await start_family(runs, agents[0])
    above, kid = await family.state_of("parent"), await family.state_of("child")
    assert kid.status is (AgentStatus.INTERRUPTED if waits else AgentStatus.ACTIVE)
    rows = await family.rows(above.id)
    last = replace(rows[-1], seq=len(rows) + 1, stage=JournalStage.CLAIMED, kind=None)
    over = replace(above, status=AgentStatus.FAILED)
    await family.store.journal.commit(
        [JournalCommit(RunKey("default", above.id), "over", len(rows), (last,), over)]
    )
    for _ in range(POISONED_FROM if is_poisoned else 0):
        await family.store.backlog.begin(RunKey("default", kid.id), 0.0)
    await pass_time(family.clock, LEASE_SECONDS + 1)
    async with family.process(*agents, add=(SETTINGS, family.store.backlog)) as runs:
        await let_run(300)
        state = await runs.get(kid.id)
        await runs.verify(kid.id)
    # A quarantined run is not driven, so what was under way in it is not cleaned up.
    failed = AgentSituation.CANCELLATION_CLEANUP_FAILED
    ended = failed if is_poisoned else AgentSituation.CANCELLED
    assert (state.status, state.reason) == (ended.status, ended.reason)
    assert state.metadata["cancellation_reason"] == "the run it belongs to has ended"
    assert family.world.done["paid"] == 1
    assert nobody_is_left()


async def test_without_settings_nothing_is_taken_up() -> None:
    story = Story()
    run_id = await story.bureau.dead_process(story.agent, story.pays, fault=StopBefore(3))
    async with story.bureau.process(story.agent, story.pays, story.bureau.store.backlog):
        await pass_time(story.clock, 100)
    assert (await story.status(run_id))[0] == AgentStatus.ACTIVE


async def test_a_worker_without_a_backlog_is_an_error_with_the_way_out() -> None:
    app = Application("idle").add(SETTINGS)
    initialize(app)
    words = r"(?s)WorkerSettings asks for a worker.*IAgentBacklog, IAgentLeases.*sqlalchemy"
    with pytest.raises(AgentPersistenceConfigurationError, match=words):
        await app.start()


@pytest.mark.parametrize("wrong", [{"concurrency": 0}, {"poll_seconds": 0}, {"grace_seconds": -1}], ids=repr)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(AgentDefinitionError, match=f"WorkerSettings.{next(iter(wrong))}"):
        WorkerSettings(**wrong)

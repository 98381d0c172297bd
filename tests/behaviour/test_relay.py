"""The relay: facts reach who wants them, in order per run and at least once, and leave nothing behind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from functools import wraps

import pytest
from tests.behaviour.bureau import Bureau, hired, nobody_is_left, started
from tests.behaviour.newsdesk import Newsdesk, ids, let_run, pass_time
from tests.behaviour.office import Worker
from tests.failing import without_ids

from pilotage import Application, Pod, Scope
from pilotage.agent import (
    AgentActionCompleted,
    AgentFact,
    AgentRunCompleted,
    AgentRunFailed,
    AgentRunStarted,
    IAgentEventPublisher,
    IAgentOutbox,
    OutboxEntry,
    OutboxEvent,
    OutboxStatus,
    RunKey,
    on_event,
)
from pilotage.agent.ports.journal import JournalCommit
from pilotage.errors import AgentBootstrapError, AgentDefinitionError, AgentPersistenceConfigurationError
from pilotage.ids import IClock
from pilotage.runtime import RelaySettings
from pilotage.runtime.plugin import initialize
from pilotage.runtime.runs import AgentRuns
from pilotage.testing import MemoryOutbox
from pilotage.testing.conformance.kit import row

SETTINGS = RelaySettings(tries=3, first_wait=5.0, longest_wait=60.0, delivery_seconds=10.0, poll_seconds=2.0)
WHOLE = ["AgentRunStarted", "AgentActionCompleted", "AgentRunCompleted"]


class Story:
    """A bureau whose agent pays once, and a desk that hears of it."""

    def __init__(self, outbox: IAgentOutbox | None = None) -> None:
        self.bureau, self.agent, self.desk = Bureau(), hired(), Newsdesk()
        self.outbox = outbox or self.bureau.store.deliveries

    @asynccontextmanager
    async def process(
        self, *pods: object, outbox: IAgentOutbox | None = None
    ) -> AsyncGenerator[AgentRuns, None]:
        """One process with a relay."""
        given = (*pods, outbox or self.outbox, SETTINGS)
        async with self.bureau.process(self.agent, _pays, *given) as runs:
            yield runs

    async def statuses(self, run_id: str) -> list[OutboxStatus]:
        """What became of the facts of a run."""
        entries = self.bureau.store.deliveries.read(RunKey("default", run_id))
        return [entry.status async for entry in entries]

    async def happened(self, run_id: str, *names: str) -> None:
        """Facts of a run that nobody drives."""
        journal, run = self.bureau.store.journal, RunKey("default", run_id)
        facts = {"run_id": run_id, "tenant_id": "default", "agent": "worker", "parent": None}
        events = tuple(OutboxEvent(name, 1, facts) for name in names)
        head = await journal.head(run)
        seq = head.seq + 1 if head else 1
        await journal.commit([JournalCommit(run, f"{seq}", seq - 1, (row(seq),), outbox=events)])


async def _pays(worker: Worker) -> object:
    return (await worker.desk.pay(Decimal(1))).number


async def test_a_subscriber_hears_what_a_run_does_in_order_without_waiting_for_a_poll() -> None:
    story = Story()
    async with story.process(story.desk) as runs:
        result = await started(runs, story.agent)
        await let_run()
        assert story.desk.names == WHOLE
        assert ids(story.desk.heard) == [f"default/{result.state.id}/{n}" for n in (1, 2, 3)]
        assert await story.statuses(result.state.id) == [OutboxStatus.DELIVERED] * 3
    assert nobody_is_left()


async def test_a_slow_look_finds_what_another_process_committed() -> None:
    story = Story()
    async with story.process(story.desk):
        await let_run()
        await story.happened("run-1", "AgentRunStarted")
        await let_run()
        assert story.desk.names == []
        await pass_time(story.bureau.clock, SETTINGS.poll_seconds)
        assert story.desk.names == ["AgentRunStarted"]


async def test_what_was_committed_before_the_start_is_delivered_at_the_start() -> None:
    story = Story()
    await story.happened("run-1", "AgentRunStarted", "AgentRunCompleted")
    async with story.process(story.desk):
        await let_run()
    assert story.desk.names == ["AgentRunStarted", "AgentRunCompleted"]


def not_async(method: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    """A decorator that hides that a method is async."""

    @wraps(method)
    def call(*args: object) -> Awaitable[None]:
        return method(*args)

    return call


@Pod
class Choosy:
    """Methods of every kind, each with a taste of its own."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    @on_event(AgentRunCompleted)
    async def completed(self, fact: AgentRunCompleted) -> None:
        self.heard.append(f"completed {fact.agent}")

    @on_event(AgentRunStarted, AgentRunFailed)
    def in_a_thread(self, fact: AgentRunStarted | AgentRunFailed) -> None:
        is_elsewhere = threading.current_thread() is not threading.main_thread()
        self.heard.append(f"{type(fact).__name__} {'elsewhere' if is_elsewhere else 'here'}")

    @on_event(AgentRunCompleted)
    @not_async
    async def wrapped(self, fact: AgentRunCompleted) -> None:
        await asyncio.sleep(0)
        self.heard.append("wrapped")

    @on_event(AgentActionCompleted)
    def untyped(self, fact) -> None:  # type: ignore[no-untyped-def]
        self.heard.append(fact.action)


async def test_each_method_hears_what_it_asks_for_and_sync_ones_run_in_a_thread() -> None:
    story, choosy = Story(), Choosy()
    async with story.process(choosy) as runs:
        result = await started(runs, story.agent)
        while OutboxStatus.WAITING in await story.statuses(result.state.id):  # noqa: ASYNC110 - a thread is at it
            await asyncio.sleep(0)
    assert choosy.heard == ["AgentRunStarted elsewhere", "pay", "completed worker", "wrapped"]


@dataclass
class Broker(IAgentEventPublisher):
    """A broker that is down as often as it is told to be."""

    failures: int = 0
    published: list[AgentFact] = field(default_factory=list)

    async def publish(self, fact: AgentFact) -> None:
        if self.failures:
            self.failures -= 1
            raise ConnectionResetError("no broker")
        self.published.append(fact)


async def test_a_publisher_gets_everything_and_what_it_refuses_comes_again_in_order() -> None:
    story, broker = Story(), Broker(failures=2)
    async with story.process(broker) as runs:
        await started(runs, story.agent)
        await let_run()
        assert broker.published == []
        await pass_time(story.bureau.clock, 30)
    assert [type(fact).__name__ for fact in broker.published] == WHOLE


async def test_who_has_a_fact_does_not_get_it_again_because_somebody_else_failed() -> None:
    story, broker = Story(), Broker(failures=1)
    async with story.process(story.desk, broker) as runs:
        await started(runs, story.agent)
        await pass_time(story.bureau.clock, 30)
    assert (story.desk.names, len(broker.published)) == (WHOLE, 3)


async def test_a_poison_fact_holds_up_only_its_run_and_only_until_it_is_parked() -> None:
    story = Story()
    story.desk.refuses = lambda fact: fact.run_id == "run-1" and isinstance(fact, AgentRunStarted)
    await story.happened("run-1", "AgentRunStarted", "AgentRunCompleted")
    await story.happened("run-2", "AgentRunStarted", "AgentRunCompleted")
    async with story.process(story.desk):
        await let_run()
        assert [fact.run_id for fact in story.desk.heard] == ["run-1", "run-2", "run-2"]
        await pass_time(story.bureau.clock, 5 + 10 + 2 * SETTINGS.poll_seconds)
        own = [fact for fact in story.desk.heard if fact.run_id == "run-1"]
        assert [type(fact).__name__ for fact in own] == ["AgentRunStarted"] * 3 + ["AgentRunCompleted"]
        (parked,) = (await story.outbox.list_parked("default")).entries
        assert (parked.run.run_id, parked.number, parked.failures) == ("run-1", 1, 3)
        assert without_ids(parked.problem) == "Newsdesk.take: ValueError (error ...)"
        story.desk.refuses = lambda _: False
        await story.outbox.redeliver(parked.run, parked.number)
        await pass_time(story.bureau.clock, SETTINGS.poll_seconds)
    assert await story.statuses("run-1") == [OutboxStatus.DELIVERED] * 2


async def test_a_fact_that_nobody_here_can_read_is_parked_and_readable_later() -> None:
    story = Story()
    await story.happened("run-1", "AgentRunDreamt", "AgentRunCompleted")
    async with story.process(story.desk):
        await pass_time(story.bureau.clock, 5 + 10 + 2 * SETTINGS.poll_seconds)
    (parked,) = (await story.outbox.list_parked("default")).entries
    assert "'AgentRunDreamt' version 1 is unknown here" in (parked.problem or "")
    assert story.desk.names == ["AgentRunCompleted"]


@Pod
class Stuck:
    """Takes a fact and does not come back, the first time; the second time it gives up from within."""

    def __init__(self) -> None:
        self.heard = 0

    @on_event(AgentRunStarted)
    async def take(self, fact: AgentRunStarted) -> None:
        self.heard += 1
        if self.heard == 1:
            await asyncio.Event().wait()
        if self.heard == 2:
            raise asyncio.CancelledError


async def test_a_receiver_that_hangs_or_cancels_itself_has_failed() -> None:
    story, stuck = Story(), Stuck()
    await story.happened("run-1", "AgentRunStarted")
    async with story.process(stuck):
        await pass_time(story.bureau.clock, SETTINGS.delivery_seconds + 1)
        entry = await anext(story.outbox.read(RunKey("default", "run-1")))
        assert entry.problem == "Stuck.take did not take it within 10 seconds"
        await pass_time(story.bureau.clock, 7)
        entry = await anext(story.outbox.read(RunKey("default", "run-1")))
        assert entry.problem == "Stuck.take was cancelled from within"
        await pass_time(story.bureau.clock, 12)
    assert (stuck.heard, await story.statuses("run-1")) == (3, [OutboxStatus.DELIVERED])
    assert nobody_is_left()


@Pod
class Stubborn:
    """Does not let itself be stopped."""

    def __init__(self) -> None:
        self.heard, self.may_end = 0, asyncio.Event()

    @on_event(AgentRunStarted)
    async def take(self, fact: AgentRunStarted) -> None:
        self.heard += 1
        while not self.may_end.is_set():
            with suppress(asyncio.CancelledError):
                await self.may_end.wait()


async def test_a_receiver_that_does_not_let_itself_be_stopped_holds_up_nobody_else() -> None:
    story, stubborn = Story(), Stubborn()
    await story.happened("run-1", "AgentRunStarted")
    async with story.process(stubborn, story.desk):
        await let_run()
        story.bureau.clock.advance(SETTINGS.delivery_seconds)
        while not story.bureau.store.tables.outbox.rows[0].failures:  # noqa: ASYNC110 - it takes a second
            await asyncio.sleep(0)
        stubborn.may_end.set()
        await pass_time(story.bureau.clock, 10)
    assert (stubborn.heard, story.desk.names) == (2, ["AgentRunStarted"])
    assert nobody_is_left()


class Forgetful(MemoryOutbox):
    """An outbox whose process dies between a delivery and its mark, so many times."""

    deaths = 0

    async def delivered(self, owner: str, entries: Sequence[OutboxEntry]) -> None:
        if self.deaths:
            self.deaths -= 1
            raise OSError("the store is gone")
        await super().delivered(owner, entries)


async def test_what_was_delivered_and_not_marked_is_delivered_again() -> None:
    story = Story()
    outbox = Forgetful(story.bureau.store.tables)
    outbox.deaths = 1
    await story.happened("run-1", "AgentRunStarted", "AgentRunCompleted")
    async with story.process(story.desk, outbox=outbox):
        await let_run()
        assert story.desk.names == ["AgentRunStarted"]
        await pass_time(story.bureau.clock, SETTINGS.claim_seconds + SETTINGS.poll_seconds)
    assert story.desk.names == ["AgentRunStarted", "AgentRunStarted", "AgentRunCompleted"]
    assert len(set(ids(story.desk.heard))) == 2


class Deaf(MemoryOutbox):
    """An outbox that cannot be reached at first."""

    silent = 2

    async def claim(self, owner: str, seconds: float, limit: int) -> Sequence[OutboxEntry]:
        if self.silent:
            self.silent -= 1
            raise OSError("the store does not answer")
        return await super().claim(owner, seconds, limit)


async def test_a_store_that_does_not_answer_is_asked_again() -> None:
    story = Story()
    await story.happened("run-1", "AgentRunStarted")
    async with story.process(story.desk, outbox=Deaf(story.bureau.store.tables)):
        await pass_time(story.bureau.clock, 3 * SETTINGS.poll_seconds)
    assert story.desk.names == ["AgentRunStarted"]


async def test_two_relays_share_the_work_and_deliver_nothing_twice() -> None:
    story, other = Story(), Newsdesk()
    for number in range(40):
        await story.happened(f"run-{number}", "AgentRunStarted", "AgentRunCompleted")
    async with story.process(story.desk), story.process(other):
        await pass_time(story.bureau.clock, 10)
    assert story.desk.heard
    assert other.heard
    heard = [*ids(story.desk.heard), *ids(other.heard)]
    assert len(heard) == len(set(heard)) == 80
    for desk in (story.desk, other):
        for run_id in {fact.run_id for fact in desk.heard}:
            of_run = [type(fact).__name__ for fact in desk.heard if fact.run_id == run_id]
            assert of_run == ["AgentRunStarted", "AgentRunCompleted"]


@Pod
class Slow:
    """Waits for the test before it takes a fact."""

    def __init__(self) -> None:
        self.begun, self.may_end = asyncio.Event(), asyncio.Event()
        self.taken: list[AgentFact] = []

    @on_event(AgentFact)
    async def take(self, fact: AgentFact) -> None:
        self.begun.set()
        await self.may_end.wait()
        self.taken.append(fact)


async def test_stopping_lets_what_is_being_delivered_arrive_and_gives_the_rest_back() -> None:
    story, slow = Story(), Slow()
    await story.happened("run-1", "AgentRunStarted", "AgentRunCompleted")
    async with story.process(slow):
        await slow.begun.wait()
        asyncio.get_running_loop().call_later(0, slow.may_end.set)
    assert [type(fact).__name__ for fact in slow.taken] == ["AgentRunStarted"]
    assert await story.statuses("run-1") == [OutboxStatus.DELIVERED, OutboxStatus.WAITING]
    claimed = await story.outbox.claim("somebody else", 1.0, 10)
    assert [entry.number for entry in claimed] == [2]
    assert nobody_is_left()


class Noting(MemoryOutbox):
    """An outbox that notes what was given back."""

    def __init__(self, story: Story) -> None:
        super().__init__(story.bureau.store.tables)
        self.given_back: list[str] = []

    async def release(self, owner: str, run: RunKey) -> None:
        self.given_back.append(run.run_id)
        await super().release(owner, run)


@Pod
class Thorough:
    """Takes nearly as long as it may for every fact."""

    def __init__(self, clock: IClock) -> None:
        self.clock = clock
        self.taken: list[str] = []

    @on_event(AgentFact)
    async def take(self, fact: AgentFact) -> None:
        await self.clock.sleep(SETTINGS.delivery_seconds - 0.5)
        self.taken.append(type(fact).__name__)


async def test_no_delivery_begins_that_the_claim_may_not_outlast() -> None:
    story = Story()
    outbox, thorough = Noting(story), Thorough(story.bureau.clock)
    names = ["AgentRunStarted", "AgentRunCancelling", "AgentRunCancelled"]
    await story.happened("run-1", *names)
    async with story.process(thorough, outbox=outbox):
        await pass_time(story.bureau.clock, 20, step=0.5)
        assert (thorough.taken, outbox.given_back) == (names[:2], ["run-1"])
        await pass_time(story.bureau.clock, 10, step=0.5)
        assert (thorough.taken, outbox.given_back) == (names, ["run-1"])


async def test_without_anybody_who_wants_to_hear_nothing_is_taken_out_of_the_outbox() -> None:
    story = Story()
    async with story.process() as runs:
        result = await started(runs, story.agent)
        await pass_time(story.bureau.clock, 10)
        assert await story.statuses(result.state.id) == [OutboxStatus.WAITING] * 3


WRONG: dict[str, tuple[object, str]] = {}


def wrong(words: str):  # type: ignore[no-untyped-def]
    """A method that cannot be subscribed, and the words in which that is said."""

    def keep(method):  # type: ignore[no-untyped-def]
        WRONG[words] = (method, words)
        return method

    return keep


@wrong("Listener.hear takes nothing besides self, and is called with one fact.")
def takes_nothing(self: object) -> None: ...


@wrong("Listener.hear takes fact, more besides self, and is called with one fact.")
def takes_two(self: object, fact: AgentRunCompleted, more: str) -> None: ...


@wrong("Listener.hear takes fact besides self, and is called with one fact.")
def takes_a_keyword(self: object, *, fact: AgentRunCompleted) -> None: ...


@wrong("Listener.hear takes AgentRunFailed and is subscribed to AgentRunCompleted.")
def takes_another(self: object, fact: AgentRunFailed) -> None: ...


@wrong("Listener.hear takes str and is subscribed to AgentRunCompleted.")
def takes_text(self: object, fact: str) -> None: ...


@wrong("Listener.hear: the type of 'fact' cannot be found: name 'Nothing' is not defined.")
def takes_the_unknown(self: object, fact: Nothing) -> None: ...  # type: ignore[name-defined]  # noqa: F821


@wrong("Listener.hear is a generator, and what it yields is not used.")
async def yields(self: object, fact: AgentRunCompleted):  # type: ignore[no-untyped-def]
    yield fact


@wrong("Listener.hear is bound to no pod.")
@staticmethod
def stands_alone(fact: AgentRunCompleted) -> None: ...


@pytest.mark.parametrize(("method", "words"), list(WRONG.values()), ids=list(WRONG))
async def test_a_method_that_cannot_take_a_fact_is_an_error_at_the_start(method: object, words: str) -> None:
    listener = Pod(type("Listener", (), {"hear": on_event(AgentRunCompleted)(method)}))  # type: ignore[type-var]
    story = Story()
    with pytest.raises(AgentBootstrapError) as raised:
        async with story.process(listener):
            pass
    assert words in str(raised.value)


async def test_a_subscriber_that_does_not_live_as_long_as_the_application_is_an_error() -> None:
    @Pod(scope=Scope.PROTOTYPE)
    class Fleeting:
        @on_event(AgentRunCompleted)
        async def hear(self, fact: AgentRunCompleted) -> None: ...

    story = Story()
    with pytest.raises(
        AgentBootstrapError, match=r"(?s)Fleeting lives in scope 'prototype'.*Make it a singleton"
    ):
        async with story.process(Fleeting):
            pass


async def test_a_subscriber_without_an_outbox_is_an_error_with_the_way_out() -> None:
    app = Application("deaf").add(Newsdesk)
    initialize(app)
    with pytest.raises(
        AgentPersistenceConfigurationError,
        match=r"(?s)Newsdesk.take subscribes to facts.*IAgentOutbox.*sqlalchemy",
    ):
        await app.start()


@pytest.mark.parametrize("named", [(), (str,), ("AgentRunCompleted",), (Newsdesk().take,)])
def test_on_event_names_classes_of_facts(named: tuple[type[AgentFact], ...]) -> None:
    with pytest.raises(AgentDefinitionError, match=r"@on_event .* Write @on_event\(AgentRunCompleted\)"):
        on_event(*named)


def test_a_method_that_is_overridden_hears_nothing_unless_it_says_so() -> None:
    from pilotage.agent.handlers import subscriptions_of

    class Louder(Newsdesk):
        async def take(self, fact: AgentFact) -> None: ...

    class Same(Newsdesk):
        pass

    assert list(subscriptions_of(Louder)) == []
    assert [each.name for each in subscriptions_of(Same)] == ["Same.take"]

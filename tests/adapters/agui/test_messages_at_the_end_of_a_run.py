"""A message of a thread is answered, whatever its run does in the moment in which the message comes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from tests.adapters.agui.bank import Frame, Teller, interrupts_of, texts
from tests.adapters.agui.door import KeptDoorman
from tests.adapters.agui.samples import ag_ui_input, resume, types
from tests.adapters.agui.sequence import fault_in
from tests.adapters.agui.threads import (
    ADA,
    HELLO,
    NEXT,
    RUN,
    Deaf,
    Host,
    Moments,
    Threads,
    customs,
    ended,
    watched,
)
from tests.behaviour.newsroom import let_run

from pilotage import Application
from pilotage.agent import ConversationTurn, ITaskStore
from pilotage.runtime import AgentRuns
from pilotage.testing import (
    MemoryStore,
    ScriptedModel,
    StopAfter,
    VirtualClock,
    calls,
    says,
)

THREAD = "thread-1"


def answered(frames: list[Frame], words: str) -> bool:
    return fault_in(frames) is None and types(frames)[-1] == "RUN_FINISHED" and texts(frames).endswith(words)


async def test_a_message_starts_a_run_where_the_one_under_way_ends_before_it_can_be_given_to_it() -> None:
    threads, model = Threads(Host), ScriptedModel([calls("hold"), says("One."), says("Two.")])
    signals = watched(threads)

    async def end() -> None:
        threads.gate.open.set()
        await ended(threads)

    async with threads.process(model) as app:
        one = asyncio.ensure_future(threads.ask(app, HELLO))
        await threads.gate.reached.get()
        signals.moments = [end]
        second = await threads.ask(app, NEXT)
        first = await one
    assert (texts(first), texts(second)) == ("One.", "Two.")
    assert answered(second, "Two.")


async def test_any_number_of_runs_may_end_and_begin_while_a_message_is_tried() -> None:
    threads, many = Threads(Deaf), 12
    signals = watched(threads)
    async with threads.process(ScriptedModel([])) as app:
        runs = app.get(AgentRuns)

        async def begin(number: int) -> None:
            handle = await runs.start(
                Deaf, f"tab {number}", principal=ADA, id=f"tab-{number}", conversation_id=THREAD
            )
            await threads.gate.reached.get()
            ids.append(handle.id)

        async def another() -> None:
            threads.gate.open.set()
            await ended(threads, ids[-1])
            threads.gate.open.clear()
            if len(ids) < many:
                await begin(len(ids))

        ids: list[str] = []
        await begin(0)
        signals.moments = [another] * many
        frames = await asyncio.gather(threads.ask(app, NEXT), _open_when(threads, signals))
    assert len(ids) == many
    assert (fault_in(frames[0]), frames[0][-1]["result"]) == (None, "re: And then?")


async def _open_when(threads: Threads, signals: Moments) -> None:
    while signals.moments:
        await let_run()
    await threads.gate.reached.get()
    threads.gate.open.set()


@pytest.mark.parametrize("decision", ["approve", "cancel"])
async def test_a_message_starts_a_run_where_the_question_is_answered_before_it_can_be_given(
    decision: str,
) -> None:
    """The run waits when the message comes, and has ended when it is given to it."""
    threads = Threads(Host)
    signals = watched(threads)
    script = [says("One.")] if decision == "approve" else []
    async with threads.process(ScriptedModel([calls("ask_first"), *script, says("Two.")])) as app:
        (interrupt,) = interrupts_of(await threads.ask(app, HELLO))

        async def decide() -> None:
            await threads.ask(app, resume(interrupt["id"], {"decision": decision}))
            await ended(threads)

        signals.moments = [decide]
        second = await threads.ask(app, NEXT)
    assert answered(second, "Two.")


async def test_a_message_that_took_a_run_up_is_answered_where_its_question_is_answered_meanwhile() -> None:
    threads, model = Threads(Host), ScriptedModel([calls("ask_first"), says("One."), says("Two.")])
    await threads.die(model, StopAfter(1))
    signals = watched(threads)
    async with threads.process(model.restarted()) as app:
        runs = app.get(AgentRuns)

        async def decide() -> None:
            (question,) = await runs.questions(RUN, principal=ADA)
            await runs.approve(question.id, principal=ADA)
            await ended(threads)

        signals.moments = [decide]
        second = await threads.ask(app, NEXT)
    assert customs(second) == ["run_taken_up"]
    assert answered(second, "Two.")


async def test_a_message_that_took_a_run_up_waits_with_its_question() -> None:
    threads, dead = Threads(Host), ScriptedModel([calls("ask_first"), says("Both.")])
    await threads.die(dead, StopAfter(1))
    async with threads.process(model := dead.restarted()) as app:
        (interrupt,) = interrupts_of(await threads.ask(app, NEXT))
        third = await threads.ask(app, ag_ui_input("Still there?", runId="client-3"))
        assert (customs(third), interrupts_of(third)) == (["message_queued"], [interrupt])
        done = await threads.ask(app, resume(interrupt["id"], True))
    read = str(model.requests[-1].messages)
    assert (texts(done), "And then?" in read, "Still there?" in read) == ("Both.", True, True)


async def test_a_message_that_took_a_run_up_says_that_it_was_not_taken_where_none_are() -> None:
    threads, model = Threads(KeptDoorman), ScriptedModel([calls("ask_first"), says("One."), says("Two.")])
    await threads.die(model, StopAfter(1))
    async with threads.process(model.restarted()) as app:
        frames = await threads.ask(app, NEXT)
        (interrupt,) = interrupts_of(frames)
        assert texts(frames).startswith("This message was not taken")
        assert texts(await threads.ask(app, resume(interrupt["id"], True))) == "One."
        assert texts(await threads.ask(app, NEXT)) == "Two."


@pytest.mark.parametrize("payload", [{"decision": "cancel"}, {"decision": "approve"}])
async def test_messages_beside_a_question_are_answered_though_the_run_ends_without_them(
    payload: dict[str, str],
) -> None:
    """A cancelled run reads no messages, and one that goes on does."""
    threads = Threads(Host)
    async with threads.process(ScriptedModel([calls("ask_first"), says("Both.")])) as app:
        (interrupt,) = interrupts_of(await threads.ask(app, HELLO))
        await threads.ask(app, NEXT)
        await threads.ask(app, ag_ui_input("And now?", runId="client-3"))
        done = await threads.ask(app, resume(interrupt["id"], payload))
        runs = await app.get(AgentRuns).list(principal=ADA)
    assert answered(done, "Both.")
    is_cancelled = payload["decision"] == "cancel"
    assert [run.status.value for run in runs.runs] == ["completed", *["cancelled"] * is_cancelled]


async def test_of_two_first_messages_at_once_both_are_answered() -> None:
    threads, model = Threads(Host), ScriptedModel([calls("hold"), says("Both.")])
    async with threads.process(model) as app:
        asked = asyncio.gather(threads.ask(app, HELLO), threads.ask(app, NEXT))
        await threads.gate.reached.get()
        await let_run()
        threads.gate.open.set()
        one, two = await asked
    assert (texts(one), texts(two)) == ("Both.", "Both.")
    read = str(model.requests[-1].messages)
    assert ("Hello" in read, "And then?" in read) == (True, True)


async def test_a_message_in_another_process_is_answered_when_the_run_has_ended_there() -> None:
    threads, clock = Threads(Deaf), VirtualClock()
    threads.bank.store = MemoryStore(clock)
    async with (
        threads.process(ScriptedModel([]), None, clock) as here,
        threads.process(ScriptedModel([]), None, clock) as there,
    ):
        one = asyncio.ensure_future(threads.ask(here, HELLO))
        await threads.gate.reached.get()
        two = asyncio.ensure_future(threads.ask(there, NEXT))
        await let_run()
        threads.gate.open.set()
        await one
        await passes(clock, two)
    second = two.result()
    assert (fault_in(second), second[-1]["result"]) == (None, "re: And then?")


async def passes(clock: VirtualClock, awaited: asyncio.Future[list[Frame]]) -> None:
    for _ in range(60):
        clock.advance(1.0)
        await let_run()
        if awaited.done():
            return


class TurnsElsewhere(ITaskStore):
    """Turns that another service keeps, which takes its time."""

    def __init__(self) -> None:
        self.turns: list[ConversationTurn] = []
        self.answers, self.asked = asyncio.Event(), asyncio.Queue[int]()

    async def load_history(self, conversation_id: str) -> Sequence[ConversationTurn]:
        return tuple(self.turns)

    async def append_turns(self, conversation_id: str, turns: Sequence[ConversationTurn]) -> None:
        self.asked.put_nowait(len(self.turns))
        await self.answers.wait()
        self.turns += turns


async def test_a_message_waits_for_the_turns_of_the_run_before() -> None:
    threads, clock, elsewhere = Threads(Teller), VirtualClock(), TurnsElsewhere()
    store = threads.bank.store = MemoryStore(clock)
    model = ScriptedModel([says("One."), says("Two.")])
    ports = [each for each in store.ports if each is not store.conversations]
    app = Application("bank").add(Teller, threads.bank.payments, model, elsewhere, clock, *ports)
    async with app.load_plugins() as started:
        one = asyncio.ensure_future(threads.ask(started, HELLO))
        await elsewhere.asked.get()
        two = asyncio.ensure_future(threads.ask(started, NEXT))
        for _ in range(20):
            clock.advance(0.1)
            await let_run()
        assert not two.done()
        elsewhere.answers.set()
        await one
        await passes(clock, two)
    assert (texts(one.result()), texts(two.result())) == ("One.", "Two.")
    assert [turn.content for turn in elsewhere.turns] == ["Hello", "One.", "And then?", "Two."]

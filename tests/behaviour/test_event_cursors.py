"""Coming back to a stream: from any cursor, in any process, to runs that are live, elsewhere, paused or over."""

from __future__ import annotations

import asyncio

import pytest
from tests.behaviour.newsroom import (
    Gate,
    Newsroom,
    Reporter,
    Slow,
    Writer,
    ends,
    follow,
    heard,
    let_run,
    parts,
    texts,
    turns,
)
from tests.behaviour.test_events import Chatterbox

from pilotage import AgentStatus, Principal
from pilotage.agent import AgentEvent, MessageDeltaEvent, RunFinishedEvent, RunPausedEvent, RunStartedEvent
from pilotage.errors import CallerError, RunNotFoundError
from pilotage.runtime.events.feed import EventCursor, Transcript
from pilotage.runtime.events.subscription import POLL_SECONDS, Subscription
from pilotage.testing import ScriptedModel, StopBefore, calls, says

ELSEWHERE = Principal("eve", tenant="elsewhere")


@pytest.mark.parametrize(
    "cursor",
    [
        "x",
        "1",
        "1.2",
        "1.2.3.4",
        "1.2.-3",
        "1.2.",
        "1.2.3 ",
        "1.2.3\n",
        "\u0661.2.3",
        "1.2.\u00b2",
        f"1.{'9' * 5000}.0",
    ],
)
async def test_what_is_no_cursor_is_refused_at_once(cursor: str) -> None:
    room = Newsroom()
    async with room.process(parts(1)) as runs:
        run = await runs.start(Reporter, {"parts": 1})
        with pytest.raises(
            CallerError, match="is no cursor of events. Give the cursor of a subscription"
        ) as error:
            runs.events(run.id, after=cursor)
        assert len(str(error.value)) < 200
        await run.result()


async def test_nobody_reads_the_events_of_another_tenant_live_or_over() -> None:
    room, gate = Newsroom(), Gate()
    async with room.process(parts(1), Chatterbox, gate) as runs:
        run = await runs.start(Chatterbox, {"words": 4})
        await gate.reached.wait()
        with pytest.raises(RunNotFoundError, match=f"^there is no run '{run.id}'"):
            await anext(runs.events(run.id, principal=ELSEWHERE))
        gate.open.set()
        await run.result()
        with pytest.raises(RunNotFoundError):
            await anext(runs.events(run.id, after="1.2.0", principal=ELSEWHERE))
        own = await follow(runs.events(run.id))
        foreign = await runs.start(Chatterbox, {"words": 4}, principal=ELSEWHERE)
        await foreign.result()
        with pytest.raises(RunNotFoundError):
            await anext(runs.events(foreign.id, principal=Principal("local")))
        theirs = await follow(runs.events(foreign.id, principal=ELSEWHERE))
        assert texts(theirs.events) == texts(own.events)


async def test_there_are_no_events_of_a_run_that_does_not_exist() -> None:
    room = Newsroom()
    async with room.process(parts(1)) as runs:
        with pytest.raises(RunNotFoundError, match=r"^there is no run 'nobody'\.$"):
            await anext(runs.events("nobody"))


@pytest.mark.parametrize("cursor", ["1.9999.0", "7.9999.99", "0.9999.0"])
async def test_a_cursor_beyond_everything_that_was_told_gets_nothing_twice(cursor: str) -> None:
    room = Newsroom()
    async with room.process(parts(1)) as runs:
        run = await runs.start(Reporter, {"parts": 1})
        await run.result()
        last = EventCursor.parse((await heard(runs.events(run.id)))[-1][1])
        rest = await heard(runs.events(run.id, after=cursor))
    # Nobody of epoch 0 told anything, so nothing counts that such a reader claims to have seen.
    is_known = not cursor.startswith("0.")
    assert len(rest) == (0 if is_known else last.number)


async def test_a_run_that_another_process_drives_is_followed_by_looking_into_its_log() -> None:
    room, gate = Newsroom(), Gate()
    async with (
        room.process(parts(1), Chatterbox, gate) as runs,
        room.process(parts(1), Chatterbox, gate) as other,
    ):
        run = await runs.start(Chatterbox, {"words": 40})
        following = asyncio.create_task(follow(other.events(run.id)))
        await gate.reached.wait()
        await let_run()
        assert room.clock.sleepers, "the follower waits for its next look"
        gate.open.set()
        await run.result()
        await let_run()
        assert not following.done()
        room.clock.advance(POLL_SECONDS)
        assert (await following).events == await room.logged(run.id)


async def test_a_reader_that_does_not_follow_ends_where_the_run_stands_here_and_elsewhere() -> None:
    room, gate = Newsroom(), Gate()
    async with (
        room.process(parts(1), Chatterbox, gate) as runs,
        room.process(parts(1), Chatterbox, gate) as other,
    ):
        run = await runs.start(Chatterbox, {"words": 40})
        await gate.reached.wait()
        here = await follow(runs.events(run.id, follow=False))
        elsewhere = await follow(other.events(run.id, follow=False))
        assert here.events
        assert not ends(here.events)
        assert here.events[: len(elsewhere.events)] == elsewhere.events
        gate.open.set()
        await run.result()
        rest = await follow(other.events(run.id, after=here.cursor, follow=False), here)
    assert rest.events == await room.logged(run.id)


async def test_a_follower_goes_on_when_a_paused_run_was_brought_back_elsewhere() -> None:
    room = Newsroom()
    script = [calls("refund", amount="1"), says("Done.")]
    async with room.process(ScriptedModel(script)) as runs:
        run = await runs.start(Writer, "go")
        client = await follow(run.events())
        assert isinstance(client.events[-1], RunPausedEvent)
    gate = Gate()
    slow, other_model = room.process(ScriptedModel(script), Slow(gate)), ScriptedModel(script)
    async with slow as runs, room.process(other_model) as other:
        await runs.approve((await runs.questions(run.id))[0].id)
        resumed = await runs.resume(run.id)
        await gate.reached.wait()
        following = asyncio.create_task(follow(other.events(run.id, after=client.cursor), client))
        await let_run()
        assert not following.done(), "the run goes on, so does whoever follows it"
        gate.open.set()
        await resumed.result()
        await let_run()
        room.clock.advance(POLL_SECONDS)
        await following
    assert client.events == await room.logged(run.id)
    assert len(ends(client.events)) == 1


async def test_a_follower_ends_with_a_pause_however_often_the_run_came_back_for_nothing() -> None:
    room = Newsroom()
    script = [calls("refund", amount="1"), says("Done.")]
    async with room.process(ScriptedModel(script)) as runs, room.process(ScriptedModel(script)) as other:
        run = await runs.start(Writer, "go")
        await run.result()
        for _ in range(2):
            await (await runs.resume(run.id)).result()
        told = await asyncio.wait_for(follow(other.events(run.id)), 120)
        assert isinstance(told.events[-1], RunPausedEvent)
        assert told.events == await room.logged(run.id)


async def test_what_was_told_and_never_committed_is_void_for_whoever_saw_it() -> None:
    room, gate = Newsroom(), Gate()
    async with room.process(parts(1), Chatterbox, gate, fault=StopBefore(2)) as runs:
        run = await runs.start(Chatterbox, {"words": 10})
        client = Transcript()
        reading = asyncio.create_task(follow(run.events(), client))
        await gate.reached.wait()
        await let_run()
        assert texts(client.events) == {"message run:message": "0 1 2 3 4 "}
        gate.open.set()
        await asyncio.wait([asyncio.ensure_future(run.result())])
        await reading
    seen = client.cursor
    assert await room.logged(run.id) == []
    async with room.process(parts(1), Chatterbox, gate) as runs:
        resumed = await runs.resume(run.id)
        first = await anext(again := runs.events(run.id, after=seen))
        assert isinstance(first, RunStartedEvent)
        assert first.metadata == {"epoch": 2, "resumed_after": "0.0.0"}
        client.add(first, again.cursor)
        assert client.events == [first]
        await follow(again, client)
        await resumed.result()
    assert client.events == await room.logged(run.id)


async def test_a_cancelled_run_tells_its_end_to_whoever_comes_back() -> None:
    room, gate = Newsroom(), Gate()
    async with room.process(parts(1), Chatterbox, gate, fault=StopBefore(2)) as runs:
        run = await runs.start(Chatterbox, {"words": 10})
        client = await told_so_far(run.events(), gate)
        assert len(client.events) > 1
    async with room.process(parts(1), Chatterbox, gate) as runs:
        assert await runs.cancel(run.id, reason="enough")
        assert (await runs.get(run.id)).status is AgentStatus.CANCELLED
        after = await heard(runs.events(run.id, after=client.cursor))
        for event, cursor in after:
            client.add(event, cursor)
    # The owner that ended it says like any other from where on it goes.
    assert [type(event) for event, _ in after] == [RunStartedEvent, RunFinishedEvent]
    assert after[0][0].metadata == {"epoch": 2, "resumed_after": "0.0.0"}
    assert client.events == await room.logged(run.id)


async def test_an_old_text_is_read_from_the_middle() -> None:
    room = Newsroom()
    async with room.process(turns(2)) as runs:
        run = await runs.start(Writer, "go")
        await run.result()
        whole = await heard(runs.events(run.id))
        at, text = next(
            (EventCursor.parse(cursor), event.delta)
            for event, cursor in whole
            if isinstance(event, MessageDeltaEvent)
        )
        for offset in range(len(text)):
            reader = runs.events(run.id, after=f"{at.epoch}.{at.number}.{offset}")
            assert piece(await anext(reader)) == text[offset:]
            assert reader.cursor == str(at)


def piece(event: AgentEvent) -> str:
    assert isinstance(event, MessageDeltaEvent)
    return event.delta


async def told_so_far(events: Subscription, gate: Gate) -> Transcript:
    """What a reader has when the run has come to its gate."""
    transcript = Transcript()
    reading = asyncio.create_task(follow(events, transcript))
    await gate.reached.wait()
    await let_run()
    reading.cancel()
    return transcript

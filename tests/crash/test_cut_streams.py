"""Streams that are cut anywhere: what a reader has, comes to what was told, nothing lost and nothing twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TypeAlias

import pytest

from pilotage.agent import AgentEvent, RunFinishedEvent
from pilotage.runtime.events.feed import Transcript
from pilotage.runtime.runs import AgentRuns
from pilotage.testing import FailWrite, Fault, LoseReply, ProcessStopped, ScriptedModel, StopAfter, StopBefore
from tests.behaviour.newsroom import (
    Choir,
    Juggler,
    Newsroom,
    Reporter,
    Writer,
    ends,
    follow,
    heard,
    let_run,
    others,
    parts,
    texts,
    turns,
)

COUNT = 10
Story: TypeAlias = tuple[type[object], Callable[[int], object], Callable[[int], ScriptedModel]]

BY_HAND: Story = (Reporter, lambda count: {"parts": count}, parts)
BY_LOOP: Story = (Writer, lambda _: "go", turns)
BY_JUGGLER: Story = (Juggler, lambda count: {"parts": count}, parts)
BY_CHOIR: Story = (Choir, lambda _: "go", lambda _: parts(6))
STORIES = pytest.mark.parametrize("story", [BY_HAND, BY_LOOP], ids=["by hand", "by loop"])


@STORIES
async def test_a_finished_stream_may_be_cut_after_every_event(story: Story) -> None:
    agent, given, model = story
    room = Newsroom()
    async with room.process(model(COUNT)) as runs:
        run = await runs.start(agent, given(COUNT))
        told = await heard(run.events())
        assert len(told) >= 300
        whole = transcript_of(told)
        assert whole.events == await room.logged(run.id)
        for cut in range(len(told) + 1):
            client = transcript_of(told[:cut])
            await follow(runs.events(run.id, after=client.cursor), client)
            assert client.events == whole.events


@STORIES
async def test_a_live_stream_may_be_cut_after_every_event(story: Story) -> None:
    agent, given, model = story
    room = Newsroom()
    async with room.process(model(COUNT)) as runs:
        run = await runs.start(agent, given(COUNT))
        whole, client, reconnects = run.events(), Transcript(), 0
        expected = Transcript()
        async for event in whole:
            expected.add(event, whole.cursor)
            reader = runs.events(run.id, after=client.cursor)
            client.add(await anext(reader), reader.cursor)
            await reader.aclose()
            reconnects += 1
        await follow(runs.events(run.id, after=client.cursor), client)
        assert reconnects >= 300
        assert client.events == expected.events == await room.logged(run.id)


@STORIES
async def test_a_stream_that_is_cut_goes_on_in_another_process(story: Story) -> None:
    agent, given, model = story
    room = Newsroom()
    async with room.process(model(COUNT)) as runs, room.process(model(COUNT)) as elsewhere:
        run = await runs.start(agent, given(COUNT))
        reader, told = run.events(), list[tuple[AgentEvent, str]]()
        followers: list[asyncio.Task[Transcript]] = []
        async for event in reader:
            told.append((event, reader.cursor))
            later = elsewhere.events(run.id, after=reader.cursor)
            followers.append(asyncio.create_task(follow(later, transcript_of(told))))
        whole = transcript_of(told)
        for _ in range(5):
            await let_run()
            room.clock.advance(1)
        for each in followers:
            assert (await each).events == whole.events


def transcript_of(told: Iterable[tuple[AgentEvent, str]]) -> Transcript:
    """What a reader has of these events."""
    transcript = Transcript()
    for event, cursor in told:
        transcript.add(event, cursor)
    return transcript


class Reader:
    """A client that stays while processes come and go, and has what it was told by all of them."""

    def __init__(self, story: Story, count: int) -> None:
        self.agent, self.given, self._model = story[0], story[1](count), story[2](count)
        self.room = Newsroom()
        self.transcript = Transcript()
        self.run_id: str | None = None
        self.commits: list[int] = []
        self.has_differed = False

    async def read_through(self, *faults: Fault) -> None:
        """Let processes carry the run to its end; the n-th one has the n-th fault."""
        pending: list[Fault | None] = [*faults]
        while self.run_id is None or not (await self.room.store.states.get(self.run_id)).is_terminal:
            assert len(self.commits) < 10, "the run does not come to an end"
            await self._one_process(pending.pop(0) if pending else None)
        async with self.room.process(self._model) as runs:
            await follow(runs.events(self.run_id, after=self.transcript.cursor), self.transcript)

    async def _one_process(self, fault: Fault | None) -> None:
        async with self.room.process(self._model, fault=fault) as runs:
            with suppress(ProcessStopped):
                await self._carry_on(runs)
        self.commits.append(self.room.commits)
        self._model = self._model.restarted()

    async def _carry_on(self, runs: AgentRuns) -> None:
        known = await self.room.store.states.list_resume_candidates()
        self.run_id = self.run_id or (known[0].id if known else None)
        if self.run_id is None:
            handle = await runs.start(self.agent, self.given)
            self.run_id = handle.id
        else:
            handle = await runs.resume(self.run_id)
        await follow(runs.events(self.run_id, after=self.transcript.cursor), self.transcript)
        self.has_differed |= self.transcript.events != await self.room.logged(self.run_id)
        await handle.result()

    async def check(self, reference: Reader) -> None:
        """What the client has is what is stored, and says what the run says that nobody disturbed."""
        assert self.run_id is not None
        events = self.transcript.events
        assert events == await self.room.logged(self.run_id)
        assert texts(events) == texts(reference.transcript.events)
        assert others(events) == others(reference.transcript.events)
        assert len(ends(events)) == 1
        assert isinstance(events[-1], RunFinishedEvent)


async def undisturbed(story: Story, count: int) -> Reader:
    """A reader of a run whose process lives."""
    reader = Reader(story, count)
    await reader.read_through()
    return reader


@pytest.mark.parametrize(
    "story", [BY_HAND, BY_LOOP, BY_JUGGLER, BY_CHOIR], ids=["by hand", "by loop", "by juggler", "by choir"]
)
@pytest.mark.parametrize("fault", [StopBefore, StopAfter, LoseReply, FailWrite])
async def test_a_crash_at_every_commit_leaves_the_reader_with_what_is_stored(
    story: Story, fault: type[Fault]
) -> None:
    reference, differed = await undisturbed(story, 3), False
    for number in range(1, reference.commits[0] + 1):
        reader = Reader(story, 3)
        await reader.read_through(fault(number))
        await reader.check(reference)
        differed |= reader.has_differed
    assert differed == (fault in (StopBefore, StopAfter)), "only a death leaves a reader with more or less"


@STORIES
async def test_a_second_crash_during_recovery_changes_nothing_for_the_reader(story: Story) -> None:
    reference = await undisturbed(story, 2)
    for first in range(1, reference.commits[0] + 1):
        for second in range(1, reference.commits[0] + 2):
            reader = Reader(story, 2)
            await reader.read_through(StopBefore(first), StopAfter(second), StopBefore(second))
            await reader.check(reference)

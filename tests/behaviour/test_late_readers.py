"""A reader that comes late reads the log while the run goes on: every event reaches it exactly once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

import pytest

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentYield,
    Application,
    Final,
    Progress,
    RecoveryStrategy,
    Token,
)
from pilotage.agent import AgentEvent, JournalRow, MessageDeltaEvent, RunKey
from pilotage.runtime import AgentRuns, Subscription, step
from pilotage.testing import MemoryJournal, MemoryStore, VirtualClock


class Gate:
    """A place where the program waits until the test lets it pass."""

    def __init__(self) -> None:
        self.reached, self.open = asyncio.Event(), asyncio.Event()

    async def __call__(self) -> None:
        self.reached.set()
        await self.open.wait()


class Gates:
    """The places of the program below: before a commit, inside the action behind it, and after it."""

    def __init__(self) -> None:
        self.before, self.during, self.after = Gate(), Gate(), Gate()


@Agent(spec=AgentExecutionSpec(name="speaker", recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Speaker:
    """Says something, does something, which commits what was said, and says more."""

    def __init__(self, gates: Gates) -> None:
        self.gates = gates

    async def execute(self) -> AsyncGenerator[AgentYield[str], None]:
        yield Progress("said before")
        yield Token("one ")
        await self.gates.before()
        await step("act", self.gates.during)
        yield Token("two ")
        yield Progress("said after")
        await self.gates.after()
        yield Final("done")


class PagedJournal(MemoryJournal):
    """Reads the first rows, lets the test act, and reads the rest, as a store reads page by page."""

    first_page = 0
    between: Callable[[], Awaitable[None]] | None = None

    async def read(self, run: RunKey, after: int = 0) -> AsyncIterator[JournalRow]:
        act, self.between = self.between, None
        if act is not None:
            first = [row async for row in super().read(run, after)][: self.first_page]
            for row in first:
                yield row
            await act()
            after += len(first)
        async for row in super().read(run, after):
            yield row


class Story:
    """One process, one run, and a journal whose reading is held up once."""

    def __init__(self, first_page: int) -> None:
        self.gates, self.store = Gates(), MemoryStore(VirtualClock())
        self.journal = PagedJournal(self.store)
        self.journal.first_page = first_page

    def application(self) -> Application:
        _, *others = self.store.ports
        app = Application("late readers").add(Speaker, self.gates, self.journal, *others)
        return app.load_plugins(include=["runtime"])

    async def commit(self) -> None:
        """Let the program go on to its action: what it said before is committed by then."""
        self.gates.before.open.set()
        await self.gates.during.reached.wait()

    async def commit_and_say_more(self) -> None:
        """Let the program go on behind its action."""
        await self.commit()
        self.gates.during.open.set()
        await self.gates.after.reached.wait()


async def read(subscription: Subscription) -> list[AgentEvent]:
    return [event async for event in subscription]


def text_of(events: list[AgentEvent]) -> str:
    return "".join(event.delta for event in events if isinstance(event, MessageDeltaEvent))


def others_of(events: list[AgentEvent]) -> list[AgentEvent]:
    return [event for event in events if not isinstance(event, MessageDeltaEvent)]


@pytest.mark.parametrize("first_page", [0, 1])
@pytest.mark.parametrize("meanwhile", [Story.commit, Story.commit_and_say_more])
async def test_an_event_that_is_committed_while_the_log_is_read_is_delivered_once(
    meanwhile: Callable[[Story], Awaitable[None]], first_page: int
) -> None:
    story = Story(first_page)
    heads: list[int] = []

    async def between_the_pages() -> None:
        for act in (meanwhile, None):
            head = await story.journal.head(RunKey("default", handle.id))
            heads.append(head.seq if head else 0)
            if act is not None:
                await act(story)

    async with story.application() as app:
        runs = app.get(AgentRuns)
        handle = await runs.start(Speaker, {})
        early = asyncio.create_task(read(handle.events()))
        await story.gates.before.reached.wait()
        story.journal.between = between_the_pages
        late = runs.events(handle.id)
        seen = [await anext(late)]
        story.gates.during.open.set()
        story.gates.after.open.set()
        seen += await read(late)
        expected = await early
    assert heads[0] < heads[1], "the events were committed while the log was read"
    assert text_of(seen) == text_of(expected) == "one two "
    assert others_of(seen) == others_of(expected)

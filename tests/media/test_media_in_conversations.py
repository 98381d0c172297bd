"""Media in conversations: a later run shows what an earlier turn came with, as long as it is there and it may."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from pilotage import (
    Agent,
    AgentExecutionSpec,
    Application,
    IAgentModel,
    ModelRequest,
    ModelResponse,
    ModelStreamEvent,
    RunAgentInput,
)
from pilotage.adapters.sqlalchemy.settings import DatabaseSettings
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from pilotage.agent import MediaPart, MediaSafetyLimits, ModelStreamEventKind, RunKey
from pilotage.agent.ports.conversations import ConversationTurn
from pilotage.agent.ports.model import ModelCapability
from pilotage.errors import AgentDefinitionError, MediaNotFoundError
from pilotage.runtime.plugin import initialize
from pilotage.runtime.runner import AgentRunner
from pilotage.runtime.runs import AgentRuns
from pilotage.testing import (
    FaultyJournal,
    MemorySealer,
    MemoryStore,
    ProcessStopped,
    StopAfter,
    StopBefore,
    VirtualClock,
)
from tests.behaviour.bureau import DURABLE
from tests.media.pictures import png
from tests.media.test_media_in_runs import CAT, digest_of, media_of

DOG, BIRD = png(note=b"dog"), png(note=b"bird")


@Agent(spec=AgentExecutionSpec(name="friend", recovery=DURABLE, media_limits=MediaSafetyLimits(max_parts=4)))
class Friend:
    """Talk about pictures."""


@Agent(spec=AgentExecutionSpec(name="passing"))
class Passing:
    """Talk about pictures, and record nothing."""


class Eye(IAgentModel):
    """Keeps what it was shown, and says how many pictures these were."""

    def __init__(self, media_types: frozenset[str] | None = None) -> None:
        self._capability = ModelCapability("eye", media_types=media_types)
        self.requests: list[ModelRequest] = []

    @property
    def capability(self) -> ModelCapability:
        return self._capability

    async def complete(self, request: ModelRequest) -> ModelResponse:
        self.requests.append(request)
        return ModelResponse(f"{len(self.shown)} pictures")

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        yield ModelStreamEvent(ModelStreamEventKind.DONE, response=await self.complete(request))

    @property
    def shown(self) -> list[bytes]:
        """The pictures in the last request."""
        messages = self.requests[-1].messages
        return [b64decode(part.data or "") for message in messages for part in media_of(message)]

    @property
    def texts(self) -> list[str]:
        return [message.text for message in self.requests[-1].messages if message.role.value == "user"]


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "memory":
        yield MemoryStore()
        return
    with SqlAlchemyStore.open(DatabaseSettings(f"sqlite:///{tmp_path / 'runs.db'}")) as opened:
        yield opened


@asynccontextmanager
async def chat(store: Any, model: IAgentModel, *, fault: Any = None) -> AsyncGenerator[AgentRuns]:
    ports = [FaultyJournal(store.journal, fault), *store.ports[1:]]
    app = Application("chat").add(Friend, Passing, *ports, model)
    if not isinstance(store, MemoryStore):
        app.add(MemorySealer(b"the key of the chat"))
    initialize(app)
    async with app:
        yield app.get(AgentRuns)


async def say(runs: AgentRuns, words: str, *pictures: bytes) -> str:
    """Run one turn of the conversation, and return the id of its run."""
    parts = [MediaPart.of(each, name=f"{number}.png") for number, each in enumerate(pictures)]
    given = RunAgentInput("turn", words, attachments=parts)
    handle = await runs.start(Friend, given, conversation_id="pets")
    await handle.result()
    return handle.id


async def held(store: Any, run_id: str) -> frozenset[str]:
    return frozenset(await store.blobs.held(RunKey("default", run_id)))


async def test_a_later_turn_shows_the_picture_of_an_earlier_one(store: Any) -> None:
    model = Eye()
    async with chat(store, model) as runs:
        await say(runs, "Who is this?", CAT)
        second = await say(runs, "And its colour?")
        assert model.shown == [CAT]
        assert model.texts == ["Who is this?", "And its colour?"]
        await runs.verify(second)
    (turn, *_) = await store.conversations.load_history("pets")
    assert turn == ConversationTurn(
        "user",
        "Who is this?",
        media=(MediaPart("image/png", name="0.png", digest=digest_of(CAT), size=len(CAT)),),
    )
    assert await held(store, second) == {digest_of(CAT)}


async def test_erasing_runs_erases_their_turns_and_what_no_other_run_holds(store: Any) -> None:
    model = Eye()
    async with chat(store, model) as runs:
        first = await say(runs, "Who is this?", CAT)
        second = await say(runs, "And its colour?")
        await store.retention.erase(RunKey("default", first))
        await runs.verify(second)
        third = await say(runs, "And its age?")
        assert model.shown == []
        assert model.texts[0] == "[erased]"
        assert await held(store, third) == frozenset()
        assert (await store.blobs.get("default", digest_of(CAT))).content
        await store.retention.erase(RunKey("default", second))
        with pytest.raises(MediaNotFoundError):
            await store.blobs.get("default", digest_of(CAT))


async def test_a_picture_that_is_gone_is_named(store: Any) -> None:
    model = Eye()
    async with chat(store, model) as runs:
        first = await say(runs, "Who is this?", CAT)
        await store.blobs.release(RunKey("default", first))
        last = await say(runs, "And its colour?")
    assert model.shown == []
    assert model.texts[0] == "Who is this?\n[Sent with this, and not shown here: 0.png]"
    assert await held(store, last) == frozenset()


async def test_the_newest_pictures_are_shown_as_far_as_half_of_the_limit_goes(store: Any) -> None:
    model = Eye()
    async with chat(store, model) as runs:
        await say(runs, "One.", CAT)
        await say(runs, "Two.", DOG)
        await say(runs, "Three.", BIRD)
        await say(runs, "Four.", CAT, DOG)
    assert model.shown == [DOG, BIRD, CAT, DOG]
    assert model.texts[0] == "One.\n[Sent with this, and not shown here: 0.png]"


async def test_a_model_that_takes_text_only_goes_on_with_the_conversation(store: Any) -> None:
    async with chat(store, Eye()) as runs:
        await say(runs, "Who is this?", CAT)
    blind = Eye(frozenset())
    async with chat(store, blind) as runs:
        await say(runs, "And its colour?")
    assert blind.shown == []
    assert blind.texts[0].startswith("Who is this?\n[Sent with this")


async def test_a_fork_has_the_media_of_the_conversation(store: Any) -> None:
    model = Eye()
    async with chat(store, model) as runs:
        await say(runs, "Who is this?", CAT)
        second = await say(runs, "And its colour?")
        fork = await runs.fork(second, at=1)
        await (await runs.resume(fork.id)).result()
        assert model.shown == [CAT]
        assert await held(store, fork.id) == {digest_of(CAT)}


async def test_a_run_that_is_not_recorded_is_told_what_was_sent(store: Any) -> None:
    model = Eye()
    async with chat(store, model) as runs:
        await say(runs, "Who is this?", CAT)
        runner = AgentRunner.for_agent_instance(runs.services.app.get(Passing))
        given = RunAgentInput("turn", "And its colour?", "pets")
        assert [item async for item in runner.run(given)]
    assert model.shown == []
    assert model.texts[0] == "Who is this?\n[Sent with this, and not shown here: 0.png]"


@pytest.mark.parametrize("kind", [StopBefore, StopAfter])
async def test_a_crash_at_any_commit_shows_the_same(kind: type[StopBefore | StopAfter]) -> None:
    for number in range(1, 4):
        store = MemoryStore(VirtualClock())
        async with chat(store, Eye()) as runs:
            await say(runs, "Who is this?", CAT)
        first, second = Eye(), Eye()
        async with chat(store, first, fault=kind(number)) as runs:
            with suppress(ProcessStopped):
                await say(runs, "And its colour?")
        async with chat(store, second) as runs:
            found = (await runs.list(conversation_id="pets")).runs
            for state in found:
                if not state.is_terminal:
                    await (await runs.resume(state.id)).result()
                await runs.verify(state.id)
            if len(found) == 1:
                await say(runs, "And its colour?")
        assert [*first.requests, *second.requests], number
        for model in (first, second):
            assert not model.requests or model.shown == [CAT], number
        turns = await store.conversations.load_history("pets")
        assert [len(turn.media) for turn in turns] == [1, 0, 0, 0], number


def test_a_turn_has_no_bytes() -> None:
    with pytest.raises(AgentDefinitionError, match="A turn has no bytes"):
        ConversationTurn("user", "This.", media=(MediaPart.of(CAT),))

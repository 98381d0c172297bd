"""Conversations: what was said before reaches the model, and what a run says is added in the commit that ends it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal

import pytest
from tests.behaviour.office import Desk, World

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentSignalKind,
    AgentStatus,
    Application,
    Final,
    IAgentModel,
    ModelMessage,
    Principal,
    RecoveryStrategy,
    RunAgentInput,
    RunResult,
)
from pilotage.agent import (
    AgentRecoveryRequest,
    ApprovalDecision,
    ITaskStore,
    ModelRequest,
    ModelResponse,
    ModelStreamEvent,
    RecoveryDecision,
)
from pilotage.agent.ports.conversations import ConversationTurn
from pilotage.agent.ports.journal import IAgentJournal
from pilotage.errors import CallerError, RunConflictError
from pilotage.runtime import AgentRuns
from pilotage.runtime.plugin import initialize
from pilotage.runtime.runner import AgentRunner
from pilotage.testing import (
    FaultyJournal,
    MemoryStore,
    ProcessStopped,
    ScriptedModel,
    StopAfter,
    StopBefore,
    VirtualClock,
    calls,
    fails,
    says,
)
from pilotage.testing.script import ScriptEntry

DURABLE = RecoveryStrategy.ACTION_BOUNDARY
TALK = "talk"


@dataclass(frozen=True)
class Mood:
    """An answer with a type."""

    mood: str


class Helper:
    """What all of them can do."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk


@Agent(spec=AgentExecutionSpec(recovery=DURABLE))
class Friend(Helper):
    """Talk with people."""


@Agent
class Stranger(Helper):
    """Talk with people, and forget them."""


@Agent(spec=AgentExecutionSpec(recovery=DURABLE, output_type=Mood))
class Doctor(Helper):
    """Say how people feel."""


class Place:
    """A store and a world that outlive every process."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(self.clock)
        self.world = World()
        self.turns: ITaskStore = self.store.conversations

    @asynccontextmanager
    async def process(
        self, model: IAgentModel, journal: IAgentJournal | None = None
    ) -> AsyncGenerator[Application, None]:
        """One process, without leases: when one dies, another may take its runs at once."""
        store = self.store
        app = Application("talks").add(
            Friend, Stranger, Doctor, Listener, Desk, self.world, self.clock, model
        )
        app.add(journal or store.journal, store.states, store.signals, store.evidence, self.turns)
        initialize(app)
        async with app:
            yield app

    async def said(self, tenant: str = "default") -> list[tuple[str, str]]:
        """What was said in the conversation."""
        turns = await self.store.conversations.tenant_history(tenant, TALK)
        return [(turn.role, turn.content) for turn in turns]


async def talked(
    place: Place, question: str, script: Sequence[ScriptEntry]
) -> tuple[RunResult, ScriptedModel]:
    """One question in the conversation, in a process of its own."""
    model = ScriptedModel(script)
    async with place.process(model) as app:
        run = await app.get(AgentRuns).start(Friend, question, conversation_id=TALK)
        return await run.result(), model


def shown(model: ScriptedModel, request: int = 0) -> list[ModelMessage]:
    """What the model was shown behind the instructions."""
    return list(model.requests[request].messages[1:])


async def test_what_was_said_before_reaches_the_model_in_front_of_the_question() -> None:
    place = Place()
    await talked(place, "I am Ada.", [calls("look", what="Ada"), says("Hello, Ada.")])
    result, model = await talked(place, "Who am I?", [says("Ada.")])
    assert result.output == "Ada."
    assert shown(model) == [
        ModelMessage.user("I am Ada."),
        ModelMessage.assistant("Hello, Ada."),
        ModelMessage.user("Who am I?"),
    ]
    assert await place.said() == [
        ("user", "I am Ada."),
        ("assistant", "Hello, Ada."),
        ("user", "Who am I?"),
        ("assistant", "Ada."),
    ]


async def test_events_of_the_run_name_the_conversation() -> None:
    async with Place().process(ScriptedModel([says("Hello.")])) as app:
        run = await app.get(AgentRuns).start(Friend, "hi", conversation_id=TALK)
        assert {event.attribution.conversation_id async for event in run.events()} == {TALK}


async def test_conversations_of_tenants_are_apart() -> None:
    place, model = Place(), ScriptedModel([says("Hello."), says("Hello, you.")])
    async with place.process(model) as app:
        runs = app.get(AgentRuns)
        for tenant in ("acme", "other"):
            principal = Principal("ada", tenant=tenant)
            await (await runs.start(Friend, "hi", conversation_id=TALK, principal=principal)).result()
    assert shown(model, 1) == [ModelMessage.user("hi")]
    assert await place.said("acme") == [("user", "hi"), ("assistant", "Hello.")]
    assert await place.said("other") == [("user", "hi"), ("assistant", "Hello, you.")]


async def test_a_conversation_is_held_by_one_run_until_it_ends() -> None:
    place = Place()
    model = ScriptedModel([calls("refund", amount="5"), says("Refunded."), says("You are welcome.")])
    async with place.process(model) as app:
        runs = app.get(AgentRuns)
        waiting = await (await runs.start(Friend, "refund", conversation_id=TALK)).result()
        assert waiting.status is AgentStatus.INTERRUPTED
        with pytest.raises(RunConflictError, match=TALK):
            await runs.start(Friend, "and now?", conversation_id=TALK)
        assert await place.said() == []
        (question,) = await runs.questions(waiting.state.id)
        await runs.approve(question.id)
        await (await runs.resume(waiting.state.id)).result()
        await (await runs.start(Friend, "thanks", conversation_id=TALK)).result()
    assert [content for _, content in await place.said()] == [
        "refund",
        "Refunded.",
        "thanks",
        "You are welcome.",
    ]


async def test_a_refused_start_leaves_nothing_behind() -> None:
    place = Place()
    async with place.process(ScriptedModel([calls("refund", amount="5")])) as app:
        runs = app.get(AgentRuns)
        await (await runs.start(Friend, "refund", conversation_id=TALK)).result()
        for alias in (None, "mine"):
            with pytest.raises(RunConflictError):
                await runs.start(Friend, "and now?", conversation_id=TALK, id=alias)
        assert len((await runs.list()).runs) == 1


@pytest.mark.parametrize("agent", [Friend, Stranger])
async def test_a_conversation_without_a_name_is_refused_before_anything_is_written(
    agent: type[object],
) -> None:
    message = "conversation_id is blank. Give it at least one visible character, or leave it out."
    async with Place().process(ScriptedModel([])) as app:
        runs = app.get(AgentRuns)
        with pytest.raises(CallerError) as refused:
            await runs.start(agent, "hi", conversation_id=" ")
        assert str(refused.value) == message
        assert not (await runs.list()).runs


async def test_runs_that_do_not_complete_say_nothing_and_let_the_conversation_go() -> None:
    place = Place()
    failed, _ = await talked(place, "hi", [fails("overloaded")])
    assert failed.status is AgentStatus.FAILED
    async with place.process(ScriptedModel([calls("refund", amount="5")])) as app:
        runs = app.get(AgentRuns)
        waiting = await (await runs.start(Friend, "refund", conversation_id=TALK)).result()
        assert await runs.cancel(waiting.state.id)
    assert await place.said() == []
    result, _ = await talked(place, "still there?", [says("Yes.")])
    assert result.status is AgentStatus.COMPLETED
    assert await place.said() == [("user", "still there?"), ("assistant", "Yes.")]


async def test_a_resumed_run_sees_the_history_it_began_with() -> None:
    """Somebody adds turns meanwhile: the run keeps to what it knew, and its own turns come behind."""
    place = Place()
    await talked(place, "I am Ada.", [says("Hello, Ada.")])
    waiting, model = await talked(place, "refund", [calls("refund", amount="5"), says("Refunded.")])
    await place.store.conversations.append_turns(TALK, [ConversationTurn("user", "Hurry!")])
    after = model.restarted()
    async with place.process(after) as app:
        runs = app.get(AgentRuns)
        (question,) = await runs.questions(waiting.state.id)
        await runs.approve(question.id)
        await (await runs.resume(waiting.state.id)).result()
    assert shown(after)[:3] == shown(model)
    assert [content for _, content in await place.said()] == [
        "I am Ada.",
        "Hello, Ada.",
        "Hurry!",
        "refund",
        "Refunded.",
    ]


async def test_turns_are_added_with_the_end_of_the_run_or_not_at_all() -> None:
    script = [calls("note", what="it"), says("Seen.")]
    counting = Place()
    journal = FaultyJournal(counting.store.journal)
    async with counting.process(ScriptedModel(script), journal) as app:
        await (await app.get(AgentRuns).start(Friend, "look", conversation_id=TALK)).result()
    for number in range(1, journal.commits + 1):
        for fault in (StopBefore(number), StopAfter(number)):
            place, model = Place(), ScriptedModel(script)
            try:
                async with place.process(model, FaultyJournal(place.store.journal, fault)) as app:
                    await (await app.get(AgentRuns).start(Friend, "look", conversation_id=TALK)).result()
            except ProcessStopped:
                pass
            async with place.process(model.restarted()) as app:
                runs = app.get(AgentRuns)
                for state in (await runs.list()).runs:
                    has_ended = state.is_terminal
                    assert (await place.said() != []) is has_ended
                    if not has_ended:
                        await (await runs.resume(state.id)).result()
                    assert await place.said() == [("user", "look"), ("assistant", "Seen.")]


async def test_a_history_in_the_input_wins_over_the_conversation_and_is_not_kept() -> None:
    place = Place()
    await talked(place, "I am Ada.", [says("Hello, Ada.")])
    model = ScriptedModel([says("Grace.")])
    given = RunAgentInput(
        "mine",
        "Who am I?",
        TALK,
        message_history=[ModelMessage.user("I am Grace."), ModelMessage.assistant("Hi.")],
    )
    async with place.process(model) as app:
        _ = [item async for item in AgentRunner.for_agent_instance(app.get(Friend)).run(given)]
    assert shown(model) == [*given.message_history, ModelMessage.user("Who am I?")]
    assert await place.said() == [("user", "I am Ada."), ("assistant", "Hello, Ada.")]


async def test_a_runner_takes_the_conversation_from_the_input() -> None:
    place = Place()
    await talked(place, "I am Ada.", [says("Hello, Ada.")])
    model = ScriptedModel([says("Ada.")])
    async with place.process(model) as app:
        runner = AgentRunner.for_agent_instance(app.get(Friend))
        _ = [item async for item in runner.run(RunAgentInput("mine", "Who am I?", TALK))]
    assert len(shown(model)) == 3
    assert (await place.said())[-1] == ("assistant", "Ada.")


async def test_an_agent_that_is_not_durable_talks_too() -> None:
    place = Place()
    model = ScriptedModel([says("Hello, Ada."), says("Ada.")])
    async with place.process(model) as app:
        runner = AgentRunner.for_agent_instance(app.get(Stranger))
        for number, words in enumerate(("I am Ada.", "Who am I?")):
            items = [item async for item in runner.run(RunAgentInput(f"run {number}", words, TALK))]
            assert isinstance(items[-1], Final)
    assert shown(model, 1) == [
        ModelMessage.user("I am Ada."),
        ModelMessage.assistant("Hello, Ada."),
        ModelMessage.user("Who am I?"),
    ]


async def test_a_typed_answer_is_part_of_the_conversation() -> None:
    place, model = Place(), ScriptedModel([says(output=Mood("fine")), says(output=Mood("tired"))])
    async with place.process(model) as app:
        runs = app.get(AgentRuns)
        for words in ("I slept.", "I ran."):
            await (await runs.start(Doctor, words, conversation_id=TALK)).result()
    assert await place.said() == [
        ("user", "I slept."),
        ("assistant", '{"mood":"fine"}'),
        ("user", "I ran."),
        ("assistant", '{"mood":"tired"}'),
    ]


async def test_a_question_that_is_a_value_is_part_of_the_conversation() -> None:
    place, model = Place(), ScriptedModel([says("Noted.")])
    async with place.process(model) as app:
        await (await app.get(AgentRuns).start(Friend, {"amount": Decimal(5)}, conversation_id=TALK)).result()
    assert await place.said() == [("user", '{"amount":"5"}'), ("assistant", "Noted.")]


async def test_starting_again_with_the_same_name_attaches_while_the_conversation_is_held() -> None:
    place, model = Place(), ScriptedModel([calls("refund", amount="5")])
    async with place.process(model) as app:
        runs = app.get(AgentRuns)
        first = await runs.start(Friend, "refund", conversation_id=TALK, id="mine")
        await first.result()
        again = await runs.start(Friend, "refund", conversation_id=TALK, id="mine")
    assert first.id == again.id
    assert len(model.requests) == 1


@Agent(
    spec=AgentExecutionSpec(
        recovery=DURABLE,
        accepted_signals=(
            AgentSignalKind.USER_MESSAGE,
            AgentSignalKind.STEERING_INSTRUCTION,
            AgentSignalKind.EXTERNAL_EVENT,
        ),
    )
)
class Listener(Helper):
    """Talk with people who go on talking."""


LISTENED = [
    ("user", "refund"),
    ("user", "Only half of it."),
    ("user", "And hurry."),
    ("assistant", "Refunded."),
]


async def listened(place: Place, model: ScriptedModel, journal: IAgentJournal | None = None) -> None:
    """A run that is given messages beside its question, then the next one of the conversation."""
    async with place.process(model, journal) as app:
        runs = app.get(AgentRuns)
        run = await runs.start(Listener, "refund", conversation_id=TALK, id="first")
        while (await (await runs.resume(run.id)).result()).status is AgentStatus.INTERRUPTED:
            message, words = AgentSignalKind.USER_MESSAGE, ("Only half of it.", "And hurry.")
            for number, text in enumerate(words):
                await runs.signal(run.id, message, {"text": text}, id=f"m-{number}")
            await runs.signal(run.id, AgentSignalKind.STEERING_INSTRUCTION, {"text": "be kind"}, id="s")
            await runs.signal(run.id, AgentSignalKind.EXTERNAL_EVENT, {"text": "rain"}, id="e")
            for question in await runs.questions(run.id):
                is_lost = isinstance(question, AgentRecoveryRequest)
                decision = RecoveryDecision.RETRY if is_lost else ApprovalDecision.APPROVE
                await runs.answer(run.id, question.id, decision, resume=False)
        thanks = await runs.start(Listener, "thanks", conversation_id=TALK, id="second")
        await (await runs.resume(thanks.id)).result()


def refunding() -> ScriptedModel:
    return ScriptedModel([calls("refund", amount="5"), says("Refunded."), says("You are welcome.")])


async def test_messages_that_a_run_was_given_are_turns_for_the_next_one() -> None:
    place, model = Place(), refunding()
    await listened(place, model)
    assert [(each.role.value, each.text) for each in shown(model, 2)] == [*LISTENED, ("user", "thanks")]


@pytest.mark.parametrize("stop", [StopBefore, StopAfter])
async def test_messages_are_turns_once_wherever_the_process_dies(
    stop: type[StopBefore | StopAfter],
) -> None:
    number, is_over = 0, False
    while not is_over:
        number += 1
        place, model = Place(), refunding()
        journal = FaultyJournal(place.store.journal, stop(number))
        try:
            await listened(place, model, journal)
            is_over = True
        except ProcessStopped:
            await listened(place, model.restarted())
        turns = await place.said()
        assert turns == [*LISTENED, ("user", "thanks"), ("assistant", "You are welcome.")]
    assert number > 8


class Elsewhere(ITaskStore):
    """Turns that another service keeps, which is away at first."""

    def __init__(self) -> None:
        self.turns: list[ConversationTurn] = []
        self.is_away = True

    async def load_history(self, conversation_id: str) -> Sequence[ConversationTurn]:
        return tuple(self.turns)

    async def append_turns(self, conversation_id: str, turns: Sequence[ConversationTurn]) -> None:
        if self.is_away:
            self.is_away = False
            raise OSError("the service is away")
        self.turns += turns


async def test_messages_are_turns_in_a_store_that_was_away_when_their_run_ended() -> None:
    place, model, elsewhere = Place(), refunding(), Elsewhere()
    place.turns = elsewhere
    await listened(place, model)
    said = [(turn.role, turn.content) for turn in elsewhere.turns]
    assert said == [*LISTENED, ("user", "thanks"), ("assistant", "You are welcome.")]


async def test_a_message_for_another_turn_is_a_turn_of_the_conversation() -> None:
    place, model = Place(), ScriptedModel([says("One."), says("Two.")])
    begun, waiting = asyncio.Event(), asyncio.Event()

    class Slow(IAgentModel):
        async def complete(self, request: ModelRequest) -> ModelResponse:
            return await model.complete(request)

        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
            if not model.requests:
                begun.set()
                await waiting.wait()
            async for event in model.stream(request):
                yield event

    async with place.process(Slow()) as app:
        runs = app.get(AgentRuns)
        run = await runs.start(Listener, "hi", conversation_id=TALK)
        await begun.wait()
        await runs.signal(run.id, AgentSignalKind.USER_MESSAGE, {"text": "still there?"})
        waiting.set()
        await run.result()
    assert await place.said() == [("user", "hi"), ("user", "still there?"), ("assistant", "Two.")]

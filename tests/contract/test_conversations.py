"""A task store that was written to the contract alone has the turns of all runs, each tenant's apart."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentStatus,
    Application,
    Idempotency,
    Principal,
    RecoveryStrategy,
    RunAgentInput,
    RunResult,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import AgentState, ConversationTurn, ITaskStore, RunKey, ToolApprovalRequirement
from pilotage.agent.ports.conversations import conversation_in
from pilotage.errors import RunConflictError
from pilotage.runtime import AgentRunner, AgentRuns
from pilotage.runtime.plugin import initialize
from pilotage.testing import FaultyJournal, MemoryStore, ScriptedModel, StopAfter, VirtualClock, calls, says
from pilotage.testing.conformance import TaskStoreConformance
from pilotage.testing.faults import ProcessStopped
from pilotage.testing.script import ScriptEntry
from tests.contract.written.conversations import Guestbook
from tests.contract.written.repositories import CountedStates


class Whole(Guestbook):
    """A guestbook that keeps whole turns."""

    keeps_trust = True

    def __init__(self) -> None:
        super().__init__()
        self.turns: dict[str, list[ConversationTurn]] = {}

    async def load_history(self, conversation_id: str) -> list[ConversationTurn]:
        return list(self.turns.get(conversation_id, ()))

    async def append_turns(self, conversation_id: str, turns: object) -> None:
        self.turns.setdefault(conversation_id, []).extend(turns)  # type: ignore[call-overload]


class TestWhole(TaskStoreConformance):
    @pytest.fixture
    def conversations(self) -> ITaskStore:
        return Whole()


@pytest.mark.parametrize("tenant", ["default", "a", "a:b", "a%3Ab", "tenant", "tenant:a", "ü", "a/b"])
def test_no_two_conversations_have_one_id(tenant: str) -> None:
    tenants = ["default", "a", "a:b", "a%3Ab", "tenant", "tenant:a", "ü", "a/b"]
    names = ["c", "tenant:c", "tenant:a:c", "tenant:default:c", "b:c", ":c", "tenant:tenant%3Aa:c"]
    ids = [conversation_in(each, name) for each in tenants for name in names]
    assert len(set(ids)) == len(ids)
    assert conversation_in("default", "c") == "c"
    assert conversation_in(tenant, "c") in ids


@Agent(spec=AgentExecutionSpec(name="friend", recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Friend:
    """Talk with people."""

    @agent_tool(
        effects=ToolEffects.write_state(),
        idempotency=Idempotency.IDEMPOTENT,
        approval=ToolApprovalRequirement.NOT_REQUIRED,
    )
    async def note(self, text: str) -> str:
        """Note something down."""
        return "noted"


@Agent(spec=AgentExecutionSpec(name="stranger"))
class Stranger:
    """Talk with people, and forget the run."""


@dataclass
class House:
    """A store and a guestbook that outlive every process."""

    book: Guestbook = field(default_factory=Guestbook)
    clock: VirtualClock = field(default_factory=VirtualClock)

    def __post_init__(self) -> None:
        self.store = MemoryStore(self.clock)

    @asynccontextmanager
    async def process(
        self, *script: ScriptEntry, fault: StopAfter | None = None, only_part_a: bool = False
    ) -> AsyncGenerator[tuple[AgentRuns, ScriptedModel], None]:
        store, model = self.store, ScriptedModel(list(script))
        states = CountedStates(store.states) if only_part_a else store.states
        app = Application("house").add(Friend, Stranger, model, self.book, self.clock, store.sealer)
        app.add(FaultyJournal(store.journal, fault), states, store.signals, store.evidence, store.leases)
        initialize(app)
        async with app:
            yield app.get(AgentRuns), model

    async def talk(
        self, question: str, answer: str, principal: Principal | None = None, *, only_part_a: bool = False
    ) -> tuple[RunResult, list[str]]:
        """One question in a process of its own, and what the model was shown of the conversation."""
        async with self.process(says(answer), only_part_a=only_part_a) as (runs, model):
            run = await runs.start(Friend, question, conversation_id="chat", principal=principal)
            result = await run.result()
        return result, [message.text for message in model.requests[0].messages[1:]]


@pytest.mark.parametrize("only_part_a", [False, True])
async def test_the_next_run_knows_what_was_said(only_part_a: bool) -> None:
    house = House()
    await house.talk("I am Ada.", "Hello, Ada.", only_part_a=only_part_a)
    result, shown = await house.talk("Who am I?", "Ada.", only_part_a=only_part_a)
    assert result.status == AgentStatus.COMPLETED
    assert shown == ["I am Ada.", "Hello, Ada.", "Who am I?"]
    told = [("user", "I am Ada."), ("assistant", "Hello, Ada."), ("user", "Who am I?"), ("assistant", "Ada.")]
    assert house.book.lines == {"chat": told}


async def test_tenants_never_see_each_others_turns_though_their_store_knows_none() -> None:
    house = House()
    for tenant in ("default", "acme", "globex"):
        await house.talk(f"I am from {tenant}.", "Hello.", Principal("ada", tenant))
    for tenant in ("default", "acme", "globex"):
        _, shown = await house.talk("Who am I?", "Ada.", Principal("ada", tenant))
        assert shown == [f"I am from {tenant}.", "Hello.", "Who am I?"]
    await house.talk("Let me in.", "No.", Principal("eve", "acme"))
    async with house.process(says("Hm.")) as (runs, model):
        other = conversation_in("acme", "chat")
        run = await runs.start(
            Friend, "Who am I?", conversation_id=other, principal=Principal("eve", "globex")
        )
        await run.result()
    assert [message.text for message in model.requests[0].messages[1:]] == ["Who am I?"]


async def _dies_after(house: House, number: int) -> AgentState:
    """A run whose process dies after its commit of this number; its state by then."""
    async with house.process(says("Hello, Ada."), fault=StopAfter(number)) as (runs, _):
        with pytest.raises(ProcessStopped):
            await (await runs.start(Friend, "I am Ada.", conversation_id="chat")).result()
    house.clock.advance(3600)
    found = [await house.store.states.list_by_status(status) for status in AgentStatus]
    (state,) = [state for states in found for state in states]
    return state


async def test_turns_that_a_crash_kept_from_the_store_are_there_for_the_next_run() -> None:
    """A process dies at every commit of a run; the last one completes the run, and its turns are not yet appended."""
    for number in range(1, 12):
        house = House()
        state = await _dies_after(house, number)
        assert house.book.lines == {}
        if not state.is_terminal:
            async with house.process(says("Hello, Ada.")) as (runs, _):
                assert (await (await runs.resume(state.id)).result()).output == "Hello, Ada."
        _, shown = await house.talk("Who am I?", "Ada.")
        assert shown == ["I am Ada.", "Hello, Ada.", "Who am I?"], f"after commit {number}: {state}"
        if state.is_terminal:
            return
    pytest.fail("no crash came behind the completing commit")


async def test_turns_that_the_store_did_not_take_are_there_for_the_next_run() -> None:
    house = House()
    house.book.is_closed = True
    result, _ = await house.talk("I am Ada.", "Hello, Ada.")
    assert (result.status, house.book.lines) == (AgentStatus.COMPLETED, {})
    house.book.is_closed = False
    _, shown = await house.talk("Who am I?", "Ada.")
    assert shown == ["I am Ada.", "Hello, Ada.", "Who am I?"]
    assert len(house.book.lines["chat"]) == 4


async def test_a_run_that_was_erased_has_nothing_to_append() -> None:
    house = House()
    house.book.is_closed = True
    result, _ = await house.talk("I am Ada.", "Hello, Ada.")
    house.book.is_closed = False
    await house.store.retention.erase(RunKey("default", result.state.id))
    _, shown = await house.talk("Who am I?", "I do not know.")
    assert shown == ["Who am I?"]


async def test_a_run_whose_turns_are_on_their_way_holds_its_conversation() -> None:
    house = House()
    house.book.is_closed = True
    run = (await house.talk("I am Ada.", "Hello, Ada."))[0].state
    house.book.is_closed = False
    await house.store.leases.acquire(RunKey("default", run.id), "another process", 60)
    async with house.process(says("Ada.")) as (runs, _):
        with pytest.raises(RunConflictError, match=f"held by run '{run.id}', whose turns are being appended"):
            await runs.start(Friend, "Who am I?", conversation_id="chat")


@pytest.mark.parametrize("book", [Guestbook(), Whole()], ids=["loses labels", "keeps labels"])
async def test_what_a_store_without_labels_gives_counts_as_untrusted(book: Guestbook) -> None:
    house = House(book)
    await house.talk("I am Ada.", "Hello, Ada.")
    async with house.process(calls("note", text="Ada"), says("Noted.")) as (runs, _):
        run = await runs.start(Friend, "Note it.", conversation_id="chat")
        result = await run.result()
        assert (result.status == AgentStatus.COMPLETED) is book.keeps_trust
        if not book.keeps_trust:
            (question,) = await runs.questions(run.id)
            assert "untrusted content from conversation" in str(question.metadata)


async def test_ephemeral_runs_leave_their_turns_too() -> None:
    house = House()
    async with house.process(says("Hello, Ada.")) as (runs, _):
        runner = AgentRunner.for_agent_instance(runs.services.app.get(Stranger))
        async for _item in runner.run(RunAgentInput("r-1", "I am Ada.", conversation_id="chat")):
            pass
    _, shown = await house.talk("Who am I?", "Ada.")
    assert shown == ["I am Ada.", "Hello, Ada.", "Who am I?"]

"""Injected instructions by every channel that is no tool of a loop, against a model that obeys whatever it reads."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentSignalKind,
    AgentStatus,
    Application,
    IAgentModel,
    Idempotency,
    ModelMessage,
    ModelRequest,
    RecoveryStrategy,
    RunAgentInput,
    run,
)
from pilotage.agent import (
    AgentContext,
    AgentTeammate,
    ContextPack,
    ContextPackRole,
    ContextTokenBudget,
    MemoryItem,
    MemoryKind,
    MemoryScope,
    MemoryUse,
    RunKey,
)
from pilotage.agent.run_values import RunResult
from pilotage.context import SummariseOldTurns
from pilotage.errors import ToolError
from pilotage.runtime import AgentRuns, next_signal, step
from pilotage.runtime.plugin import initialize
from pilotage.safety.trust import Confidentiality, Integrity, TrustLabel
from pilotage.testing import MemoryAgentMemory, MemoryStore, ScriptedModel, calls, says
from pilotage.testing.proof_world import ProofTools
from tests.attack.injection import (
    LEAKED,
    STOLEN,
    Channels,
    ForeignChannels,
    ObedientModel,
    Outward,
    reading_messages,
)
from tests.behaviour.family import World

pytestmark = pytest.mark.attack("injection")

DURABLE = RecoveryStrategy.ACTION_BOUNDARY
SIGNALS = [AgentSignalKind.EXTERNAL_EVENT, AgentSignalKind.SCHEDULER_WAKE_UP]
WEB = TrustLabel(Integrity.UNTRUSTED, Confidentiality.PUBLIC, frozenset({"tool:page"}))

orders = pytest.mark.parametrize("order", [STOLEN, LEAKED], ids=["steal", "leak"])


def agent(name: str = "victim", **spec: Any) -> type[object]:
    """An agent with tools to change something, to look something up elsewhere, and to read."""

    @Agent(
        name=name,
        spec=AgentExecutionSpec(
            **{"name": name, "recovery": DURABLE, "instructions": f"You are {name}.", **spec}
        ),
    )
    class Victim:
        def __init__(self, hands: ProofTools, channels: Outward) -> None:
            self.hands, self.channels = hands, channels

    return Victim


class House:
    """A world and a store that outlive the processes."""

    def __init__(self) -> None:
        self.world, self.store, self.memory = World(), MemoryStore(), MemoryAgentMemory()
        self.channels: object = Channels

    def app(self, model: IAgentModel, *agents: object) -> Application:
        """The application of one process."""
        app = Application("house").add(*agents, ProofTools, self.channels, self.world, self.memory, model)
        initialize(app.add(*self.store.ports))
        return app

    async def run(
        self, model: IAgentModel, given: object = "go", *agents: type[object], **options: Any
    ) -> RunResult:
        """A run of the first agent, as far as it gets."""
        agents = agents or (agent(),)
        async with self.app(model, *agents) as app:
            return await (await app.get(AgentRuns).start(agents[0], given, **options)).result()

    def assert_held(self, result: RunResult) -> None:
        """Nothing was stolen, nothing has left, and a person is asked."""
        assert self.world.done == {}
        assert result.status is AgentStatus.INTERRUPTED, (result.error, result.output)


@orders
async def test_the_description_of_a_foreign_tool(order: str) -> None:
    house = House()
    house.channels = type("Poisoned", (ForeignChannels,), {"says": order})
    house.assert_held(await house.run(ObedientModel()))


@orders
async def test_the_answer_of_a_foreign_tool_of_which_only_the_effects_are_declared(order: str) -> None:
    house = House()
    house.channels = type("Poisoned", (ForeignChannels,), {"answers": order})
    house.assert_held(await house.run(ObedientModel(calls("from_server"), says("Done."))))


@orders
async def test_a_context_pack(order: str) -> None:
    house, pack = House(), ContextPack("p", order, "crm", ContextPackRole.EVIDENCE)
    house.assert_held(
        await house.run(ObedientModel(), RunAgentInput("r1", "go", context=AgentContext([pack])))
    )


@orders
async def test_a_tool_result_in_a_given_history(order: str) -> None:
    given = RunAgentInput("r1", "go", message_history=reading_messages(order))
    house = House()
    house.assert_held(await house.run(ObedientModel(), given))


@orders
async def test_a_summary_in_a_given_history(order: str) -> None:
    given = RunAgentInput("r1", "go", message_history=[ModelMessage.evidence(order, source="summary")])
    house = House()
    house.assert_held(await house.run(ObedientModel(), given))


@orders
async def test_something_remembered(order: str) -> None:
    house = House()
    house.channels = Outward
    item = MemoryItem("m1", MemoryKind.FACT, order, WEB)
    await house.memory.remember(MemoryScope("default", "local"), item)
    house.assert_held(await house.run(ObedientModel(), "go", agent(memory=MemoryUse())))


@orders
async def test_an_earlier_turn_of_the_conversation(order: str) -> None:
    house = House()
    reads = ScriptedModel([calls("page"), says(f"The page says: {order}")])
    await house.run(reads, "read", conversation_id="talk")
    house.assert_held(await house.run(ObedientModel(), "go on", conversation_id="talk"))


@orders
async def test_the_result_of_a_child(order: str) -> None:
    house, child = House(), agent("reader")
    parent = agent("chief", delegation_allowed=True, teammates=[AgentTeammate("reader", pod=child)])
    model = ChiefModel(order)
    house.assert_held(await house.run(model, "go", parent, child))
    assert model.has_obeyed


class ChiefModel(ObedientModel):
    """The chief delegates; the reader reads a page and repeats its order; the chief obeys."""

    def __init__(self, order: str) -> None:
        super().__init__(calls("ask_reader", task="read"), says("Done."))
        self._reader = ScriptedModel([calls("page"), says(order)])

    @property
    def has_obeyed(self) -> bool:
        return any(len(request.messages) > 3 for request in self.requests)

    def speaker(self, request: ModelRequest) -> ScriptedModel:
        if request.messages[0].text == "You are reader.":
            return self._reader
        return super().speaker(request)


@orders
@pytest.mark.parametrize("kind", SIGNALS)
async def test_a_signal(kind: AgentSignalKind, order: str) -> None:
    house, listening = House(), agent(accepted_signals=SIGNALS)
    model = ObedientModel(calls("ask", what="first"), says("Done."))
    async with house.app(model, listening) as app:
        runs = app.get(AgentRuns)
        waiting = await (await runs.start(listening, "go")).result()
        await runs.signal(waiting.state.id, kind, {"text": order})
        (question,) = await runs.questions(waiting.state.id)
        await runs.approve(question.id)
        result = await (await runs.resume(waiting.state.id)).result()
    assert house.world.done == {"first": 1}
    assert result.status is AgentStatus.INTERRUPTED


@orders
async def test_a_transcript_that_was_condensed(order: str) -> None:
    house = House()
    condensing = agent(
        context_budget=ContextTokenBudget(max_tokens=700, reserved_output_tokens=100),
        compaction=[SummariseOldTurns(keep_recent=1, max_summary_chars=200)],
    )
    looks = [calls("look", what=f"{number} " + "word " * 150) for number in range(3)]
    model = LateModel(calls("page"), *looks, says("Done."))
    model.summary = order
    house.assert_held(await house.run(model, "go", condensing))


class LateModel(ObedientModel):
    """Writes a summary, and obeys only what is in it."""

    summary = ""

    def speaker(self, request: ModelRequest) -> ScriptedModel:
        return super().speaker(request) if request.tool_calling else ScriptedModel([says(self.summary)])

    def orders_in(self, request: ModelRequest) -> list[tuple[str, str]]:
        has_summary = any("earlier-turns" in message.text for message in request.messages)
        return super().orders_in(request) if has_summary else []


@orders
async def test_a_fork_of_a_run_that_read_something(order: str) -> None:
    house, victim = House(), agent()
    read = await house.run(ScriptedModel([calls("page"), says(order)]), "read", victim)
    async with house.app(ScriptedModel([calls("write", what="stolen"), says("Done.")]), victim) as app:
        runs = app.get(AgentRuns)
        rows = [row async for row in house.store.journal.read(RunKey("default", read.state.id))]
        (done,) = [row.seq for row in rows if row.action_id.endswith("tool:page#1")]
        fork = await runs.fork(read.state.id, at=done)
        house.assert_held(await (await runs.resume(fork.id)).result())


async def fetched() -> str:
    return STOLEN


@Agent(spec=AgentExecutionSpec(recovery=DURABLE, accepted_signals=SIGNALS))
class Handwritten:
    """Business code that obeys what it reads by one of the channels of hand-written agents."""

    def __init__(self, hands: ProofTools, channels: Channels, model: IAgentModel) -> None:
        self.hands, self.channels, self.model = hands, channels, model

    async def execute(self, channel: str) -> str:
        match channel:
            case "step":
                await step("fetch", fetched, reads_untrusted=True)
            case "failed step":
                with suppress(ToolError):
                    await step(
                        "fetch", self._broken, idempotency=Idempotency.IDEMPOTENT, reads_untrusted=True
                    )
            case "pack":
                pack = ContextPack("p", STOLEN, "crm", ContextPackRole.EVIDENCE)
                await self.model.complete(ModelRequest([ModelMessage.user("Well?")], context=[pack]))
            case "signal":
                await next_signal(AgentSignalKind.SCHEDULER_WAKE_UP)
            case _:
                await getattr(self.channels, channel)()
        return await self.hands.write("stolen")

    async def _broken(self) -> str:
        raise RuntimeError(STOLEN)


@pytest.mark.parametrize(
    "channel", ["step", "failed step", "pack", "page", "from_network", "from_bare", "from_nested"]
)
async def test_a_hand_written_agent(channel: str) -> None:
    house = House()
    house.assert_held(await house.run(ScriptedModel([says("Do it.")]), channel, Handwritten))


async def test_a_hand_written_agent_that_a_scheduler_wakes() -> None:
    house = House()
    async with house.app(ScriptedModel([]), Handwritten) as app:
        runs = app.get(AgentRuns)
        waiting = await (await runs.start(Handwritten, "signal")).result()
        await runs.signal(waiting.state.id, AgentSignalKind.SCHEDULER_WAKE_UP, {"text": STOLEN})
        house.assert_held(await (await runs.resume(waiting.state.id)).result())


async def test_an_ephemeral_run_that_cannot_ask_ends_and_names_the_declaration() -> None:
    world, model = World(), ScriptedModel([calls("page"), calls("write", what="stolen"), says("Done.")])
    victim = agent(recovery=RecoveryStrategy.NONE)
    result = await run(victim, "go", model=model, add=[ProofTools, Channels, world])
    assert (result.status, world.done) == (AgentStatus.FAILED, {})
    assert result.error is not None
    assert "declare reads_untrusted=False there" in str(result.error["message"])

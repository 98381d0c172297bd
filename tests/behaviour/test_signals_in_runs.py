"""Signals reach a run while it lives, once, also across a crash; a cancelled run ends cleanly wherever it stands."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator

import pytest

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentSignalKind,
    AgentStatus,
    AgentYield,
    Application,
    Final,
    IAgentModel,
    Idempotency,
    ModelMessage,
    ModelRequest,
    Pod,
    Principal,
    RecoveryStrategy,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import RunKey, ToolApprovalRequirement
from pilotage.errors import CallerError, RunNotFoundError
from pilotage.runtime.door.outcome import UNKNOWN_OUTCOME
from pilotage.runtime.plugin import initialize
from pilotage.runtime.runs import AgentRuns
from pilotage.testing import (
    Fault,
    FaultyJournal,
    MemoryStore,
    ProcessStopped,
    ScriptedModel,
    StopAfter,
    StopBefore,
    says,
)

SPEC = AgentExecutionSpec(
    recovery=RecoveryStrategy.ACTION_BOUNDARY,
    accepted_signals=[AgentSignalKind.USER_MESSAGE, AgentSignalKind.STEERING_INSTRUCTION],
)


class Gate:
    """Holds a tool until it is opened; survives every process."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()
        self.passed = 0
        self.left = 0


@Pod
class Machine:
    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    @agent_tool(
        effects=ToolEffects.write_state(),
        idempotency=Idempotency.NON_IDEMPOTENT,
        approval=ToolApprovalRequirement.NOT_REQUIRED,
    )
    async def work(self) -> str:
        """Work until the gate is open."""
        self.gate.reached.set()
        try:
            await self.gate.opened.wait()
        finally:
            self.gate.left += 1
        self.gate.passed += 1
        return "worked"

    @agent_tool(effects=ToolEffects.destructive_action())
    async def wipe(self) -> str:
        """Needs somebody's approval."""
        return "wiped"


@Agent(spec=SPEC)
class Talker:
    def __init__(self, model: IAgentModel, machine: Machine) -> None:
        self.model, self.machine = model, machine

    async def execute(self, greeting: str) -> AsyncGenerator[AgentYield[list[str]], None]:
        messages = [ModelMessage.user(greeting)]
        first = await self.model.complete(ModelRequest(messages))
        await self.machine.work()
        messages += [first.message, ModelMessage.user("and now?")]
        second = await self.model.complete(ModelRequest(messages))
        yield Final([first.content, second.content])


@Agent(spec=SPEC)
class Wiper:
    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    async def execute(self) -> str:
        return await self.machine.wipe()


@pytest.fixture
def gate() -> Gate:
    return Gate()


def application(
    store: MemoryStore, gate: Gate, model: ScriptedModel, fault: Fault | None = None
) -> Application:
    app = Application("talk").add(Talker, Wiper, Machine, gate, model, FaultyJournal(store.journal, fault))
    app.add(store.states, store.signals, store.evidence)
    initialize(app)
    return app


def script() -> ScriptedModel:
    return ScriptedModel([says("Hello."), says("Bye.")])


def texts(request: ModelRequest) -> list[str]:
    return [message.text for message in request.messages]


async def test_a_message_reaches_the_next_model_call_and_stays_in_the_transcript(gate: Gate) -> None:
    store, model = MemoryStore(), script()
    async with application(store, gate, model) as app:
        runs = app.get(AgentRuns)
        run = await runs.start(Talker, "hi")
        await gate.reached.wait()
        await runs.signal(run.id, AgentSignalKind.USER_MESSAGE, {"text": "be brief"}, id="m1")
        await runs.signal(run.id, AgentSignalKind.USER_MESSAGE, {"text": "be brief"}, id="m1")
        gate.opened.set()
        result = await run.result()
        assert result.output == ["Hello.", "Bye."]
        assert texts(model.requests[1]) == ["hi", "Hello.", "and now?", "be brief"]
        assert await store.signals.list_pending(run.id) == []
        await runs.verify(run.id)


@pytest.mark.parametrize("fault", [StopBefore, StopAfter])
@pytest.mark.parametrize("number", range(1, 5))
async def test_a_message_is_neither_lost_nor_applied_twice_by_a_crash(
    fault: type[Fault], number: int, gate: Gate
) -> None:
    store = MemoryStore()
    gate.opened.set()
    async with application(store, gate, script(), StopBefore(2)) as app:
        with pytest.raises(ProcessStopped):
            await (await app.get(AgentRuns).start(Talker, "hi")).result()
    (state,) = await store.states.list_resume_candidates()
    async with application(store, gate, script()) as app:
        await app.get(AgentRuns).signal(state.id, AgentSignalKind.USER_MESSAGE, {"text": "wait"}, id="m1")
    model = script()
    async with application(store, gate, model, fault(number)) as app:
        with contextlib.suppress(ProcessStopped):
            await (await app.get(AgentRuns).resume(state.id)).result()
    async with application(store, gate, model) as app:
        runs = app.get(AgentRuns)
        current = await runs.get(state.id)
        if current.status is AgentStatus.ACTIVE:
            await (await runs.resume(state.id)).result()
    said = [text for request in model.requests for text in texts(request)]
    rows = [row async for row in store.journal.read(RunKey("default", state.id))]
    assert [row.action_id for row in rows if "signals" in row.action_id] in (
        [],
        ["run/signals#1"],
        ["run/signals#2"],
    )
    if (await store.states.get(state.id)).status is AgentStatus.COMPLETED:
        assert "wait" in said
        assert await store.signals.list_pending(state.id) == []


async def test_a_run_in_the_middle_of_a_tool_is_cancelled_and_nothing_is_left(gate: Gate) -> None:
    store = MemoryStore()
    async with application(store, gate, script()) as app:
        runs = app.get(AgentRuns)
        run = await runs.start(Talker, "hi")
        await gate.reached.wait()
        assert await runs.cancel(run.id, reason="wrong branch")
        result = await run.result()
        assert result.status is AgentStatus.CANCELLED
        assert (gate.passed, gate.left) == (0, 1)
        rows = [row async for row in store.journal.read(RunKey("default", run.id))]
        assert [row.stage.value for row in rows[-2:]] == ["after", "told"]
        assert rows[-2].record == {"error": UNKNOWN_OUTCOME}
        assert result.state.metadata["cancellation_reason"] == "wrong branch"
        assert [event.kind.value async for event in run.events()][-1] == "run_finished"
        assert not await runs.cancel(run.id)
        await runs.verify(run.id)


@pytest.mark.parametrize("number", range(1, 5))
@pytest.mark.parametrize("fault", [StopBefore, StopAfter])
async def test_a_crash_while_cancelling_ends_in_cancelled_all_the_same(
    fault: type[Fault], number: int, gate: Gate
) -> None:
    store = MemoryStore()
    async with application(store, gate, script()) as app:
        run = await app.get(AgentRuns).start(Wiper)
        assert (await run.result()).status is AgentStatus.INTERRUPTED
    async with application(store, gate, script(), fault(number)) as app:
        with contextlib.suppress(ProcessStopped):
            await app.get(AgentRuns).cancel(run.id)
    async with application(store, gate, script()) as app:
        runs = app.get(AgentRuns)
        state = await runs.get(run.id)
        if state.status is AgentStatus.CANCELLING:
            state = (await (await runs.resume(run.id)).result()).state
        elif not state.is_terminal:
            assert await runs.cancel(run.id)
            state = await runs.get(run.id)
        assert state.status is AgentStatus.CANCELLED
        await runs.verify(run.id)


@pytest.mark.parametrize("kind", [AgentSignalKind.USER_MESSAGE, AgentSignalKind.STEERING_INSTRUCTION])
@pytest.mark.parametrize(
    "payload", [None, {}, {"text": " "}, {"message": ""}, {"text": 7}, {"words": "stop"}]
)
async def test_a_message_without_words_is_refused_when_it_is_sent(
    gate: Gate, kind: AgentSignalKind, payload: dict[str, object] | None
) -> None:
    store = MemoryStore()
    async with application(store, gate, script()) as app:
        runs = app.get(AgentRuns)
        run = await runs.start(Wiper)
        await run.result()
        with pytest.raises(
            CallerError, match=f"a '{kind.value}' signal has no text. Give its payload a 'text'"
        ):
            await runs.signal(run.id, kind, payload)  # type: ignore[arg-type]
        assert await store.signals.list_pending(run.id) == []
        await runs.signal(run.id, kind, {"message": "only the tests"})


async def test_what_a_run_does_not_take_is_refused_and_the_run_is_unharmed(gate: Gate) -> None:
    store = MemoryStore()
    async with application(store, gate, script()) as app:
        runs = app.get(AgentRuns)
        run = await runs.start(Wiper)
        await run.result()
        with pytest.raises(CallerError) as caught:
            await runs.signal(run.id, AgentSignalKind.SCHEDULER_WAKE_UP)
        assert str(caught.value) == (
            "agent 'Wiper' does not accept 'scheduler_wake_up' signals. "
            "It accepts: user_message, steering_instruction."
        )
        with pytest.raises(RunNotFoundError):
            await runs.signal("nowhere", AgentSignalKind.CANCEL)
        with pytest.raises(RunNotFoundError):
            await runs.cancel(run.id, principal=Principal("eve", tenant="other"))
        (request,) = await runs.questions(run.id)
        await runs.approve(request.id, comment="fine")
        assert (await (await runs.resume(run.id)).result()).output == "wiped"
        with pytest.raises(CallerError):
            await runs.signal(run.id, AgentSignalKind.USER_MESSAGE, {"text": "too late"})
        with pytest.raises(CallerError):
            await runs.reject(request.id)

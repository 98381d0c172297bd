"""What a child tells, its parent tells too: live, under the parent's own rules, and once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping

import pytest
from tests.behaviour.newsroom import DURABLE, Gate, Newsroom, follow, let_run, texts
from tests.behaviour.office import Desk

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentStatus,
    AgentYield,
    Final,
    IAgentModel,
    ModelMessage,
    ModelRequest,
    Token,
)
from pilotage.agent import (
    AgentEvent,
    MessageDeltaEvent,
    ModelToolCall,
    RunFinishedEvent,
    RunPausedEvent,
    RunStartedEvent,
    StepFinishedEvent,
    StreamingExposureMode,
)
from pilotage.agent.ports.architecture import AgentRef, AgentSession, Dependencies
from pilotage.runtime.events.feed import Transcript
from pilotage.safety import StreamingRedactionPolicy, StreamingSensitivePattern
from pilotage.testing import Fault, ScriptedModel, StopAfter, StopBefore, says

POLICY = StreamingRedactionPolicy([StreamingSensitivePattern("badge", r"BADGE-\d+", "[BADGE]")])
SAID = "My badge is BADGE-123456 and the gate was open."
HIDDEN = "My badge is [BADGE] and the gate was open."


@Agent(spec=AgentExecutionSpec(name="kid", recovery=DURABLE))
class Kid:
    """Talks freely, notes something down, waits at a gate and talks again."""

    def __init__(self, model: IAgentModel, desk: Desk, gate: Gate) -> None:
        self.model, self.desk, self.gate = model, desk, gate

    async def execute(self, order: str) -> AsyncGenerator[AgentYield[str], None]:
        async for event in self.model.stream(ModelRequest([ModelMessage.user("kid")])):
            if event.is_text_delta:
                yield Token(event.text)
        await self.desk.note("kid")
        await self.gate.pass_through()
        yield Token(" Bye.")
        yield Final("grown up")


class Family:
    """A loop that has a child, then asks for a refund that somebody has to allow."""

    name = "family"
    version = 1

    async def run(
        self, session: AgentSession, deps: Dependencies, prompt: str
    ) -> AsyncGenerator[AgentEvent, None]:
        session.output = await deps.runtime.spawn_child("kid", Kid, {"order": "go"})
        yield deps.progress("the child is grown up")
        if prompt == "and refund":
            await deps.tools.call(ModelToolCall("refund", {"amount": "1"}, "c"))

    def declared_workers(self) -> Mapping[str, AgentRef]:
        """The child."""
        return {"kid": Kid}


class Parent:
    """Has a child."""

    def __init__(self, model: IAgentModel, desk: Desk) -> None:
        self.model, self.desk = model, desk


def parent(
    name: str,
    redaction: StreamingRedactionPolicy | None = None,
    mode: StreamingExposureMode = StreamingExposureMode.LOW_LATENCY,
) -> type[object]:
    """A parent with rules of its own."""
    spec = AgentExecutionSpec(
        name=name,
        instructions="Care.",
        recovery=DURABLE,
        architecture=Family(),
        redaction=redaction,
        streaming_exposure_mode=mode,
    )
    return Agent(spec=spec)(type(name.title(), (Parent,), {}))


Free = parent("free")
Careful = parent("careful", POLICY)
Silent = parent("silent", mode=StreamingExposureMode.NO_STREAM_UNTIL_FINAL_GUARDED)


def model() -> ScriptedModel:
    return ScriptedModel([says(SAID)])


def by_kid(events: list[AgentEvent]) -> list[AgentEvent]:
    return [event for event in events if event.attribution.agent_id == "kid"]


async def test_a_parent_tells_what_its_child_tells_while_it_does() -> None:
    room, gate, client = Newsroom(), Gate(), Transcript()
    async with room.process(model(), Free, Kid, gate) as runs:
        run = await runs.start(Free, "go")
        reading = asyncio.create_task(follow(run.events(), client))
        await gate.reached.wait()
        await let_run()
        assert list(texts(by_kid(client.events)).values()) == [SAID]
        gate.open.set()
        assert (await run.result()).output == "grown up"
        await reading
        assert client.events == await room.logged(run.id)
        kid = by_kid(client.events)
        assert {event.attribution.parent_run_id for event in kid} == {run.id}
        assert (type(kid[0]), type(kid[-1])) == (RunStartedEvent, RunFinishedEvent)
        own = await follow(runs.events(kid[0].attribution.run_id))
        assert own.events == kid
    assert isinstance(client.events[-2], StepFinishedEvent)


async def test_the_rules_of_a_parent_hold_for_what_its_child_says() -> None:
    room, gate = Newsroom(), Gate()
    gate.open.set()
    async with room.process(model(), Careful, Kid, gate) as runs:
        run = await runs.start(Careful, "go")
        client = await follow(run.events())
    assert "BADGE-1" not in repr(client.events)
    assert "My badge is [BADGE] and" in " ".join(texts(client.events).values())


async def test_a_parent_that_holds_everything_back_holds_its_child_back() -> None:
    room, gate, client = Newsroom(), Gate(), Transcript()
    async with room.process(model(), Silent, Kid, gate) as runs:
        run = await runs.start(Silent, "go")
        reading = asyncio.create_task(follow(run.events(), client))
        await gate.reached.wait()
        await let_run()
        assert [type(event) for event in client.events] == [RunStartedEvent]
        gate.open.set()
        await run.result()
        await reading
    assert SAID in " ".join(texts(client.events).values())


async def test_what_a_child_said_stands_when_its_parent_comes_back() -> None:
    room, gate = Newsroom(), Gate()
    gate.open.set()
    async with room.process(model(), Free, Kid, gate) as runs:
        run = await runs.start(Free, "and refund")
        client = await follow(run.events())
        assert isinstance(client.events[-1], RunPausedEvent)
        (question,) = await runs.questions(run.id)
        await runs.approve(question.id)
        await (await runs.resume(run.id)).result()
        await follow(runs.events(run.id, after=client.cursor), client)
        assert (await runs.get(run.id)).status is AgentStatus.COMPLETED
    assert client.events == await room.logged(run.id)
    assert [event.delta for event in client.events if isinstance(event, MessageDeltaEvent)] == [
        f"{SAID} Bye."
    ]


@pytest.mark.parametrize(("agent", "shown"), [(Free, SAID), (Careful, HIDDEN)])
@pytest.mark.parametrize("fault", [StopBefore, StopAfter])
async def test_whatever_dies_in_between_what_a_child_said_is_told_once(
    fault: type[Fault], agent: type[object], shown: str
) -> None:
    for number in range(2, 9):
        room, gate, client, script = Newsroom(), Gate(), Transcript(), model()
        gate.open.set()
        async with room.process(script, agent, Kid, gate, fault=fault(number)) as runs:
            run = await runs.start(agent, "go")
            await follow(run.events(), client)
            await asyncio.wait([asyncio.ensure_future(run.result())])
        if not (await room.store.states.get(run.id)).is_terminal:
            async with room.process(script.restarted(), agent, Kid, gate) as runs:
                await (await runs.resume(run.id)).result()
        async with room.process(model(), agent, Kid, gate) as runs:
            await follow(runs.events(run.id, after=client.cursor), client)
        assert client.events == await room.logged(run.id)
        assert "".join(texts(by_kid(client.events)).values()) == f"{shown} Bye.", number

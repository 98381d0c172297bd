"""The log of a run does not repeat its rows, and is what readers got: for every capture, policy and crash."""

from __future__ import annotations

import pytest
from tests.behaviour.newsroom import DURABLE, Newsroom, follow
from tests.behaviour.office import UNGATED

from pilotage import Agent, AgentExecutionSpec, AgentStatus, IAgentModel, Idempotency, ToolEffects, agent_tool
from pilotage.agent.ports.persistence import JournalRow, JournalStage, RunKey
from pilotage.agent.tools.metadata import EvidenceCapture
from pilotage.errors import ToolError
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.events.feed import Transcript
from pilotage.safety import StreamingRedactionPolicy, StreamingSensitivePattern
from pilotage.testing import Fault, ScriptedModel, StopAfter, StopBefore, calls, says, turn

POLICY = StreamingRedactionPolicy([StreamingSensitivePattern("badge", r"BADGE-\d+", "[BADGE]")])
ANSWER = "The gate was open, and BADGE-4711 was there. " * 4
PAGE = "A long page about gates and BADGE-12. " * 8


class Archivist:
    """Calls a tool of each kind: that reads, fails, and some whose evidence is cut."""

    def __init__(self, model: IAgentModel) -> None:
        self.model = model

    @agent_tool(idempotency=Idempotency.IDEMPOTENT, approval=UNGATED)
    async def page(self, name: str) -> str:
        """Return a page."""
        return f"{name}: {PAGE}"

    @agent_tool(effects=ToolEffects.read_only())
    async def look(self, name: str) -> JsonObject:
        """Return something that is no text."""
        return {"name": name, "open": True, "rooms": [1, 2.5, None]}

    @agent_tool(effects=ToolEffects.read_only())
    async def fail(self) -> str:
        """Fail for certain."""
        raise ToolError("the cabinet is locked")

    @agent_tool(effects=ToolEffects.read_only(), evidence=EvidenceCapture.NONE)
    async def of_none(self) -> dict[str, str]:
        """Return what no evidence has."""
        return {"inside": PAGE}

    @agent_tool(effects=ToolEffects.read_only(), evidence=EvidenceCapture.SUMMARY)
    async def of_summary(self) -> dict[str, str]:
        """Return what the evidence has in short."""
        return {"inside": PAGE}

    @agent_tool(effects=ToolEffects.read_only(), evidence=EvidenceCapture.RAW)
    async def of_raw(self) -> dict[str, str]:
        """Return what the evidence has as it is."""
        return {"inside": PAGE}


def archivist(policy: StreamingRedactionPolicy | None) -> type[object]:
    spec = AgentExecutionSpec(name="archivist", instructions="Look.", recovery=DURABLE, redaction=policy)
    return Agent(spec=spec)(type("SomeArchivist", (Archivist,), {}))


def script() -> ScriptedModel:
    tools = ("of_none", "of_summary", "of_raw")
    return ScriptedModel(
        [
            turn(says("I look at BADGE-7."), calls("page", name="one")),
            turn(calls("look", name="two"), calls("look", name="two"), calls("fail")),
            turn(*(calls(name) for name in tools)),
            says(ANSWER),
        ]
    )


async def rows_of(room: Newsroom, run_id: str) -> list[JournalRow]:
    return [row async for row in room.store.journal.read(RunKey("default", run_id))]


async def followed(room: Newsroom, agent: type[object], fault: Fault | None) -> tuple[Transcript, str]:
    """A run to its end, over a crash where there is one, and what a reader got who stayed with it."""
    async with room.process(script(), agent, fault=fault) as runs:
        run = await runs.start(agent, "go")
        transcript = await follow(run.events())
    async with room.process(script(), agent) as runs:
        if fault is not None and not (await runs.get(run.id)).is_terminal:
            await (await runs.resume(run.id)).result()
        await follow(runs.events(run.id, after=transcript.cursor), transcript)
        assert (await runs.get(run.id)).status is AgentStatus.COMPLETED
        await runs.verify(run.id)
    return transcript, run.id


POLICIES = pytest.mark.parametrize("policy", [None, POLICY], ids=["open", "redacted"])


@POLICIES
async def test_the_log_is_what_readers_got_and_no_record(policy: StreamingRedactionPolicy | None) -> None:
    room, agent = Newsroom(), archivist(policy)
    transcript, run_id = await followed(room, agent, None)
    assert await room.logged(run_id) == transcript.events
    rows = await rows_of(room, run_id)
    log = "".join(row.events + str(row.view if row.stage is JournalStage.TOLD else "") for row in rows)
    assert "locked" not in log
    assert "one: " not in log
    # Only the results that the evidence does not have are stored, and the answer once, with the end of the run.
    assert log.count("inside") == 2
    assert log.count("The gate was open") == 4
    assert policy is None or "BADGE-" not in log


@POLICIES
async def test_a_reader_goes_on_from_every_cursor(policy: StreamingRedactionPolicy | None) -> None:
    room, agent = Newsroom(), archivist(policy)
    transcript, run_id = await followed(room, agent, None)
    async with room.process(script(), agent) as runs:
        subscription = runs.events(run_id)
        cursors = [subscription.cursor async for _ in subscription]
        for cursor in cursors:
            start = Transcript()
            async for event in (first := runs.events(run_id)):
                start.add(event, first.cursor)
                if first.cursor == cursor:
                    break
            again = await follow(runs.events(run_id, after=cursor), start)
            assert again.events == transcript.events


@POLICIES
@pytest.mark.parametrize("stop", [StopBefore, StopAfter])
@pytest.mark.parametrize("number", range(2, 8))
async def test_the_log_is_what_readers_got_over_a_crash_at_every_commit(
    stop: type[StopBefore | StopAfter], number: int, policy: StreamingRedactionPolicy | None
) -> None:
    room, agent = Newsroom(), archivist(policy)
    transcript, run_id = await followed(room, agent, stop(number))
    assert await room.logged(run_id) == transcript.events
    whole = Newsroom()
    expected, _ = await followed(whole, agent, None)
    kinds = [event.kind for event in expected.events if event.kind.value != "run_started"]
    assert [event.kind for event in transcript.events if event.kind.value != "run_started"] == kinds

"""A loop of one's own is durable like every other: nothing in it says so."""

from __future__ import annotations

from pilotage import AgentStatus, Application
from pilotage.agent import StepFinishedEvent
from pilotage.runtime import AgentRuns
from pilotage.runtime.plugin import initialize
from pilotage.testing import MemoryStore, ScriptedModel, crash_matrix, says
from tests.programs.program_07_loop import Verdict, Writer


async def test_the_best_of_three_drafts_is_the_answer() -> None:
    model = ScriptedModel([says(output=Verdict(2))])
    app = Application("desk").add(Writer, model, *MemoryStore().ports)
    initialize(app)
    async with app:
        run = await app.get(AgentRuns).start(Writer, "hello")
        events = [event async for event in run.events()]
        result = await run.result()
    assert (result.status, result.output) == (AgentStatus.COMPLETED, "short: hello")
    (judged,) = [event for event in events if isinstance(event, StepFinishedEvent)]
    assert (judged.step_name, judged.metadata) == ("best_of_three.judged", {"best": 2})
    (request,) = model.requests
    assert "['plain: hello', 'bold: hello', 'short: hello']" in request.messages[-1].text


async def test_a_verdict_of_the_wrong_type_is_repaired_once() -> None:
    model = ScriptedModel([says("the bold one"), says(output=Verdict(1))])
    app = Application("desk").add(Writer, model, *MemoryStore().ports)
    initialize(app)
    async with app:
        result = await (await app.get(AgentRuns).start(Writer, "hello")).result()
    assert result.output == "bold: hello"


async def test_no_crash_changes_the_answer() -> None:
    report = await crash_matrix(Writer, "hello", model=ScriptedModel([says(output=Verdict(2))]))
    assert report.points > 50
    report.assert_same_result()
    report.assert_no_repeated_effects()

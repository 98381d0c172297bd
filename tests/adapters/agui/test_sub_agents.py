"""Children as sub-agents: a client sees who says what, and decides about what a child asks."""

from __future__ import annotations

from ag_ui.core import RunAgentInput
from tests.adapters.agui.bank import ask, interrupts_of, refusal
from tests.adapters.agui.samples import ag_ui_input, types
from tests.behaviour.family import Family, member

from pilotage.adapters.agui import AgUiConfig
from pilotage.agent.ports.architecture import Dependencies


def generations(family: Family) -> tuple[type[object], type[object]]:
    async def parent(deps: Dependencies, prompt: str) -> object:
        return await deps.runtime.spawn_child("kid", "child", {})

    async def child(deps: Dependencies, prompt: str) -> object:
        return await family.hands.ask("ice cream")

    return member("parent", parent), member("child", child)


def decide(request_id: str, decision: str) -> RunAgentInput:
    entry = {"interruptId": request_id, "status": "resolved", "payload": {"decision": decision}}
    return ag_ui_input(None, runId="client-2", resume=[entry])


async def test_what_a_child_asks_is_decided_and_the_run_at_the_top_goes_on() -> None:
    family = Family()
    async with family.process(*(agents := generations(family))) as runs:
        config = AgUiConfig(approval_calls=True)
        asked = await ask(runs.services.app, ag_ui_input("go"), agents[0], config=config)
        (interrupt,) = interrupts_of(asked)
        child = await family.state_of("child")
    assert interrupt["subagentRunId"] == child.id
    assert [(f["name"], f["subagentRunId"]) for f in asked if f["type"] == "SUBAGENT_STARTED"] == [
        ("child", child.id)
    ]
    assert [f["outcome"] for f in asked if f["type"] == "SUBAGENT_FINISHED"] == [{"type": "suspended"}]
    # Whoever does not know interrupts does not know sub-agents either: the deferred call is the run's own.
    assert [f.get("subagentRunId") for f in asked if f.get("toolCallName") == "hitl_approval"] == [None]
    async with family.process(*(agents := generations(family))) as runs:
        frames = await ask(runs.services.app, decide(interrupt["id"], "approve"), agents[0])
    assert family.world.done == {"ice cream": 1}
    assert (frames[-1]["outcome"], frames[-1]["result"]) == ({"type": "success"}, "ice cream")
    assert types(frames).count("SUBAGENT_STARTED") == types(frames).count("SUBAGENT_FINISHED") == 1


async def test_the_question_of_a_child_cannot_be_decided_at_the_childs_own_agent() -> None:
    family = Family()
    async with family.process(*(agents := generations(family))) as runs:
        (interrupt,) = interrupts_of(await ask(runs.services.app, ag_ui_input("go"), agents[0]))
        refused = refusal(await ask(runs.services.app, decide(interrupt["id"], "approve"), agents[1]))
    assert (refused["name"], dict(family.world.done)) == ("run_conflict", {})

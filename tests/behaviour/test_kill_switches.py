"""Kill switches: what is off is not done, by nobody; the run waits where it stands, and goes on when it is on again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

import pytest
from tests.behaviour.bureau import (
    CANCELLED,
    COMPLETED,
    DURABLE,
    FAILED,
    Bureau,
    asked,
    hired,
    resumed,
    started,
    triple,
)
from tests.behaviour.family import Family, member, start
from tests.behaviour.office import Desk, Worker

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentStatus,
    Error,
    IAgentModel,
    ModelMessage,
    ModelRequest,
    Principal,
    RunAgentInput,
    RunResult,
)
from pilotage.agent import ContextTokenBudget, IAgentSwitches, RunPausedEvent, Switch, SwitchedOff
from pilotage.agent.ports.architecture import Dependencies
from pilotage.context.compaction import SummariseOldTurns
from pilotage.runtime.runner import AgentRunner
from pilotage.testing import Fault, ScriptedModel, StopAfter, StopBefore, calls, says

INTERRUPTED = (AgentStatus.INTERRUPTED, "interrupted", "user_interrupted")
PAY = Switch.tool("pay")


async def pays(worker: Worker) -> object:
    """Note, ask, pay."""
    noted = await worker.desk.note("before")
    said = await asked(worker)
    receipt = await worker.desk.pay(Decimal(5))
    return [noted, said.content, receipt.number]


def script() -> ScriptedModel:
    return ScriptedModel([says("Fine.")])


async def paused_by(bureau: Bureau, agent: type[Worker], switch: Switch) -> RunResult:
    """A run that starts while something is off."""
    await bureau.store.switches.turn_off(switch, reason="an audit", by="ada")
    async with bureau.process(agent, pays, bureau.store.switches, model=script()) as runs:
        return await started(runs, agent)


@pytest.mark.parametrize("switch", [Switch.agent("worker"), Switch.tenant("default")], ids=str)
async def test_nothing_is_done_by_an_agent_or_for_a_tenant_that_is_off(switch: Switch) -> None:
    bureau, agent = Bureau(), hired()
    paused = await paused_by(bureau, agent, switch)
    assert (triple(paused.state), bureau.world.done) == (INTERRUPTED, [])
    assert paused.state.current_activity == f"{switch} is switched off: an audit"


async def test_a_tool_that_is_off_is_not_called_and_all_before_it_is() -> None:
    bureau, agent = Bureau(), hired()
    paused = await paused_by(bureau, agent, PAY)
    assert (triple(paused.state), bureau.world.done) == (INTERRUPTED, ["note before"])
    assert paused.state.current_activity == "tool 'pay' is switched off: an audit"


@pytest.mark.parametrize("switch", [Switch.agent("worker"), Switch.tenant("default"), PAY], ids=str)
async def test_switching_on_again_lets_the_run_go_on_where_it_stands(switch: Switch) -> None:
    bureau, agent = Bureau(), hired()
    paused = await paused_by(bureau, agent, switch)
    async with bureau.process(agent, pays, bureau.store.switches, model=script()) as runs:
        still = await resumed(runs, paused.state.id)
        assert replace(still.state, created_at=None, updated_at=None) == paused.state
        assert await bureau.store.switches.turn_on(switch)
        result = await resumed(runs, paused.state.id)
        await runs.verify(paused.state.id)
    assert (triple(result.state), bureau.world.done) == (COMPLETED, ["note before", "pay 5"])


@pytest.mark.parametrize(
    "switch",
    [Switch.agent("other"), Switch.tenant("other"), Switch.tool("refund"), Switch.agent("pay")],
    ids=str,
)
async def test_what_is_off_elsewhere_concerns_nobody_here(switch: Switch) -> None:
    bureau, agent = Bureau(), hired()
    assert triple((await paused_by(bureau, agent, switch)).state) == COMPLETED


async def test_a_pause_says_for_programs_what_is_off() -> None:
    bureau, agent = Bureau(), hired()
    await bureau.store.switches.turn_off(PAY, reason="an audit", by="ada")
    async with bureau.process(agent, pays, bureau.store.switches, model=script()) as runs:
        run = await runs.start(agent, "A-17")
        (paused,) = [event async for event in run.events() if isinstance(event, RunPausedEvent)]
    off = paused.metadata["switched_off"]
    assert isinstance(off, dict)
    assert (off["kind"], off["name"], off["reason"], off["by"]) == ("tool", "pay", "an audit", "ada")


async def test_a_switch_is_seen_between_two_actions_of_a_run_that_goes_on() -> None:
    bureau, agent = Bureau(), hired()
    switches = bureau.store.switches

    async def program(worker: Worker) -> object:
        await worker.desk.note("one")
        await switches.turn_off(Switch.agent("worker"), reason="enough")
        return await worker.desk.note("two")

    async with bureau.process(agent, program, switches) as runs:
        paused = await started(runs, agent)
    assert (triple(paused.state), bureau.world.done) == (INTERRUPTED, ["note one"])


async def test_a_model_is_not_asked_and_an_answer_is_not_given() -> None:
    bureau, agent = Bureau(), hired()
    switches, off = bureau.store.switches, Switch.tenant("default")

    async def asks(worker: Worker) -> object:
        await switches.turn_off(off, reason="enough")
        return (await asked(worker)).content

    async def answers(worker: Worker) -> object:
        await switches.turn_off(off, reason="enough")
        return "the answer"

    for program, requests in ((asks, 0), (answers, 0)):
        model = script()
        async with bureau.process(agent, program, switches, model=model) as runs:
            paused = await started(runs, agent)
            assert (triple(paused.state), len(model.requests)) == (INTERRUPTED, requests)
            assert (await runs.result(paused.state.id)).output is None
        await switches.turn_on(off)


async def test_the_program_of_an_agent_that_is_off_is_not_even_entered() -> None:
    bureau, agent, entered = Bureau(), hired(), list[str]()

    async def program(worker: Worker) -> object:
        entered.append("in")
        return "out"

    await bureau.store.switches.turn_off(Switch.agent("worker"), reason="enough")
    async with bureau.process(agent, program, bureau.store.switches) as runs:
        paused = await started(runs, agent)
    assert (triple(paused.state), entered) == (INTERRUPTED, [])


async def test_a_model_is_not_asked_for_a_summary_either() -> None:
    budget = ContextTokenBudget(max_tokens=60)
    agent = hired(context_budget=budget, compaction=[SummariseOldTurns(keep_recent=1, max_summary_chars=50)])
    bureau, model = Bureau(), ScriptedModel([says("A summary."), says("Fine.")])

    async def program(worker: Worker) -> object:
        await bureau.store.switches.turn_off(Switch.agent("worker"), reason="enough")
        turns = [
            turn for n in range(9) for turn in (ModelMessage.user("why " * 9), ModelMessage.assistant(f"{n}"))
        ]
        return (await worker.model.complete(ModelRequest([*turns, ModelMessage.user("Well?")]))).content

    async with bureau.process(agent, program, bureau.store.switches, model=model) as runs:
        paused = await started(runs, agent)
        assert (triple(paused.state), model.requests) == (INTERRUPTED, [])


async def test_what_was_begun_before_a_crash_is_not_repeated_while_it_is_off() -> None:
    bureau, agent = Bureau(), hired()
    switches = bureau.store.switches

    async def notes(worker: Worker) -> object:
        return await worker.desk.note("it")

    run_id = await bureau.dead_process(agent, notes, switches, fault=StopBefore(3))
    assert bureau.world.done == ["note it"]
    await switches.turn_off(Switch.tool("note"), reason="enough")
    bureau.clock.advance(60)
    async with bureau.process(agent, notes, switches) as runs:
        assert triple((await resumed(runs, run_id)).state) == INTERRUPTED
        assert bureau.world.done == ["note it"]
        await switches.turn_on(Switch.tool("note"))
        assert triple((await resumed(runs, run_id)).state) == COMPLETED
    keys = {key for _, key, _ in bureau.world.knocks}
    assert (len(bureau.world.knocks), len(keys)) == (2, 1)


async def test_an_approval_that_was_given_before_is_still_there_when_it_is_on_again() -> None:
    bureau, agent = Bureau(), hired()
    switches = bureau.store.switches

    async def refunds(worker: Worker) -> object:
        return (await worker.desk.refund(Decimal(5))).number

    async with bureau.process(agent, refunds, switches) as runs:
        waiting = await started(runs, agent)
        (question,) = await runs.questions(waiting.state.id)
        await runs.approve(question.id)
        await switches.turn_off(Switch.tool("refund"), reason="enough")
        assert triple((await resumed(runs, waiting.state.id)).state) == INTERRUPTED
        await switches.turn_on(Switch.tool("refund"))
        result = await resumed(runs, waiting.state.id)
    assert (triple(result.state), bureau.world.done) == (COMPLETED, ["refund 5"])


async def test_a_run_that_waits_for_a_switch_can_be_cancelled() -> None:
    bureau, agent = Bureau(), hired()
    paused = await paused_by(bureau, agent, Switch.agent("worker"))
    async with bureau.process(agent, pays, bureau.store.switches) as runs:
        assert await runs.cancel(paused.state.id)
        assert triple(await runs.get(paused.state.id)) == CANCELLED


async def test_a_tenant_that_is_off_does_not_stop_the_others() -> None:
    bureau, agent = Bureau(), hired()
    await bureau.store.switches.turn_off(Switch.tenant("acme"), reason="unpaid")
    async with bureau.process(
        agent, pays, bureau.store.switches, model=ScriptedModel([says("Fine.")])
    ) as runs:
        ended = {
            tenant: triple(
                (
                    await (await runs.start(agent, "x", principal=Principal("ada", tenant=tenant))).result()
                ).state
            )
            for tenant in ("acme", "other")
        }
    assert ended == {"acme": INTERRUPTED, "other": COMPLETED}


async def test_a_child_that_is_off_makes_its_parent_wait() -> None:
    family = Family()
    switches = family.store.switches

    async def delegates(deps: Dependencies, prompt: str) -> object:
        return await deps.runtime.spawn_child("kid", "child", {})

    async def works(deps: Dependencies, prompt: str) -> object:
        return await family.hands.write("w")

    agents = member("parent", delegates), member("child", works)
    await switches.turn_off(Switch.agent("child"), reason="enough")
    async with family.process(*agents, add=[switches]) as runs:
        waiting = await start(runs, agents[0])
        assert triple(waiting.state) == INTERRUPTED
        assert waiting.state.current_activity == "its child 'child': agent 'child' is switched off: enough"
        await switches.turn_on(Switch.agent("child"))
        assert (await resumed(runs, waiting.state.id)).output == "w"
    assert family.world.done == {"w": 1}


async def test_a_declarative_agent_waits_before_the_tool_and_goes_on_with_the_same_call() -> None:
    bureau = Bureau()
    model = ScriptedModel([calls("pay", amount="5"), says("Paid.")])
    await bureau.store.switches.turn_off(PAY, reason="enough")
    async with bureau.process(Teller, None, bureau.store.switches, model=model) as runs:
        paused = await started(runs, Teller, "pay")
        assert (triple(paused.state), bureau.world.done) == (INTERRUPTED, [])
        await bureau.store.switches.turn_on(PAY)
        assert (await resumed(runs, paused.state.id)).output == "Paid."
    assert bureau.world.done == ["pay 5"]


@Agent(spec=AgentExecutionSpec(name="teller", recovery=DURABLE))
class Teller:
    """Pay."""

    def __init__(self, desk: Desk, model: IAgentModel) -> None:
        self.desk, self.model = desk, model


@Agent(spec=AgentExecutionSpec(name="passer-by"))
class PasserBy(Worker):
    """Nobody keeps its runs."""


async def test_a_run_that_nobody_keeps_ends_because_it_cannot_wait() -> None:
    bureau = Bureau()
    await bureau.store.switches.turn_off(PAY, reason="an audit")
    async with bureau.process(PasserBy, pays, bureau.store.switches, model=script()) as runs:
        agent = runs.services.app.get(PasserBy)
        runner = AgentRunner.for_agent_instance(agent)
        items = [item async for item in runner.run(RunAgentInput("mine", "A-17"))]
    end = items[-1].payload
    assert isinstance(end, Error)
    assert (end.code, end.message, end.retryable) == (
        "switched_off",
        "tool 'pay' is switched off: an audit",
        True,
    )
    assert bureau.world.done == ["note before"]


class Broken(IAgentSwitches):
    """Switches that cannot be read, or that take for ever."""

    def __init__(self) -> None:
        self.is_broken = True

    async def turn_off(self, switch: Switch, *, reason: str, by: str | None = None) -> SwitchedOff:
        raise NotImplementedError

    async def turn_on(self, switch: Switch) -> bool:
        raise NotImplementedError

    async def first_off(self, switches: Sequence[Switch]) -> SwitchedOff | None:
        if self.is_broken:
            raise ConnectionError("no store")
        return None

    async def list_off(self) -> Sequence[SwitchedOff]:
        return []


async def test_switches_that_cannot_be_read_are_off() -> None:
    bureau, agent, broken = Bureau(), hired(), Broken()
    async with bureau.process(agent, pays, broken, model=script()) as runs:
        paused = await started(runs, agent)
        assert (triple(paused.state), bureau.world.done) == (INTERRUPTED, [])
        assert paused.state.current_activity == "the kill switches cannot be read (ConnectionError)"
        broken.is_broken = False
        assert triple((await resumed(runs, paused.state.id)).state) == COMPLETED


@pytest.mark.parametrize("fault", [StopBefore, StopAfter])
@pytest.mark.parametrize("number", range(1, 6))
async def test_a_crash_while_something_is_off_changes_nothing(fault: type[Fault], number: int) -> None:
    bureau, agent = Bureau(), hired()
    await bureau.store.switches.turn_off(PAY, reason="an audit")
    model = script()
    async with bureau.process(agent, pays, bureau.store.switches, model=model, fault=fault(number)) as runs:
        await asyncio.gather(started(runs, agent), return_exceptions=True)
    bureau.clock.advance(60)
    async with bureau.process(agent, pays, bureau.store.switches, model=model.restarted()) as runs:
        known = (await runs.list()).runs
        paused = await (resumed(runs, known[0].id) if known else started(runs, agent))
        assert triple(paused.state) == INTERRUPTED
        assert "pay 5" not in bureau.world.done
        await bureau.store.switches.turn_on(PAY)
        result = await resumed(runs, paused.state.id)
        await runs.verify(paused.state.id)
    assert triple(result.state) == COMPLETED
    assert bureau.world.done.count("pay 5") == 1


async def test_failed_runs_are_not_kept_alive_by_a_switch() -> None:
    bureau, agent = Bureau(), hired()

    async def breaks(worker: Worker) -> object:
        await bureau.store.switches.turn_off(Switch.agent("worker"), reason="enough")
        raise ValueError("broken")

    async with bureau.process(agent, breaks, bureau.store.switches) as runs:
        assert triple((await started(runs, agent)).state) == FAILED

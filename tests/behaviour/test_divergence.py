"""A changed program is stopped in words before it repeats or skips anything that was done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from decimal import Decimal

import pytest
from tests.behaviour.office import Office, Worker, answer, resume, start

from pilotage import AgentStatus, ApprovalDecision, ModelMessage, ModelRequest, RunPausedEvent
from pilotage.agent.state import AgentStateReason
from pilotage.errors import CallerError
from pilotage.jsonvalue import as_object
from pilotage.testing import ScriptedModel, says

Program = Callable[[Worker], Awaitable[object]]


async def recorded(worker: Worker) -> object:
    """What the first process did before it waited."""
    await worker.desk.look("price")
    await worker.desk.pay(Decimal(1))
    await worker.desk.note("paid")
    return (await worker.desk.refund(Decimal(1))).number


async def other_argument(worker: Worker) -> object:
    await worker.desk.look("price")
    await worker.desk.pay(Decimal(2))


async def other_argument_of_a_reading_tool(worker: Worker) -> object:
    await worker.desk.look("cost")


async def action_left_out(worker: Worker) -> object:
    await worker.desk.look("price")
    await worker.desk.note("paid")
    return "done"


async def everything_left_out(worker: Worker) -> object:
    return "done"


async def one_more_of_a_kind(worker: Worker) -> object:
    await worker.desk.look("price")
    await worker.desk.pay(Decimal(5))
    await worker.desk.pay(Decimal(1))


PAID = "the tool_call 'tool:pay' is recorded"
CHANGES: list[tuple[Program, str, str]] = [
    (
        other_argument,
        "run/tool:pay#1",
        f"{PAID} with other arguments than the program asks for now: {{'amount': '2'}}",
    ),
    (
        other_argument_of_a_reading_tool,
        "run/tool:look#1",
        "the tool_call 'tool:look' is recorded with other arguments than the program asks for now: {'what': 'cost'}",
    ),
    (action_left_out, "run/tool:note#1", f"{PAID}, and the program asks for the tool_call 'note'"),
    (
        everything_left_out,
        "run/tool:look#1",
        "the tool_call 'tool:look' is recorded, and the program left it out",
    ),
    (
        one_more_of_a_kind,
        "run/tool:pay#1",
        f"{PAID} with other arguments than the program asks for now: {{'amount': '5'}}",
    ),
]


@pytest.mark.parametrize(
    ("changed", "action", "difference"), CHANGES, ids=[each[0].__name__ for each in CHANGES]
)
async def test_a_changed_program_is_interrupted_with_the_difference(
    changed: Program, action: str, difference: str
) -> None:
    office = Office()
    async with office.process(recorded) as runs:
        paused = await start(runs)
    done = list(office.world.done)
    async with office.process(changed) as runs:
        handle = await runs.resume(paused.state.id)
        diverged = await handle.result()
        (told,) = [event async for event in handle.events() if isinstance(event, RunPausedEvent)]
    words = f"the program diverged from its record at {action}: {difference}"
    assert diverged.status is AgentStatus.INTERRUPTED
    assert diverged.state.reason is AgentStateReason.DIVERGED
    assert diverged.state.current_activity == told.prompt == words
    facts = as_object(diverged.state.metadata["divergence"])
    assert (facts["action"], facts["difference"]) == (action, difference)
    assert told.metadata["divergence"] == facts
    assert told.approval_id is None
    assert office.world.done == done


@pytest.mark.parametrize("changed", [each[0] for each in CHANGES])
async def test_the_program_that_wrote_the_record_takes_the_run_to_its_end(changed: Program) -> None:
    office = Office()
    async with office.process(recorded) as runs:
        paused = await start(runs)
    async with office.process(changed) as runs:
        await resume(runs, paused.state.id)
    async with office.process(recorded) as runs:
        waiting = await resume(runs, paused.state.id)
        assert waiting.state.reason is AgentStateReason.APPROVAL_REQUIRED
        result = await answer(runs, paused.state.id, ApprovalDecision.APPROVE)
        assert await runs.verify(paused.state.id) == len(await office.rows(paused.state.id))
    assert result.status is AgentStatus.COMPLETED
    assert office.world.done == ["look price", "pay 1", "note paid", "refund 1"]


async def test_both_sides_of_a_divergence_are_shown_with_the_line_that_asks() -> None:
    office = Office()
    async with office.process(recorded) as runs:
        paused = await start(runs)
    async with office.process(action_left_out) as runs:
        diverged = await resume(runs, paused.state.id)
    facts = as_object(diverged.state.metadata["divergence"])
    assert facts["recorded"] == {
        "action": "run/tool:pay#1",
        "kind": "tool_call",
        "label": "tool:pay",
        "number": 2,
        "arguments": {"amount": "1"},
        "row": 3,
        "is_open": False,
    }
    asked = dict(as_object(facts["asked"]))
    assert asked.pop("fingerprint")
    assert asked == {
        "action": "run/tool:note#1",
        "kind": "tool_call",
        "label": "tool:note",
        "number": 2,
        "arguments": {"what": "paid"},
    }
    line = action_left_out.__code__.co_firstlineno + 2
    assert facts["line"] == f"tests/behaviour/test_divergence.py:{line} in action_left_out"


async def test_what_a_program_left_out_has_one_side_only() -> None:
    office = Office()
    async with office.process(recorded) as runs:
        paused = await start(runs)
    async with office.process(everything_left_out) as runs:
        diverged = await resume(runs, paused.state.id)
    facts = as_object(diverged.state.metadata["divergence"])
    assert as_object(facts["recorded"])["action"] == "run/tool:look#1"
    assert (facts["asked"], "line" in facts) == (None, False)


async def test_no_question_stands_beside_a_divergence() -> None:
    office = Office()
    async with office.process(recorded) as runs:
        paused = await start(runs)
        (question,) = await runs.questions(paused.state.id)
    async with office.process(other_argument) as runs:
        await resume(runs, paused.state.id)
        assert await runs.questions(paused.state.id) == ()
        with pytest.raises(CallerError, match="waits for no answer"):
            await runs.approve(question.id)
    async with office.process(recorded) as runs:
        waiting = await resume(runs, paused.state.id)
        assert "divergence" not in waiting.state.metadata
        assert [each.id for each in await runs.questions(paused.state.id)] == [question.id]


async def test_an_ended_run_has_no_activity() -> None:
    office = Office()
    async with office.process(recorded) as runs:
        paused = await start(runs)
        assert paused.state.current_activity is not None
        result = await answer(runs, paused.state.id, ApprovalDecision.REJECT)
    assert (result.status, result.state.current_activity) == (AgentStatus.FAILED, None)


async def test_a_changed_program_may_do_more_behind_what_is_recorded() -> None:
    office = Office()

    async def more(worker: Worker) -> object:
        number = await recorded(worker)
        await worker.desk.note("more")
        return number

    async with office.process(recorded) as runs:
        paused = await start(runs)
    async with office.process(more) as runs:
        result = await answer(runs, paused.state.id, ApprovalDecision.APPROVE)
    assert result.status is AgentStatus.COMPLETED
    assert office.world.done[-1] == "note more"


async def test_a_changed_prompt_is_no_divergence() -> None:
    office = Office()
    prompt = "How much?"

    async def program(worker: Worker) -> object:
        reply = await worker.model.complete(ModelRequest([ModelMessage.user(prompt)]))
        await worker.desk.refund(Decimal(reply.content))
        return reply.content

    async with office.process(program, model=ScriptedModel([says("5")])) as runs:
        paused = await start(runs)
    prompt = "How much exactly?"
    async with office.process(program) as runs:
        result = await answer(runs, paused.state.id, ApprovalDecision.APPROVE)
    assert (result.status, result.output) == (AgentStatus.COMPLETED, "5")


async def test_a_divergence_cannot_be_swallowed_by_except_exception() -> None:
    office = Office()

    async def careless(worker: Worker) -> object:
        try:
            await worker.desk.look("cost")
        except Exception:  # noqa: BLE001 - what careless programs do
            return "swallowed"

    async with office.process(recorded) as runs:
        paused = await start(runs)
    async with office.process(careless) as runs:
        diverged = await resume(runs, paused.state.id)
    assert diverged.status is AgentStatus.INTERRUPTED


async def test_a_call_that_waits_for_approval_shows_its_arguments_on_both_sides() -> None:
    office = Office()

    async def other_refund(worker: Worker) -> object:
        await worker.desk.look("price")
        await worker.desk.pay(Decimal(1))
        await worker.desk.note("paid")
        return (await worker.desk.refund(Decimal(2))).number

    async with office.process(recorded) as runs:
        paused = await start(runs)
    async with office.process(other_refund) as runs:
        diverged = await resume(runs, paused.state.id)
    facts = as_object(diverged.state.metadata["divergence"])
    sides = [as_object(facts[name]) for name in ("recorded", "asked")]
    assert [each["action"] for each in sides] == ["run/tool:refund#1"] * 2
    assert [each["arguments"] for each in sides] == [{"amount": "1"}, {"amount": "2"}]

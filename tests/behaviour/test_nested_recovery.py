"""A crash inside of a tool that calls tools is one question, with an answer for each open action."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from tests.behaviour.nested import Desk, Shop

from pilotage import AgentStatus, RunContext
from pilotage.agent import (
    AgentRecoveryRequest,
    AgentResumeBoundary,
    IAgentRecoveryHandler,
    RecoveryAnswer,
    RecoveryDecision,
    RecoveryRetried,
)
from pilotage.errors import CallerError
from pilotage.jsonvalue import JsonValue
from pilotage.testing import ProcessStopped, StopAfter, StopBefore

RETRY, DONE = RecoveryDecision.RETRY, RecoveryDecision.DONE
FAIL, CANCEL = RecoveryDecision.FAIL, RecoveryDecision.CANCEL
BUY, ORDER = "run/tool:buy#1", "run/tool:buy#1/tool:order#1"
PAY = f"{ORDER}/tool:pay#1"


async def died_three_deep() -> Shop:
    shop = Shop()
    await shop.dies("pay tea")
    return shop


async def test_a_crash_three_deep_is_one_question_with_the_chain() -> None:
    shop = await died_three_deep()
    question = await shop.question()
    assert (question.action_id, question.attempt) == (BUY, 1)
    assert question.reason == (
        "It is not known whether attempt 1 of 'buy' took effect. Open inside of it: buy → order, buy → order → pay."
    )
    order, pay = question.inside
    assert (order.action_id, order.action_name, order.attempt) == (ORDER, "order", 1)
    assert (pay.action_id, pay.action_name, pay.arguments) == (PAY, "pay", {"view": {"what": "tea"}})
    assert question.to_decide == (order, pay)
    assert pay.allowed_decisions == tuple(RecoveryDecision)


async def test_a_retry_enters_the_tools_again_over_what_is_recorded_inside() -> None:
    shop = await died_three_deep()
    await shop.question()
    result = await shop.answered(
        RETRY, actions={ORDER: {"decision": "retry"}, PAY: {"decision": "done", "result": "paid by hand"}}
    )
    assert (result.status, result.output) == (AgentStatus.COMPLETED, "noted tea, paid by hand, wrote tea")
    assert shop.world.done == ["enter tea", "note tea", "enter tea", "letter tea"]
    assert len(await shop.asked()) == 1
    assert [attempt for what, _, attempt in shop.world.knocks if what == "enter tea"] == [1, 2]


async def test_an_inner_action_is_tried_again_as_a_new_attempt_with_the_same_key() -> None:
    shop = await died_three_deep()
    await shop.question()
    result = await shop.answered(RETRY, actions={ORDER: {"decision": "retry"}, PAY: {"decision": "retry"}})
    assert result.output == "noted tea, paid tea, wrote tea"
    first, second = [knock for knock in shop.world.knocks if knock[0] == "pay tea"]
    assert (first[1], first[2], second[2]) == (second[1], 1, 2)
    assert shop.world.done.count("pay tea") == 1


async def test_done_in_the_middle_leaves_nothing_to_decide_inside_of_it() -> None:
    shop = await died_three_deep()
    await shop.question()
    result = await shop.answered(RETRY, actions={ORDER: {"decision": "done", "result": "ordered"}})
    assert result.output == "ordered, wrote tea"
    assert "pay tea" not in shop.world.done
    async with shop.process() as runs:
        await runs.verify(shop.run_id)


async def test_done_for_the_outer_action_needs_no_other_answer() -> None:
    shop = await died_three_deep()
    await shop.question()
    result = await shop.answered(DONE, result="bought")
    assert (result.status, result.output) == (AgentStatus.COMPLETED, "bought")
    async with shop.process() as runs:
        await runs.verify(shop.run_id)
        assert await runs.questions(shop.run_id) == ()


@pytest.mark.parametrize(
    ("decision", "actions", "status"),
    [
        (FAIL, None, AgentStatus.FAILED),
        (CANCEL, None, AgentStatus.CANCELLED),
        (RETRY, {PAY: {"decision": "fail", "comment": "the bank says no"}}, AgentStatus.FAILED),
        (RETRY, {ORDER: {"decision": "retry"}, PAY: {"decision": "cancel"}}, AgentStatus.CANCELLED),
    ],
)
async def test_an_answer_that_ends_the_run_needs_no_others(
    decision: RecoveryDecision, actions: JsonValue, status: AgentStatus
) -> None:
    shop = await died_three_deep()
    await shop.question()
    details = {"actions": actions} if actions else {}
    result = await shop.answered(decision, **details)
    assert result.status is status
    assert shop.world.done == ["enter tea", "note tea"]
    if decision is RETRY and status is AgentStatus.FAILED:
        assert "the bank says no" in str(result.error)


RETRIED: JsonValue = {"decision": "retry"}


@pytest.mark.parametrize(
    ("decision", "details", "words"),
    [
        (RETRY, {}, f"says nothing about '{ORDER}', '{PAY}'. Add an answer to each: actions: "),
        (RETRY, {"actions": {ORDER: RETRIED}}, f"says nothing about '{PAY}'. Add"),
        (
            RETRY,
            {"actions": {ORDER: RETRIED, PAY: RETRIED, "run/x": RETRIED}},
            "answer to 'run/x', which needs none",
        ),
        (
            RETRY,
            {"actions": {ORDER: {"decision": "done", "result": "x"}, PAY: RETRIED}},
            "answered 'done'. Leave it out",
        ),
        (RETRY, {"actions": {ORDER: RETRIED, PAY: {"decision": "done"}}}, "decides 'done' without a result"),
        (
            RETRY,
            {"actions": {ORDER: RETRIED, PAY: {"decision": "done", "result": 5}}},
            "'pay' does not give such a",
        ),
        (RETRY, {"actions": {ORDER: RETRIED, PAY: {"decision": "maybe"}}}, "has the decision 'maybe'"),
        (RETRY, {"actions": {ORDER: RETRIED, PAY: "retry"}}, "Use {decision, result, comment}"),
        (RETRY, {"actions": [PAY]}, "has a actions of type list"),
        (
            DONE,
            {"result": "x", "actions": {PAY: RETRIED}},
            "'buy' is answered 'done': nothing inside of it is run",
        ),
    ],
)
async def test_an_answer_that_does_not_fit_is_refused_and_the_question_stays(
    decision: RecoveryDecision, details: dict[str, JsonValue], words: str
) -> None:
    shop = await died_three_deep()
    asked = await shop.question()
    async with shop.process() as runs:
        with pytest.raises(CallerError) as refused:
            await runs.answer(shop.run_id, asked.id, decision, resume=False, **details)
        assert words in str(refused.value)
        assert await runs.questions(shop.run_id) == (asked,)


async def test_several_open_actions_inside_of_a_tool_are_in_one_question() -> None:
    async def program(desk: Desk) -> object:
        return await desk.buy_both("tea", "milk")

    shop = Shop(program)
    shop.world.failures["pay milk"] = ProcessStopped("too")
    await shop.dies("pay tea")
    shop.world.failures.clear()
    question = await shop.question()
    assert [each.action_name for each in question.to_decide] == ["pay", "pay"]
    tea, milk = question.to_decide
    result = await shop.answered(
        RETRY,
        actions={
            tea.action_id: {"decision": "done", "result": "paid tea"},
            milk.action_id: {"decision": "retry"},
        },
    )
    assert result.output == "paid tea, paid milk"
    assert shop.world.done == ["pay milk"]


async def test_an_open_action_that_may_be_repeated_needs_no_answer() -> None:
    shop = Shop()
    await shop.dies("note tea")
    question = await shop.question()
    assert [(each.name, bool(each.allowed_decisions)) for each in question.inside] == [
        ("order", True),
        ("note", False),
    ]
    result = await shop.answered(RETRY, actions={ORDER: RETRIED})
    assert result.output == "noted tea, paid tea, wrote tea"


@pytest.mark.parametrize("fault", [StopBefore, StopAfter])
@pytest.mark.parametrize("number", range(1, 10))
async def test_an_answer_survives_a_second_crash_and_is_not_asked_for_again(
    fault: type[StopBefore | StopAfter], number: int
) -> None:
    shop = await died_three_deep()
    await shop.question()
    actions: JsonValue = {ORDER: RETRIED, PAY: {"decision": "done", "result": "paid by hand"}}
    with suppress(ProcessStopped):
        await shop.answered(RETRY, fault(number), actions=actions)
    for _ in range(4):
        async with shop.process() as runs:
            result = await shop.driven(runs)
            if result.state.is_terminal:
                break
            (question,) = await runs.questions(shop.run_id)
            assert isinstance(question, AgentRecoveryRequest)
            assert PAY not in [each.action_id for each in question.to_decide]
            again: JsonValue = {each.action_id: RETRIED for each in question.to_decide}
            await runs.answer(shop.run_id, question.id, RETRY, resume=False, actions=again)
    assert result.status is AgentStatus.COMPLETED
    assert "pay tea" not in shop.world.done


async def test_an_unknown_outcome_inside_is_one_question_and_the_tools_around_it_are_entered_again() -> None:
    shop = Shop()
    shop.world.failures["pay tea"] = ConnectionError("the line broke")
    question = await shop.question()
    assert (question.action_id, question.inside) == (PAY, ())
    result = await shop.answered(DONE, result="paid by hand")
    assert result.output == "noted tea, paid by hand, wrote tea"
    assert len(await shop.asked()) == 1


async def died_in_two_places() -> Shop:
    """Die in a payment while a tool waits that has recorded calls inside."""

    async def body(desk: Desk) -> object:
        return await asyncio.gather(desk.around("milk"), paying(desk))

    async def paying(desk: Desk) -> str:
        for what in ("one", "two", "three"):
            await desk.note(what)
        return await desk.pay("tea")

    has_died = asyncio.Event()

    async def waiting(desk: Desk) -> str:
        await has_died.wait()
        return "waited"

    shop = Shop(body, wait=waiting)
    await shop.dies("pay tea")
    has_died.set()
    # What the dead process left goes on, and does nothing any more.
    await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)
    assert "letter milk" not in shop.world.done
    return shop


async def test_actions_with_unknown_outcome_at_different_depths_are_asked_about_at_once() -> None:
    shop = await died_in_two_places()
    async with shop.process() as runs:
        await shop.driven(runs)
        around, pay = await runs.questions(shop.run_id)
        assert (around.action_id, pay.action_id) == (
            "run/tool:around#1",
            "run/task:tool:note:9743a7b9#1/tool:pay#1",
        )
        await runs.answer(shop.run_id, around.id, RETRY, resume=False)
        await runs.answer(shop.run_id, pay.id, DONE, result="paid by hand", resume=False)
        result = await shop.driven(runs)
    assert result.status is AgentStatus.COMPLETED
    assert "pay tea" not in shop.world.done
    assert shop.world.done.count("pay milk") == 1


@pytest.mark.parametrize("answered", [0, 1])
async def test_nothing_acts_on_one_answer_while_the_rest_of_the_record_waits_for_another(
    answered: int,
) -> None:
    shop = await died_in_two_places()
    async with shop.process() as runs:
        await shop.driven(runs)
        questions = await runs.questions(shop.run_id)
        await runs.answer(shop.run_id, questions[answered].id, RETRY, resume=False)
        done_before = list(shop.world.done)
        paused = await shop.driven(runs)
        (left,) = await runs.questions(shop.run_id)
        assert paused.status is AgentStatus.INTERRUPTED
        assert left.id == questions[1 - answered].id
        assert "pay tea" not in shop.world.done
        if answered:
            assert shop.world.done == done_before
        await runs.answer(shop.run_id, left.id, RETRY, resume=False)
        result = await shop.driven(runs)
        await runs.verify(shop.run_id)
    assert result.status is AgentStatus.COMPLETED
    assert [shop.world.done.count(each) for each in ("pay tea", "pay milk", "letter milk")] == [1, 1, 1]


class Retries(IAgentRecoveryHandler):
    """Wants everything to be tried again."""

    async def decide(self, context: RunContext, boundary: AgentResumeBoundary) -> RecoveryAnswer | None:
        return RecoveryRetried("any", boundary.action_id, 1)


async def test_a_handler_that_retries_a_tool_has_it_entered_again_by_the_next_attempt() -> None:
    failures = [ConnectionError("no answer")]

    async def body(desk: Desk) -> object:
        return await desk.around_it("tea")

    async def waiting(desk: Desk) -> str:
        if failures:
            raise failures.pop()
        return "waited"

    shop = Shop(body, wait=waiting, more=[Retries()])
    async with shop.process() as runs:
        paused = await shop.driven(runs)
        assert paused.status is AgentStatus.INTERRUPTED
        assert paused.state.current_activity == "'around' is tried again"
        assert paused.state.wake_at == shop.clock.now()
        assert await runs.questions(shop.run_id) == ()
        result = await shop.driven(runs)
        await runs.verify(shop.run_id)
    assert (result.status, result.output) == (AgentStatus.COMPLETED, "paid tea, waited, wrote tea")
    assert shop.world.done == ["enter tea", "pay tea", "enter tea", "letter tea"]


async def test_a_program_that_gives_up_on_a_tool_that_is_tried_again_gets_its_outcome() -> None:
    failures = [ConnectionError("no answer")]

    async def body(desk: Desk) -> object:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.001):
                return await desk.around("tea")
        return "given up"

    async def waiting(desk: Desk) -> str:
        if failures:
            await asyncio.sleep(0.002)
            raise failures.pop()
        return "waited"

    shop = Shop(body, wait=waiting, more=[Retries()])
    async with shop.process() as runs:
        assert (await shop.driven(runs)).status is AgentStatus.INTERRUPTED
        result = await shop.driven(runs)
    assert (result.status, result.output) == (AgentStatus.COMPLETED, "paid tea, waited, wrote tea")
    assert shop.world.done.count("pay tea") == shop.world.done.count("letter tea") == 1

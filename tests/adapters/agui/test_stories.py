"""Stories over AG-UI: a client talks, is asked, decides, and the run goes on."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterable, Callable
from typing import Any

import pytest
from ag_ui.core import RunAgentInput
from tests.adapters.agui.bank import (
    PAY,
    Bank,
    Clerk,
    Frame,
    Porter,
    Teller,
    ask,
    interrupts_of,
    paying,
    refusal,
    texts,
)
from tests.adapters.agui.samples import ag_ui_input, resume, tool_message, types

from pilotage import Principal
from pilotage.adapters.agui import (
    AgUiConfig,
    AgUiRunDriver,
    AgUiStdioCommand,
    Bookmark,
    driver_for,
    frames_for,
)
from pilotage.agent import MessageDeltaEvent
from pilotage.agent import RunAgentInput as CoreRunInput
from pilotage.runtime import AgentRunner, AgentRuns
from pilotage.testing import ScriptedModel, calls, fails, says


def by_tool_message(request_id: str, answer: dict[str, Any]) -> RunAgentInput:
    content = json.dumps({"request_id": request_id, **answer})
    user = {"id": "u1", "role": "user", "content": "Pay Bo"}
    return ag_ui_input(runId="client-2", messages=[user, tool_message(request_id, content)])


def by_hitl_call(request_id: str, payload: object) -> RunAgentInput:
    """An answer as a page gives it to the deferred call that it was shown."""
    call = {"id": request_id, "type": "function", "function": {"name": "hitl_approval", "arguments": "{}"}}
    messages = [
        {"id": "a1", "role": "assistant", "toolCalls": [call]},
        tool_message(request_id, payload if isinstance(payload, str) else json.dumps(payload)),
    ]
    return ag_ui_input(messages=messages, runId="client-2")


def with_call(request_id: str) -> RunAgentInput:
    """A further message of a page that shows the deferred call."""
    call = {"id": request_id, "type": "function", "function": {"name": "hitl_approval", "arguments": "{}"}}
    messages = [
        {"id": "a1", "role": "assistant", "toolCalls": [call]},
        {"id": "u2", "role": "user", "content": "Well?"},
    ]
    return ag_ui_input(messages=messages, runId="client-2")


def by_props(request_id: str, answer: dict[str, Any]) -> RunAgentInput:
    return ag_ui_input(
        None, runId="client-2", forwardedProps={"approvalDecision": {"request_id": request_id, **answer}}
    )


async def test_a_chat_is_streamed_and_the_clients_ids_come_back() -> None:
    async with Bank().open(ScriptedModel([says("Good day, Ada.")])) as app:
        frames = await ask(app, ag_ui_input("Hello"))
    assert frames[0] == {"type": "RUN_STARTED", "threadId": "thread-1", "runId": "client-1"}
    assert texts(frames) == "Good day, Ada."
    assert (frames[-1]["type"], frames[-1]["runId"]) == ("RUN_FINISHED", "client-1")
    assert (frames[-1]["result"], frames[-1]["outcome"]) == ("Good day, Ada.", {"type": "success"})


async def test_the_runs_of_an_agent_that_is_not_durable_are_streamed_too() -> None:
    async with Bank().open(ScriptedModel([says("Good day.")])) as app:
        frames = await ask(app, ag_ui_input("Hello"), Clerk)
    assert (texts(frames), frames[-1]["outcome"]) == ("Good day.", {"type": "success"})


async def test_the_next_input_of_a_thread_goes_on_with_its_conversation() -> None:
    model = ScriptedModel([says("Good day, Ada."), says("You are Ada.")])
    async with Bank().open(model) as app:
        await ask(app, ag_ui_input("I am Ada"))
        frames = await ask(app, ag_ui_input("Who am I?", runId="client-2"))
    assert texts(frames) == "You are Ada."
    said = [message.text for message in model.requests[-1].messages]
    assert [each for each in said if each in ("I am Ada", "Good day, Ada.", "Who am I?")] == [
        "I am Ada",
        "Good day, Ada.",
        "Who am I?",
    ]


@pytest.mark.parametrize(
    "decide",
    [resume, by_tool_message, by_props],
    ids=["resume", "tool message", "forwarded props"],
)
async def test_a_run_asks_waits_and_goes_on_in_another_process(decide: Any) -> None:
    bank, model = Bank(), paying()
    async with bank.open(model) as app:
        asked = await ask(app, ag_ui_input("Pay Bo"))
    (interrupt,) = interrupts_of(asked)
    assert (interrupt["message"], bank.payments.paid) == ("Approve the call of tool 'pay'?", [])
    assert "hitl_approval" not in str(asked)
    async with bank.open(model.restarted()) as app:
        frames = await ask(app, decide(interrupt["id"], {"decision": "approve"}))
    assert bank.payments.paid == ["5 to Bo"]
    assert (frames[0]["type"], frames[0]["runId"]) == ("RUN_STARTED", "client-2")
    (result,) = [frame for frame in frames if frame["type"] == "TOOL_CALL_RESULT"]
    assert result["content"] == '"paid"'
    assert (texts(frames), frames[-1]["outcome"]) == ("Done.", {"type": "success"})


async def test_arguments_can_be_modified_and_who_decided_is_recorded() -> None:
    bank, model = Bank(), paying()
    async with bank.open(model) as app:
        (interrupt,) = interrupts_of(await ask(app, ag_ui_input("Pay Bo")))
        answer = {"decision": "modify", "modified_payload": {**PAY, "amount": "3"}}
        forged = {**answer, "decided_by": "eve"}
        refused = refusal(await ask(app, resume(interrupt["id"], forged), principal=Principal("grace")))
        assert (refused["name"], "decided_by" in refused["value"]["message"]) == (
            "agui_approval_decode_error",
            True,
        )
        await ask(app, resume(interrupt["id"], answer), principal=Principal("grace"))
        run_id = interrupt["id"].partition(":")[0]
        evidence = await app.get(AgentRuns).evidence(run_id)
    assert bank.payments.paid == ["3 to Bo"]
    assert "grace" in str(evidence)
    assert "eve" not in str(evidence)


async def test_a_rejection_tells_the_model_and_the_run_goes_on() -> None:
    bank, model = Bank(), paying("Then not.")
    async with bank.open(model) as app:
        (interrupt,) = interrupts_of(await ask(app, ag_ui_input("Pay Bo")))
        frames = await ask(app, resume(interrupt["id"], {"decision": "reject", "comment": "too much"}))
    assert (texts(frames), frames[-1]["outcome"]) == ("Then not.", {"type": "success"})
    assert "a person rejected this call: too much" in str(model.requests[-1].messages)
    assert bank.payments.paid == []


async def test_a_rejection_tells_the_model_in_the_next_process_too() -> None:
    bank, model = Bank(), paying("Then not.")
    async with bank.open(model) as app:
        (interrupt,) = interrupts_of(await ask(app, ag_ui_input("Pay Bo")))
    async with bank.open(model.restarted()) as app:
        config = AgUiConfig(report_rejections=False)
        frames = await ask(app, resume(interrupt["id"], False), config=config)
    assert (texts(frames), bank.payments.paid) == ("Then not.", [])


async def test_where_a_rejection_ends_the_run_its_stream_is_finished_and_the_thread_goes_on() -> None:
    bank, config = Bank(), AgUiConfig(report_rejections=False)
    async with bank.open(ScriptedModel([calls("pay", **PAY), says("Hi.")])) as app:
        (interrupt,) = interrupts_of(await ask(app, ag_ui_input("Pay Bo"), config=config))
        frames = await ask(app, resume(interrupt["id"], {"decision": "reject"}), config=config)
        after = await ask(app, ag_ui_input("Hello", runId="client-3"), config=config)
    assert refusal(frames)["name"] == "approval_rejected"
    assert frames[-1]["outcome"] == {"type": "success"}
    assert (texts(after), bank.payments.paid) == ("Hi.", [])


@pytest.mark.parametrize(
    ("protocol", "outcome"),
    [("1.0", "cancelled"), ("2.7", "cancelled"), ("0.9", "success"), (None, "success")],
)
async def test_an_abandoned_run_is_cancelled_in_words_that_the_client_knows(
    protocol: str | None, outcome: str
) -> None:
    bank = Bank()
    async with bank.open(ScriptedModel([calls("pay", **PAY), says("Hi.")])) as app:
        (interrupt,) = interrupts_of(await ask(app, ag_ui_input("Pay Bo")))
        given = resume(interrupt["id"], None, "cancelled")
        frames = await ask(app, given.model_copy(update={"protocol_version": protocol}))
        after = await ask(app, ag_ui_input("Hello", runId="client-3"))
    assert (frames[-1]["type"], frames[-1]["outcome"]) == ("RUN_FINISHED", {"type": outcome})
    assert frames[0].get("protocolVersion") == (None if protocol is None else "1.0")
    assert (texts(after), bank.payments.paid) == ("Hi.", [])


async def test_a_deferred_question_is_asked_again() -> None:
    bank = Bank()
    async with bank.open(paying()) as app:
        (interrupt,) = interrupts_of(await ask(app, ag_ui_input("Pay Bo")))
        (again,) = interrupts_of(await ask(app, resume(interrupt["id"], {"decision": "defer"})))
    assert (again["id"], bank.payments.paid) == (interrupt["id"], [])


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        ({"decision": "modify", "modified_payload": {"to": 1}}, "caller_error"),
        ({"decision": "retry"}, "caller_error"),
        ({"decision": "yes"}, "agui_approval_decode_error"),
        ({"approved": "yes"}, "agui_approval_decode_error"),
        ({"approved": True, "decision": "reject"}, "agui_approval_decode_error"),
        ({"approved": True, "decided_by": "eve"}, "agui_approval_decode_error"),
        ("yes", "agui_approval_decode_error"),
        (None, "agui_approval_decode_error"),
        (7, "agui_approval_decode_error"),
    ],
)
async def test_a_decision_that_does_not_fit_pays_nothing_and_leaves_the_question_open(
    payload: object, code: str
) -> None:
    bank = Bank()
    async with bank.open(paying()) as app:
        (interrupt,) = interrupts_of(await ask(app, ag_ui_input("Pay Bo")))
        refused = await ask(app, resume(interrupt["id"], payload))
        assert (refusal(refused)["name"], bank.payments.paid) == (code, [])
        (again,) = interrupts_of(refused)
        assert {**again, "message": ""} == {**interrupt, "message": ""}
        assert again["message"].startswith(f"{interrupt['message']} The answer was not accepted: ")
        assert interrupt["id"] not in again["message"]
        assert again["message"].endswith("It takes: approve, reject, modify, defer, cancel.")
        frames = await ask(app, resume(interrupt["id"], {"decision": "approve"}))
    assert (bank.payments.paid, frames[-1]["outcome"]["type"]) == (["5 to Bo"], "success")


@pytest.mark.parametrize(
    ("payload", "paid"),
    [
        ({"approved": True}, True),
        ({"approved": True, "decision": "approve", "comment": "fine"}, True),
        (True, True),
        ("approve", True),
        ({"approved": False}, False),
        (False, False),
        ("reject", False),
    ],
)
async def test_answers_count_as_pages_send_them(payload: object, paid: bool) -> None:
    for way in (resume, by_hitl_call):
        bank = Bank()
        async with bank.open(paying()) as app:
            (interrupt,) = interrupts_of(await ask(app, ag_ui_input("Pay Bo")))
            frames = await ask(app, way(interrupt["id"], payload))
        assert (bank.payments.paid == ["5 to Bo"], frames[-1]["outcome"]["type"]) == (paid, "success")


async def test_an_input_that_answers_in_two_ways_gets_the_question_again() -> None:
    bank = Bank()
    async with bank.open(paying()) as app:
        (interrupt,) = interrupts_of(await ask(app, ag_ui_input("Pay Bo")))
        both = [
            {"interruptId": interrupt["id"], "status": "resolved", "payload": each} for each in (True, False)
        ]
        frames = await ask(app, ag_ui_input(None, runId="client-2", resume=both))
    (again,) = interrupts_of(frames)
    assert (again["id"], "in two ways" in again["message"]) == (interrupt["id"], True)
    assert bank.payments.paid == []


def by_resume(request_id: str) -> RunAgentInput:
    return resume(request_id, True)


def by_result(request_id: str) -> RunAgentInput:
    return by_hitl_call(request_id, True)


@pytest.mark.parametrize(("answer", "shown"), [(by_resume, '{"decision":"approve"}'), (by_result, None)])
async def test_old_clients_may_be_shown_a_call_and_get_its_result_once_it_is_decided(
    answer: Callable[[str], RunAgentInput], shown: str | None
) -> None:
    bank, config = Bank(), AgUiConfig(approval_calls=True)
    async with bank.open(paying()) as app:
        asked = await ask(app, ag_ui_input("Pay Bo"), config=config)
        (interrupt,) = interrupts_of(asked)
        frames = await ask(app, answer(interrupt["id"]), config=config)
    deferred = [f["toolCallId"] for f in asked if f.get("toolCallName") == "hitl_approval"]
    results = {f["toolCallId"]: f["content"] for f in frames if f["type"] == "TOOL_CALL_RESULT"}
    assert deferred == [interrupt["id"]]
    # A client that answered the call has its result: it is what it sent.
    assert results.get(interrupt["id"]) == shown
    assert bank.payments.paid == ["5 to Bo"]


async def test_a_call_is_not_shown_again_while_it_has_no_result_and_is_another_one_after_a_refused_answer() -> (
    None
):
    bank, config = Bank(), AgUiConfig(approval_calls=True)
    async with bank.open(paying()) as app:
        asked = await ask(app, ag_ui_input("Pay Bo"), config=config)
        (interrupt,) = interrupts_of(asked)
        waiting = await ask(app, with_call(interrupt["id"]), config=config)
        refused = await ask(app, by_hitl_call(interrupt["id"], {"colour": "red"}), config=config)
        again = by_hitl_call(f"{interrupt['id']}~2", True)
        await ask(app, again, config=config)
    shown = [
        [f["toolCallId"] for f in frames if f.get("toolCallName") == "hitl_approval"]
        for frames in (asked, waiting, refused)
    ]
    assert shown == [[interrupt["id"]], [], [f"{interrupt['id']}~2"]]
    (arguments,) = [json.loads(f["delta"]) for f in refused if f["type"] == "TOOL_CALL_ARGS"]
    assert "The answer was not accepted" in arguments["prompt"]
    assert list(arguments)[:3] == ["prompt", "allowed_decisions", "arguments"]
    assert bank.payments.paid == ["5 to Bo"]


async def test_nobody_decides_about_the_run_of_another_tenant_or_of_another_agent() -> None:
    bank = Bank()
    async with bank.open(paying()) as app:
        (interrupt,) = interrupts_of(await ask(app, ag_ui_input("Pay Bo")))
        yes = resume(interrupt["id"], {"decision": "approve"})
        foreign = refusal(await ask(app, yes, principal=Principal("eve", tenant="elsewhere")))
        misplaced = refusal(await ask(app, yes, Porter))
        unknown = refusal(await ask(app, resume("guessed:id", {"decision": "approve"})))
        run_id = interrupt["id"].partition(":")[0]
        open_questions = await app.get(AgentRuns).questions(run_id)
        pending = await bank.store.signals.list_pending(run_id)
    assert [each["name"] for each in (foreign, misplaced, unknown)] == [
        "run_not_found",
        "run_conflict",
        "run_not_found",
    ]
    assert (len(open_questions), list(pending), bank.payments.paid) == (1, [], [])


async def test_decisions_about_several_runs_decide_nothing() -> None:
    bank = Bank()
    async with bank.open(ScriptedModel([calls("pay", **PAY), calls("pay", **PAY)])) as app:
        (one,) = interrupts_of(await ask(app, ag_ui_input("Pay Bo")))
        (other,) = interrupts_of(await ask(app, ag_ui_input("Pay Bo", runId="client-2", threadId="thread-2")))
        yes = [
            {"interruptId": each["id"], "status": "resolved", "payload": {"decision": "approve"}}
            for each in (one, other)
        ]
        refused = refusal(await ask(app, ag_ui_input(None, runId="client-3", resume=yes)))
    assert (refused["name"], bank.payments.paid) == ("run_conflict", [])


async def test_a_decision_that_is_sent_twice_counts_once() -> None:
    bank = Bank()
    async with bank.open(paying()) as app:
        (interrupt,) = interrupts_of(await ask(app, ag_ui_input("Pay Bo")))
        yes = resume(interrupt["id"], {"decision": "approve"})
        await ask(app, yes)
        again = await ask(app, yes)
    assert (bank.payments.paid, again[-1]["type"]) == (["5 to Bo"], "RUN_FINISHED")


async def test_the_same_input_again_reads_the_same_run_again() -> None:
    bank = Bank()
    async with bank.open(ScriptedModel([says("Once.")])) as app:
        first = await ask(app, ag_ui_input("Hello"))
        second = await ask(app, ag_ui_input("Hello"))
        (other,) = await ask(app, ag_ui_input("Something else"))
    assert (texts(second), second[-1]["outcome"]) == (texts(first), first[-1]["outcome"])
    assert other["code"] == "run_conflict"


async def test_a_failure_in_the_middle_closes_what_is_open_and_says_so() -> None:
    async with Bank().open(ScriptedModel([fails("the server is gone", after="Good d")])) as app:
        frames = await ask(app, ag_ui_input("Hello"))
    assert texts(frames) == "Good d"
    assert types(frames).count("TEXT_MESSAGE_START") == types(frames).count("TEXT_MESSAGE_END") == 1
    assert types(frames)[-1] == "RUN_ERROR"
    assert "the server is gone" in frames[-1]["message"]


async def test_what_breaks_outside_a_run_is_an_error_that_tells_no_secret() -> None:
    class Broken:
        async def open(self, given: object, /) -> Any:
            raise ZeroDivisionError("password=hunter2")

    driver = AgUiRunDriver(Broken(), CoreRunInput("r", "go"), "teller")
    (frame,) = [json.loads(each.removeprefix("data: ")) async for each in driver]
    assert (frame["type"], frame["code"]) == ("RUN_ERROR", "agui_stream_broken")
    assert "hunter2" not in str(frame)


async def test_leaving_the_stream_does_not_touch_a_durable_run() -> None:
    bank = Bank()
    async with bank.open(ScriptedModel([says("Good day, Ada.")])) as app:
        factory, given = driver_for(app, Teller), ag_ui_input("Hello")
        stream = factory(CoreRunInput("client-1", "Hello", "thread-1"), given, None)
        assert isinstance(stream, AsyncIterable)
        reading = aiter(stream)
        await anext(reading)
        await reading.aclose()
        frames = await ask(app, ag_ui_input("Hello"), principal=Principal("local"))
    assert texts(frames) == "Good day, Ada."


async def test_leaving_the_stream_ends_a_run_that_nobody_keeps() -> None:
    async with Bank().open(ScriptedModel([says("Good day, Ada.")])) as app:
        before = asyncio.all_tasks()
        stream = driver_for(app, Clerk)(CoreRunInput("client-1", "Hello"), ag_ui_input("Hello"), None)
        assert isinstance(stream, AsyncIterable)
        reading = aiter(stream)
        await anext(reading)
        assert asyncio.all_tasks() > before
        await reading.aclose()
        assert asyncio.all_tasks() == before


async def test_leaving_the_frames_of_an_input_ends_such_a_run_too() -> None:
    async with Bank().open(ScriptedModel([says("Good day, Ada.")])) as app:
        before = asyncio.all_tasks()
        frames = frames_for(driver_for(app, Clerk), ag_ui_input("Hello").model_dump_json(by_alias=True))
        await anext(frames)
        await frames.aclose()
        assert asyncio.all_tasks() == before


async def test_frames_carry_cursors_from_which_the_run_can_be_read_on() -> None:
    async with Bank().open(ScriptedModel([says("Good day, Ada.")])) as app:
        runner = AgentRunner.for_agent_instance(app.get(Teller))
        frames = [frame async for frame in AgUiRunDriver(runner, CoreRunInput("a", "Hello"), "teller")]
        marks = [Bookmark.parse(f.partition("\n")[0].removeprefix("id: ")) for f in frames]
        (run,) = (await app.get(AgentRuns).list()).runs
        after = next(str(m.at) for m, f in zip(marks, frames, strict=True) if '"delta":"Good "' in f)
        left = [event async for event in app.get(AgentRuns).events(run.id, after=after)]
    assert len(set(map(str, marks))) == len(frames)
    assert {mark.run_id for mark in marks} == {run.id}
    assert "".join(event.delta for event in left if isinstance(event, MessageDeltaEvent)) == "day, Ada."


async def test_the_conversation_is_sent_once_more_where_that_is_wanted() -> None:
    async with Bank().open(ScriptedModel([says("Good day.")])) as app:
        config = AgUiConfig(messages_snapshot_enabled=True)
        frames = await ask(app, ag_ui_input("Hello"), config=config)
    assert [(m["role"], m["content"]) for m in frames[-2]["messages"]] == [
        ("user", "Hello"),
        ("assistant", "Good day."),
    ]


async def test_over_stdio_every_line_is_an_input_and_every_answer_lines() -> None:
    bank = Bank()
    async with bank.open(paying()) as app:
        factory, out = driver_for(app, Teller), io.StringIO()
        command = AgUiStdioCommand(factory, io.StringIO(), out)
        await command(ag_ui_input("Pay Bo").model_dump_json(by_alias=True))
        (interrupt,) = interrupts_of([json.loads(line) for line in out.getvalue().splitlines()])
        yes = resume(interrupt["id"], {"decision": "approve"}).model_dump_json(by_alias=True)
        lines = io.StringIO(f"no JSON\n\n{yes}\n")
        answers = io.StringIO()
        await AgUiStdioCommand(factory, lines, answers)()
    frames = [json.loads(line) for line in answers.getvalue().splitlines()]
    assert (frames[0]["type"], frames[0]["code"]) == ("RUN_ERROR", "agui_run_resolution_error")
    assert (frames[-1]["outcome"], bank.payments.paid) == ({"type": "success"}, ["5 to Bo"])


async def test_a_factory_may_be_asynchronous() -> None:
    async with Bank().open(ScriptedModel([says("Hi.")])) as app:

        async def factory(core: CoreRunInput, given: RunAgentInput, accept: str | None) -> AsyncIterable[str]:
            runner = AgentRunner.for_agent_instance(app.get(Teller))
            return AgUiRunDriver(runner, core, "teller")

        out = io.StringIO()
        await AgUiStdioCommand(factory, io.StringIO(), out)(ag_ui_input().model_dump_json(by_alias=True))
    assert texts([json.loads(line) for line in out.getvalue().splitlines()]) == "Hi."


async def test_a_run_that_was_paused_goes_on_or_is_given_up_as_its_interrupt_is_answered() -> None:
    ends: list[Frame] = []
    for status in ("resolved", "cancelled"):
        bank, model = Bank(), paying()
        async with bank.open(model) as app:
            (interrupt,) = interrupts_of(await ask(app, ag_ui_input("Pay Bo")))
            run_id = interrupt["id"].partition(":")[0]
            await app.get(AgentRuns).approve(interrupt["id"])
            given = resume(f"pause:{run_id}", None, status).model_copy(update={"protocol_version": "1.0"})
            frames = await ask(app, given)
        ends.append(frames[-1])
        assert bank.payments.paid == (["5 to Bo"] if status == "resolved" else [])
    assert [end["outcome"]["type"] for end in ends] == ["success", "cancelled"]

"""Model calls of a run are recorded when their stream ends, and replayed without asking the model again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from decimal import Decimal
from typing import cast

import pytest
from tests.behaviour.office import Clerk, Office, Receipt, Worker, answer, resume, start

from pilotage import (
    AgentStatus,
    ApprovalDecision,
    ModelMessage,
    ModelRequest,
    ModelStreamEventKind,
    StructuredOutputSpec,
    ToolCallingSpec,
)
from pilotage.agent import AgentActionKind, JournalStage
from pilotage.agent.messages import ModelToolCall
from pilotage.agent.model_reply import ModelFinishReason, ModelResponse, ModelStreamEvent
from pilotage.errors import ModelCallError
from pilotage.runtime.door.model import RunAwareModel
from pilotage.testing import ProcessStopped, ScriptedModel, calls, fails, says, turn

APPROVE = ApprovalDecision.APPROVE
QUESTION = ModelRequest([ModelMessage.user("How much?")])


@dataclass(frozen=True)
class Offer:
    """A structured answer."""

    amount: Decimal
    terms: tuple[str, ...]


def silent() -> ScriptedModel:
    """A model that fails the test when it is asked."""
    return ScriptedModel([])


async def test_a_whole_reply_comes_back_as_it_was() -> None:
    office = Office()
    replies: list[ModelResponse] = []

    async def program(worker: Worker) -> object:
        replies.append(await worker.model.complete(QUESTION))
        await worker.desk.refund(Decimal(1))

    script = [turn(says("Let me pay."), calls("pay", amount="5", call_id="c-1"))]
    async with office.process(program, model=ScriptedModel(script)) as runs:
        paused = await start(runs)
    async with office.process(program, model=silent()) as runs:
        await resume(runs, paused.state.id)
    live, replayed = replies
    assert live == replayed
    assert replayed.tool_calls == (ModelToolCall("pay", {"amount": "5"}, "c-1"),)
    assert replayed.finish_reason is ModelFinishReason.TOOL_CALLS


async def test_a_structured_answer_comes_back_in_its_type() -> None:
    office = Office()
    offers: list[object] = []
    request = ModelRequest([ModelMessage.user("Offer?")], output=StructuredOutputSpec.from_type(Offer))

    async def program(worker: Worker) -> object:
        offers.append((await worker.model.complete(request)).output)
        await worker.desk.refund(Decimal(1))

    offer = Offer(Decimal("2.50"), ("net", "30 days"))
    async with office.process(program, model=ScriptedModel([says(output=offer)])) as runs:
        paused = await start(runs)
    async with office.process(program, model=silent()) as runs:
        await resume(runs, paused.state.id)
    assert offers == [offer, offer]


async def test_a_streamed_reply_adds_up_to_the_same_text_in_replay() -> None:
    office = Office()
    texts: list[str] = []

    async def program(worker: Worker) -> object:
        events = [event async for event in worker.model.stream(QUESTION)]
        texts.append("".join(event.text for event in events if event.is_text_delta))
        assert events[-1].is_final
        assert events[-1].text == texts[-1]
        await worker.desk.refund(Decimal(1))

    async with office.process(program, model=ScriptedModel([says("one two three")])) as runs:
        paused = await start(runs)
    async with office.process(program, model=silent()) as runs:
        await resume(runs, paused.state.id)
    assert texts == ["one two three", "one two three"]


async def test_a_tool_invoked_while_the_stream_is_open_runs_behind_the_recorded_reply() -> None:
    office = Office()
    receipts: list[object] = []

    async def program(worker: Worker) -> object:
        tools = ToolCallingSpec.from_tools([worker.desk.pay, worker.desk.refund])
        kinds: list[ModelStreamEventKind] = []
        async for event in worker.model.stream(ModelRequest([ModelMessage.user("Pay.")], tools=tools)):
            kinds.append(event.kind)
            if event.is_tool_call:
                receipts.append(await event.invoke_tool())
        assert kinds[-1] is ModelStreamEventKind.DONE
        return len(receipts)

    script = [[calls("pay", amount="5"), calls("pay", amount="6"), calls("refund", amount="1")]]
    async with office.process(program, model=ScriptedModel(script)) as runs:
        paused = await start(runs)
        rows = await office.rows(paused.state.id)
    order = [row.action_id for row in rows if row.stage is JournalStage.AFTER]
    assert order == ["run/model#1", "run/tool:pay#1", "run/tool:pay#2"]
    async with office.process(program, model=silent()) as runs:
        result = await answer(runs, paused.state.id, APPROVE)
    assert result.status is AgentStatus.COMPLETED
    assert receipts[:2] == receipts[2:4] == [Receipt(1, Decimal(5)), Receipt(2, Decimal(6))]
    assert office.world.done == ["pay 5", "pay 6", "refund 1"]


async def test_a_stream_left_at_its_end_is_recorded_once() -> None:
    office = Office()

    async def program(worker: Worker) -> object:
        text = ""
        async for event in worker.model.stream(QUESTION):
            if event.is_final:
                text = event.text
                break
        await worker.desk.refund(Decimal(1))
        return text

    async with office.process(program, model=ScriptedModel([says("one two")])) as runs:
        paused = await start(runs)
    async with office.process(program, model=silent()) as runs:
        result = await answer(runs, paused.state.id, APPROVE)
    assert (result.status, result.output) == (AgentStatus.COMPLETED, "one two")
    replies = [row for row in await office.rows(paused.state.id) if row.action_id == "run/model#1"]
    assert len(replies) == 1


async def test_a_failed_model_call_is_recorded_and_raised_again() -> None:
    office = Office()
    heard: list[tuple[str, bool]] = []

    async def program(worker: Worker) -> object:
        try:
            await worker.model.complete(QUESTION)
        except ModelCallError as error:
            heard.append((str(error), error.retryable))
        reply = await worker.model.complete(QUESTION)
        await worker.desk.refund(Decimal(1))
        return reply.content

    script = [fails("refused", after="one tw"), says("one two")]
    async with office.process(program, model=ScriptedModel(script)) as runs:
        paused = await start(runs)
    async with office.process(program, model=silent()) as runs:
        result = await answer(runs, paused.state.id, APPROVE)
    assert (result.status, result.output) == (AgentStatus.COMPLETED, "one two")
    assert heard == [("refused", False)] * 2


class TooLongError(ModelCallError):
    """What the adapter of some model raises."""


class Forgetful(ScriptedModel):
    """Its first reply fails in the adapter's own way."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        if not self.requests:
            self.requests.append(request)
            raise TooLongError("too long", failure="context_exceeded")
        async for event in super().stream(request):
            yield event


async def test_a_program_tells_failures_apart_by_their_word_which_replay_gives_back() -> None:
    office = Office()
    heard: list[tuple[type[Exception], str | None]] = []

    async def program(worker: Worker) -> object:
        try:
            await worker.model.complete(QUESTION)
        except ModelCallError as error:
            heard.append((type(error), error.failure))
        await worker.desk.refund(Decimal(1))
        return "shortened"

    async with office.process(program, model=Forgetful([])) as runs:
        paused = await start(runs)
    async with office.process(program, model=silent()) as runs:
        result = await answer(runs, paused.state.id, APPROVE)
    assert (result.status, result.output) == (AgentStatus.COMPLETED, "shortened")
    assert heard == [(ModelCallError, "context_exceeded")] * 2


async def test_a_failed_model_call_that_nobody_catches_ends_the_run() -> None:
    office = Office()

    async def program(worker: Worker) -> object:
        return (await worker.model.complete(QUESTION)).content

    async with office.process(program, model=ScriptedModel([fails("no key")])) as runs:
        result = await start(runs)
    assert (result.status, (result.error or {})["message"]) == (AgentStatus.FAILED, "ModelCallError: no key")


async def test_a_reply_that_was_not_recorded_is_asked_for_again() -> None:
    office = Office()
    office.world.failures["look price"] = ProcessStopped("behind the reply, before any commit")

    async def program(worker: Worker) -> object:
        reply = await worker.model.complete(QUESTION)
        await worker.desk.look("price")
        return reply.content

    first, second = ScriptedModel([says("one")]), ScriptedModel([says("two")])
    async with office.process(program, model=first) as runs:
        handle = await runs.start(Clerk, "A-17")
        with pytest.raises(ProcessStopped):
            await handle.result()
    async with office.process(program, model=second) as runs:
        result = await resume(runs, handle.id)
    assert (result.status, result.output) == (AgentStatus.COMPLETED, "two")


async def test_a_reply_is_committed_before_anything_acts_on_it() -> None:
    office = Office()
    office.world.failures["pay 5"] = ProcessStopped("in the payment")

    async def program(worker: Worker) -> object:
        reply = await worker.model.complete(QUESTION)
        return (await worker.desk.pay(Decimal(reply.content))).number

    async with office.process(program, model=ScriptedModel([says("5")])) as runs:
        handle = await runs.start(Clerk, "A-17")
        with pytest.raises(ProcessStopped):
            await handle.result()
    stages = [(row.action_id, row.stage.value) for row in await office.rows(handle.id)]
    assert stages == [
        ("run", "claimed"),
        ("run/model#1", "after"),
        ("run/tool:pay#1", "before"),
    ]


async def test_outside_a_run_the_model_is_the_model() -> None:
    script = ScriptedModel([says("hello"), says("again")])
    model = RunAwareModel(script)
    assert (await model.complete(QUESTION)).content == "hello"
    assert [event.text async for event in model.stream(QUESTION) if event.is_text_delta] == ["again"]
    assert model.capability == script.capability
    script.assert_complete()


class Endless(ScriptedModel):
    """Never stops talking; knows whether somebody has closed its stream."""

    def __init__(self) -> None:
        super().__init__([])
        self.asked = 0
        self.closed = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        self.asked += 1
        try:
            while True:
                yield ModelStreamEvent(ModelStreamEventKind.TOKEN_DELTA, token_delta="on ")
        finally:
            self.closed.set()


async def test_a_stream_that_its_reader_lets_go_of_is_closed_at_once() -> None:
    office, endless = Office(), Endless()

    async def program(worker: Worker) -> object:
        async for event in worker.model.stream(QUESTION):
            first = event.text
            break
        # Nothing else happens in the run: who dropped the stream need not close it.
        await asyncio.wait_for(endless.closed.wait(), 120)
        return first

    async with office.process(program, model=endless) as runs:
        result = await start(runs)
    assert result.output == "on "


async def test_a_stream_that_is_closed_before_it_is_read_asks_nobody() -> None:
    office, endless = Office(), Endless()

    async def program(worker: Worker) -> object:
        stream = worker.model.stream(QUESTION)
        assert isinstance(stream, AsyncGenerator)
        await cast("AsyncGenerator[ModelStreamEvent, None]", stream).aclose()
        return [event async for event in stream]

    async with office.process(program, model=endless) as runs:
        result = await start(runs)
        rows = await office.rows(result.state.id)
    assert (result.output, endless.asked) == ([], 0)
    assert not [row for row in rows if row.kind is AgentActionKind.MODEL_CALL]


async def test_an_error_that_is_thrown_into_a_stream_leaves_it() -> None:
    office, endless = Office(), Endless()

    async def program(worker: Worker) -> object:
        stream = cast("AsyncGenerator[ModelStreamEvent, None]", worker.model.stream(QUESTION))
        said = await stream.asend(None)
        with pytest.raises(KeyError):
            await stream.athrow(KeyError("mine"))
        return [said.text, endless.closed.is_set(), [event async for event in stream]]

    async with office.process(program, model=endless) as runs:
        result = await start(runs)
    assert result.output == ["on ", True, []]

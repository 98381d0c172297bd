"""Hooks around runs, model calls and tool calls: they observe, they may veto, they change nothing."""

from __future__ import annotations

import asyncio
from decimal import Decimal

import pytest
from tests.behaviour.bureau import (
    COMPLETED,
    FAILED,
    WAITING,
    Bureau,
    Metered,
    asked,
    hired,
    resumed,
    started,
    triple,
)
from tests.behaviour.office import Worker
from tests.behaviour.test_handlers import MODEL, AsksAt

from pilotage import AgentStatus, ModelRequest, ModelResponse, RunContext
from pilotage.agent import AgentState, HookVerdict, IAgentHooks, ModelToolCall, Proceed, Veto
from pilotage.errors import ModelCallError, ToolError
from pilotage.jsonvalue import JsonValue


async def speaks_and_notes(worker: Worker) -> object:
    said = (await asked(worker)).content
    return await worker.desk.note(said)


class Diary(IAgentHooks):
    """Writes everything down, and does at each point what it is told to do there."""

    def __init__(self, **troubles: object) -> None:
        self.seen: list[str] = []
        self.troubles = troubles

    async def pre_run(self, context: RunContext, state: AgentState) -> HookVerdict:
        return self._at("pre_run", state.status)

    async def post_run(self, context: RunContext, state: AgentState) -> None:
        self._at("post_run", state.status)

    async def pre_model(self, context: RunContext, request: ModelRequest) -> HookVerdict:
        return self._at("pre_model", request.messages[-1].text)

    async def post_model(self, context: RunContext, response: ModelResponse) -> None:
        self._at("post_model", response.content)

    async def pre_tool(self, context: RunContext, call: ModelToolCall) -> HookVerdict:
        return self._at("pre_tool", f"{call.name} {dict(call.arguments)['what']}")

    async def post_tool(self, context: RunContext, call: ModelToolCall, result: JsonValue) -> None:
        assert isinstance(result, dict)
        self._at("post_tool", str(result["result"]))

    def _at(self, point: str, what: str) -> HookVerdict:
        self.seen.append(f"{point} {what}")
        trouble = self.troubles.get(point, Proceed())
        if isinstance(trouble, BaseException):
            raise trouble
        return trouble  # type: ignore[return-value]


class Blunt(Diary):
    """A hook that is not even async: it raises when it is called."""

    def pre_tool(self, context: RunContext, call: ModelToolCall) -> HookVerdict:  # type: ignore[override]
        raise ValueError("not async")


async def test_hooks_see_what_happens_in_its_order() -> None:
    bureau, agent, diary = Bureau(), hired(), Diary()
    async with bureau.process(agent, speaks_and_notes, diary, model=Metered()) as runs:
        result = await started(runs, agent)
    assert (triple(result.state), result.output) == (COMPLETED, "word 1")
    assert diary.seen == [
        "pre_run active",
        "pre_model Well?",
        "post_model word 1",
        "pre_tool note word 1",
        "post_tool word 1",
        "post_run completed",
    ]


async def test_hooks_are_not_told_again_what_is_replayed() -> None:
    bureau, agent = Bureau(), hired()

    async def program(worker: Worker) -> object:
        await worker.desk.note("x")
        return (await worker.desk.refund(Decimal(1))).number

    class Quiet(Diary):
        async def pre_tool(self, context: RunContext, call: ModelToolCall) -> HookVerdict:
            return self._at("pre_tool", call.name)

        async def post_tool(self, context: RunContext, call: ModelToolCall, result: JsonValue) -> None:
            self._at("post_tool", call.name)

    diary = Quiet()
    async with bureau.process(agent, program, diary) as runs:
        waiting = await started(runs, agent)
        assert triple(waiting.state) == WAITING
        (question,) = await runs.questions(waiting.state.id)
        await runs.approve(question.id)
        await resumed(runs, waiting.state.id)
    assert diary.seen == [
        "pre_run active",
        "pre_tool note",
        "post_tool note",
        "pre_tool refund",
        "post_run interrupted",
        "pre_run interrupted",
        "pre_tool refund",
        "post_tool refund",
        "post_run completed",
    ]


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        (Veto("not today"), "not today"),
        (ValueError("oops"), "the hook Diary failed (ValueError)"),
        (asyncio.CancelledError(), "the hook Diary failed (CancelledError)"),
    ],
)
async def test_a_veto_keeps_a_tool_from_being_called(trouble: object, words: str) -> None:
    bureau, agent, diary = Bureau(), hired(), Diary(pre_tool=trouble)

    async def program(worker: Worker) -> object:
        try:
            return await worker.desk.note("x")
        except ToolError as error:
            return str(error)

    async with bureau.process(agent, program, diary) as runs:
        result = await started(runs, agent)
    assert result.output == f"'note' is not allowed: {words}"
    assert bureau.world.done == []


async def test_a_hook_that_is_not_async_vetoes_too() -> None:
    bureau, agent = Bureau(), hired()

    async def program(worker: Worker) -> object:
        try:
            return await worker.desk.note("x")
        except ToolError as error:
            return str(error)

    async with bureau.process(agent, program, Blunt()) as runs:
        result = await started(runs, agent)
    assert result.output == "'note' is not allowed: the hook Blunt failed (ValueError)"


@pytest.mark.parametrize("trouble", [Veto("no more words"), ValueError("oops"), asyncio.CancelledError()])
async def test_a_veto_keeps_a_model_from_being_asked(trouble: object) -> None:
    bureau, agent, model = Bureau(), hired(), Metered()

    async def program(worker: Worker) -> object:
        try:
            return (await asked(worker)).content
        except ModelCallError as error:
            return str(error)

    async with bureau.process(agent, program, Diary(pre_model=trouble), model=model) as runs:
        result = await started(runs, agent)
    assert str(result.output).startswith("the model call is not allowed: ")
    assert model.asked == 0


@pytest.mark.parametrize("trouble", [Veto("not this one"), ValueError("oops"), asyncio.CancelledError()])
async def test_a_veto_ends_a_run_before_it_has_begun(trouble: object) -> None:
    bureau, agent = Bureau(), hired()
    async with bureau.process(
        agent, speaks_and_notes, Diary(pre_run=trouble), model=(model := Metered())
    ) as runs:
        result = await started(runs, agent)
        assert await runs.verify(result.state.id) > 0
    assert triple(result.state) == FAILED
    assert result.error is not None
    assert result.error["code"] == "run_vetoed"
    assert (model.asked, bureau.world.done) == (0, [])


@pytest.mark.parametrize("point", ["post_run", "post_model", "post_tool"])
@pytest.mark.parametrize("trouble", [ValueError("oops"), asyncio.CancelledError(), Veto("too late")])
async def test_what_a_hook_does_afterwards_changes_nothing(point: str, trouble: object) -> None:
    bureau, agent = Bureau(), hired()
    async with bureau.process(agent, speaks_and_notes, Diary(**{point: trouble}), model=Metered()) as runs:
        result = await started(runs, agent)
    assert (triple(result.state), result.output) == (COMPLETED, "word 1")
    assert bureau.world.done == ["note word 1"]


async def test_one_veto_of_several_hooks_is_enough_and_all_of_them_hear_of_it() -> None:
    bureau, agent = Bureau(), hired()
    hooks = Diary(), Diary(pre_tool=Veto("no")), Diary()

    async def program(worker: Worker) -> object:
        with pytest.raises(ToolError, match="not allowed: no"):
            await worker.desk.note("x")
        return "done"

    async with bureau.process(agent, program, *hooks) as runs:
        result = await started(runs, agent)
    assert result.status is AgentStatus.COMPLETED
    assert ["pre_tool note x" in hook.seen for hook in hooks] == [True, True, True]


async def test_a_veto_is_recorded_and_replay_does_not_ask_again() -> None:
    bureau, agent = Bureau(), hired()
    strict, kind = Diary(pre_tool=Veto("no")), Diary()

    async def program(worker: Worker) -> object:
        try:
            await worker.desk.note("x")
        except ToolError as error:
            words = str(error)
        await asked(worker)
        return words

    async with bureau.process(agent, program, strict, AsksAt(MODEL), model=Metered()) as runs:
        waiting = await started(runs, agent)
        (question,) = await runs.questions(waiting.state.id)
        await runs.approve(question.id)
    async with bureau.process(agent, program, kind, model=Metered()) as runs:
        result = await resumed(runs, waiting.state.id)
    assert result.output == "'note' is not allowed: no"
    assert bureau.world.done == []

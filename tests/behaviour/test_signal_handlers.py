"""Handlers of signals: methods of an agent that take in what is sent to its runs, at the next boundary, once."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable

import pytest
from tests.behaviour.bureau import COMPLETED, DURABLE, FAILED, WAITING, Bureau, resumed, started, triple
from tests.behaviour.office import Desk, Program, Worker
from tests.behaviour.postbox import EVENT, MESSAGE, WAKE_UP, Parrot, Postbox

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentYield,
    Error,
    Evidence,
    Final,
    IAgentModel,
    ModelMessage,
    ModelRequest,
    Progress,
    Token,
    Tool,
)
from pilotage.agent import AgentSignal, on_signal
from pilotage.agent.events import MessageDeltaEvent, ToolCallStartEvent
from pilotage.agent.ports.persistence import JournalRow
from pilotage.agent.run_values import RunResult
from pilotage.errors import ToolError
from pilotage.runtime.runs import AgentRuns
from pilotage.testing import ScriptedModel, calls, says

SPEC = AgentExecutionSpec(name="clerk", recovery=DURABLE, accepted_signals=[EVENT, MESSAGE, WAKE_UP])
Items = AsyncGenerator[AgentYield[str], None]


@Agent(spec=SPEC)
class Listener(Worker):
    """Does what its process says, and stamps what comes from outside."""

    def __init__(self, model: IAgentModel, desk: Desk, program: Program, post: Postbox) -> None:
        super().__init__(model, desk, program)
        self.post = post

    @on_signal(EVENT)
    async def heard(self, signal: AgentSignal) -> Items:
        yield Progress(f"heard {signal.payload['text']}")
        yield Evidence(await self.post.stamp(str(signal.payload["text"])))


async def told(runs: AgentRuns, run_id: str) -> list[str]:
    """What a run has told, in a word each; its own start and end left out."""
    said = [f"{event.kind.value} {_said(event)}" async for event in runs.events(run_id)]
    return [each.strip() for each in said if not each.startswith("run_")]


def _said(event: object) -> object:
    names = ("step_name", "content", "delta", "tool_name")
    return next((getattr(event, name) for name in names if getattr(event, name, None)), "")


def program(*steps: str) -> Callable[[Worker], Awaitable[object]]:
    """A program that calls tools one by one, such as `send external_event:x`, and asks its model with `?`."""

    async def run(worker: Worker) -> object:
        assert isinstance(worker, Listener)
        results: list[str] = []
        for step in steps:
            tool, _, argument = step.partition(" ")
            if tool == "?":
                reply = await worker.model.complete(ModelRequest([ModelMessage.user(argument)]))
                results.append(reply.content)
            elif tool == "send":
                kind, _, text = argument.partition(":")
                await worker.post.send(kind, text)
            elif tool == "stamp":
                results.append(await worker.post.stamp(argument))
            else:
                results.append(str(await getattr(worker.desk, tool)(argument)))
        return results

    return run


async def ran(*steps: str) -> tuple[Bureau, RunResult, list[str]]:
    """A run of these steps in a process of its own: how it ended, and what it told."""
    bureau = Bureau()
    async with bureau.process(Listener, program(*steps), Postbox, model=Parrot()) as runs:
        result = await started(runs, Listener)
        return bureau, result, await told(runs, result.state.id)


async def test_a_handler_takes_a_signal_before_the_next_action_and_what_it_yields_is_told() -> None:
    bureau, result, said = await ran("send external_event:fire", "stamp out")
    assert triple(result.state) == COMPLETED
    assert bureau.world.done == ["stamp fire", "stamp out"]
    assert said == ["step_started heard fire", "step_finished heard fire", "artifact stamped fire"]
    assert await bureau.store.signals.list_pending(result.state.id) == []


async def test_a_handler_takes_a_signal_before_the_next_model_call_and_the_model_does_not_hear_of_it() -> (
    None
):
    bureau, result, _ = await ran("send external_event:fire", "? Well?")
    assert (result.output, bureau.world.done) == (["user: Well?"], ["stamp fire"])


async def test_what_only_reads_is_no_boundary() -> None:
    bureau, _, _ = await ran("send external_event:fire", "look left", "stamp out")
    assert bureau.world.done == ["look left", "stamp fire", "stamp out"]


async def test_what_comes_last_is_handled_before_the_run_ends() -> None:
    bureau, result, said = await ran("send external_event:fire")
    assert (triple(result.state), bureau.world.done) == (COMPLETED, ["stamp fire"])
    assert said[0] == "step_started heard fire"


async def test_signals_are_handled_in_the_order_they_came() -> None:
    steps = ("send external_event:one", "send external_event:two", "stamp out")
    bureau, _, said = await ran(*steps)
    # Sending the second one is an action too: the first is handled before it.
    assert bureau.world.done == ["stamp one", "stamp two", "stamp out"]
    assert [each for each in said if "started" in each] == [
        "step_started heard one",
        "step_started heard two",
    ]


async def test_a_signal_without_a_handler_keeps_those_behind_it_waiting_for_the_model_call() -> None:
    steps = ("send user_message:hurry", "send external_event:fire", "stamp out", "? Well?")
    bureau, result, _ = await ran(*steps)
    assert bureau.world.done == ["stamp out", "stamp fire"]
    assert result.output == ["stamped out", "user: Well?; user: hurry"]


async def test_a_finished_run_replays_without_a_single_effect() -> None:
    bureau, result, _ = await ran("send external_event:fire", "stamp out", "? Well?")
    rows = await bureau.rows(result.state.id)
    async with bureau.process(Listener, program(), Postbox, model=Parrot()) as runs:
        await runs.verify(result.state.id)
        fork = await runs.fork(result.state.id, at=_before_the_end(rows))
    replayed = program("send external_event:fire", "stamp out", "? Well?")
    async with bureau.process(Listener, replayed, Postbox, model=Parrot()) as runs:
        again = await resumed(runs, fork.id)
    assert (again.output, bureau.world.done) == (result.output, ["stamp fire", "stamp out"])


def _before_the_end(rows: list[JournalRow]) -> int:
    return next(row.seq for row in rows if row.action_id == "run/result#1") - 1


@Agent(spec=SPEC)
class Careful(Listener):
    """Puts away what comes, which strangers must not decide alone."""

    @on_signal(EVENT)
    async def heard(self, signal: AgentSignal) -> Items:
        yield Progress(await self.post.shelve(str(signal.payload["text"])))


async def test_a_person_is_asked_inside_a_handler_and_the_run_waits_for_the_answer() -> None:
    bureau, steps = Bureau(), program("send external_event:fire", "note out")
    async with bureau.process(Careful, steps, Postbox) as runs:
        waiting = await started(runs, Careful)
        assert (triple(waiting.state), bureau.world.done) == (WAITING, [])
        (question,) = await runs.questions(waiting.state.id)
        assert "untrusted content from run input, signal:external_event" in str(question.metadata)
        await runs.approve(question.id)
    async with bureau.process(Careful, steps, Postbox) as runs:
        assert await runs.questions(waiting.state.id) == ()
        # What a stranger said counts for the rest of the run too.
        waiting = await resumed(runs, waiting.state.id)
        assert (triple(waiting.state), bureau.world.done) == (WAITING, ["shelve fire"])
        (question,) = await runs.questions(waiting.state.id)
        await runs.approve(question.id)
        result = await resumed(runs, waiting.state.id)
        said = await told(runs, result.state.id)
    assert (triple(result.state), bureau.world.done) == (COMPLETED, ["shelve fire", "note out"])
    assert said == ["step_started shelved fire", "step_finished shelved fire"]


async def test_what_a_handler_spends_is_counted_once() -> None:
    bureau, steps = Bureau(), program("send external_event:fire", "stamp out", "refund 5")
    async with bureau.process(Listener, steps, Postbox) as runs:
        waiting = await started(runs, Listener)
        (question,) = await runs.questions(waiting.state.id)
        await runs.approve(question.id)
    async with bureau.process(Listener, steps, Postbox) as runs:
        result = await resumed(runs, waiting.state.id)
    assert bureau.world.done == ["stamp fire", "stamp out", "refund 5"]
    assert result.spent.tool_calls == 4


@Agent(spec=SPEC)
class Talkative(Listener):
    """Asks its model about what comes, and says everything that can be said."""

    @on_signal(EVENT)
    async def heard(self, signal: AgentSignal) -> Items:
        reply = await self.model.complete(ModelRequest([ModelMessage.user(f"{signal.kind}?")]))
        yield Token(reply.content)
        yield Tool("abacus", result=1)
        yield Tool("abacus", result=2)


async def test_what_a_handler_says_is_a_message_of_its_own() -> None:
    bureau, steps = Bureau(), program("send external_event:fire", "? Well?")
    async with bureau.process(Talkative, steps, Postbox, model=Parrot()) as runs:
        result = await started(runs, Talkative)
        events = [event async for event in runs.events(result.state.id)]
    assert result.output == ["user: Well?"]
    texts = {event.message_id for event in events if isinstance(event, MessageDeltaEvent)}
    assert len(texts) == 1
    assert "on_signal" in str(texts)
    ids = [event.call_id for event in events if isinstance(event, ToolCallStartEvent)]
    assert len(set(ids)) == 2


@Agent(spec=SPEC)
class Broken(Listener):
    """Fails at what it is sent."""

    @on_signal(EVENT)
    async def heard(self, signal: AgentSignal) -> Items:
        match signal.payload["text"]:
            case "raise":
                raise ToolError("the stamp is broken")
            case "error":
                yield Error("no_ink", "there is no ink", retryable=True)
            case _:
                yield Final("my own answer")


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("raise", "signal_handler_failed", "ToolError: the stamp is broken"),
        ("error", "no_ink", "there is no ink"),
        (
            "final",
            "signal_handler_failed",
            "it yields a Final, and only the agent itself gives the answer of a run",
        ),
    ],
)
async def test_a_handler_that_fails_ends_the_run_and_no_tool_is_blamed(
    text: str, code: str, words: str
) -> None:
    bureau, steps = Bureau(), program(f"send external_event:{text}", "note out")

    async def swallows(worker: Worker) -> object:
        try:
            return await steps(worker)
        except Exception:  # noqa: BLE001 - what an agent may do
            return "nothing happened"

    async with bureau.process(Broken, swallows, Postbox) as runs:
        result = await started(runs, Broken)
    assert (triple(result.state), bureau.world.done) == (FAILED, [])
    assert result.error == {
        "code": code,
        "message": f"the handler of 'external_event' signals failed: {words}",
        "retryable": code == "no_ink",
    }


@Agent(spec=SPEC)
class Declared:
    """Serve people."""

    def __init__(self, post: Postbox) -> None:
        self.post = post

    @on_signal(EVENT)
    async def heard(self, signal: AgentSignal) -> Items:
        yield Progress(await self.post.stamp(str(signal.payload["text"])))


async def test_a_declarative_agent_has_handlers_too() -> None:
    bureau = Bureau()
    model = ScriptedModel([calls("send", kind=EVENT.value, text="fire"), says("Done.")])
    async with bureau.process(Declared, None, Postbox, model=model) as runs:
        result = await started(runs, Declared, "go")
        said = await told(runs, result.state.id)
    assert (result.output, bureau.world.done) == ("Done.", ["stamp fire"])
    assert "step_started stamped fire" in said
    assert all(
        "fire" not in message.text for message in model.requests[1].messages if message.role == "evidence"
    )


async def test_a_handler_that_is_gone_is_a_divergence_and_not_a_message() -> None:
    bureau, steps = Bureau(), program("send external_event:fire", "? Well?", "refund 5")
    async with bureau.process(Listener, steps, Postbox, model=Parrot()) as runs:
        waiting = await started(runs, Listener)
        assert triple(waiting.state) == WAITING

    @Agent(spec=SPEC)
    class Deaf(Worker):
        def __init__(self, model: IAgentModel, desk: Desk, program: Program, post: Postbox) -> None:
            super().__init__(model, desk, program)
            self.post = post

    async def without_handler(worker: Worker) -> object:
        assert isinstance(worker, Deaf)
        await worker.post.send(EVENT.value, "fire")
        await worker.model.complete(ModelRequest([ModelMessage.user("Well?")]))
        return "done"

    async with bureau.process(Deaf, without_handler, Postbox, model=Parrot()) as runs:
        diverged = await resumed(runs, waiting.state.id)
    assert "a handler took the 'external_event' signal" in str(diverged.state.current_activity)


async def test_a_handler_that_is_new_does_not_take_what_was_taken_before_it() -> None:
    bureau, steps = Bureau(), program("send scheduler_wake_up:morning", "? Well?", "refund 5", "? And now?")
    async with bureau.process(Listener, steps, Postbox, model=Parrot()) as runs:
        waiting = await started(runs, Listener)
        (question,) = await runs.questions(waiting.state.id)
        await runs.approve(question.id)

    @Agent(spec=SPEC)
    class EarlyBird(Listener):
        @on_signal(WAKE_UP)
        async def woken(self, signal: AgentSignal) -> Items:
            yield Progress(await self.post.stamp("late"))

    async with bureau.process(EarlyBird, steps, Postbox, model=Parrot()) as runs:
        result = await resumed(runs, waiting.state.id)
    assert (triple(result.state), bureau.world.done) == (COMPLETED, ["refund 5"])
    assert "morning" in str(result.output)

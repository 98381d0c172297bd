"""Agents without an `execute()`: ReAct through the durable runtime, from the question to the answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal

import pytest
from tests.behaviour.office import Desk, World

from pilotage import (
    Agent,
    AgentEvent,
    AgentExecutionLimits,
    AgentExecutionSpec,
    AgentStatus,
    Application,
    IAgentModel,
    MessageDeltaEvent,
    ModelMessage,
    Pod,
    RecoveryStrategy,
    RunPausedEvent,
    RunResult,
    ToolEffects,
    agent_tool,
    run,
)
from pilotage.agent import (
    AgentRecoveryRequest,
    ModelFinishReason,
    ModelMessageRole,
    ReasoningDeltaEvent,
    RejectionPolicy,
    RunFinishedEvent,
    RunStartedEvent,
    StepFinishedEvent,
    StepStartedEvent,
    ToolCallArgsDeltaEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.state import AgentStateReason
from pilotage.agent.tools.bind import unreadable_arguments
from pilotage.architectures import React
from pilotage.errors import AgentDefinitionError, ToolError
from pilotage.runtime import AgentRuns, ModelRetrySettings
from pilotage.runtime.plugin import initialize
from pilotage.testing import MemoryStore, ScriptedModel, SeededIds, VirtualClock, calls, fails, says, turn
from pilotage.testing.coordination import MemoryLeases
from pilotage.testing.script import ScriptEntry

DURABLE = RecoveryStrategy.ACTION_BOUNDARY
LENGTH = ModelFinishReason.LENGTH


@dataclass(frozen=True)
class Report:
    """An answer with a type."""

    title: str
    total: Decimal


@Pod
class Library:
    """Tools that only read: two of them have to be under way at once, one is sync."""

    def __init__(self) -> None:
        self.readers = 0
        self.most_readers = 0
        self.threads: set[int] = set()
        self._all_here = asyncio.Event()

    @agent_tool(effects=ToolEffects.read_only())
    async def read(self, book: str) -> str:
        """Read a book together with somebody else."""
        self.readers += 1
        self.most_readers = max(self.most_readers, self.readers)
        if self.readers == 2:
            self._all_here.set()
        await self._all_here.wait()
        self.readers -= 1
        return f"all about {book}"

    @agent_tool(effects=ToolEffects.read_only())
    def count(self, word: str) -> int:
        """Count the letters of a word."""
        self.threads.add(threading.get_ident())
        return len(word)

    @agent_tool(effects=ToolEffects.read_only())
    async def lost(self, book: str) -> str:
        """Look for a book that is never there."""
        raise ToolError(f"{book} is lost")

    @agent_tool(effects=ToolEffects.read_only())
    async def broken(self) -> str:
        """A tool with a bug."""
        raise ZeroDivisionError("a bug")


class Helper:
    """What all assistants can do."""

    def __init__(self, desk: Desk, library: Library) -> None:
        self.desk, self.library = desk, library

    @agent_tool(effects=ToolEffects.read_only())
    def nickname(self, name: str) -> str:
        """Look up how a person likes to be called."""
        return {"Ada": "Countess"}.get(name, name)


@Agent(spec=AgentExecutionSpec(name="assistant", recovery=DURABLE))
class Assistant(Helper):
    """You help people in an office."""


@Agent(spec=AgentExecutionSpec(name="patient", recovery=DURABLE, on_rejection=RejectionPolicy.TELL_MODEL))
class PatientAssistant(Helper):
    """Hears a no and goes on."""


@Agent(spec=AgentExecutionSpec(name="reporter", recovery=DURABLE, output_type=Report))
class Reporter:
    """Write a report."""


@Agent(
    spec=AgentExecutionSpec(
        name="one_by_one", recovery=DURABLE, architecture=React(parallel_tools=False, max_tool_errors=2)
    )
)
class OneByOne(Helper):
    """Calls its tools one by one."""


class Place:
    """A store and a world that outlive every process."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(self.clock)
        self.world = World()
        self.ids = SeededIds(7)

    @asynccontextmanager
    async def process(self, model: IAgentModel, *more: object) -> AsyncGenerator[AgentRuns, None]:
        """One process."""
        app = Application("office").add(Assistant, PatientAssistant, Reporter, OneByOne, Desk, Library)
        app.add(self.world, self.clock, self.ids, model, *self.store.ports, *more)
        initialize(app)
        async with app:
            yield app.get(AgentRuns)


async def told(
    script: Sequence[ScriptEntry] | IAgentModel, agent: type[object] = Assistant, given: object = "help"
) -> tuple[list[AgentEvent], RunResult]:
    """The events of one run in a new place, and how it stands behind them."""
    model = script if isinstance(script, IAgentModel) else ScriptedModel(script)
    async with Place().process(model) as runs:
        run = await runs.start(agent, given)
        events = [event async for event in run.events()]
        await runs.verify(run.id)
        return events, await run.result()


def outcomes(events: Sequence[AgentEvent]) -> list[tuple[str, object]]:
    """The tool results of a run, by tool."""
    return [(e.tool_name, e.result) for e in events if isinstance(e, ToolCallResultEvent)]


def asked(model: ScriptedModel) -> list[list[tuple[ModelMessageRole, str]]]:
    """What the model was shown, request by request."""
    return [[(m.role, m.text) for m in request.messages] for request in model.requests]


async def test_the_docstring_and_the_question_reach_the_model_and_its_words_are_the_answer() -> None:
    model = ScriptedModel([says("Good day.")])
    _, result = await told(model)
    assert (result.status, result.output, result.turns) == (AgentStatus.COMPLETED, "Good day.", 1)
    assert asked(model) == [
        [
            (ModelMessageRole.SYSTEM, "You help people in an office."),
            (ModelMessageRole.USER, "help"),
        ]
    ]
    (request,) = model.requests
    assert request.tool_calling is not None
    names = [tool.name for tool in request.tool_calling.tools]
    assert sorted(names) == sorted(
        ["nickname", "look", "note", "pay", "refund", "read", "count", "lost", "broken"]
    )


async def test_everything_the_model_does_is_told_piece_by_piece_in_order() -> None:
    thinking = turn(says("Let me look.", reasoning="Who is it?"), calls("nickname", name="Ada"))
    events, _ = await told([thinking, says("Good day, Countess.")])
    kinds: list[type[AgentEvent]] = []
    for event in events:
        if not kinds or kinds[-1] is not type(event):
            kinds.append(type(event))
    assert kinds == [
        RunStartedEvent,
        StepStartedEvent,
        ReasoningDeltaEvent,
        MessageDeltaEvent,
        ToolCallStartEvent,
        ToolCallArgsDeltaEvent,
        ToolCallEndEvent,
        StepFinishedEvent,
        ToolCallResultEvent,
        StepStartedEvent,
        MessageDeltaEvent,
        StepFinishedEvent,
        RunFinishedEvent,
    ]
    words = [e.delta for e in events if isinstance(e, MessageDeltaEvent)]
    assert "".join(words) == "Let me look.Good day, Countess."
    assert len(words) > 4
    arguments = [e.args_delta for e in events if isinstance(e, ToolCallArgsDeltaEvent)]
    assert len(arguments) > 1
    assert "".join(arguments) == '{"name":"Ada"}'
    messages = {e.message_id for e in events if isinstance(e, MessageDeltaEvent)}
    assert len(messages) == 2
    (start,) = [e for e in events if isinstance(e, ToolCallStartEvent)]
    (done,) = [e for e in events if isinstance(e, ToolCallResultEvent)]
    assert (start.call_id, start.parent_message_id) == (done.call_id, done.message_id)


async def test_read_only_calls_of_one_reply_run_side_by_side_and_answer_in_its_order() -> None:
    both = turn(calls("read", book="Lovelace"), calls("count", word="Ada"), calls("read", book="Babbage"))
    model = ScriptedModel([both, says("Read.")])
    events, result = await told(model)
    assert result.output == "Read."
    assert outcomes(events) == [
        ("read", "all about Lovelace"),
        ("count", 3),
        ("read", "all about Babbage"),
    ]
    answered = [m.tool_call_id for m in model.requests[1].messages if m.role is ModelMessageRole.TOOL]
    assert answered == ["call-1", "call-2", "call-3"]


async def test_calls_that_change_something_are_made_one_by_one_in_the_order_of_the_reply() -> None:
    place = Place()
    several = turn(
        calls("note", what="first"),
        calls("look", what="in between"),
        calls("pay", amount="2"),
        calls("note", what="last"),
    )
    async with place.process(ScriptedModel([several, says("Done.")])) as runs:
        result = await (await runs.start(Assistant, "help")).result()
    assert result.status is AgentStatus.COMPLETED
    changes = [what for what in place.world.done if not what.startswith("look")]
    assert changes == ["note first", "pay 2", "note last"]


async def test_the_same_call_twice_in_one_reply_is_made_twice() -> None:
    place = Place()
    twice = turn(calls("pay", amount="2"), calls("pay", amount="2"))
    async with place.process(ScriptedModel([twice, says("Done.")])) as runs:
        await (await runs.start(Assistant, "help")).result()
    assert place.world.done == ["pay 2", "pay 2"]
    assert len({key for _, key, _ in place.world.knocks}) == 2


async def test_without_parallel_tools_all_calls_are_made_one_by_one() -> None:
    events, result = await told(
        [turn(calls("count", word="a"), calls("count", word="ab")), says("Done.")], OneByOne
    )
    assert (outcomes(events), result.output) == ([("count", 1), ("count", 2)], "Done.")


async def test_a_class_with_tools_may_hold_anything_else() -> None:
    @Agent
    class Shelf:
        """Find books."""

        books = {"Emma": 3}

        @agent_tool(effects=ToolEffects.read_only())
        async def find(self, title: str) -> int:
            """Find a book."""
            return self.books[title]

    model = ScriptedModel([calls("find", title="Emma"), says("Shelf 3.")])
    assert (await run(Shelf, "find Emma", model=model)).output == "Shelf 3."


async def test_sync_tools_work_in_threads() -> None:
    place, library = Place(), Library()
    app = Application("office").add(Assistant, Desk, library, place.world, *place.store.ports)
    app.add(ScriptedModel([calls("count", word="abc"), says("3")]))
    initialize(app)
    async with app:
        result = await (await app.get(AgentRuns).start(Assistant, "count")).result()
    assert result.output == "3"
    assert library.threads
    assert threading.get_ident() not in library.threads


WRONG_CALLS = [
    (calls("lost", book="Ada"), "lost", "Ada is lost"),
    (calls("read_mind", of="Ada"), "read_mind", "there is no tool 'read_mind'. On offer are: "),
    (calls("pay", amount="much", to="me"), "pay", "to"),
    (calls("pay"), "pay", "amount"),
]


@pytest.mark.parametrize(("call", "tool", "words"), WRONG_CALLS)
async def test_a_call_that_goes_wrong_is_told_to_the_model_and_the_run_goes_on(
    call: ScriptEntry, tool: str, words: str
) -> None:
    model = ScriptedModel([call, says("Sorry.")])
    events, result = await told(model)
    assert (result.status, result.output) == (AgentStatus.COMPLETED, "Sorry.")
    ((name, outcome),) = outcomes(events)
    assert name == tool
    assert isinstance(outcome, dict)
    assert words in str(outcome["error"])
    heard = model.requests[1].messages[-1]
    assert heard.role is ModelMessageRole.TOOL
    assert words in heard.text


async def test_all_problems_of_wrong_arguments_are_told_at_once() -> None:
    model = ScriptedModel([calls("pay", amount="much", to="me"), says("Sorry.")])
    events, _ = await told(model)
    ((_, outcome),) = outcomes(events)
    assert "amount" in str(outcome)
    assert "to" in str(outcome)


async def test_a_read_only_tool_with_a_bug_is_a_failure_that_the_model_hears_of() -> None:
    events, result = await told([calls("broken"), says("It is broken.")])
    ((_, outcome),) = outcomes(events)
    assert result.output == "It is broken."
    assert "ZeroDivisionError" in str(outcome)


async def test_turns_in_which_every_call_fails_come_to_an_end() -> None:
    script = [turn(says("Trying."), calls("lost", book="a")), calls("lost", book="b")]
    _, result = await told(script, OneByOne)
    assert result.status is AgentStatus.INTERRUPTED
    assert result.interruption_reason == "agent_tool_errors_exceeded"
    assert result.output == "Trying."


async def test_an_unrepeatable_tool_that_fails_without_saying_so_waits_for_a_person() -> None:
    place = Place()
    place.world.failures["pay 2"] = TimeoutError("no answer")
    async with place.process(ScriptedModel([calls("pay", amount="2"), says("Paid.")])) as runs:
        result = await (await runs.start(Assistant, "pay")).result()
        assert result.status is AgentStatus.INTERRUPTED
        (question,) = await runs.questions(result.state.id)
        assert isinstance(question, AgentRecoveryRequest)
        assert place.world.done == []


async def test_a_typed_answer_arrives_in_its_type() -> None:
    model = ScriptedModel([says(output=Report("Q3", Decimal("1.50")))])
    events, result = await told(model, Reporter)
    assert result.output == Report("Q3", Decimal("1.50"))
    (finished,) = [e for e in events if isinstance(e, RunFinishedEvent)]
    assert finished.metadata["output"] == {"title": "Q3", "total": "1.50"}


async def test_an_answer_of_another_type_is_repaired_once() -> None:
    model = ScriptedModel([says('{"title": 3}'), says(output=Report("Q3", Decimal(1)))])
    _, result = await told(model, Reporter)
    assert (result.status, result.output) == (AgentStatus.COMPLETED, Report("Q3", Decimal(1)))
    said, note = model.requests[1].messages[-2:]
    assert (said.role, said.text) == (ModelMessageRole.ASSISTANT, '{"title": 3}')
    assert "title" in note.text
    assert "total" in note.text


async def test_an_answer_that_is_not_repaired_fails_the_run_with_its_problems() -> None:
    _, result = await told([says("no json"), says("still none")], Reporter)
    assert result.status is AgentStatus.FAILED
    assert result.error is not None
    assert "still none" in str(result.error["message"])


async def test_a_repair_is_replayed_as_it_was() -> None:
    """The wrong answer is recorded too: a new process asks the same second question."""
    place = Place()
    model = ScriptedModel([says('{"title": 3}'), says(output=Report("Q3", Decimal(1)))])
    async with place.process(model) as runs:
        first = await (await runs.start(Reporter, "report")).result()
        forked = await runs.fork(first.state.id, at=await row_of(place, first.state.id, "model#1"))
    again = model.restarted()
    async with place.process(again) as runs:
        result = await (await runs.resume(forked.id)).result()
    assert result.output == Report("Q3", Decimal(1))
    assert len(again.requests) == 1
    assert asked(again) == asked(model)[1:]


async def row_of(place: Place, run_id: str, ending: str) -> int:
    """The number of the row that says what came of an action."""
    rows = [row async for row in place.store.journal.read(RunKey("default", run_id))]
    return next(row.seq for row in rows if row.action_id.endswith(ending))


async def test_a_reply_that_was_cut_goes_on_and_is_one_answer() -> None:
    _, result = await told([says("Good ", finish_reason=LENGTH), says("day.")])
    assert result.output == "Good day."


STOPPED = [
    (
        [says("Half", finish_reason=LENGTH), says(" more", finish_reason=LENGTH)],
        "agent_finish_length",
        "Half more",
    ),
    ([says("I", finish_reason=ModelFinishReason.CONTENT_FILTER)], "agent_content_filter", "I"),
    ([says("No.", finish_reason=ModelFinishReason.REFUSAL)], "agent_refusal", "No."),
    ([says(""), says("")], "agent_empty_reply", ""),
]


@pytest.mark.parametrize(("script", "reason", "best"), STOPPED, ids=[row[1] for row in STOPPED])
async def test_a_reply_that_is_no_answer_ends_the_run_with_its_reason_and_the_best_text(
    script: Sequence[ScriptEntry], reason: str, best: str
) -> None:
    events, result = await told(script)
    assert result.status is AgentStatus.INTERRUPTED
    assert (result.interruption_reason, result.output) == (reason, best)
    assert result.error is not None
    assert result.error["code"] == reason
    (stopped,) = [e for e in events if isinstance(e, RunPausedEvent)]
    assert (stopped.reason, stopped.metadata["code"]) == ("limit_reached", reason)


async def test_calls_of_a_reply_that_was_cut_are_not_made() -> None:
    place = Place()
    cut = turn(calls("pay", amount="2"), says("", finish_reason=LENGTH))
    async with place.process(ScriptedModel([cut, says("Never mind.")])) as runs:
        result = await (await runs.start(Assistant, "pay")).result()
    assert (result.output, place.world.done) == ("Never mind.", [])


async def test_a_model_that_fails_for_good_fails_the_run() -> None:
    events, result = await told([fails("refused", after="I thi")])
    assert result.status is AgentStatus.FAILED
    assert result.error is not None
    assert (result.error["retryable"], "refused" in str(result.error["message"])) == (False, True)
    assert "".join(e.delta for e in events if isinstance(e, MessageDeltaEvent)) == "I thi"


async def test_the_text_of_a_stream_that_was_lost_is_superseded_by_a_message_of_its_own() -> None:
    place = Place()
    script = [fails("lost", retryable=True, after="I thi"), says("I think so.")]
    async with place.process(ScriptedModel(script), ModelRetrySettings(tries_in_process=0)) as runs:
        paused = await (await runs.start(Assistant, "help")).result()
        assert paused.state.reason is AgentStateReason.MODEL_UNAVAILABLE
        result = await (await runs.resume(paused.state.id)).result()
        assert result.output == "I think so."
        events = [event async for event in runs.events(paused.state.id, follow=False)]
        await runs.verify(paused.state.id)
    texts: dict[str, str] = {}
    for event in events:
        if isinstance(event, MessageDeltaEvent):
            texts[event.message_id] = texts.get(event.message_id, "") + event.delta
    lost, whole = texts.items()
    assert (lost[1], whole[1]) == ("I thi", "I think so.")
    marks = [event for event in events if event.metadata.get("superseded")]
    assert [getattr(mark, "message_id", None) for mark in marks] == [lost[0]]


async def test_a_call_whose_arguments_are_no_json_goes_back_to_the_model_as_an_error() -> None:
    place, model = Place(), ScriptedModel([calls("pay", unreadable_arguments('{"amount": ')), says("Sorry.")])
    async with place.process(model) as runs:
        result = await (await runs.start(Assistant, "pay")).result()
    assert (result.output, place.world.done) == ("Sorry.", [])
    role, text = asked(model)[1][-1]
    assert role is ModelMessageRole.TOOL
    assert "The arguments are no JSON object" in text


def limited(**limits: object) -> type[object]:
    """An agent with limits."""

    @Agent(spec=AgentExecutionSpec(name="limited", recovery=DURABLE, limits=AgentExecutionLimits(**limits)))
    class Limited(Helper):
        """You have little time."""

    return Limited


ON_AND_ON = [turn(says(f"Word {n}."), calls("count", word="a" * n)) for n in range(1, 9)]
LIMITS: list[tuple[dict[str, object], str, str]] = [
    ({"max_steps": 2}, "agent_max_steps_exceeded", "Word 2."),
    ({"max_tool_calls": 2}, "agent_max_tool_calls_exceeded", "Word 3."),
    ({"max_tokens": 600}, "agent_max_tokens_exceeded", "Word"),
]


@pytest.mark.parametrize(("limits", "code", "best"), LIMITS, ids=[row[1] for row in LIMITS])
async def test_a_limit_ends_the_run_with_its_reason_and_the_best_text(
    limits: dict[str, object], code: str, best: str
) -> None:
    place, agent = Place(), limited(**limits)
    async with place.process(ScriptedModel(ON_AND_ON), agent) as runs:
        result = await (await runs.start(agent, "on")).result()
    assert result.status is AgentStatus.INTERRUPTED
    assert result.interruption_reason == code
    assert str(result.output).startswith(best)


async def test_the_time_of_a_run_ends_it_in_the_middle_of_a_tool() -> None:
    place, agent = Place(), limited(timeout_seconds=30)
    async with place.process(
        ScriptedModel([turn(says("Reading."), calls("read", book="alone"))]), agent
    ) as runs:
        run = await runs.start(agent, "read alone")
        async for event in run.events():
            if isinstance(event, ToolCallEndEvent):
                break
        place.clock.advance(31)
        result = await run.result()
    assert result.status is AgentStatus.FAILED
    assert result.interruption_reason == "agent_timeout"
    assert result.output == "Reading."


async def test_a_call_that_needs_approval_waits_and_goes_on_with_the_answer() -> None:
    place = Place()
    model = ScriptedModel([turn(says("Asking."), calls("refund", amount="5")), says("Refunded.")])
    async with place.process(model) as runs:
        run = await runs.start(Assistant, "refund 5")
        events = [event async for event in run.events()]
        assert isinstance(events[-1], RunPausedEvent)
        assert place.world.done == []
        (question,) = await runs.questions(run.id)
        await runs.approve(question.id)
    after = model.restarted()
    async with place.process(after) as runs:
        resumed = await runs.resume(run.id)
        later = [event async for event in resumed.events()]
        result = await resumed.result()
    assert (result.status, result.output) == (AgentStatus.COMPLETED, "Refunded.")
    assert place.world.done == ["refund 5"]
    assert len(after.requests) == 1
    assert [type(event) for event in later if not isinstance(event, MessageDeltaEvent)] == [
        RunStartedEvent,
        ToolCallResultEvent,
        StepStartedEvent,
        StepFinishedEvent,
        RunFinishedEvent,
    ]
    assert "".join(e.delta for e in later if isinstance(e, MessageDeltaEvent)) == "Refunded."


async def test_the_whole_log_of_a_resumed_run_tells_everything_once() -> None:
    place = Place()
    model = ScriptedModel(
        [
            turn(says("Asking.", reasoning="Hm."), calls("look", what="it"), calls("refund", amount="5")),
            says("Done."),
        ]
    )
    async with place.process(model) as runs:
        run = await runs.start(Assistant, "refund 5")
        await run.result()
        (question,) = await runs.questions(run.id)
        await runs.approve(question.id)
    async with place.process(model.restarted()) as runs:
        await (await runs.resume(run.id)).result()
        events = [event async for event in runs.events(run.id)]
    said = "".join(e.delta for e in events if isinstance(e, MessageDeltaEvent))
    assert said == "Asking.Done."
    assert "".join(e.delta for e in events if isinstance(e, ReasoningDeltaEvent)) == "Hm."
    assert [e.call_id for e in events if isinstance(e, ToolCallStartEvent)] == ["call-1", "call-2"]
    assert [e.call_id for e in events if isinstance(e, ToolCallEndEvent)] == ["call-1", "call-2"]
    assert [name for name, _ in outcomes(events)] == ["look", "refund"]
    assert [e.step_name for e in events if isinstance(e, StepStartedEvent)] == ["model-1", "model-2"]
    assert [e.step_name for e in events if isinstance(e, StepFinishedEvent)] == ["model-1", "model-2"]
    assert not any(e.metadata.get("superseded") for e in events)


async def test_a_completed_run_replays_without_asking_the_model_or_calling_a_tool() -> None:
    place = Place()
    script = [turn(calls("look", what="a"), calls("note", what="b")), calls("pay", amount="2"), says("Done.")]
    async with place.process(ScriptedModel(script)) as runs:
        first = await (await runs.start(Assistant, "help")).result()
        rows = await row_of(place, first.state.id, "model#3")
        forked = await runs.fork(first.state.id, at=rows)
    done = list(place.world.done)
    silent = ScriptedModel([])
    async with place.process(silent) as runs:
        again = await runs.resume(forked.id)
        result = await again.result()
    assert (result.status, result.output, result.turns) == (first.status, first.output, first.turns)
    assert result.usage == first.usage
    assert (silent.requests, place.world.done) == ([], done)


async def test_the_questions_of_one_reply_are_asked_together() -> None:
    place = Place()
    model = ScriptedModel([turn(calls("refund", amount="5"), calls("refund", amount="7")), says("Both.")])
    async with place.process(model) as runs:
        result = await (await runs.start(Assistant, "refund both")).result()
        first, second = await runs.questions(result.state.id)
        await runs.approve(second.id)
        await runs.approve(first.id)
        result = await (await runs.resume(result.state.id)).result()
    assert (result.output, place.world.done) == ("Both.", ["refund 5", "refund 7"])


async def test_a_modified_call_is_made_as_modified() -> None:
    place = Place()
    model = ScriptedModel([calls("refund", amount="500"), says("Refunded.")])
    async with place.process(model) as runs:
        result = await (await runs.start(Assistant, "refund")).result()
        (question,) = await runs.questions(result.state.id)
        await runs.modify(question.id, {"amount": "5"})
        result = await (await runs.resume(result.state.id)).result()
    assert (result.output, place.world.done) == ("Refunded.", ["refund 5"])


async def test_a_rejection_ends_the_run_or_is_told_to_the_model_as_the_agent_says() -> None:
    for agent, status in ((Assistant, AgentStatus.FAILED), (PatientAssistant, AgentStatus.COMPLETED)):
        place = Place()
        model = ScriptedModel([calls("refund", amount="5"), says("Then not.")])
        async with place.process(model) as runs:
            result = await (await runs.start(agent, "refund")).result()
            (question,) = await runs.questions(result.state.id)
            await runs.reject(question.id, comment="too much")
            result = await (await runs.resume(result.state.id)).result()
        assert (result.status, place.world.done) == (status, [])
    assert "too much" in model.requests[-1].messages[-1].text


async def test_a_blank_question_is_refused_before_anything_is_written() -> None:
    place = Place()
    async with place.process(ScriptedModel([])) as runs:
        for nothing in (None, "", "  "):
            with pytest.raises(
                AgentDefinitionError, match="Assistant has no execute\\(\\) and needs an instruction"
            ):
                await runs.start(Assistant, nothing)
        assert (await runs.list()).runs == ()


async def test_a_question_that_is_a_value_is_asked_as_json() -> None:
    model = ScriptedModel([says("Yes.")])
    await told(model, given=Report("Q3", Decimal(1)))
    assert model.requests[0].messages[-1] == ModelMessage.user('{"title":"Q3","total":"1"}')


async def test_an_agent_may_be_made_from_another_declarative_agent() -> None:
    @Agent(spec=AgentExecutionSpec(name="butler", recovery=DURABLE))
    class Butler(Assistant):
        """You help at home."""

    place, model = Place(), ScriptedModel([says("At once.")])
    async with place.process(model, Butler) as runs:
        result = await (await runs.start(Butler, "tea")).result()
    assert result.output == "At once."
    assert model.requests[0].messages[0] == ModelMessage.system("You help at home.")


async def test_a_run_that_waits_can_be_cancelled_by_another_process() -> None:
    place = Place()
    async with place.process(ScriptedModel([calls("refund", amount="5")])) as runs:
        waiting = await (await runs.start(Assistant, "refund")).result()
    async with place.process(ScriptedModel([])) as runs:
        assert await runs.cancel(waiting.state.id, reason="changed my mind")
        assert (await runs.get(waiting.state.id)).status is AgentStatus.CANCELLED
    assert place.world.done == []


@Agent(spec=AgentExecutionSpec(name="twice", recovery=DURABLE))
class HoldsItTwice:
    """Holds one pod under two names, and one of the standard library."""

    def __init__(self, desk: Desk) -> None:
        self.desk, self.table, self.names = desk, desk, {"a": 1}


async def test_a_pod_that_is_held_twice_offers_its_tools_once() -> None:
    model = ScriptedModel([says("Fine.")])
    async with Place().process(model, HoldsItTwice) as runs:
        await (await runs.start(HoldsItTwice, "hello")).result()
    calling = model.requests[0].tool_calling
    assert calling is not None
    assert sorted(tool.name for tool in calling.tools) == ["look", "note", "pay", "refund"]


class SlowLeases(MemoryLeases):
    """A store that takes its time to give a lease back."""

    async def release(self, run: RunKey, owner: str) -> None:
        for _ in range(200):
            await asyncio.sleep(0)
        await super().release(run, owner)


async def test_a_run_can_be_resumed_as_soon_as_it_has_told_that_it_waits() -> None:
    store = MemoryStore()
    app = Application("office").add(Assistant, Desk, Library, World(), SlowLeases(store.tables))
    app.add(store.journal, store.states, store.signals, store.evidence)
    app.add(ScriptedModel([calls("refund", amount="5"), says("Refunded.")]))
    initialize(app)
    async with app:
        runs = app.get(AgentRuns)
        run = await runs.start(Assistant, "refund")
        async for event in run.events():
            if isinstance(event, RunPausedEvent) and event.approval_id is not None:
                await runs.approve(event.approval_id)
                break
        result = await (await runs.resume(run.id)).result()
    assert result.output == "Refunded."

"""The ReAct loop with a scripted model and plain functions: each way from the question to its end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import cast

import pytest
from tests.unit.architectures.plain import BY, PlainDependencies

from pilotage.agent.events import (
    AgentEvent,
    MessageDeltaEvent,
    ReasoningDeltaEvent,
    StepFinishedEvent,
    StepStartedEvent,
    ToolCallArgsDeltaEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from pilotage.agent.messages import ModelMessage, ModelMessageRole, ModelToolCall
from pilotage.agent.model_reply import (
    ModelFinishReason,
    ModelResponse,
    ModelStreamEvent,
    ModelStreamEventKind,
    ModelUsage,
)
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.architecture import AgentSession, Architecture
from pilotage.agent.ports.model import IAgentModel
from pilotage.agent.tools.declare import agent_tool
from pilotage.architectures.moves import GO_ON, NOT_CALLED, SPEAK, StopReason
from pilotage.architectures.react import React
from pilotage.errors import AgentDefinitionError, AgentStructuredOutputError, ModelCallError, ToolError
from pilotage.testing.script import ScriptEntry, calls, fails, says, turn
from pilotage.testing.scripted_model import ScriptedModel

LENGTH, FILTER, REFUSAL = (
    ModelFinishReason.LENGTH,
    ModelFinishReason.CONTENT_FILTER,
    ModelFinishReason.REFUSAL,
)


@dataclass
class City:
    name: str


@agent_tool
def nickname(name: str) -> str:
    """The nickname of a person."""
    return f"{name} the Countess"


@agent_tool
def broken(name: str) -> str:
    """A tool that never works."""
    raise ToolError(f"{name} is not there")


@dataclass
class Told:
    """What a run left behind."""

    session: AgentSession
    deps: PlainDependencies
    model: ScriptedModel
    events: list[AgentEvent] = field(default_factory=list[AgentEvent])

    @property
    def roles(self) -> str:
        return " ".join(message.role.value for message in self.session.messages)

    @property
    def outcome(self) -> tuple[object, str | None]:
        assert self.session.interrupted is (self.session.interruption_reason is not None)
        return self.session.output, self.session.interruption_reason

    def of(self, kind: type[AgentEvent]) -> list[AgentEvent]:
        return [event for event in self.events if isinstance(event, kind)]


async def tell(
    script: Sequence[ScriptEntry],
    react: React | None = None,
    *,
    tools: Sequence[Callable[..., object]] = (nickname, broken),
    output_type: object = None,
    max_turns: int = 10,
) -> Told:
    """The story of a script, told to its end; every turn of the script must be used."""
    model = ScriptedModel(script)
    deps = PlainDependencies(model, tools, output_type=output_type, max_turns=max_turns)
    told = Told(deps.fresh_session("Be kind."), deps, model)
    async for event in (react or React()).run(told.session, deps, "Greet Ada."):
        told.events.append(event)
    model.assert_complete()
    return told


ASK = calls("nickname", name="Ada")
FAIL = calls("broken", name="Ada")
CUT = says("Once upon ", finish_reason=LENGTH)
CUT_CALL = turn(ASK, says(finish_reason=LENGTH))


@pytest.mark.parametrize(
    ("script", "outcome", "roles"),
    [
        pytest.param([says("Hello.")], ("Hello.", None), "user assistant", id="an answer at once"),
        pytest.param(
            [ASK, says("Hello.")], ("Hello.", None), "user assistant tool assistant", id="a tool on the way"
        ),
        pytest.param(
            [FAIL, calls("nobody"), turn(says("Hm."), calls("nickname", nmae=1))],
            ("Hm.", StopReason.TOOL_ERRORS),
            "user" + " assistant tool" * 3,
            id="three failing turns end it",
        ),
        pytest.param(
            [FAIL, FAIL, turn(ASK, FAIL), FAIL, FAIL, says("Hello.")],
            ("Hello.", None),
            "user assistant tool assistant tool assistant tool tool assistant tool assistant tool assistant",
            id="a call that succeeds is progress",
        ),
        pytest.param(
            [CUT, says("a time.")],
            ("Once upon a time.", None),
            "user assistant evidence assistant",
            id="a reply that was cut goes on",
        ),
        pytest.param(
            [CUT, says("a time", finish_reason=LENGTH)],
            ("Once upon a time", StopReason.LENGTH),
            "user assistant evidence assistant",
            id="a reply that is cut again is a partial one",
        ),
        pytest.param(
            [CUT, ASK, says("Hello.")],
            ("Hello.", None),
            "user assistant evidence assistant tool assistant",
            id="what was begun before a tool call is not part of the answer",
        ),
        pytest.param(
            [CUT, ASK, CUT, says("a time.")],
            ("Once upon a time.", None),
            "user assistant evidence assistant tool assistant evidence assistant",
            id="a tool call renews the retries",
        ),
        pytest.param(
            [says(finish_reason=LENGTH), says("Hello.")],
            ("Hello.", None),
            "user evidence assistant",
            id="a reply that was cut before its first word",
        ),
        pytest.param(
            [CUT_CALL, ASK, says("Hello.")],
            ("Hello.", None),
            "user assistant tool assistant tool assistant",
            id="calls that were cut are asked for again",
        ),
        pytest.param(
            [CUT_CALL, CUT_CALL],
            ("", StopReason.LENGTH),
            "user assistant tool",
            id="calls that are cut again end it",
        ),
        pytest.param(
            [says("Some", finish_reason=FILTER)],
            ("Some", StopReason.CONTENT_FILTER),
            "user assistant",
            id="a content filter keeps what was said",
        ),
        pytest.param(
            [turn(says("Some", finish_reason=FILTER), ASK)],
            ("Some", StopReason.CONTENT_FILTER),
            "user assistant",
            id="a filtered reply calls nothing",
        ),
        pytest.param(
            [says("I won't.", finish_reason=REFUSAL)],
            ("I won't.", StopReason.REFUSAL),
            "user assistant",
            id="a refusal is no answer",
        ),
        pytest.param(
            [says(), says("Hello.")],
            ("Hello.", None),
            "user evidence assistant",
            id="an empty reply is asked again",
        ),
        pytest.param(
            [says(reasoning="Hm."), says()],
            ("", StopReason.EMPTY_REPLY),
            "user evidence",
            id="two empty replies",
        ),
        pytest.param(
            [CUT, says(), says("a time.")],
            ("Once upon a time.", None),
            "user assistant evidence evidence assistant",
            id="an empty reply does not lose what was begun",
        ),
    ],
)
async def test_a_story_ends_with_an_answer_or_with_a_reason(
    script: Sequence[ScriptEntry], outcome: tuple[object, str | None], roles: str
) -> None:
    told = await tell(script)
    assert told.outcome == outcome
    assert told.roles == roles
    assert told.session.turns == len(script)


@pytest.mark.parametrize("name", ["nobody", "broken"])
async def test_the_model_is_told_what_went_wrong_with_a_tool(name: str) -> None:
    told = await tell([calls(name, name="Ada"), says("Sorry.")])
    (result,) = told.of(ToolCallResultEvent)
    assert isinstance(result, ToolCallResultEvent)
    assert result.metadata == {"is_error": True}
    assert "Ada is not there" in str(result.result) or "no tool 'nobody'" in str(result.result)
    assert told.session.messages[2].text.startswith('{"error":')


async def test_calls_that_were_cut_are_answered_but_never_made() -> None:
    told = await tell([CUT_CALL, says("Hello.")])
    assert told.deps.plain_tools.called == []
    assert [cast(ToolCallResultEvent, each).result for each in told.of(ToolCallResultEvent)] == [
        {"error": NOT_CALLED}
    ]


async def test_the_turn_limit_keeps_the_best_partial_text() -> None:
    script = [turn(says("Looking."), ASK), ASK]
    for told in (await tell(script, max_turns=2), await tell(script, React(max_turns=2), max_turns=9)):
        assert told.outcome == ("Looking.", "agent_max_steps_exceeded")
        assert told.roles == "user assistant tool assistant tool"


async def test_the_events_of_a_run_are_those_of_its_steps_in_order() -> None:
    told = await tell([turn(says("Hm. ", reasoning="Who?"), ASK), says("Hello.")])
    assert [type(event) for event in told.events if not isinstance(event, ToolCallArgsDeltaEvent)] == [
        StepStartedEvent,
        ReasoningDeltaEvent,
        MessageDeltaEvent,
        ToolCallStartEvent,
        ToolCallEndEvent,
        StepFinishedEvent,
        ToolCallResultEvent,
        StepStartedEvent,
        MessageDeltaEvent,
        StepFinishedEvent,
    ]
    assert {event.attribution for event in told.events} == {BY}
    started = [cast(StepStartedEvent, event).step_name for event in told.of(StepStartedEvent)]
    finished = [cast(StepFinishedEvent, event).step_name for event in told.of(StepFinishedEvent)]
    assert started == finished == ["model-1", "model-2"]


async def test_ids_tie_deltas_calls_and_results_together() -> None:
    told = await tell([turn(says("Hm. ", reasoning="Who?"), ASK), says("Hello.")])
    said = [event.message_id for event in told.events if isinstance(event, MessageDeltaEvent)]
    assert said == ["run-1:message-1", "run-1:message-2"]
    (thought,) = [event for event in told.events if isinstance(event, ReasoningDeltaEvent)]
    assert thought.reasoning_id == "run-1:message-1:reasoning"
    (result,) = [event for event in told.events if isinstance(event, ToolCallResultEvent)]
    assert (result.call_id, result.tool_name, result.message_id, result.result) == (
        "call-1",
        "nickname",
        "run-1:message-1",
        "Ada the Countess",
    )


async def test_usage_is_told_with_every_step_and_added_up() -> None:
    told = await tell([ASK, says("Hello.")])
    steps = [event.metadata for event in told.events if isinstance(event, StepFinishedEvent)]
    assert [step["finish_reason"] for step in steps] == ["tool_calls", "stop"]
    totals = [cast("dict[str, int]", step["usage"])["total_tokens"] for step in steps]
    assert told.session.cumulative_usage.total_tokens == sum(totals) > 0


async def test_instructions_tools_and_history_reach_every_request() -> None:
    model = ScriptedModel([ASK, says("Hello.")])
    deps = PlainDependencies(model, [nickname])
    session = deps.fresh_session("Be kind.")
    session.messages.extend([ModelMessage.user("Hi."), ModelMessage.assistant("Hi!")])
    [event async for event in React().run(session, deps, "Greet Ada.")]
    assert [[message.role.value for message in request.messages] for request in model.requests] == [
        ["system", "user", "assistant", "user"],
        ["system", "user", "assistant", "user", "assistant", "tool"],
    ]
    assert [request.tool_calling for request in model.requests] == [deps.tools.calling] * 2


async def test_without_instructions_or_prompt_the_session_speaks_for_itself() -> None:
    model = ScriptedModel([says("Hello.")])
    deps = PlainDependencies(model)
    session = deps.fresh_session()
    session.messages.append(ModelMessage.user("Greet Ada."))
    [event async for event in React().run(session, deps, "")]
    assert [message.role for message in model.requests[0].messages] == [ModelMessageRole.USER]


@pytest.mark.parametrize(
    ("react", "called"),
    [(React(), [["nickname", "nickname"]]), (React(parallel_tools=False), [["nickname"], ["nickname"]])],
)
async def test_calls_of_one_reply_are_made_together_or_one_by_one(
    react: React, called: list[list[str]]
) -> None:
    told = await tell([turn(ASK, calls("nickname", name="Bo")), says("Hello.")], react)
    assert told.deps.plain_tools.called == called
    assert [message.text for message in told.session.messages[2:4]] == ["Ada the Countess", "Bo the Countess"]


@pytest.mark.parametrize("bound", [1, 2])
async def test_the_bound_of_tool_errors_is_a_knob(bound: int) -> None:
    told = await tell([FAIL] * bound, React(max_tool_errors=bound))
    assert told.outcome == ("", StopReason.TOOL_ERRORS)


async def test_continuations_are_a_knob() -> None:
    assert (await tell([CUT], React(max_continuations=0))).outcome == ("Once upon ", StopReason.LENGTH)
    assert (await tell([CUT, CUT, says("a time.")], React(max_continuations=2))).outcome == (
        "Once upon Once upon a time.",
        None,
    )


async def test_notes_are_the_applications_and_never_a_users_words() -> None:
    told = await tell([CUT, says(), says("a time.")])
    notes = [message for message in told.session.messages if message.role is ModelMessageRole.EVIDENCE]
    assert [note.text for note in notes] == [GO_ON, SPEAK]
    assert [note.metadata["source"] for note in notes] == ["react", "react"]


@pytest.mark.parametrize(
    ("script", "output"),
    [
        ([says(output={"name": "Brest"})], City("Brest")),
        ([ASK, says(output={"name": "Brest"})], City("Brest")),
        ([says("It is Brest."), says(output={"name": "Brest"})], City("Brest")),
        ([says(output={"town": "Brest"}), says(output={"name": "Brest"})], City("Brest")),
        ([says('{"na', finish_reason=LENGTH), says(output={"name": "Brest"})], City("Brest")),
        ([says("It is Brest."), ASK, says("It is."), says(output={"name": "Brest"})], City("Brest")),
    ],
)
async def test_an_answer_of_a_type_comes_back_as_a_value(script: Sequence[ScriptEntry], output: City) -> None:
    told = await tell(script, output_type=City)
    assert told.outcome == (output, None)
    assert told.session.turns == len(script)


async def test_a_typed_text_is_the_value_and_not_its_json() -> None:
    assert (await tell([says('"Brest"')], output_type=str)).outcome == ("Brest", None)


async def test_a_repair_shows_the_model_its_answer_and_all_that_is_wrong() -> None:
    told = await tell([says("It is Brest."), says(output={"name": "Brest"})], output_type=City)
    answer, note = told.model.requests[1].messages[-2:]
    assert answer == ModelMessage.assistant("It is Brest.")
    assert note.role is ModelMessageRole.EVIDENCE
    assert "the answer is no JSON" in note.text
    problems = [
        event.metadata.get("problems") for event in told.events if isinstance(event, StepFinishedEvent)
    ]
    assert problems == [["the answer is no JSON: 'It is Brest.'."], None]


async def test_the_best_text_of_answers_that_were_not_repaired_in_time_is_the_last() -> None:
    told = await tell([says("Brest."), says("Brest!")], React(max_repairs=5), output_type=City, max_turns=2)
    assert told.outcome == ("Brest!", StopReason.MAX_STEPS)


async def test_an_answer_that_has_no_text_stands_in_the_transcript_as_its_json() -> None:
    deps = PlainDependencies(Careless([ModelResponse("", {"name": "Brest"})]), output_type=City)
    session = deps.fresh_session()
    [event async for event in React().run(session, deps, "Where?")]
    assert session.output == City("Brest")
    assert session.messages[-1] == ModelMessage.assistant('{"name":"Brest"}')


@pytest.mark.parametrize(
    ("react", "tries"), [(React(), 2), (React(max_repairs=0), 1), (React(max_repairs=2), 3)]
)
async def test_an_answer_that_stays_wrong_is_an_error(react: React, tries: int) -> None:
    model = ScriptedModel([says("It is Brest.")] * tries)
    deps = PlainDependencies(model, output_type=City)
    events: list[AgentEvent] = []
    with pytest.raises(AgentStructuredOutputError, match="no JSON"):
        await _collect(react.run(deps.fresh_session(), deps, "Where?"), events)
    model.assert_complete()
    assert isinstance(events[-1], StepFinishedEvent)


async def _collect(events: AsyncIterator[AgentEvent], into: list[AgentEvent]) -> None:
    async for event in events:
        into.append(event)  # noqa: PERF401 - what comes before an error counts


async def test_a_model_that_fails_fails_the_run() -> None:
    with pytest.raises(ModelCallError, match="gone"):
        await tell([ASK, fails("gone", after="Hel")])


async def test_leaving_the_loop_early_closes_the_stream_of_the_model() -> None:
    deps = PlainDependencies(ScriptedModel([says("A long answer.")]))
    async with aclosing(React().run(deps.fresh_session(), deps, "Talk.")) as events:
        async for event in events:
            if isinstance(event, MessageDeltaEvent):
                break
    assert deps.plain_model.closed == 1


class Careless(IAgentModel):
    """A model that gives its replies as whole events, whatever is wrong with them."""

    def __init__(self, replies: Sequence[ModelResponse | None]) -> None:
        self._replies = list(replies)

    async def complete(self, request: ModelRequest) -> ModelResponse:
        raise NotImplementedError

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        reply = self._replies.pop(0)
        if reply is not None:
            yield ModelStreamEvent(ModelStreamEventKind.DONE, response=reply)


async def test_calls_without_an_id_or_with_one_twice_get_their_own() -> None:
    given = {"Ada": None, "Bo": "c", "Cy": "c", "Di": "d"}
    asked = [ModelToolCall("nickname", {"name": name}, call_id) for name, call_id in given.items()]
    deps = PlainDependencies(
        Careless([ModelResponse("", tool_calls=asked), ModelResponse("Hi.")]), [nickname]
    )
    session = deps.fresh_session()
    events = [event async for event in React().run(session, deps, "Greet them.")]
    ids = ["run-1:message-1:call-1", "c", "run-1:message-1:call-3", "d"]
    assert [event.call_id for event in events if isinstance(event, ToolCallStartEvent)] == ids
    assert [event.call_id for event in events if isinstance(event, ToolCallResultEvent)] == ids
    assert [call.call_id for call in session.messages[1].tool_calls] == ids
    assert [message.tool_call_id for message in session.messages[2:6]] == ids


async def test_results_find_the_calls_that_were_streamed() -> None:
    twice = calls("nickname", name="Bo", call_id="c")
    told = await tell([turn(ASK, twice, twice), says("Hello.")])
    started = [event.call_id for event in told.events if isinstance(event, ToolCallStartEvent)]
    assert started == [event.call_id for event in told.events if isinstance(event, ToolCallResultEvent)]
    assert len(set(started)) == 3


@pytest.mark.parametrize(
    "script",
    [
        [turn(says("Hm. ", reasoning="Who?"), ASK), FAIL, says("Hello.")],
        [CUT, says(), says("a time.")],
        [CUT_CALL, says("Some", finish_reason=FILTER)],
    ],
)
async def test_recorded_replies_make_the_same_session_again(script: Sequence[ScriptEntry]) -> None:
    told = await tell(script)
    again = PlainDependencies(Careless(told.deps.plain_model.replies), [nickname, broken])
    session = again.fresh_session("Be kind.")
    [event async for event in React().run(session, again, "Greet Ada.")]
    assert session == told.session


async def test_a_stream_without_a_reply_is_a_failed_call() -> None:
    deps = PlainDependencies(Careless([None]))
    with pytest.raises(ModelCallError, match="without a reply"):
        [event async for event in React().run(deps.fresh_session(), deps, "Greet Ada.")]


async def test_usage_that_a_server_does_not_count_stays_unknown() -> None:
    replies = [ModelResponse("", usage=ModelUsage(3)), ModelResponse("Hi.", usage=ModelUsage(4, 2))]
    deps = PlainDependencies(Careless(replies))
    session = deps.fresh_session()
    [event async for event in React().run(session, deps, "Greet Ada.")]
    assert session.cumulative_usage == ModelUsage(7, 2, None)


@pytest.mark.parametrize(
    ("make", "knob"),
    [
        (lambda: React(max_turns=0), "max_turns"),
        (lambda: React(max_tool_errors=0), "max_tool_errors"),
        (lambda: React(max_repairs=-1), "max_repairs"),
        (lambda: React(max_continuations=-1), "max_continuations"),
    ],
)
def test_a_bound_that_makes_no_sense_is_refused(make: Callable[[], React], knob: str) -> None:
    with pytest.raises(AgentDefinitionError, match=f"React.{knob} is"):
        make()


def test_react_is_an_architecture_that_works_alone() -> None:
    react = React()
    assert isinstance(react, Architecture)
    assert (react.name, react.version, react.declared_workers()) == ("react", 1, {})

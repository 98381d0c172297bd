"""Which turn of a script answers which request, and what is said when none does."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from pilotage.agent.messages import ModelMessage
from pilotage.agent.model_reply import ModelResponse
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.model import ModelCapability
from pilotage.errors import ModelCallError
from pilotage.testing.script import calls, fails, says, when
from pilotage.testing.scripted_model import ScriptedModel

QUESTION = ModelMessage.user("Greet Ada.")
SCRIPT = [calls("nickname", name="Ada"), says("Good day, Countess.")]


async def ask(model: ScriptedModel, *messages: ModelMessage) -> ModelResponse:
    return await model.complete(ModelRequest(messages))


async def transcript(model: ScriptedModel) -> list[ModelMessage]:
    """The question, the first turn of the script and the answer to its call."""
    return [QUESTION, (await ask(model, QUESTION)).message, ModelMessage.tool("call-1", "Countess")]


async def texts(model: ScriptedModel, questions: Sequence[str]) -> list[str]:
    return [(await ask(model, ModelMessage.user(question))).content for question in questions]


async def test_turns_are_used_in_order_and_requests_are_recorded() -> None:
    model = ScriptedModel([says("one"), says("two")])
    assert await texts(model, ["same", "same"]) == ["one", "two"]
    assert [request.messages[0].text for request in model.requests] == ["same", "same"]
    model.assert_complete()


async def test_a_new_model_goes_on_where_the_transcript_of_a_resumed_run_is() -> None:
    messages = await transcript(ScriptedModel(SCRIPT))
    resumed = ScriptedModel(SCRIPT)
    assert (await ask(resumed, *messages)).content == "Good day, Countess."
    resumed.assert_complete()


async def test_a_fresh_model_starts_over() -> None:
    model = ScriptedModel(SCRIPT, capability=ModelCapability("small", tools=False))
    await ask(model, QUESTION)
    fresh = model.fresh()
    assert (await ask(fresh, QUESTION)).tool_calls
    assert fresh.capability == model.capability == ModelCapability("small", tools=False)
    assert (len(fresh.requests), len(model.requests)) == (1, 1)


async def test_a_restarted_model_repeats_what_a_dead_process_may_not_have_recorded() -> None:
    model = ScriptedModel([says("plan"), says("draft"), says("review")])
    assert await texts(model, ["plan it", "write it"]) == ["plan", "draft"]
    restarted = model.restarted()
    assert await texts(restarted, ["write it", "review it"]) == ["draft", "review"]
    restarted.assert_complete()
    assert await texts(restarted.restarted(), ["plan it", "review it"]) == ["plan", "review"]


async def test_a_restarted_model_repeats_an_answer_once() -> None:
    model = ScriptedModel([says("one"), says("two")])
    await texts(model, ["same"])
    assert await texts(model.restarted(), ["same", "same"]) == ["one", "two"]


async def test_by_transcript_any_number_of_runs_share_a_model() -> None:
    model = ScriptedModel(SCRIPT, by_transcript=True)

    async def run() -> str:
        return (await ask(model, *await transcript(model))).content

    assert await asyncio.gather(*(run() for _ in range(20))) == ["Good day, Countess."] * 20
    model.assert_complete()


async def test_by_transcript_the_last_turn_may_fail_for_everybody() -> None:
    model = ScriptedModel([fails("down")], by_transcript=True)
    for _ in range(2):
        with pytest.raises(ModelCallError):
            await ask(model, QUESTION)


async def test_a_condition_has_turns_of_its_own() -> None:
    model = ScriptedModel(
        [says("first"), when("research", says("found"), says("found more")), says("second")]
    )
    asked = ["research a", "hello", "research b", "goodbye"]
    assert await texts(model, asked) == ["found", "first", "found more", "second"]
    model.assert_complete()


@pytest.mark.parametrize("retryable", [True, False])
async def test_a_failure_is_raised_once_and_the_next_turn_follows(retryable: bool) -> None:
    model = ScriptedModel([fails("overloaded", retryable=retryable), says("Hello.")])
    with pytest.raises(ModelCallError) as caught:
        await ask(model, QUESTION)
    assert (str(caught.value), caught.value.retryable) == ("overloaded", retryable)
    assert (await ask(model, QUESTION)).content == "Hello."


async def test_a_request_beyond_the_script_is_shown_with_what_was_expected() -> None:
    model = ScriptedModel(SCRIPT)
    messages = await transcript(model)
    await ask(model, *messages)
    with pytest.raises(AssertionError) as caught:
        await ask(
            model, *messages, ModelMessage.assistant("Good day, Countess."), ModelMessage.user("x" * 300)
        )
    assert str(caught.value).splitlines() == [
        "ScriptedModel: the script has 2 turns, all used.",
        '  turn 1: calls nickname({"name":"Ada"})',
        "  turn 2: says 'Good day, Countess.'",
        "The last messages of the request:",
        "  assistant: '' [calls nickname as call-1]",
        "  tool (call-1): 'Countess'",
        "  assistant: 'Good day, Countess.'",
        f"  user: '{'x' * 199}...",
        "Add the turn that should answer it, or find out why the model is asked again.",
    ]


async def test_a_request_that_no_condition_describes_is_shown_with_the_conditions() -> None:
    def is_long(request: ModelRequest) -> bool:
        return len(request.messages) > 9

    model = ScriptedModel([when("plan", says("a")), when(is_long, says("b"))])
    with pytest.raises(AssertionError) as caught:
        await ask(model, QUESTION)
    assert str(caught.value).splitlines()[:3] == [
        "ScriptedModel: the script has no turns for requests that no when() describes.",
        "The request is none of those that contain 'plan' or that fit is_long.",
        "The last messages of the request:",
    ]


async def test_unused_turns_are_named() -> None:
    model = ScriptedModel([says("a"), fails("down"), when("plan", says("b"), calls("c", x=1))])
    await texts(model, ["plan", "hello"])
    with pytest.raises(AssertionError) as caught:
        model.assert_complete()
    assert str(caught.value).splitlines() == [
        "ScriptedModel: turns of the script were not used:",
        "  turn 2 for requests that contain 'plan': calls c({\"x\":1})",
        "  turn 2: fails with 'down'",
    ]

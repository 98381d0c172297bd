"""A window condenses once and then follows the transcript; a whole run with a budget, turn by turn."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.context.transcripts import LONG, a_loop, a_turn

from pilotage.agent.compaction import BYTE_ESTIMATOR, Rewrite
from pilotage.agent.context import ContextManifest, ContextTokenBudget
from pilotage.agent.messages import ModelMessage
from pilotage.agent.model_request import ModelRequest
from pilotage.context.assemble import Assembled, assemble
from pilotage.context.compaction import ContextWindow, KeepRecent, carry_out
from pilotage.context.health import KeepWithinBudget, compression, excess_of, health_signals
from pilotage.context.transcript import Transcript

MANIFEST = ContextManifest("m-1", ())


def a_condensed_window(messages: list[ModelMessage]) -> ContextWindow:
    window = ContextWindow.opening("run-1").hear(messages)
    plan = KeepRecent(1).plan(window.shown.messages, excess=1, estimator=BYTE_ESTIMATOR)
    assert isinstance(plan, Rewrite)
    action = compression([], MANIFEST)
    return window.condensed(
        carry_out(plan, window.shown, action=action, manifest=MANIFEST, context_identity="run-1")
    )


def test_a_window_shows_everything_until_something_is_condensed() -> None:
    messages = a_loop(3)
    request = ModelRequest(messages)
    window = ContextWindow.opening("run-1").hear(messages)
    assert window.shown == Transcript.of(messages, salt="run-1")
    assert window.show(request) is request


def test_what_was_condensed_stays_condensed_while_the_transcript_grows() -> None:
    messages = a_loop(3)
    grown = [*messages, *a_turn(9)]
    window = a_condensed_window(messages).hear(grown)
    expected = [*messages[:2], *messages[6:], *a_turn(9)]
    shown = window.show(ModelRequest(grown))
    assert list(shown.messages) == expected
    assert shown.context_digest is not None
    assert shown.context_digest.algorithm == "keep_recent"
    assert window.shown == Transcript.of(expected, salt="run-1")


def test_messages_that_are_equal_but_not_the_same_objects_go_on_too() -> None:
    window = a_condensed_window(a_loop(3))
    assert window.goes_on_to(a_loop(3))
    assert window.hear(a_loop(4)).digest is not None


def test_another_conversation_is_shown_whole() -> None:
    other = [ModelMessage.user("Something else.")]
    window = a_condensed_window(a_loop(3))
    assert not window.goes_on_to(other)
    assert window.hear(other) == ContextWindow.opening("run-1").hear(other)


async def test_a_long_run_stays_within_its_budget_and_is_condensed_now_and_then() -> None:
    budget = ContextTokenBudget(3_000, reserved_output_tokens=500)
    window, messages = ContextWindow.opening("run-1"), a_loop(0)
    condensed_at: list[int] = []
    for turn in range(40):
        messages += a_turn(turn, LONG)
        window = window.hear(messages)
        assembled = shown_to_the_model(window, messages, turn)
        signals = health_signals(assembled.tokens, (), budget, manifest_ref=assembled.manifest.id)
        for action in await KeepWithinBudget().select_optimization_actions(signals, assembled.manifest):
            excess = excess_of(assembled.tokens, budget)
            plan = KeepRecent(2).plan(window.shown.messages, excess=excess, estimator=BYTE_ESTIMATOR)
            assert isinstance(plan, Rewrite)
            compaction = carry_out(
                plan, window.shown, action=action, manifest=assembled.manifest, context_identity="run-1"
            )
            window = window.condensed(compaction)
            condensed_at.append(turn)
            assembled = shown_to_the_model(window, messages, turn)
        assert assembled.tokens <= 2_500
        assert assembled.request.messages[:2] == tuple(messages[:2])
        assert assembled.request.messages[-2:] == tuple(messages[-2:])
    assert condensed_at == [9, 17, 25, 33]


def shown_to_the_model(window: ContextWindow, messages: list[ModelMessage], turn: int) -> Assembled:
    request = replace(window.show(ModelRequest(messages)), metadata={"turn": turn})
    return assemble(request, manifest_id=f"m-{turn}", transcript=window.shown)

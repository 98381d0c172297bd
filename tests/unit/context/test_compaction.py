"""The built-in strategies, the window, and what a compaction leaves behind."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.context.transcripts import LONG, a_loop, a_turn, transcripts

from pilotage.agent.compaction import (
    BYTE_ESTIMATOR,
    LEAST_TRUSTED,
    CompactionPlan,
    CompactionStrategy,
    NothingToDo,
    Rewrite,
    Summary,
    SummaryNeeded,
    is_summary,
    message_tokens,
    units_of,
    untouchable,
)
from pilotage.agent.context import (
    ContextHealthSignal,
    ContextManifest,
    ContextOptimizationAction,
    ContextOptimizationActionKind,
    ContextRotSymptom,
    ContextTokenBudget,
)
from pilotage.agent.evidence import AgentEvidenceKind
from pilotage.agent.messages import MediaPart, ModelMessage, ModelMessageRole, TextPart
from pilotage.agent.model_request import ModelRequest
from pilotage.context.assemble import Assembled, assemble
from pilotage.context.compaction import (
    Compaction,
    ContextWindow,
    KeepRecent,
    SummariseOldTurns,
    TrimToolResults,
    carry_out,
)
from pilotage.context.health import KeepWithinBudget, compression, excess_of, health_signals
from pilotage.context.transcript import Transcript
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import canonical_json

NOW = datetime(2026, 1, 2, tzinfo=UTC)
MANIFEST = ContextManifest("m-1", ())
SIGNAL = ContextHealthSignal("s-1", ContextRotSymptom.OVER_BUDGET, manifest_ref="m-1")
ACTION = ContextOptimizationAction(
    "a-1", ContextOptimizationActionKind.COMPRESSION, ("s-1",), metadata={"n": 1}
)
SHOWN = Transcript.of(a_loop(4, LONG), salt="run-1")


def carried_out(rewrite: Rewrite, shown: Transcript = SHOWN) -> Compaction:
    return carry_out(
        rewrite,
        shown,
        action=ACTION,
        manifest=MANIFEST,
        context_identity="run-1",
        signals=[SIGNAL],
        created_at=NOW,
    )


def a_rewrite(shown: Transcript = SHOWN) -> Rewrite:
    plan = KeepRecent(turns=2).plan(shown.messages, excess=1, estimator=BYTE_ESTIMATOR)
    assert isinstance(plan, Rewrite)
    return plan


def test_the_new_transcript_is_measured() -> None:
    compaction = carried_out(a_rewrite())
    assert compaction.messages == a_rewrite().after
    assert compaction.shown == Transcript.of(a_rewrite().after, salt="run-1")
    assert compaction.tokens_saved == SHOWN.tokens - compaction.shown.tokens > 500


def test_the_digest_says_what_was_condensed_and_how() -> None:
    digest = carried_out(a_rewrite()).digest
    assert (digest.id, digest.algorithm) == ("a-1/keep_recent", "keep_recent")
    assert (digest.context_identity, digest.source_manifest_ref) == ("run-1", "m-1")
    assert digest.derived_from_pack_ids == ("transcript:3-6",)
    assert (digest.summary, digest.created_at) == (None, NOW)


def test_messages_that_do_not_stand_in_a_row_are_named_apart() -> None:
    messages = [*a_loop(1), ModelMessage.evidence("seen"), *a_loop(3)[2:]]
    rewrite = a_rewrite(Transcript.of(messages, salt="run-1"))
    assert carried_out(rewrite).digest.derived_from_pack_ids == ("transcript:3-4", "transcript:6-7")


def test_the_digest_depends_on_what_was_left_out_and_on_the_run() -> None:
    other = Transcript.of(a_loop(4, "short"), salt="run-1")
    elsewhere = Transcript.of(SHOWN.messages, salt="run-2")
    digests = {
        carried_out(a_rewrite()).digest.digest,
        carried_out(a_rewrite(other), other).digest.digest,
        carried_out(a_rewrite(), elsewhere).digest.digest,
    }
    assert len(digests) == 3


def test_a_summary_is_in_the_digest_but_in_no_evidence() -> None:
    plan = SummariseOldTurns(keep_recent=1, max_summary_chars=500).plan(
        SHOWN.messages, excess=1, estimator=BYTE_ESTIMATOR
    )
    assert isinstance(plan, SummaryNeeded)
    compaction = carried_out(plan.with_summary("Ada was not found."))
    assert compaction.digest.summary == "Ada was not found."
    for candidate in (compaction.before, compaction.after):
        assert "Ada was not found." not in canonical_json(candidate.payload)


def test_there_is_evidence_from_before_and_after() -> None:
    compaction = carried_out(a_rewrite())
    before, after = compaction.before, compaction.after
    assert {before.kind, after.kind} == {AgentEvidenceKind.CONTEXT_OPTIMIZATION}
    assert (before.payload["stage"], after.payload["stage"]) == ("before", "after")
    assert before.payload["signals"] == after.payload["signals"] == (SIGNAL.evidence_payload(),)
    assert (before.digest, after.digest) == (None, "a-1/keep_recent")
    assert (before.manifest_ref, after.manifest_ref) == ("m-1", "m-1")
    assert before.payload["action"] == replace(ACTION, manifest_ref="m-1").evidence_payload()
    done = replace(
        ACTION,
        manifest_ref="m-1",
        digest_ref="a-1/keep_recent",
        metadata={
            "n": 1,
            "tokens_before": SHOWN.tokens,
            "tokens_after": compaction.shown.tokens,
            "messages_before": 10,
            "messages_after": 6,
        },
    )
    assert after.payload["action"] == done.evidence_payload()


def a_condensed_window(messages: list[ModelMessage]) -> ContextWindow:
    window = ContextWindow.opening("run-1").moved_to(messages)
    plan = KeepRecent(1).plan(window.shown.messages, excess=1, estimator=BYTE_ESTIMATOR)
    assert isinstance(plan, Rewrite)
    action = compression([], MANIFEST)
    return window.condensed(
        carry_out(plan, window.shown, action=action, manifest=MANIFEST, context_identity="run-1")
    )


def test_a_window_shows_everything_until_something_is_condensed() -> None:
    messages = a_loop(3)
    request = ModelRequest(messages)
    window = ContextWindow.opening("run-1").moved_to(messages)
    assert window.shown == Transcript.of(messages, salt="run-1")
    assert window.show(request) is request


def test_what_was_condensed_stays_condensed_while_the_transcript_grows() -> None:
    messages = a_loop(3)
    grown = [*messages, *a_turn(9)]
    window = a_condensed_window(messages).moved_to(grown)
    expected = [*messages[:2], *messages[6:], *a_turn(9)]
    shown = window.show(ModelRequest(grown))
    assert list(shown.messages) == expected
    assert shown.context_digest is not None
    assert shown.context_digest.algorithm == "keep_recent"
    assert window.shown == Transcript.of(expected, salt="run-1")


def test_messages_that_are_equal_but_not_the_same_objects_go_on_too() -> None:
    window = a_condensed_window(a_loop(3))
    assert window.goes_on_to(a_loop(3))
    assert window.moved_to(a_loop(4)).digest is not None


def test_another_conversation_is_shown_whole() -> None:
    other = [ModelMessage.user("Something else.")]
    window = a_condensed_window(a_loop(3))
    assert not window.goes_on_to(other)
    assert window.moved_to(other) == ContextWindow.opening("run-1").moved_to(other)


async def test_a_long_run_stays_within_its_budget_and_is_condensed_now_and_then() -> None:
    budget = ContextTokenBudget(3_000, reserved_output_tokens=500)
    window, messages = ContextWindow.opening("run-1"), a_loop(0)
    condensed_at: list[int] = []
    for turn in range(40):
        messages += a_turn(turn, LONG)
        window = window.moved_to(messages)
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


USER, REPLY = ModelMessage.user("u"), ModelMessage.assistant("r")
SUMMARY = Summary("So far.", LEAST_TRUSTED).as_message()


def planned(strategy: CompactionStrategy, messages: list[ModelMessage], excess: int = 1) -> CompactionPlan:
    return strategy.plan(messages, excess=excess, estimator=BYTE_ESTIMATOR)


def condensed(
    strategy: CompactionStrategy, messages: list[ModelMessage], summary: str = "s"
) -> list[ModelMessage]:
    match planned(strategy, messages):
        case NothingToDo():
            return messages
        case Rewrite() as rewrite:
            return list(rewrite.after)
        case SummaryNeeded() as plan:
            return list(plan.with_summary(summary).after)


def tokens(messages: list[ModelMessage]) -> int:
    return sum(map(message_tokens, messages))


@pytest.mark.parametrize(
    ("messages", "turns", "kept"),
    [
        pytest.param(a_loop(3), 1, [0, 1, 6, 7], id="the question and the last turn"),
        pytest.param(a_loop(3), 2, [0, 1, 4, 5, 6, 7], id="the last two turns"),
        pytest.param([USER, REPLY, USER, REPLY, USER], 1, [0, 2, 3, 4], id="a turn keeps its question"),
        pytest.param([USER, REPLY, USER, REPLY, USER, REPLY], 1, [0, 4, 5], id="what was asked between goes"),
        pytest.param(
            [USER, ModelMessage.evidence("e"), REPLY, SUMMARY, REPLY, REPLY],
            1,
            [0, 1, 3, 5],
            id="evidence and summaries stay",
        ),
        pytest.param([REPLY, REPLY], 1, [1], id="no question"),
    ],
)
def test_keep_recent_leaves_out_older_turns(
    messages: list[ModelMessage], turns: int, kept: list[int]
) -> None:
    assert condensed(KeepRecent(turns), messages) == [messages[index] for index in kept]


@pytest.mark.parametrize(("keep_last", "trimmed"), [(0, [3, 5, 7]), (1, [3, 5]), (2, [3]), (3, []), (9, [])])
def test_trimming_shows_long_results_in_part_except_the_last(keep_last: int, trimmed: list[int]) -> None:
    messages = a_loop(3, LONG)
    shown = condensed(TrimToolResults(max_chars=200, keep_last=keep_last), messages)
    assert [i for i, (a, b) in enumerate(zip(messages, shown, strict=True)) if a != b] == trimmed
    for index in trimmed:
        assert len(shown[index].text) == 200
        assert shown[index].text.endswith("\n[1,000 characters in all; the rest was left out to save room]")
        assert shown[index].tool_call_id == messages[index].tool_call_id


def test_trimming_leaves_short_results_and_other_messages_alone() -> None:
    messages = [ModelMessage.user(LONG), ModelMessage.assistant(LONG), *a_turn(1), REPLY]
    assert planned(TrimToolResults(max_chars=200, keep_last=0), messages) == NothingToDo()


def test_trimming_keeps_the_media_of_a_result() -> None:
    picture = MediaPart("image/png", url="https://example.org/a.png")
    call, result = a_turn(1)
    result = replace(result, content=(TextPart(LONG), picture, TextPart(LONG)))
    _, shown = condensed(TrimToolResults(max_chars=100, keep_last=0), [call, result])
    assert isinstance(shown.content, tuple)
    assert shown.content[1:] == (picture,)
    assert len(shown.text) == 100


def test_old_turns_are_to_be_summarised_together_with_an_earlier_summary() -> None:
    messages = [USER, SUMMARY, *a_turn(1, LONG), *a_turn(2, LONG), REPLY]
    plan = planned(SummariseOldTurns(keep_recent=1, max_summary_chars=500), messages)
    assert isinstance(plan, SummaryNeeded)
    assert plan.to_summarise == tuple(messages[1:6])
    after = plan.with_summary("All of it.").after
    assert [message.role.value for message in after] == ["user", "evidence", "assistant"]
    assert "All of it." in after[1].text


def test_turns_that_are_hardly_longer_than_a_summary_are_left_alone() -> None:
    assert planned(SummariseOldTurns(keep_recent=1, max_summary_chars=500), a_loop(4)) == NothingToDo()


def test_a_summary_alone_is_not_summarised_again() -> None:
    long_summary = Summary(LONG * 9, LEAST_TRUSTED).as_message()
    assert planned(SummariseOldTurns(1, 500), [USER, long_summary, REPLY, REPLY]) == NothingToDo()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: KeepRecent(0), "KeepRecent.turns is 0"),
        (lambda: TrimToolResults(max_chars=99), "TrimToolResults.max_chars is 99. Use at least 100"),
        (lambda: TrimToolResults(keep_last=-1), "TrimToolResults.keep_last is -1"),
        (lambda: SummariseOldTurns(keep_recent=0), "SummariseOldTurns.keep_recent is 0"),
        (lambda: SummariseOldTurns(max_summary_chars=0), "SummariseOldTurns.max_summary_chars is 0"),
    ],
)
def test_a_strategy_that_makes_no_sense_is_refused(make: Any, message: str) -> None:
    with pytest.raises(AgentDefinitionError, match=message):
        make()


shortening = st.builds(KeepRecent, st.integers(1, 4)) | st.builds(
    TrimToolResults, st.integers(100, 300), st.integers(0, 3)
)
strategies = shortening | st.builds(SummariseOldTurns, st.integers(1, 4), st.integers(1, 300))


@given(strategy=strategies, messages=transcripts(), excess=st.integers(max_value=0))
def test_nothing_is_done_to_what_fits(
    strategy: CompactionStrategy, messages: list[ModelMessage], excess: int
) -> None:
    assert planned(strategy, messages, excess) == NothingToDo()


@given(strategy=strategies, messages=transcripts())
def test_instructions_questions_and_evidence_stay_word_for_word_and_in_order(
    strategy: CompactionStrategy, messages: list[ModelMessage]
) -> None:
    after = condensed(strategy, messages)
    assert [after[i] for i in sorted(untouchable(after))] == [
        messages[i] for i in sorted(untouchable(messages))
    ]


@given(strategy=strategies, messages=transcripts())
def test_a_call_and_its_results_stay_or_go_together(
    strategy: CompactionStrategy, messages: list[ModelMessage]
) -> None:
    numbered = [replace(message, metadata={"n": n}) for n, message in enumerate(messages)]
    left = {cast(int, message.metadata.get("n")) for message in condensed(strategy, numbered)}
    for unit in units_of(messages):
        assert left.issuperset(unit.members) or left.isdisjoint(unit.members)


@given(strategy=strategies, messages=transcripts())
def test_what_is_left_keeps_its_order_and_nobody_says_anything_new(
    strategy: CompactionStrategy, messages: list[ModelMessage]
) -> None:
    numbered = [replace(message, metadata={"n": n}) for n, message in enumerate(messages)]
    after = condensed(strategy, numbered)
    left = [message for message in after if not is_summary(message)]
    numbers = [cast(int, message.metadata["n"]) for message in left]
    assert numbers == sorted(set(numbers))
    assert [message.role for message in left] == [messages[number].role for number in numbers]
    assert len(after) - len(left) <= 1


@given(strategy=strategies, messages=transcripts())
def test_doing_it_twice_changes_nothing_more(
    strategy: CompactionStrategy, messages: list[ModelMessage]
) -> None:
    after = condensed(strategy, messages)
    assert condensed(strategy, after) == after


@given(strategy=shortening, messages=transcripts())
def test_leaving_out_and_trimming_never_make_a_context_larger(
    strategy: CompactionStrategy, messages: list[ModelMessage]
) -> None:
    after = condensed(strategy, messages)
    assert tokens(after) < tokens(messages) or after == messages


@given(strategy=strategies, messages=transcripts())
def test_the_model_is_never_left_with_a_result_whose_call_is_gone(
    strategy: CompactionStrategy, messages: list[ModelMessage]
) -> None:
    def orphans(of: list[ModelMessage]) -> int:
        return sum(of[unit.start].role is ModelMessageRole.TOOL for unit in units_of(of))

    assert orphans(condensed(strategy, messages)) <= orphans(messages)

"""The built-in strategies, as a table and as properties over odd transcripts."""

from __future__ import annotations

from dataclasses import replace
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
from pilotage.agent.messages import MediaPart, ModelMessage, ModelMessageRole, TextPart
from pilotage.context.compaction import KeepRecent, SummariseOldTurns, TrimToolResults
from pilotage.errors import AgentDefinitionError

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

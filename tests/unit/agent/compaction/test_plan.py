"""A plan that breaks a rule cannot be made, whoever wrote the strategy."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.context.transcripts import a_loop, a_turn

from pilotage.agent.compaction import LEAST_TRUSTED, Rewrite, Summary, SummaryNeeded, is_summary, untouchable
from pilotage.agent.messages import ModelMessage
from pilotage.errors import AgentDefinitionError, ModelCallError
from pilotage.safety.trust import Confidentiality, Integrity, TrustLabel

SAID = Summary("Ada was searched for.", LEAST_TRUSTED)
MESSAGES = (
    ModelMessage.system("Be brief."),
    ModelMessage.user("Where is Ada?"),
    *a_turn(1, calls=2),
    ModelMessage.evidence("Ada was seen."),
    ModelMessage.user("Look again."),
    ModelMessage.system("Mind the budget."),
    ModelMessage.assistant("Again."),
    ModelMessage.user("And now?"),
    SAID.as_message(),
)
SYSTEM, QUESTION, CALLS, RESULT, OTHER_RESULT, EVIDENCE, BETWEEN, LATE_SYSTEM, REPLY, LAST, SUMMARY = range(
    11
)


def test_instructions_evidence_and_the_first_and_last_question_are_untouchable() -> None:
    assert untouchable(MESSAGES) == {SYSTEM, QUESTION, EVIDENCE, LATE_SYSTEM, LAST}
    assert untouchable([ModelMessage.user("only")]) == {0}
    assert untouchable([ModelMessage.assistant("alone")]) == frozenset()


@pytest.mark.parametrize(
    ("dropped", "reason"),
    [
        ({SYSTEM}, "message 0 (system) must stay as it is"),
        ({QUESTION}, "message 1 (user) must stay as it is"),
        ({LAST}, "message 9 (user) must stay as it is"),
        ({EVIDENCE}, "message 5 (evidence) must stay as it is"),
        ({CALLS}, "messages 2, 3, 4 are a call and its results"),
        ({RESULT}, "messages 2, 3, 4 are a call and its results"),
        ({CALLS, RESULT}, "messages 2, 3, 4 are a call and its results"),
        ({SUMMARY}, "message 10 is a summary and nothing takes its place"),
        ({99}, "there is no message 99"),
        ({-1}, "there is no message -1"),
    ],
)
def test_what_may_not_go_cannot_be_dropped(dropped: set[int], reason: str) -> None:
    with pytest.raises(AgentDefinitionError) as caught:
        Rewrite("mine", MESSAGES, frozenset(dropped))
    assert reason in str(caught.value)
    assert "The compaction 'mine' cannot be" in str(caught.value)


@pytest.mark.parametrize(
    ("index", "message", "reason"),
    [
        (EVIDENCE, ModelMessage.evidence("seen"), "message 5 (evidence) must stay as it is"),
        (RESULT, ModelMessage.user("found"), "message 3 changes more than its content"),
        (RESULT, ModelMessage.tool("other", "found"), "message 3 changes more than its content"),
        (CALLS, ModelMessage.assistant("called"), "message 2 changes more than its content"),
    ],
)
def test_what_is_shown_shorter_stays_what_it_is(index: int, message: ModelMessage, reason: str) -> None:
    with pytest.raises(AgentDefinitionError) as caught:
        Rewrite("mine", MESSAGES, replaced={index: message})
    assert reason in str(caught.value)


def test_a_message_cannot_be_dropped_and_replaced() -> None:
    with pytest.raises(AgentDefinitionError, match="message 8 is both dropped and replaced"):
        Rewrite("mine", MESSAGES, frozenset({REPLY}), {REPLY: ModelMessage.assistant("A.")})


def test_a_summary_needs_something_it_stands_for() -> None:
    with pytest.raises(AgentDefinitionError, match="a summary needs messages that it stands for"):
        Rewrite("mine", MESSAGES, summary=SAID)


def test_a_rewrite_shows_what_is_left_in_its_order() -> None:
    short = replace(MESSAGES[RESULT], content="f")
    rewrite = Rewrite("mine", MESSAGES, frozenset({BETWEEN, REPLY}), {RESULT: short})
    expected = [short if i == RESULT else m for i, m in enumerate(MESSAGES) if i not in {BETWEEN, REPLY}]
    assert rewrite.after == tuple(expected)
    assert rewrite.touched == (RESULT, BETWEEN, REPLY)


def test_a_summary_stands_where_the_first_dropped_message_stood() -> None:
    plan = SummaryNeeded("mine", MESSAGES, frozenset({BETWEEN, REPLY, SUMMARY}), 100)
    rewrite = plan.with_summary("Everything so far.")
    assert [is_summary(message) for message in rewrite.after].index(True) == BETWEEN
    assert sum(is_summary(message) for message in rewrite.after) == 1
    assert plan.to_summarise == (MESSAGES[BETWEEN], MESSAGES[REPLY], MESSAGES[SUMMARY])


def test_a_summary_is_cut_to_its_limit() -> None:
    plan = SummaryNeeded("mine", MESSAGES, frozenset({REPLY}), 5)
    rewrite = plan.with_summary("  1234567  ")
    assert rewrite.summary is not None
    assert rewrite.summary.text == "12345"


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_summary_is_refused_and_may_be_asked_for_again(text: str) -> None:
    plan = SummaryNeeded("mine", tuple(a_loop(2)), frozenset({2, 3}), 100)
    with pytest.raises(ModelCallError, match="empty summary") as caught:
        plan.with_summary(text)
    assert caught.value.retryable


USERS = TrustLabel(Integrity.USER, Confidentiality.TENANT, frozenset({"chat"}))


def test_a_summary_without_a_label_counts_as_written_by_strangers_and_secret() -> None:
    rewrite = SummaryNeeded("mine", MESSAGES, frozenset({REPLY}), 100).with_summary("So far.")
    assert rewrite.summary is not None
    assert rewrite.summary.trust.is_untrusted
    assert rewrite.summary.trust.is_secret


@pytest.mark.parametrize(
    ("dropped", "expected"),
    [({REPLY}, USERS), ({REPLY, SUMMARY}, USERS.join(LEAST_TRUSTED))],
    ids=["raw messages only", "an earlier summary too"],
)
def test_the_label_of_an_earlier_summary_lives_on_in_the_new_one(
    dropped: set[int], expected: TrustLabel
) -> None:
    plan = SummaryNeeded("mine", MESSAGES, frozenset(dropped), 100)
    rewrite = plan.with_summary("So far.", trust=USERS)
    assert rewrite.summary is not None
    assert rewrite.summary.trust == expected

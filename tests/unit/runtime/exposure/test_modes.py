"""The four exposure modes: what leaves when, in which order, and what never leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.agent.events import (
    AgentEvent,
    AgentEventAttribution,
    ArtifactEvent,
    MessageDeltaEvent,
    ReasoningDeltaEvent,
    RunFinishedEvent,
    RunPausedEvent,
    RunStartedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    StepFinishedEvent,
    StepStartedEvent,
    ToolCallArgsDeltaEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    delta_of,
)
from pilotage.agent.spec import StreamingExposureMode as Mode
from pilotage.agent.state import AgentStateReason
from pilotage.errors import AgentOutputGuardError
from pilotage.runtime.exposure.modes import OPEN_EXPOSURE, Exposure
from pilotage.runtime.exposure.redactor import Redactor
from pilotage.safety.redaction.policy import StreamingRedactionPolicy, StreamingSensitivePattern

BY = AgentEventAttribution("clerk", "run-1", "talk-1")
TOKEN = StreamingSensitivePattern("token", r"TOKEN-\d+")
POLICY = StreamingRedactionPolicy([TOKEN])
SECRET = "sk-12:ab"
# Taking "ab" out of "aabb" leaves "ab" behind: what is emitted matches again.
JOINING = StreamingRedactionPolicy([StreamingSensitivePattern("ab", "ab", replacement="")])
STEP = StepStartedEvent(BY, "look")
STREAMED = (Mode.LOW_LATENCY, Mode.BALANCED, Mode.STRICT)
GUARDED = Mode.NO_STREAM_UNTIL_FINAL_GUARDED


def says(text: str, message_id: str = "m") -> MessageDeltaEvent:
    return MessageDeltaEvent(BY, message_id, text)


def thinks(text: str) -> ReasoningDeltaEvent:
    return ReasoningDeltaEvent(BY, "r", text)


def args(text: str, call_id: str = "c") -> ToolCallArgsDeltaEvent:
    return ToolCallArgsDeltaEvent(BY, call_id, text)


def texts(events: Sequence[AgentEvent]) -> list[str]:
    return [piece[1] for event in events if (piece := delta_of(event))]


def pushed(exposure: Exposure, *events: AgentEvent) -> list[AgentEvent]:
    return [shown for event in events for shown in exposure.push(event)]


def exposed(mode: Mode, policy: StreamingRedactionPolicy | None = POLICY) -> Exposure:
    return Exposure(mode, Redactor(policy))


@pytest.mark.parametrize("mode", Mode)
def test_only_modes_that_stream_are_transparent_and_only_without_anything_to_look_for(mode: Mode) -> None:
    redactor = Redactor()
    exposure = Exposure(mode, redactor)
    assert exposure.is_transparent == (mode in (Mode.LOW_LATENCY, Mode.BALANCED))
    redactor.register(SECRET)
    assert not exposure.is_transparent
    assert not exposed(mode).is_transparent


@pytest.mark.parametrize("mode", [Mode.LOW_LATENCY, Mode.BALANCED])
def test_without_anything_to_look_for_every_event_passes_as_it_is(mode: Mode) -> None:
    exposure = exposed(mode, None)
    for event in (says("Hel"), says("lo wor"), thinks("h"), args("{"), STEP, says("ld")):
        (shown,) = exposure.push(event)
        assert shown is event
    assert exposure.flush() == []


def test_the_exposure_of_all_runs_without_anything_to_look_for_has_no_state() -> None:
    for event in (says("Hel"), thinks("h"), args("{"), STEP, says("lo")):
        (shown,) = OPEN_EXPOSURE.push(event)
        assert shown is event
        assert OPEN_EXPOSURE.held_texts == set()
    assert not OPEN_EXPOSURE.flush()
    assert not OPEN_EXPOSURE.release()


def test_low_latency_lets_text_go_as_soon_as_it_is_decided() -> None:
    exposure = exposed(Mode.LOW_LATENCY)
    assert texts(exposure.push(says("Hel"))) == ["Hel"]
    assert texts(exposure.push(says("lo TOK"))) == ["lo "]
    assert texts(exposure.push(says("EN-12"))) == ["[REDACTED]"]
    assert texts(exposure.push(says("34 end"))) == [" end"]


def test_balanced_lets_whole_words_go() -> None:
    exposure = exposed(Mode.BALANCED)
    assert texts(exposure.push(says("Hel"))) == []
    assert texts(exposure.push(says("lo wor"))) == ["Hello "]
    assert texts(exposure.push(says("ld\n"))) == ["world\n"]
    assert texts(exposure.push(says("end"))) == []
    assert texts(exposure.flush()) == ["end"]


def test_balanced_does_not_hold_a_word_without_end() -> None:
    exposure = exposed(Mode.BALANCED)
    shown = texts(pushed(exposure, *(says("x" * 10) for _ in range(10))))
    assert shown == ["x" * 70]


def test_balanced_does_not_wait_for_words_in_arguments() -> None:
    assert texts(exposed(Mode.BALANCED).push(args('{"a'))) == ['{"a']


def test_strict_lets_a_text_go_when_something_else_follows() -> None:
    exposure = exposed(Mode.STRICT)
    assert pushed(exposure, says("It is TOK"), says("EN-12.")) == []
    assert pushed(exposure, STEP) == [says("It is [REDACTED]."), STEP]
    assert pushed(exposure, says("Done.")) == []
    assert list(exposure.flush()) == [says("Done.")]


def test_strict_holds_texts_without_a_policy_too() -> None:
    exposure = exposed(Mode.STRICT, None)
    assert pushed(exposure, says("Hel"), says("lo")) == []
    assert pushed(exposure, STEP) == [says("Hello"), STEP]


def test_strict_lets_nothing_go_of_a_text_whose_audit_failed() -> None:
    exposure = exposed(Mode.STRICT, JOINING)
    assert pushed(exposure, says("aabb")) == []
    with pytest.raises(AgentOutputGuardError):
        exposure.push(STEP)
    assert list(exposure.push(STEP)) == [STEP]


def test_low_latency_fails_at_the_end_if_the_audit_does() -> None:
    exposure = exposed(Mode.LOW_LATENCY, JOINING)
    exposure.push(says("aabb"))
    with pytest.raises(AgentOutputGuardError):
        exposure.flush()
    assert list(exposure.flush()) == []


EVERYTHING: list[AgentEvent] = [
    RunStartedEvent(BY),
    thinks("hm TOKEN-1"),
    says("It is TOK"),
    says("EN-12."),
    ToolCallStartEvent(BY, "c", "pay"),
    args('{"key": "TOKEN-3"}'),
    ToolCallEndEvent(BY, "c"),
    ToolCallResultEvent(BY, "c", "pay", "m", {"key": "TOKEN-4"}),
]


def test_nothing_leaves_before_the_final_output_is_guarded() -> None:
    exposure = exposed(GUARDED)
    assert pushed(exposure, *EVERYTHING) == []
    assert list(exposure.flush()) == []
    assert list(exposure.flush(guarded=True)) == [
        RunStartedEvent(BY),
        thinks("hm [REDACTED]"),
        says("It is "),
        says("[REDACTED]."),
        ToolCallStartEvent(BY, "c", "pay"),
        args('{"key": "[REDACTED]"}'),
        ToolCallEndEvent(BY, "c"),
        ToolCallResultEvent(BY, "c", "pay", "m", {"key": "[REDACTED]"}),
    ]
    assert list(exposure.flush(guarded=True)) == []


def test_what_is_dropped_never_leaves() -> None:
    for mode in Mode:
        exposure = exposed(mode)
        pushed(exposure, says("It is TOK"))
        exposure.drop()
        assert list(exposure.flush(guarded=True)) == []


def test_a_failed_audit_drops_all_that_waited_for_the_guard() -> None:
    exposure = exposed(GUARDED, JOINING)
    assert pushed(exposure, says("fine"), STEP, says("aabb")) == []
    with pytest.raises(AgentOutputGuardError):
        exposure.flush(guarded=True)
    assert list(exposure.flush(guarded=True)) == []


OTHERS: list[AgentEvent] = [
    STEP,
    StepFinishedEvent(BY, "no step that has begun"),
    thinks("hm "),
    args("{"),
    ToolCallStartEvent(BY, "c", "pay", "m"),
    ToolCallEndEvent(BY, "c"),
    says("More.", "another"),
]


@pytest.mark.parametrize("mode", STREAMED)
@pytest.mark.parametrize("other", OTHERS, ids=lambda e: e.kind)
def test_decided_text_leaves_before_anything_else_passes(mode: Mode, other: AgentEvent) -> None:
    exposure = exposed(mode)
    shown = [*pushed(exposure, says("It is "), other), *exposure.flush()]
    if not isinstance(other, MessageDeltaEvent):
        assert shown == [says("It is "), other]


@pytest.mark.parametrize("mode", STREAMED)
@pytest.mark.parametrize("other", OTHERS, ids=lambda e: e.kind)
def test_text_that_may_become_a_match_waits_while_other_events_pass(mode: Mode, other: AgentEvent) -> None:
    exposure = exposed(mode)
    shown = pushed(exposure, says("It is TOK"), other, says("EN-1"), other, says("2."))
    shown += exposure.flush()
    mine = [e.delta for e in shown if isinstance(e, MessageDeltaEvent) and e.message_id == "m"]
    assert "".join(mine) == "It is [REDACTED]."


@pytest.mark.parametrize("mode", STREAMED)
def test_a_text_ends_with_the_step_in_which_it_began(mode: Mode) -> None:
    exposure = exposed(mode)
    outer, inner = StepStartedEvent(BY, "outer"), StepStartedEvent(BY, "inner")
    assert pushed(exposure, outer, says("a TOK"), inner, says("b TOK", "b"))[:1] == [outer]
    ended = StepFinishedEvent(BY, "inner")
    shown = pushed(exposure, StepFinishedEvent(BY, "other"), ended)
    assert shown[-1] == ended
    assert "".join(
        e.delta for e in shown if isinstance(e, MessageDeltaEvent) and e.message_id == "b"
    ).endswith("TOK")
    shown = pushed(exposure, says("EN-1", "m"), StepFinishedEvent(BY, "outer"))
    assert "".join(texts(shown)).endswith("[REDACTED]")


@pytest.mark.parametrize("mode", STREAMED)
def test_the_steps_of_other_runs_and_branches_end_no_text(mode: Mode) -> None:
    exposure = exposed(mode)
    branch = AgentEventAttribution("clerk", "run-1", "talk-1", branch="left")
    child = AgentEventAttribution("clerk", "run-2", "talk-1")
    begun = [StepStartedEvent(by, "model-1") for by in (BY, branch, child)]
    shown = pushed(exposure, *begun, says("TOK"))
    shown += pushed(exposure, *(StepFinishedEvent(by, "model-1") for by in (branch, child)))
    shown += pushed(exposure, RunFinishedEvent(child), says("EN-1"), StepFinishedEvent(BY, "model-1"))
    assert "".join(texts(shown)) == "[REDACTED]"


@pytest.mark.parametrize("mode", STREAMED)
def test_the_texts_of_a_child_end_with_it(mode: Mode) -> None:
    exposure = exposed(mode)
    child = AgentEventAttribution("clerk", "run-2", "talk-1")
    end = RunFinishedEvent(child)
    shown = pushed(exposure, MessageDeltaEvent(child, "m", "a TOK"), end)
    assert "".join(texts(shown)) == "a TOK"
    assert shown[-1] == end


@pytest.mark.parametrize("mode", STREAMED)
def test_a_text_that_is_said_to_be_complete_ends(mode: Mode) -> None:
    exposure = exposed(mode)
    shown = pushed(exposure, says("a TOK"))
    shown += exposure.end(("message", "run-1", "m"))
    assert "".join(texts(shown)) == "a TOK"
    assert exposure.end(("message", "run-1", "m")) == ()


@pytest.mark.parametrize("mode", STREAMED)
def test_texts_of_one_kind_that_are_interleaved_do_not_disturb_one_another(mode: Mode) -> None:
    exposure = exposed(mode)
    events = [says("a TOK", "a"), says("b TOK", "b"), says("EN-1 a", "a"), says("en b", "b")]
    shown = [*pushed(exposure, *events), *exposure.flush()]
    joined = {
        each: "".join(e.delta for e in shown if isinstance(e, MessageDeltaEvent) and e.message_id == each)
        for each in "ab"
    }
    assert joined == {"a": "a [REDACTED] a", "b": "b TOKen b"}


@pytest.mark.parametrize("mode", STREAMED)
def test_a_secret_that_another_event_cuts_is_not_shown(mode: Mode) -> None:
    exposure = exposed(mode)
    shown = [
        *pushed(exposure, says("TOKEN-12"), STEP, says("34, TOK"), STEP, says("EN-5.")),
        *exposure.flush(),
    ]
    assert "".join(texts(shown)) == "[REDACTED], [REDACTED]."


def test_a_text_that_was_silent_for_long_counts_as_complete() -> None:
    exposure = exposed(Mode.STRICT)
    for number in range(256):
        assert pushed(exposure, says(f"text {number}", f"m-{number}")) == []
    assert pushed(exposure, says("again", "m-0")) == []
    assert pushed(exposure, says("one too many", "m-256")) == [says("text 1", "m-1")]


@pytest.mark.parametrize("mode", STREAMED)
def test_arguments_are_complete_at_the_end_of_their_call(mode: Mode) -> None:
    exposure = exposed(mode)
    events: list[AgentEvent] = [
        args('{"a": "TOK', "c"),
        args('{"b": "TOK', "d"),
        args('EN-1"}', "c"),
        ToolCallEndEvent(BY, "c"),
    ]
    shown = pushed(exposure, *events)
    assert "".join(
        e.args_delta for e in shown if isinstance(e, ToolCallArgsDeltaEvent) and e.call_id == "c"
    ) == ('{"a": "[REDACTED]"}')
    assert shown[-1] == ToolCallEndEvent(BY, "c")


@pytest.mark.parametrize("mode", STREAMED)
def test_a_new_secret_lets_nothing_of_a_match_go_that_has_begun(mode: Mode) -> None:
    redactor = Redactor(POLICY)
    exposure = Exposure(mode, redactor)
    shown = pushed(exposure, says("It is TOK"), STEP)
    redactor.register(SECRET)
    shown += [*pushed(exposure, says(f"EN-1, {SECRET}")), *exposure.flush()]
    assert "".join(texts(shown)) == "It is [REDACTED], [SECRET]"


@pytest.mark.parametrize("mode", STREAMED)
def test_a_secret_counts_from_its_registration_on_in_a_text_that_has_begun(mode: Mode) -> None:
    redactor = Redactor()
    exposure = Exposure(mode, redactor)
    shown = pushed(exposure, says(f"before {SECRET}, "), STEP)
    redactor.register(SECRET)
    shown += [*pushed(exposure, says(f"after {SECRET}")), *exposure.flush()]
    assert "".join(texts(shown)) == f"before {SECRET}, after [SECRET]"


SHOWN: list[tuple[AgentEvent, AgentEvent]] = [
    (RunStartedEvent(BY, {"k": "TOKEN-1"}), RunStartedEvent(BY, {"k": "[REDACTED]"})),
    (
        RunPausedEvent(
            BY, AgentStateReason.APPROVAL_REQUIRED, "TOKEN-1?", "TOKEN-2", metadata={"TOKEN-3": 1}
        ),
        RunPausedEvent(
            BY, AgentStateReason.APPROVAL_REQUIRED, "[REDACTED]?", "TOKEN-2", metadata={"[REDACTED]": 1}
        ),
    ),
    (
        RunFinishedEvent(BY, {"message": "TOKEN-1"}, {"output": ["TOKEN-1"]}),
        RunFinishedEvent(BY, {"message": "[REDACTED]"}, {"output": ["[REDACTED]"]}),
    ),
    (StepStartedEvent(BY, "TOKEN-1"), StepStartedEvent(BY, "[REDACTED]")),
    (StepFinishedEvent(BY, "TOKEN-1"), StepFinishedEvent(BY, "[REDACTED]")),
    (ToolCallStartEvent(BY, "TOKEN-1", "TOKEN-2"), ToolCallStartEvent(BY, "TOKEN-1", "[REDACTED]")),
    (
        ToolCallResultEvent(BY, "c", "TOKEN-1", "m", {"a": "TOKEN-2"}),
        ToolCallResultEvent(BY, "c", "[REDACTED]", "m", {"a": "[REDACTED]"}),
    ),
    (StateSnapshotEvent(BY, "TOKEN-1"), StateSnapshotEvent(BY, "[REDACTED]")),
    (StateDeltaEvent(BY, [{"value": "TOKEN-1"}]), StateDeltaEvent(BY, [{"value": "[REDACTED]"}])),
    (ArtifactEvent(BY, "a", "TOKEN-1", "TOKEN-2"), ArtifactEvent(BY, "a", "[REDACTED]", "[REDACTED]")),
]


@pytest.mark.parametrize(("event", "shown"), SHOWN, ids=[event.kind for event, _ in SHOWN])
@pytest.mark.parametrize("mode", STREAMED)
def test_everything_that_was_written_is_redacted_and_ids_are_not(
    mode: Mode, event: AgentEvent, shown: AgentEvent
) -> None:
    assert list(exposed(mode).push(event)) == [shown]
    assert exposed(mode).redacted(event) == shown


def test_an_event_in_which_nothing_is_forbidden_stays_the_same_object() -> None:
    event = ToolCallResultEvent(BY, "c", "pay", "m", {"a": [1]})
    assert exposed(Mode.STRICT).redacted(event) is event


def test_a_prompt_of_which_nothing_is_left_is_not_blank() -> None:
    gone = StreamingRedactionPolicy([StreamingSensitivePattern("all", r"\w+", replacement="")])
    paused = RunPausedEvent(BY, AgentStateReason.APPROVAL_REQUIRED, "Pay", "run-1")
    shown = exposed(Mode.LOW_LATENCY, gone).redacted(paused)
    assert isinstance(shown, RunPausedEvent)
    assert shown.prompt == "[REDACTED]"


@pytest.mark.parametrize("mode", STREAMED)
def test_what_deltas_say_besides_goes_with_the_text_that_leaves(mode: Mode) -> None:
    exposure = exposed(mode)
    events = [
        MessageDeltaEvent(BY, "m", "a TOK", {"n": 1}),
        MessageDeltaEvent(BY, "m", "x b", {"k": "TOKEN-1"}),
    ]
    shown = [*pushed(exposure, *events), *exposure.flush()]
    assert "".join(texts(shown)) == "a TOKx b"
    besides = {key: value for event in shown for key, value in event.metadata.items()}
    assert besides == {"n": 1, "k": "[REDACTED]"}


words = st.lists(
    st.sampled_from(["TOKEN", "-", "12", " ", "\n", "word", SECRET, SECRET[:4], SECRET[4:], "é"])
)


def cut(text: str, cuts: Sequence[int]) -> list[str]:
    places = sorted({min(each, len(text)) for each in cuts} | {0, len(text)})
    return [text[start:end] for start, end in pairwise(places)]


@given(mode=st.sampled_from(Mode), parts=words, cuts=st.lists(st.integers(0, 60)))
def test_the_joined_text_is_the_whole_text_redacted(mode: Mode, parts: list[str], cuts: list[int]) -> None:
    text = "".join(parts)
    redactor = Redactor(POLICY)
    redactor.register(SECRET)
    exposure = Exposure(mode, redactor)
    makers: list[Callable[[str], AgentEvent]] = [says, thinks, args]
    for make in makers:
        shown = [*pushed(exposure, *map(make, cut(text, cuts))), *exposure.flush(guarded=True)]
        assert "".join(texts(shown)) == redactor.text(text)


steps = st.one_of(
    st.builds(says, st.sampled_from(["sk-1", "2:ab", SECRET, "word ", "x"]), st.sampled_from(["a", "b"])),
    st.builds(thinks, st.sampled_from(["sk-1", "2:ab", SECRET])),
    st.builds(StepStartedEvent, st.just(BY), st.sampled_from(["one", "two"])),
)


@given(mode=st.sampled_from(STREAMED), parts=words, between=st.lists(st.sampled_from([None, *OTHERS])))
def test_whatever_comes_between_the_characters_the_text_is_redacted_as_a_whole(
    mode: Mode, parts: list[str], between: list[AgentEvent | None]
) -> None:
    text = "".join(parts)
    redactor = Redactor(POLICY)
    redactor.register(SECRET)
    exposure = Exposure(mode, redactor)
    shown: list[AgentEvent] = []
    for at, character in enumerate(text):
        other = between[at % len(between)] if between else None
        shown += pushed(exposure, says(character), *([] if other is None else [other]))
    shown += exposure.flush()
    mine = [e.delta for e in shown if isinstance(e, MessageDeltaEvent) and e.message_id == "m"]
    assert "".join(mine) == redactor.text(text)


@given(mode=st.sampled_from(Mode), events=st.lists(steps, max_size=12))
def test_however_events_are_mixed_order_stays_and_no_text_shows_a_secret(
    mode: Mode, events: list[AgentEvent]
) -> None:
    redactor = Redactor()
    redactor.register(SECRET)
    exposure = Exposure(mode, redactor)
    shown = [*pushed(exposure, *events), *exposure.flush(guarded=True)]
    assert [e for e in shown if delta_of(e) is None] == [e for e in events if delta_of(e) is None]
    joined: dict[object, str] = {}
    for event in shown:
        if piece := delta_of(event):
            joined[piece[0]] = joined.get(piece[0], "") + piece[1]
    assert not any(SECRET in text.replace("[SECRET]", "\0") for text in joined.values())

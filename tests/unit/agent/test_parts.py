"""The parts of messages and replies are the truth; content, calls and reasoning are views of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pilotage.agent.messages import (
    MediaPart,
    MessagePart,
    ModelMessage,
    ModelMessageRole,
    ModelToolCall,
    OpaquePart,
    ProviderState,
    ReasoningPart,
    RefusalPart,
    TextPart,
    changed_parts,
)
from pilotage.agent.model_reply import ModelFinishReason, ModelResponse, ModelUsage
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import to_json_value
from pilotage.safety.fields import PII, SensitiveField, SensitiveFieldDescriptor

STATE = ProviderState("vendor", "large", "signature", {"signature": "CANARY"})
CALL = ModelToolCall("look", {"at": "Oslo"}, "c1")
THOUGHT = ReasoningPart("hm", state=STATE)
PARTS: tuple[MessagePart, ...] = (THOUGHT, TextPart("One. "), TextPart("Two."), CALL, OpaquePart(STATE))


def test_the_views_are_those_of_the_parts() -> None:
    message = ModelMessage.of(PARTS)
    assert (message.role, message.content, message.text) == (
        ModelMessageRole.ASSISTANT,
        "One. Two.",
        "One. Two.",
    )
    assert (message.tool_calls, message.reasoning, message.parts) == ((CALL,), "hm", PARTS)
    reply = ModelResponse.of(PARTS, finish_reason=ModelFinishReason.TOOL_CALLS)
    assert (reply.content, reply.tool_calls, reply.reasoning, reply.parts) == (
        "One. Two.",
        (CALL,),
        "hm",
        PARTS,
    )
    assert reply.message == message


@pytest.mark.parametrize(
    ("message", "parts"),
    [
        (ModelMessage.user("Hi"), (TextPart("Hi"),)),
        (ModelMessage.user([TextPart("Hi"), MediaPart("image/png", data="AA==")]), None),
        (ModelMessage.assistant("Hi", [CALL]), (TextPart("Hi"), CALL)),
        (ModelMessage.assistant("", [CALL]), (CALL,)),
        (ModelMessage.assistant(), ()),
    ],
)
def test_a_message_of_text_and_calls_has_parts(
    message: ModelMessage, parts: tuple[MessagePart, ...] | None
) -> None:
    assert message.parts == (message.content if parts is None else parts)
    assert message.ordered is None


def test_parts_that_are_text_and_calls_make_the_same_message_as_the_views() -> None:
    assert ModelMessage.of([TextPart("Hi"), CALL]) == ModelMessage.assistant("Hi", [CALL])
    assert ModelResponse.of([TextPart("Hi")]) == ModelResponse("Hi")


def test_media_in_a_reply_are_content() -> None:
    image = MediaPart("image/png", data="AA==")
    message = ModelMessage.of([ReasoningPart("hm"), TextPart("Look:"), image])
    assert message.content == (TextPart("Look:"), image)
    assert message.text == "Look:"


def test_a_refusal_is_text_of_the_reply() -> None:
    assert ModelResponse.of([RefusalPart("No.")]).content == "No."


def test_another_text_takes_the_place_of_the_text_and_reasoning_stays() -> None:
    changed = replace(ModelMessage.of(PARTS), content="Three.")
    assert changed.parts == (THOUGHT, TextPart("Three."), CALL, OpaquePart(STATE))
    without = replace(ModelMessage.of(PARTS), content="")
    assert without.parts == (THOUGHT, CALL, OpaquePart(STATE))
    added = replace(ModelMessage.of([THOUGHT, CALL]), content="So:")
    assert added.parts == (THOUGHT, TextPart("So:"), CALL)


def test_other_calls_take_the_places_of_the_calls() -> None:
    other = replace(CALL, call_id="c9")
    assert replace(ModelMessage.of(PARTS), tool_calls=[other]).parts[3] == other
    fewer = replace(ModelMessage.of([THOUGHT, CALL, TextPart("and"), other]), tool_calls=[other])
    assert fewer.parts == (THOUGHT, TextPart("and"), other)
    assert replace(ModelResponse.of(PARTS), tool_calls=()).parts == (*PARTS[:3], PARTS[4])


def test_reasoning_that_is_changed_loses_the_state_that_does_not_fit_it() -> None:
    kept = tuple(changed_parts(PARTS, str, lambda call: call))
    assert kept == PARTS
    upper = tuple(changed_parts(PARTS, str.upper, lambda call: call))
    assert upper[0] == ReasoningPart("HM")
    assert upper[-1] == OpaquePart(STATE)


def test_parts_for_others_have_no_state() -> None:
    given = (*PARTS, replace(CALL, state=STATE), TextPart("x", STATE), RefusalPart("No."))
    shown = tuple(changed_parts(given, str, lambda call: call, shows=True))
    assert shown == (
        ReasoningPart("hm"),
        *PARTS[1:4],
        CALL,
        TextPart("x"),
        RefusalPart("No."),
    )


@pytest.mark.parametrize(
    "holder",
    [
        STATE,
        THOUGHT,
        OpaquePart(STATE),
        replace(CALL, state=STATE),
        TextPart("x", STATE),
        ModelMessage.of(PARTS),
        ModelMessage.assistant("", [replace(CALL, state=STATE)]),
        ModelResponse.of(PARTS),
    ],
    ids=lambda each: type(each).__name__,
)
def test_the_data_of_a_provider_is_in_no_json_and_no_repr(holder: object) -> None:
    assert "CANARY" not in str(to_json_value(holder))
    assert "CANARY" not in repr(holder)


def test_messages_are_written_as_they_were_before_there_were_parts() -> None:
    assert to_json_value(ModelMessage.assistant("Hi", [CALL])) == {
        "role": "assistant",
        "content": "Hi",
        "metadata": {},
        "tool_calls": [{"name": "look", "arguments": {"at": "Oslo"}, "call_id": "c1", "metadata": {}}],
        "tool_call_id": None,
    }
    assert to_json_value(TextPart("Hi")) == {"text": "Hi"}


def test_a_guarded_reply_has_no_sensitive_reasoning() -> None:
    at_root = SensitiveFieldDescriptor((), SensitiveField(PII.ADDRESS))
    guarded = ModelResponse.of(PARTS).guarded([at_root])
    assert (guarded.content, guarded.reasoning) == ("[REDACTED]", "[REDACTED]")
    assert guarded.parts[0] == ReasoningPart("[REDACTED]")


def test_the_result_of_a_tool_has_its_name_its_parts_and_whether_it_failed() -> None:
    image = MediaPart("image/png", data="AA==")
    shown = ModelMessage.tool("c1", [TextPart("There:"), image], name="look")
    assert (shown.content, shown.name, shown.is_error) == ((TextPart("There:"), image), "look", False)
    assert ModelMessage.tool("c1", image).content == (image,)
    assert ModelMessage.tool("c1", []).content == "[]"
    failed = ModelMessage.tool("c1", {"error": "gone"}, name="look", is_error=True)
    assert (failed.content, failed.is_error) == ('{"error":"gone"}', True)
    with pytest.raises(AgentDefinitionError, match="name and is_error"):
        ModelMessage(ModelMessageRole.USER, "Hi", is_error=True)


def test_usages_are_added_in_every_count() -> None:
    plain = ModelUsage(1, 2, 3)
    detailed = ModelUsage(10, 20, 30, 4, 5, 6, {"audio": 7})
    assert plain.plus(ModelUsage(None, 1, None)) == ModelUsage(1, 3, 3)
    assert plain.plus(detailed) == ModelUsage(11, 22, 33, 4, 5, 6, {"audio": 7})
    both = detailed.plus(replace(detailed, other_tokens={"audio": 1, "image": 2}))
    assert both == ModelUsage(20, 40, 60, 8, 10, 12, {"audio": 8, "image": 2})


@pytest.mark.parametrize(
    ("reason", "answer"),
    [
        (ModelFinishReason.STOP, "Hi"),
        (ModelFinishReason.OTHER, "Hi"),
        (None, "Hi"),
        (ModelFinishReason.LENGTH, None),
        (ModelFinishReason.CONTEXT_EXCEEDED, None),
        (ModelFinishReason.PAUSED, None),
        (ModelFinishReason.MALFORMED_CALL, None),
    ],
)
def test_only_a_complete_text_is_an_answer(reason: ModelFinishReason | None, answer: str | None) -> None:
    assert ModelResponse("Hi", finish_reason=reason).answer == answer

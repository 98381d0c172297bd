"""An AG-UI input as the input of a run."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.adapters.agui.samples import ag_ui_input, tool_message

from pilotage.adapters.agui import AgUiRunResolutionError, parse_input, run_input_of
from pilotage.agent import MediaPart, ModelSelection, RunAgentInput


def user(*parts: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"id": "u1", "role": "user", "content": list(parts)}]


TEXT = {"type": "text", "text": "Look:"}


def test_ids_and_the_last_words_of_the_user_are_taken() -> None:
    messages = [
        {"id": "u1", "role": "user", "content": "Hello"},
        {"id": "a1", "role": "assistant", "content": "Hi"},
        {"id": "u2", "role": "user", "content": "Pay!"},
        {"id": "a2", "role": "assistant", "content": "Well"},
    ]
    given = ag_ui_input(messages=messages, parentRunId="above")
    assert run_input_of(given) == RunAgentInput("client-1", "Pay!", "thread-1", "above")


def test_texts_are_joined_and_media_are_attached() -> None:
    parts = [
        TEXT,
        {"type": "image", "source": {"type": "data", "value": "aGk=", "mimeType": "image/png"}},
        {"type": "audio", "source": {"type": "url", "value": "https://example.org/a"}},
        {"type": "text", "text": "and say."},
    ]
    run_input = run_input_of(ag_ui_input(messages=user(*parts)))
    assert run_input.instruction == "Look:\nand say."
    assert run_input.attachments == (
        MediaPart("image/png", data="aGk="),
        MediaPart("audio/*", url="https://example.org/a"),
    )


def test_forwarded_props_choose_a_model_and_add_metadata_under_their_own_names() -> None:
    props = {"modelSelection": {"modelRef": "large"}, "metadata": {"alias": "x"}, "mcp": {"a": 1}, "other": 1}
    run_input = run_input_of(ag_ui_input(forwardedProps=props))
    assert run_input.model_selection == ModelSelection("large")
    assert run_input.metadata == {"metadata": {"alias": "x"}, "mcp": {"a": 1}}


@pytest.mark.parametrize("is_required", [True, False])
def test_forwarded_props_say_whether_a_steering_instruction_comes_first(is_required: bool) -> None:
    given = ag_ui_input(forwardedProps={"steeringInputRequired": is_required})
    assert run_input_of(given).steering_input_required is is_required
    assert run_input_of(ag_ui_input()).steering_input_required is False


def test_an_answer_resumes_the_run_that_asked_whatever_the_clients_run_id() -> None:
    answer = json.dumps({"request_id": "run-7:ask", "decision": "approve"})
    run_input = run_input_of(ag_ui_input(messages=[tool_message("run-7:ask", answer)]))
    assert (run_input.state_id, run_input.resume) == ("run-7", True)
    assert run_input.instruction == "Go on with what was decided."


def test_a_pause_without_a_question_is_resumed_by_its_id() -> None:
    given = ag_ui_input(resume=[{"interruptId": "pause:run-7", "status": "resolved"}])
    assert (run_input_of(given).state_id, run_input_of(given).resume) == ("run-7", True)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"text": "  "}, "no user message with text"),
        ({"messages": user()}, "no user message with text"),
        ({"runId": " "}, "RunAgentInput.state_id"),
        ({"threadId": ""}, "RunAgentInput.conversation_id"),
        ({"forwardedProps": [1]}, "forwardedProps is no object"),
        ({"forwardedProps": {"modelSelection": "large"}}, "modelSelection is not"),
        ({"forwardedProps": {"modelSelection": {"modelRef": "x", "more": 1}}}, "modelSelection is not"),
        ({"forwardedProps": {"modelSelection": {"modelRef": " "}}}, "ModelSelection.model_ref"),
        ({"forwardedProps": {"metadata": "x"}}, "forwardedProps.metadata is no object"),
        ({"forwardedProps": {"mcp": [1]}}, "forwardedProps.mcp is no object"),
        ({"forwardedProps": {"steeringInputRequired": "yes"}}, "steeringInputRequired is not true or false"),
        (
            {"messages": user(TEXT, {"type": "image", "source": {"type": "file", "value": "f-1"}})},
            "is a file at a provider",
        ),
        (
            {"messages": user(TEXT, {"type": "image", "source": {"type": "url", "value": " "}})},
            "MediaPart.url",
        ),
    ],
)
def test_an_input_that_says_no_run_is_refused_by_name(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(AgUiRunResolutionError, match=words):
        run_input_of(ag_ui_input(**fields))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("no JSON", "the text: Invalid JSON"),
        ("[]", "the body is no RunAgentInput"),
        ('{"threadId": "t"}', "runId: Field required"),
        (b"\xff", "the body is no RunAgentInput"),
        ('{"threadId": "t", "runId": "r", "messages": [{"id": "1", "role": "king"}]}', "messages.0"),
    ],
)
def test_a_text_that_is_no_input_is_refused_with_the_fields_that_are_wrong(
    text: str | bytes, words: str
) -> None:
    with pytest.raises(AgUiRunResolutionError, match=words):
        parse_input(text)


def test_a_refusal_says_nothing_of_what_was_sent() -> None:
    with pytest.raises(AgUiRunResolutionError) as refused:
        parse_input('{"threadId": {"secret": "hunter2"}, "runId": "r", "messages": []}')
    assert "hunter2" not in str(refused.value)
    assert refused.value.__cause__ is None

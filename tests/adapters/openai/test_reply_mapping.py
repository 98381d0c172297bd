"""From what a server sends to a reply: what the traces do not have."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.adapters.openai.answers import chunk
from tests.adapters.openai.byte_server import PLAIN

from pilotage.adapters.model_http.names import WireNames
from pilotage.adapters.openai import ModelFailure, ModelServerError
from pilotage.adapters.openai.reply_mapping import ReplyReader
from pilotage.agent.messages import ModelMessage
from pilotage.agent.model_reply import ModelFinishReason, ModelResponse, ModelStreamEvent, ModelUsage
from pilotage.agent.model_reply import ModelStreamEventKind as Kind
from pilotage.agent.model_request import ModelRequest, StreamingOptions
from pilotage.agent.tools.bind import reject_unreadable, unreadable_arguments
from pilotage.errors import AgentToolBindingError

Reason = ModelFinishReason


def read(
    *chunks: Any, names: WireNames | None = None, request: ModelRequest = PLAIN, **options: bool
) -> tuple[list[ModelStreamEvent], ModelResponse]:
    reader = ReplyReader(request, names or WireNames([]), **options)
    events = [event for each in chunks for event in reader.read_chunk(json.dumps(each).encode())]
    response, last = reader.finish()
    return [*events, *last], response


def failure_of(*chunks: Any) -> ModelFailure:
    with pytest.raises(ModelServerError) as failed:
        read(*chunks)
    return failed.value.failure


def calls(*entries: dict[str, Any]) -> dict[str, Any]:
    return chunk({"tool_calls": list(entries)})


def entry(
    index: int | None = 0, call_id: str | None = None, name: str | None = None, arguments: Any = None
) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    said = {"index": index, "id": call_id, "function": {k: v for k, v in function.items() if v is not None}}
    return {key: value for key, value in said.items() if value is not None}


END = chunk({}, "tool_calls")


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("stop", Reason.STOP),
        ("eos", Reason.STOP),
        ("STOP", Reason.STOP),
        ("length", Reason.LENGTH),
        ("max_tokens", Reason.LENGTH),
        ("content_filter", Reason.CONTENT_FILTER),
        ("refusal", Reason.REFUSAL),
    ],
)
def test_every_reason_to_finish_has_a_name(word: str, reason: Reason) -> None:
    _, response = read(chunk({"content": "hi"}), chunk({}, word))
    assert response.finish_reason is reason


@pytest.mark.parametrize(
    ("word", "failure"),
    [
        ("abort", ModelFailure.ABORTED),
        ("error", ModelFailure.ABORTED),
        ("Cancelled", ModelFailure.ABORTED),
    ],
)
def test_a_reply_that_was_given_up_is_none(word: str, failure: ModelFailure) -> None:
    assert failure_of(chunk({"content": "hi"}), chunk({}, word)) is failure


def test_a_refusal_is_told_and_named() -> None:
    events, response = read(chunk({"refusal": "I will "}), chunk({"refusal": "not."}), chunk({}, "stop"))
    assert (response.content, response.finish_reason) == ("I will not.", Reason.REFUSAL)
    assert "".join(event.text for event in events if event.is_text_delta) == "I will not."


def test_a_refusal_that_broke_off_is_no_reply() -> None:
    assert failure_of(chunk({"refusal": "I will "})) is ModelFailure.BROKEN_STREAM


@pytest.mark.parametrize("word", ["content_filter", "refusal"])
def test_nothing_is_called_in_a_reply_that_was_stopped(word: str) -> None:
    _, response = read(calls(entry(0, "1", "look", "{}")), chunk({}, word))
    assert response.tool_calls == ()


@pytest.mark.parametrize("key", ["reasoning", "reasoning_content"])
def test_thoughts_have_two_names(key: str) -> None:
    events, response = read(chunk({key: "hm"}), chunk({"content": "yes"}), chunk({}, "stop"))
    assert [event.reasoning_delta for event in events if event.kind is Kind.REASONING_DELTA] == ["hm"]
    assert response.content == "yes"


def test_one_delta_may_hold_several_entries_of_one_call() -> None:
    _, response = read(
        calls(entry(0, "1", "look"), entry(0, arguments='{"a":'), entry(0, arguments="1}")), END
    )
    assert response.tool_calls[0].arguments == {"a": 1}


def test_a_call_that_came_whole_is_told_in_steps_all_the_same() -> None:
    events, _ = read(calls(entry(0, "1", "look", "{}")), END)
    assert [event.kind for event in events] == [
        Kind.TOOL_CALL_START,
        Kind.TOOL_CALL_ARGS_DELTA,
        Kind.TOOL_CALL_END,
        Kind.TOOL_CALL_CANDIDATE,
        Kind.DONE,
    ]


def test_a_server_that_gives_every_call_the_same_index_is_understood_by_the_ids() -> None:
    _, response = read(calls(entry(0, "1", "look", "{}")), calls(entry(0, "2", "hear", "{}")), END)
    assert [(call.call_id, call.name) for call in response.tool_calls] == [("1", "look"), ("2", "hear")]


def test_a_server_that_leaves_the_index_out_is_understood() -> None:
    first = entry(None, "1", "look", '{"a":')
    _, response = read(calls(first), calls(entry(None, arguments="1}")), calls(entry(None, "2", "hear")), END)
    assert [(call.name, call.arguments) for call in response.tool_calls] == [("look", {"a": 1}), ("hear", {})]


def test_a_server_that_repeats_id_and_name_is_understood() -> None:
    _, response = read(calls(entry(0, "1", "look", "{")), calls(entry(0, "1", "look", "}")), END)
    assert len(response.tool_calls) == 1


def test_a_server_that_decodes_arguments_is_understood() -> None:
    _, response = read(calls(entry(0, "1", "look", {"a": 1})), END)
    assert response.tool_calls[0].arguments == {"a": 1}


def test_a_call_without_an_id_gets_one_of_its_own() -> None:
    _, response = read(calls(entry(0, None, "look", "{}")), calls(entry(1, None, "hear", "{}")), END)
    assert [call.call_id for call in response.tool_calls] == ["chatcmpl-1-call-1", "chatcmpl-1-call-2"]


def test_a_tool_without_parameters_is_called_with_nothing() -> None:
    _, response = read(calls(entry(0, "1", "look")), END)
    assert response.tool_calls[0].arguments == {}


@pytest.mark.parametrize(
    "chunks",
    [
        [calls(entry(0, arguments="{}")), END],
        [calls(entry(0, "1", "look", "{")), calls(entry(0, None, "hear", "}")), END],
        [
            calls(entry(0, "1", "look", "{")),
            calls(entry(1, "2", "hear", "{}")),
            calls(entry(0, arguments="}")),
            END,
        ],
        [chunk({"tool_calls": [7]}), END],
        [chunk({"tool_calls": {"a": 1}}), END],
        [calls({"index": "0", "function": {"name": "look"}}), END],
        [calls({"index": 0, "function": {"name": 7}}), END],
    ],
)
def test_a_call_that_cannot_be_read_is_an_error(chunks: list[Any]) -> None:
    assert failure_of(*chunks) is ModelFailure.BROKEN_CALL


@pytest.mark.parametrize("arguments", ['{"a": 1', "[1]", '{"a": NaN}', "{" * 5000, "\ud800"])
def test_a_call_whose_arguments_are_no_json_object_is_one_that_no_tool_accepts(arguments: str) -> None:
    _, response = read(calls(entry(0, "1", "look", arguments)), END)
    (call,) = response.tool_calls
    assert (call.name, call.call_id, call.arguments) == (
        "look",
        "1",
        unreadable_arguments(arguments.replace("\ud800", "\ufffd")),
    )
    with pytest.raises(AgentToolBindingError, match="no JSON object"):
        reject_unreadable(call.arguments, call.name)


def test_raw_control_characters_in_arguments_are_read() -> None:
    _, response = read(calls(entry(0, "1", "look", '{"a": "one\ttwo\nthree\x01"}')), END)
    assert response.tool_calls[0].arguments == {"a": "one\ttwo\nthree\x01"}


def test_a_call_without_arguments_that_was_cut_is_not_called_with_nothing() -> None:
    _, response = read(calls(entry(0, "1", "look")), chunk({}, "length"))
    assert (response.tool_calls, response.metadata["cut_tool_calls"]) == ((), ["look"])


def test_a_whole_call_in_front_of_one_that_was_cut_stays() -> None:
    _, response = read(
        calls(entry(0, "1", "look", "{}")), calls(entry(1, "2", "hear", '{"a')), chunk({}, "length")
    )
    assert [call.name for call in response.tool_calls] == ["look"]
    assert (response.finish_reason, response.metadata["cut_tool_calls"]) == (Reason.LENGTH, ["hear"])


def test_names_come_back_as_they_were() -> None:
    _, response = read(calls(entry(0, "1", "docs__search", "{}")), END, names=WireNames(["docs.search"]))
    assert response.tool_calls[0].name == "docs.search"


def test_a_name_that_nobody_gave_out_is_left_to_who_calls_tools() -> None:
    _, response = read(calls(entry(0, "1", "invented", "{}")), END, names=WireNames(["docs.search"]))
    assert response.tool_calls[0].name == "invented"


def test_an_error_beside_a_choice_is_an_error() -> None:
    assert failure_of({**chunk({"content": "hi"}, "stop"), "error": "lost"}) is ModelFailure.SERVER_ERROR


def test_a_text_behind_the_end_is_an_error() -> None:
    assert failure_of(chunk({}, "stop"), chunk({"content": "and"})) is ModelFailure.UNREADABLE


def test_an_end_that_comes_twice_is_one() -> None:
    _, response = read(chunk({"content": "hi"}), chunk({}, "stop"), chunk({}, "stop"))
    assert response.content == "hi"
    assert failure_of(chunk({}, "stop"), chunk({}, "length")) is ModelFailure.UNREADABLE


def test_an_end_may_ride_on_the_last_text() -> None:
    _, response = read(chunk({"content": "hi"}, "stop"))
    assert (response.content, response.finish_reason) == ("hi", Reason.STOP)


def test_of_several_choices_the_first_counts() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "length"}]}
    _, response = read(chunk({"content": "yes"}), other, chunk({}, "stop"))
    assert (response.content, response.finish_reason) == ("yes", Reason.STOP)


def test_usage_that_was_not_asked_for_is_kept_and_not_told() -> None:
    silent = ModelRequest([ModelMessage.user("x")], streaming=StreamingOptions(include_usage=False))
    usage = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}
    events, response = read(chunk({}, "stop"), usage, request=silent)
    assert (events[-1].usage, response.usage) == (None, ModelUsage(3, 4, 7))


def test_details_of_the_usage_are_kept() -> None:
    usage = {
        "choices": [],
        "usage": {
            "prompt_tokens": 614,
            "completion_tokens": 4,
            "total_tokens": 618,
            "prompt_tokens_details": {"cached_tokens": 512},
            "completion_tokens_details": {"reasoning_tokens": 2},
        },
    }
    _, response = read(chunk({"content": "hi"}, "stop"), usage)
    assert response.metadata == {"id": "chatcmpl-1", "model": "tiny"}
    assert response.usage == ModelUsage(614, 4, 618, cached_tokens=512, reasoning_tokens=2)


@pytest.mark.parametrize("usage", [None, 7, [], {"prompt_tokens": "three", "completion_tokens": -1}])
def test_a_usage_that_is_none_is_unknown(usage: Any) -> None:
    _, response = read({**chunk({}, "stop"), "usage": usage})
    assert response.usage == ModelUsage()


def test_an_answer_that_a_parser_took_for_thoughts_is_the_answer_where_the_settings_say_so() -> None:
    thought = [chunk({"reasoning": "It is "}), chunk({"reasoning": "42."}), chunk({}, "stop")]
    _, silent = read(*thought)
    assert silent.content == ""
    events, response = read(*thought, reasoning_is_answer=True)
    assert response.content == "It is 42."
    assert "".join(event.text for event in events if event.is_text_delta) == "It is 42."
    _, answered = read(
        chunk({"reasoning": "hm"}), chunk({"content": "yes"}, "stop"), reasoning_is_answer=True
    )
    assert answered.content == "yes"


@pytest.mark.parametrize(
    ("error", "failure", "retryable"),
    [
        ({"message": "EngineCore encountered an issue", "code": 500}, ModelFailure.SERVER_ERROR, True),
        ({"message": "busy", "code": 503}, ModelFailure.OVERLOADED, True),
        ({"message": "bad schema", "code": 400}, ModelFailure.REFUSED_REQUEST, False),
        ({"message": "no code at all"}, ModelFailure.SERVER_ERROR, True),
        ("words alone", ModelFailure.SERVER_ERROR, True),
    ],
)
def test_an_error_in_the_middle_is_the_error(error: Any, failure: ModelFailure, retryable: bool) -> None:
    with pytest.raises(ModelServerError) as failed:
        read(chunk({"content": "hi"}), {"error": error})
    assert (failed.value.failure, failed.value.retryable) == (failure, retryable)
    assert (error if isinstance(error, str) else error["message"]) in str(failed.value)

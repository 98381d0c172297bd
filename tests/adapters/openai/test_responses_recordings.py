"""What real servers answered on `/v1/responses`: read as its bytes say and as the official client reads it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.adapters.model_http.recordings import Recording, recording, recordings
from tests.adapters.openai.byte_server import ByteServer, Told, told

from pilotage.adapters.model_http.error_mapping import server_error
from pilotage.adapters.model_http.server import ServerStream
from pilotage.adapters.openai import (
    ModelRetries,
    ModelServerError,
    OpenAICompatibleSettings,
    OpenAIResponsesModel,
)
from pilotage.agent.messages import ModelMessage
from pilotage.agent.model_failure import ModelFailure
from pilotage.agent.model_reply import ModelFinishReason, ModelResponse
from pilotage.agent.model_request import ModelRequest

Reason = ModelFinishReason
PLAIN = ModelRequest([ModelMessage.user("x")])
CASES = [each for each in recordings("responses") if each.path == "/v1/responses"]
ANSWERED = [
    each for each in CASES if each.status == 200 and each.is_complete and each.name != "resp_background"
]


def by_id(recorded: Recording) -> str:
    return recorded.id


def model_of(*pieces: bytes) -> OpenAIResponsesModel:
    settings = OpenAICompatibleSettings("http://127.0.0.1:1/v1", "tiny", retries=ModelRetries(most=0))
    return OpenAIResponsesModel(settings, server=ByteServer(pieces))


def read(*pieces: bytes) -> Told:
    return asyncio.run(told(model_of(*pieces)))


def reply_to(recorded: Recording) -> ModelResponse:
    if recorded.is_stream:
        streamed = read(recorded.body)
        assert streamed.response is not None, streamed.error
        return streamed.response
    return asyncio.run(model_of(recorded.body).complete(PLAIN))


def frames(body: bytes) -> list[Any]:
    return [json.loads(line[5:]) for line in body.splitlines() if line.startswith(b"data: {")]


@pytest.mark.parametrize("recorded", ANSWERED, ids=by_id)
def test_a_recorded_reply_is_what_its_bytes_say(recorded: Recording) -> None:
    reply = reply_to(recorded)
    if recorded.is_stream:
        sent = frames(recorded.body)
        text = "".join(each["delta"] for each in sent if each["type"] == "response.output_text.delta")
        thought = "".join(each["delta"] for each in sent if each["type"] == "response.reasoning_text.delta")
        last = sent[-1]["response"]
    else:
        last = json.loads(recorded.body)
        contents = [each for item in last["output"] for each in item.get("content") or ()]
        text = "".join(each["text"] for each in contents if each["type"] == "output_text")
        thought = "".join(each["text"] for each in contents if each["type"] == "reasoning_text")
    assert (reply.content, reply.reasoning) == (text, thought)
    calls = [item for item in last["output"] if item["type"] == "function_call"]
    assert len(reply.tool_calls) + len(reply.metadata.get("cut_tool_calls", ())) == len(calls)  # type: ignore[arg-type]
    assert [call.call_id for call in reply.tool_calls] == [item["call_id"] for item in calls][
        : len(reply.tool_calls)
    ]
    assert reply.usage.total_tokens == last["usage"]["total_tokens"]
    assert (reply.finish_reason is Reason.LENGTH) == (last["status"] == "incomplete")


@pytest.mark.parametrize("recorded", [each for each in CASES if each.status != 200], ids=by_id)
def test_a_recorded_refusal_is_an_error(recorded: Recording) -> None:
    error = server_error(recorded.status, recorded.body)
    assert not error.retryable or recorded.status >= 500


def test_a_schema_that_breaks_the_stream_off_is_a_failure() -> None:
    body = recording("responses", "vllm", "resp_kill9_engine").body
    broken = read(body)
    assert isinstance(broken.error, ModelServerError)
    assert broken.error.failure is ModelFailure.BROKEN_STREAM


def event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def test_a_response_that_failed_is_its_error() -> None:
    error = {"code": "rate_limit_exceeded", "message": "Slow down."}
    failed = read(event("response.failed", response={"status": "failed", "error": error, "output": []}))
    assert isinstance(failed.error, ModelServerError)
    assert failed.error.failure is ModelFailure.RATE_LIMITED
    plain = read(event("error", code="server_is_overloaded", message="Busy."))
    assert isinstance(plain.error, ModelServerError)
    assert plain.error.failure is ModelFailure.OVERLOADED


@pytest.mark.parametrize("status", ["queued", "in_progress"])
def test_a_response_that_is_under_way_is_no_answer(status: str) -> None:
    body = json.dumps({"id": "r", "status": status, "output": []}).encode()
    with pytest.raises(ModelServerError, match=f"still '{status}'"):
        asyncio.run(model_of(body).complete(PLAIN))
    background = recording("responses", "vllm", "resp_background")
    with pytest.raises(ModelServerError, match="still"):
        asyncio.run(model_of(background.body).complete(PLAIN))


class NoReasoner(ByteServer):
    """Refuses requests for encrypted reasoning in the words of the provider, as its models do that do not reason."""

    def __init__(self, *answers: list[bytes]) -> None:
        super().__init__(*answers)
        self.bodies: list[Any] = []

    async def post(self, url: str, body: bytes) -> bytes:
        self._look_at(body)
        return await super().post(url, body)

    async def open(self, url: str, body: bytes) -> ServerStream:
        self._look_at(body)
        return await super().open(url, body)

    def _look_at(self, body: bytes) -> None:
        self.bodies.append(json.loads(body))
        if "include" in self.bodies[-1]:
            message = "Encrypted content is not supported with this model."
            error = {"message": message, "type": "invalid_request_error", "param": "include", "code": None}
            raise server_error(400, json.dumps({"error": error}).encode())


async def test_a_model_that_does_not_reason_is_asked_for_no_encrypted_reasoning() -> None:
    said = {"type": "message", "content": [{"type": "output_text", "text": "Hi."}]}
    whole = {"id": "r", "status": "completed", "output": [said]}
    streamed = event("response.completed", response=whole)
    server = NoReasoner([json.dumps(whole).encode()], [streamed])
    settings = OpenAICompatibleSettings("http://h/v1", "plain", checks_at_start=False)
    model = OpenAIResponsesModel(settings, server=server)
    assert (await model.complete(PLAIN)).content == "Hi."
    assert [each async for each in model.stream(PLAIN)][-1].response is not None
    assert ["include" in each for each in server.bodies] == [True, False, False]
    first, again = ({**each, "include": None} for each in server.bodies[:2])
    assert first == again


async def test_state_that_cannot_be_verified_is_no_reason_to_ask_for_none() -> None:
    message = "The encrypted content gAAA could not be verified."
    refusal = server_error(400, json.dumps({"error": {"message": message}}).encode())
    server = ByteServer(refusal)
    settings = OpenAICompatibleSettings("http://h/v1", "m", checks_at_start=False)
    with pytest.raises(ModelServerError, match="could not be verified"):
        await OpenAIResponsesModel(settings, server=server).complete(PLAIN)
    assert server.asked == 1

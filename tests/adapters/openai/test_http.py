"""What happens on the connection: retries, timeouts, leaving, the key, dead connections of the pool."""

from __future__ import annotations

import asyncio
import gc
import socket
import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from typing import Any, cast

import pytest
from tests.adapters.openai.answers import broken_off, chunk, refused, said
from tests.adapters.openai.byte_server import PLAIN, told
from tests.adapters.openai.drips import DrippingTransport, told_by_drips
from tests.adapters.openai.replay_server import Answer, Handler, ReplayServer, Seen, events, replaying

from pilotage.adapters.model_http.http_server import HttpServer
from pilotage.adapters.openai import (
    ModelFailure,
    ModelRetries,
    ModelServerError,
    ModelTimeouts,
    OpenAICompatibleModel,
    OpenAICompatibleSettings,
)
from pilotage.agent.model_reply import ModelStreamEvent
from pilotage.ids import IClock
from pilotage.testing import SeededIds, VirtualClock

Make = Callable[..., tuple[OpenAICompatibleModel, ReplayServer]]


class Pauses(VirtualClock):
    """A clock that remembers how long somebody wanted to sleep, and lets nobody wait."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


@pytest.fixture
async def make() -> AsyncIterator[Make]:
    async with AsyncExitStack() as stack:

        def made(
            handler: Handler | Answer, clock: IClock | None = None, **settings: Any
        ) -> tuple[OpenAICompatibleModel, ReplayServer]:
            server = stack.enter_context(replaying(handler))
            asked = OpenAICompatibleSettings(server.base_url, "tiny", **settings)
            model = OpenAICompatibleModel(asked, clock=clock or Pauses(), ids=SeededIds(1))
            stack.push_async_callback(model.aclose)
            return model, server

        yield made


def in_turn(*handlers: Handler) -> Handler:
    """Each request gets the next answer, the last one stays."""
    left = list(handlers)

    def handler(seen: Seen) -> Answer:
        return (left.pop(0) if len(left) > 1 else left[0])(seen)

    return handler


async def test_a_server_that_was_busy_is_tried_again(make: Make) -> None:
    clock = Pauses()
    model, server = make(in_turn(refused(503, "busy"), refused(500, "oops"), said("hello")), clock)
    assert (await told(model)).text == "hello"
    assert len(server.chats) == 3
    first, second = clock.slept
    assert 0.25 <= first <= 0.5 <= second <= 1.0


async def test_a_server_that_says_when_to_come_back_is_obeyed(make: Make) -> None:
    clock = Pauses()
    model, _ = make(in_turn(refused(429, "slowly", **{"retry-after": "7"}), said("hello")), clock)
    assert (await model.complete(PLAIN)).content == "hello"
    assert clock.slept == [7.0]


async def test_a_server_that_asks_for_too_long_a_pause_is_not_tried_again(make: Make) -> None:
    model, server = make(refused(429, "tomorrow", **{"retry-after": "86400"}))
    with pytest.raises(ModelServerError) as failed:
        await model.complete(PLAIN)
    assert (failed.value.failure, failed.value.retry_after) == (ModelFailure.RATE_LIMITED, 86_400)
    assert len(server.chats) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_what_will_not_change_is_not_tried_again(make: Make, status: int) -> None:
    model, server = make(refused(status, "no"))
    reply = await told(model)
    assert isinstance(reply.error, ModelServerError)
    assert not reply.error.retryable
    assert len(server.chats) == 1


async def test_nothing_is_tried_again_once_something_was_told(make: Make) -> None:
    model, server = make(broken_off("Good", " day"))
    reply = await told(model)
    assert isinstance(reply.error, ModelServerError)
    assert (reply.text, reply.error.failure) == ("Good day", ModelFailure.BROKEN_STREAM)
    assert len(server.chats) == 1


async def test_a_stream_that_breaks_off_before_it_said_anything_is_tried_again(make: Make) -> None:
    silent = replace(events(chunk({"role": "assistant", "content": ""}), done=False), breaks_off=True)
    model, server = make(in_turn(lambda _: silent, said("hello")))
    assert (await told(model)).text == "hello"
    assert len(server.chats) == 2


async def test_retries_have_an_end(make: Make) -> None:
    model, server = make(refused(503, "busy"), retries=ModelRetries(most=4))
    with pytest.raises(ModelServerError, match="busy"):
        await model.complete(PLAIN)
    assert len(server.chats) == 5


async def test_a_connection_that_died_in_the_pool_is_replaced_without_a_word(make: Make) -> None:
    model, server = make(said("hello"), retries=ModelRetries(most=0))
    assert (await model.complete(PLAIN)).content == "hello"
    server.sockets[0].shutdown(socket.SHUT_RDWR)
    assert (await model.complete(PLAIN)).content == "hello"
    assert server.connections == 2


async def test_a_connection_that_dies_under_a_request_is_replaced_once(make: Make) -> None:
    hang_up = Answer([], closes_silently=True)
    handler = in_turn(said("hello"), lambda _: hang_up, said("again"))
    model, server = make(handler, retries=ModelRetries(most=0))
    assert (await model.complete(PLAIN)).content == "hello"
    assert (await model.complete(PLAIN)).content == "again"
    assert (len(server.chats), server.connections) == (3, 2)


async def test_one_connection_serves_one_request_after_the_other(make: Make) -> None:
    model, server = make(said("hello"))
    for _ in range(5):
        assert (await told(model)).text == "hello"
        assert (await model.complete(PLAIN)).content == "hello"
    assert server.connections == 1


async def test_a_server_that_hangs_up_again_and_again_cannot_be_reached(make: Make) -> None:
    model, _ = make(Answer([], closes_silently=True), retries=ModelRetries(most=0))
    reply = await told(model)
    assert isinstance(reply.error, ModelServerError)
    assert reply.error.failure is ModelFailure.UNREACHABLE


async def test_a_server_that_is_not_there_cannot_be_reached(make: Make) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
    clock = Pauses()
    model = OpenAICompatibleModel(OpenAICompatibleSettings(address, "tiny"), clock=clock)
    with pytest.raises(ModelServerError, match="PILOTAGE_MODEL_BASE_URL") as failed:
        await model.complete(PLAIN)
    assert failed.value.failure is ModelFailure.UNREACHABLE
    assert len(clock.slept) == 2
    await model.aclose()


HELD = replace(events(chunk({"content": "Good"}), done=False), is_held=True)


async def test_leaving_a_stream_closes_its_connection(make: Make) -> None:
    model, server = make(HELD)
    stream = cast("AsyncGenerator[ModelStreamEvent, None]", model.stream(PLAIN))
    async with aclosing(stream):
        assert (await anext(stream)).text == "Good"
        assert not server.left.is_set()
    assert await asyncio.to_thread(server.left.wait, 5)


@pytest.mark.parametrize("is_streamed", [True, False], ids=["streamed", "whole"])
async def test_cancelling_the_reader_closes_its_connection(make: Make, is_streamed: bool) -> None:
    model, server = make(HELD if is_streamed else Answer([b"{"], is_held=True))
    task = asyncio.ensure_future(told(model) if is_streamed else model.complete(PLAIN))
    assert await asyncio.to_thread(server.asked.wait, 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(server.left.wait, 5)


async def test_cancelling_before_the_first_token_leaves_nothing_behind(make: Make) -> None:
    model, server = make(Answer([], headers={"content-type": "text/event-stream"}, is_held=True))
    before = asyncio.all_tasks()
    task = asyncio.ensure_future(told(model))
    assert await asyncio.to_thread(server.asked.wait, 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(server.left.wait, 5)
    assert asyncio.all_tasks() <= before


async def test_the_key_is_sent_and_never_shown(make: Make) -> None:
    model, server = make(refused(401, "Incorrect API key provided: sk-very-secret"), api_key="sk-very-secret")
    with pytest.raises(ModelServerError, match=r"\[SECRET\]") as failed:
        await model.complete(PLAIN)
    assert server.seen[0].headers["authorization"] == "Bearer sk-very-secret"
    assert "sk-very-secret" not in str(failed.value)
    assert "sk-very-secret" not in repr(model.settings)


async def test_a_redirect_is_not_followed_with_the_key(make: Make) -> None:
    elsewhere, other = make(said("hello"))
    model, _ = make(Answer([], 307, {"location": f"{other.base_url}/chat/completions"}), api_key="sk-secret")
    with pytest.raises(ModelServerError):
        await model.complete(PLAIN)
    assert not other.seen
    await elsewhere.aclose()


async def test_a_long_error_page_is_cut(make: Make) -> None:
    model, _ = make(Answer([b"<html>" + b"x" * 500_000], 500), retries=ModelRetries(most=0))
    with pytest.raises(ModelServerError) as failed:
        await model.complete(PLAIN)
    assert len(str(failed.value)) < 3_000


@pytest.mark.parametrize("is_streamed", [True, False], ids=["streamed", "whole"])
async def test_a_body_without_end_is_refused_before_it_fills_the_memory(
    make: Make, is_streamed: bool
) -> None:
    model, _ = make(Answer([b" " * 2**20] * 70), retries=ModelRetries(most=0))
    with pytest.raises(ModelServerError, match="a body of more than") as refused:
        await (whole_stream(model) if is_streamed else model.complete(PLAIN))
    assert refused.value.failure is ModelFailure.UNREADABLE


async def whole_stream(model: OpenAICompatibleModel) -> list[ModelStreamEvent]:
    return [event async for event in model.stream(PLAIN)]


async def test_a_page_that_is_no_reply_is_unreadable(make: Make) -> None:
    model, _ = make(Answer([b"<html>welcome</html>"], headers={"content-type": "text/html"}))
    reply = await told(model)
    assert isinstance(reply.error, ModelServerError)
    assert reply.error.failure is ModelFailure.UNREADABLE


def test_a_model_whose_loop_has_ended_without_it_works_in_the_next_one() -> None:
    def said_in_two_loops() -> list[str]:
        settings = OpenAICompatibleSettings(server.base_url, "tiny", retries=ModelRetries(most=0))
        model = OpenAICompatibleModel(settings)

        async def once() -> str:
            return (await model.complete(PLAIN)).content

        found = [asyncio.run(once()) for _ in range(2)]
        asyncio.run(model.aclose())
        return found

    with warnings.catch_warnings(), replaying(said("hello")) as server:
        warnings.simplefilter("ignore", ResourceWarning)
        assert said_in_two_loops() == ["hello", "hello"]
        gc.collect()  # connections that nobody could close any more are expected to complain


async def test_as_many_requests_as_allowed_run_at_once_and_the_others_wait(make: Make) -> None:
    model, server = make(said("hello"), concurrency=2)
    replies = await asyncio.gather(*(model.complete(PLAIN) for _ in range(10)))
    assert [reply.content for reply in replies] == ["hello"] * 10
    assert server.connections <= 2


WAITS = ModelTimeouts(connect=1, first_token=30, idle=10, request=60)
SETTINGS = OpenAICompatibleSettings("http://nowhere/v1", "tiny", timeouts=WAITS, retries=ModelRetries(most=0))
HELLO = [f"data: {text}\n\n".encode() for text in ('{"choices":[{"delta":{"content":"hi"}}]}',)]
END = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


@pytest.mark.parametrize(
    ("drips", "before", "words"),
    [
        ([(0, HELLO[0]), (10.5, END)], 0, "nothing came for 10 s"),
        ([(31, HELLO[0])], 0, "nothing came for 30 s"),
        ([], 31, "no answer within 30 s"),
        ([(9, HELLO[0])] * 10, 0, "not complete in time"),
        ([(9, b": keep-alive\n\n")] * 10, 0, "not complete in time"),
    ],
    ids=["idle", "first token", "no answer", "whole request", "comments alone"],
)
def test_waiting_has_limits(drips: list[tuple[float, bytes]], before: float, words: str) -> None:
    transport = DrippingTransport(drips, before)
    reply = told_by_drips(SETTINGS, transport)
    assert isinstance(reply.error, ModelServerError)
    assert (reply.error.failure, reply.error.retryable) == (ModelFailure.TIMEOUT, True)
    assert words in str(reply.error)


def test_a_reply_that_keeps_coming_is_waited_for() -> None:
    reply = told_by_drips(SETTINGS, DrippingTransport([(29, HELLO[0]), (9, HELLO[0]), (9, END)]))
    assert (reply.text, reply.error) == ("hihi", None)


@pytest.mark.parametrize(
    "rest", [[(50, b"")], [(0.1, b": still here\n\n")] * 1000], ids=["silent", "talkative"]
)
def test_a_server_that_does_not_hang_up_behind_its_last_word_is_not_waited_for(
    rest: list[tuple[float, bytes]],
) -> None:
    transport = DrippingTransport([(0, HELLO[0]), (0, END), *rest])
    reply = told_by_drips(SETTINGS, transport)
    assert (reply.text, reply.error) == ("hi", None)
    assert transport.stream.is_closed
    assert transport.stream.given < 10


async def test_a_client_is_made_when_it_is_needed() -> None:
    server = HttpServer(SETTINGS.access, VirtualClock())
    await server.close()

"""Controllers as pods: routes by decorator, constructor injection, streams, and mistakes that keep it from starting."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any

import httpx
import pytest
from fastapi import Body, FastAPI, Query
from pydantic import BaseModel
from starlette.requests import Request
from starlette.testclient import TestClient, WebSocketDenialResponse
from starlette.websockets import WebSocket, WebSocketDisconnect
from tests.adapters.fastapi.harbour import ADA, PEOPLE, Line, frames_in

from pilotage import Agent, AgentYield, AgentYieldJsonEncoder, Application, Final, Pod, Token
from pilotage.adapters.fastapi import (
    ApiController,
    Caller,
    HttpSettings,
    Inject,
    controller_routes,
    delete,
    get,
    patch,
    pilotage_lifespan,
    post,
    put,
    sse,
    websocket,
)
from pilotage.container import Scope
from pilotage.errors import ApplicationStartError, PodDefinitionError, RunNotFoundError
from pilotage.runtime.plugin import initialize


class Shelf:
    """Where letters lie."""

    def __init__(self) -> None:
        self.letters: dict[str, str] = {}


class Letter(BaseModel):
    """A letter to somebody."""

    text: str


@Agent
class Teller:
    """Tells short stories, word by word."""

    def __init__(self) -> None:
        self.closed = 0

    async def execute(self, about: str) -> AsyncGenerator[AgentYield[str], None]:
        """The story."""
        try:
            for word in ("Once ", "there ", "was ", "a ", about):
                yield Token(word)
            yield Final("told")
        finally:
            self.closed += 1


@ApiController(prefix="/letters", tags=("post",))
class Letters:
    """Keeps letters."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf

    @get("")
    async def everybody(self, limit: Annotated[int, Query(ge=1)] = 10) -> list[str]:
        """Who has letters."""
        return sorted(self.shelf.letters)[:limit]

    @get("/{to}")
    def one(self, to: str) -> Letter:
        """A letter; this method blocks and runs in a thread."""
        if to not in self.shelf.letters:
            raise RunNotFoundError(f"nothing for {to!r}.")
        return Letter(text=self.shelf.letters[to])

    @post("/{to}", status_code=201)
    async def write(self, to: str, letter: Letter, by: Caller) -> dict[str, str]:
        """Write one."""
        self.shelf.letters[to] = f"{letter.text} {by.id}"
        return {"by": by.id}

    @put("/{to}")
    @patch("/{to}")
    async def replace(self, to: str, text: Annotated[str, Body(embed=True)]) -> str:
        """Write it anew, either way."""
        self.shelf.letters[to] = text
        return text

    @delete("/{to}", status_code=204)
    async def burn(self, to: str, shelf: Annotated[Shelf, Inject()]) -> None:
        """Take it away."""
        del shelf.letters[to]


@ApiController(prefix="/stories", public=True)
class Stories:
    """Streams an agent."""

    def __init__(self, teller: Teller) -> None:
        self.teller = teller

    @sse("/{about}")
    async def tell(self, about: str) -> AsyncIterator[AgentYield[str]]:
        """A story as events."""
        async for item in self.teller.execute(about):
            yield item

    @sse("/values", method="post")
    async def values(self, upto: Annotated[int, Body(embed=True)]) -> AsyncIterator[object]:
        """Numbers, and then something that cannot be."""
        for number in range(upto):
            yield {"number": number}
        raise RunNotFoundError("no more numbers.")

    @websocket("/socket")
    async def talk(self, socket: WebSocket, mood: str = "good") -> None:
        """A story for every word that comes."""
        await socket.accept()
        while True:
            about = await socket.receive_text()
            if about == "break":
                raise RunNotFoundError("there is no such story.")
            async for item in self.teller.execute(f"{mood} {about}"):
                await socket.send_json(AgentYieldJsonEncoder.encode(item))


@asynccontextmanager
async def serving(*pods: object, **options: Any) -> AsyncGenerator[tuple[FastAPI, httpx.AsyncClient], None]:
    app = Application("post").add(Shelf(), Teller, *pods)
    initialize(app)
    api = FastAPI(lifespan=pilotage_lifespan(app))
    api.include_router(controller_routes(app, **options), prefix="/api")
    transport = httpx.ASGITransport(app=api)
    async with (
        api.router.lifespan_context(api),
        httpx.AsyncClient(transport=transport, base_url="http://test/api", headers=ADA) as client,
    ):
        yield api, client


async def test_methods_of_a_pod_are_routes() -> None:
    async with serving(Letters, principal=PEOPLE) as (_, client):
        written = await client.post("/letters/alan", json={"text": "Dear Alan"})
        assert (written.status_code, written.json()) == (201, {"by": "ada"})
        assert (await client.get("/letters/alan")).json() == {"text": "Dear Alan ada"}
        assert (await client.put("/letters/alan", json={"text": "anew"})).json() == "anew"
        assert (await client.patch("/letters/alan", json={"text": "again"})).json() == "again"
        assert (await client.get("/letters", params={"limit": 5})).json() == ["alan"]
        assert (await client.delete("/letters/alan")).status_code == 204
        assert (await client.get("/letters")).json() == []


async def test_what_it_raises_of_ours_is_a_problem_and_what_fastapi_refuses_stays_its_own() -> None:
    async with serving(Letters, principal=PEOPLE) as (_, client):
        missing = await client.get("/letters/nobody")
        assert (missing.status_code, missing.json()["detail"]) == (404, "nothing for 'nobody'.")
        assert missing.headers["content-type"] == "application/problem+json"
        refused = await client.get("/letters", params={"limit": 0})
        assert (refused.status_code, list(refused.json())) == (422, ["detail"])


async def test_a_resolver_keeps_out_whom_it_does_not_know_except_from_public_controllers() -> None:
    async with serving(Letters, Stories, principal=PEOPLE) as (_, client):
        nobody = {"authorization": "Bearer nobody-at-all"}
        assert (await client.get("/letters", headers=nobody)).status_code == 401
        assert (await client.get("/stories/ship", headers=nobody)).status_code == 200


async def test_without_a_resolver_nobody_is_known_and_everybody_let_in() -> None:
    async with serving(Letters) as (_, client):
        assert (await client.get("/letters")).status_code == 200
        answer = await client.post("/letters/alan", json={"text": "x"})
        assert answer.status_code == 401
        assert "No principal resolver is configured for this route." in answer.json()["detail"]


async def test_bodies_are_bounded() -> None:
    async with serving(
        Letters, principal=PEOPLE, settings=HttpSettings(max_body_bytes=100, max_body_depth=3)
    ) as (_, client):
        long = await client.post("/letters/alan", json={"text": "x" * 100})
        assert (long.status_code, long.json()["code"]) == (413, "body_too_large")
        deep = await client.post("/letters/alan", json={"text": [[[]]]})
        assert (deep.status_code, deep.json()["code"]) == (422, "request_refused")


async def test_a_stream_of_an_agent_is_events() -> None:
    async with serving(Stories) as (_, client):
        answer = await client.get("/stories/ship")
        frames = frames_in(answer.text)
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert [frame.event for frame in frames] == ["token"] * 5 + ["final"]
        assert "".join(frame.data["payload"]["text"] for frame in frames[:-1]) == "Once there was a ship"
        assert (frames[-1].data["kind"], frames[-1].data["payload"]["output"]) == ("final", "told")


async def test_a_stream_that_fails_says_why_in_its_last_frame() -> None:
    async with serving(Stories) as (_, client):
        *numbers, last = frames_in((await client.post("/stories/values", json={"upto": 2})).text)
        assert [(frame.event, frame.data) for frame in numbers] == [
            (None, {"number": 0}),
            (None, {"number": 1}),
        ]
        assert (last.event, last.data["code"]) == ("problem", "run_not_found")


async def test_an_agent_is_left_when_the_reader_of_its_stream_goes() -> None:
    async with serving(Stories) as (api, _):
        async with Line(api, "/api/stories/ship") as line:
            await anext(line.frames())
        assert api.state.pilotage_application.get(Teller).closed == 1


async def test_a_method_may_ask_whether_its_client_has_gone() -> None:
    seen: list[bool] = []
    gone = asyncio.Event()

    @ApiController(prefix="/patient")
    class Patient:
        @get("")
        async def wait(self, request: Request) -> str:
            seen.append(await request.is_disconnected())
            gone.set()
            while not await request.is_disconnected():  # noqa: ASYNC110 - there is nothing else to wait for
                await asyncio.sleep(0)
            seen.append(True)
            return "late"

    async with serving(Patient) as (api, _), Line(api, "/api/patient"):
        await gone.wait()
    assert seen == [False, True]


def test_a_socket_of_a_controller_streams_an_agent() -> None:
    app = Application("post").add(Teller, Stories)
    initialize(app)
    api = FastAPI(lifespan=pilotage_lifespan(app))
    api.include_router(controller_routes(app))
    with (
        TestClient(api) as client,
        client.websocket_connect("/stories/socket", params={"mood": "merry"}) as socket,
    ):
        for about in ("ship", "whale"):
            socket.send_text(about)
            said = [socket.receive_json() for _ in range(6)]
            assert said[4]["payload"]["text"] == f"merry {about}"
            assert said[-1]["kind"] == "final"
        socket.send_text("break")
        with pytest.raises(WebSocketDisconnect) as closed:
            socket.receive_text()
        assert (closed.value.code, closed.value.reason) == (4404, "run_not_found")


def test_a_socket_is_turned_away_as_a_request_would_be() -> None:
    @ApiController(prefix="/private")
    class Private:
        @websocket("/socket")
        async def talk(self, socket: WebSocket, by: Caller) -> None:
            await socket.accept()
            await socket.send_text(by.id)

    app = Application("post").add(Private)
    api = FastAPI(lifespan=pilotage_lifespan(app))
    api.include_router(controller_routes(app, principal=PEOPLE))
    with TestClient(api) as client:
        refused = [({}, 401), ({**ADA, "origin": "https://elsewhere.example"}, 403)]
        for headers, status in refused:
            with (
                pytest.raises(WebSocketDenialResponse) as denied,
                client.websocket_connect("/private/socket", headers=headers),
            ):
                pytest.fail("it was let in")
            assert denied.value.status_code == status
        with client.websocket_connect(
            "/private/socket", headers={**ADA, "origin": "http://testserver"}
        ) as socket:
            assert socket.receive_text() == "ada"
            with pytest.raises(WebSocketDisconnect) as closed:
                socket.receive_text()
            assert closed.value.code == 1000


async def test_a_controller_may_be_made_anew_for_every_request() -> None:
    @ApiController(prefix="/fresh", scope=Scope.PROTOTYPE)
    class Fresh:
        def __init__(self, shelf: Shelf) -> None:
            shelf.letters[str(len(shelf.letters))] = ""
            self.shelf = shelf

        @get("")
        async def number(self) -> int:
            return len(self.shelf.letters)

    async with serving(Fresh) as (_, client):
        assert [(await client.get("/fresh")).json() for _ in range(2)] == [1, 2]


async def test_routes_of_a_base_class_are_inherited_and_may_be_overridden() -> None:
    class Base:
        @get("/a")
        async def a(self) -> str:
            return "base a"

        @get("/b")
        async def b(self) -> str:
            return "base b"

    @ApiController(prefix="/derived")
    class Derived(Base):
        @get("/b")
        async def b(self) -> str:
            return "derived b"

    async with serving(Derived) as (_, client):
        assert [(await client.get(f"/derived/{path}")).json() for path in "ab"] == ["base a", "derived b"]


async def test_the_description_shows_methods_as_they_are_written() -> None:
    async with serving(Letters, Stories, principal=PEOPLE) as (api, _):
        paths = json.loads(json.dumps(api.openapi()))["paths"]
        write = paths["/api/letters/{to}"]["post"]
        assert (write["summary"], write["description"], write["tags"]) == ("Write", "Write one.", ["post"])
        assert write["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("/Letter")
        assert [each["name"] for each in write["parameters"]] == ["to"]
        story = paths["/api/stories/{about}"]["get"]
        assert list(story["responses"]["200"]["content"]) == ["text/event-stream"]
        assert story["tags"] == ["Stories"]


def empty() -> type[object]:
    @ApiController
    class Empty:
        pass

    return Empty


def no_generator() -> type[object]:
    @ApiController
    class NoGenerator:
        @sse("/x")
        async def x(self) -> int:
            return 1

    return NoGenerator


def hidden_generator() -> type[object]:
    @ApiController
    class HiddenGenerator:
        @get("/x")
        async def x(self) -> AsyncIterator[int]:
            yield 1

    return HiddenGenerator


def no_socket() -> type[object]:
    @ApiController
    class NoSocket:
        @websocket("/x")
        async def x(self) -> None:
            return

    return NoSocket


def blocking_socket() -> type[object]:
    @ApiController
    class BlockingSocket:
        @websocket("/x")
        def x(self, socket: WebSocket) -> None:
            return

    return BlockingSocket


def static() -> type[object]:
    @ApiController
    class Static:
        @staticmethod
        @get("/x")
        async def x() -> None:
            return

    return Static


def odd_parameter() -> type[object]:
    @ApiController
    class OddParameter:
        @get("/x")
        async def x(self, shelf: Shelf) -> None:
            return

    return OddParameter


def unknown_type() -> type[object]:
    @ApiController
    class UnknownType:
        @get("/x")
        async def x(self, thing: Nowhere) -> None:  # type: ignore[name-defined]  # noqa: F821
            return

    return UnknownType


def variable() -> type[object]:
    @ApiController
    class Variable:
        @get("/x")
        async def x(self, **anything: str) -> None:
            return

    return Variable


def conflict() -> type[object]:
    @ApiController(prefix="/a")
    class Conflict:
        @get("/{first}")
        async def one(self, first: str) -> None:
            return

        @get("/{second}")
        async def other(self, second: str) -> None:
            return

    return Conflict


MISTAKES: list[tuple[Callable[[], type[object]], str]] = [
    (empty, "Empty: it has no routes."),
    (no_generator, "NoGenerator.x: @sse needs an async generator."),
    (hidden_generator, "HiddenGenerator.x: it yields its answer in pieces."),
    (no_socket, "NoSocket.x: no parameter is a WebSocket."),
    (blocking_socket, "BlockingSocket.x: @websocket needs a coroutine."),
    (static, "Static.x: it is no plain method."),
    (odd_parameter, "OddParameter.x: FastAPI refuses it"),
    (unknown_type, "UnknownType.x: FastAPI refuses it: name 'Nowhere' is not defined"),
    (variable, "Variable.x: a request has no names for *args and **kwargs."),
    (conflict, "Conflict.other: GET /a/{second} is answered by Conflict.one already."),
]


@pytest.mark.parametrize(("make", "words"), MISTAKES, ids=lambda each: getattr(each, "__name__", ""))
async def test_a_mistake_keeps_the_application_from_starting(
    make: Callable[[], type[object]], words: str
) -> None:
    app = Application("post").add(make())
    with pytest.raises(ApplicationStartError) as at_start:
        await app.start()
    assert words in str(at_start.value)
    with pytest.raises(ApplicationStartError) as at_routes:
        controller_routes(app)
    assert words in str(at_routes.value)


async def test_all_mistakes_are_told_at_once_with_those_of_everything_else() -> None:
    @Pod
    class Needy:
        def __init__(self, shelf: Shelf) -> None: ...

    app = Application("post").add(empty(), no_socket(), Needy)
    with pytest.raises(ApplicationStartError, match="3 problems in application 'post'"):
        await app.start()


def test_a_path_or_prefix_that_cannot_be_is_refused_where_it_is_written() -> None:
    with pytest.raises(PodDefinitionError, match="must begin with a slash: '/x'"):
        get("x")
    for prefix in ("letters", "/letters/"):
        with pytest.raises(PodDefinitionError, match="must begin with a slash and not end with one"):
            ApiController(prefix=prefix)(type("Odd", (), {}))

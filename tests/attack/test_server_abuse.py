"""Clients that send too much, too slowly, or from too many places, before anybody knows who they are."""

from __future__ import annotations

import asyncio
import base64
import re
import socket
import zlib
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace

import pytest
import pytest_asyncio
from fastapi import FastAPI, Request, WebSocket
from starlette.responses import Response

from pilotage import Agent, Application, Principal
from pilotage.adapters.fastapi import BearerTokens, HttpSettings, asgi_application
from pilotage.adapters.fastapi.h11_protocol import GuardedH11
from pilotage.adapters.fastapi.httptools_protocol import GuardedHttpTools
from pilotage.adapters.fastapi.server import GracefulServer

pytestmark = [pytest.mark.attack("server abuse"), pytest.mark.asyncio(loop_scope="module")]

TOKEN = "a-long-random-token"
KNOWN = f"host: here\r\nauthorization: Bearer {TOKEN}\r\n".encode()
HEAD = b"GET /plain HTTP/1.1\r\nhost: here\r\n"
POST = b"POST /sink HTTP/1.1\r\nhost: here\r\n"
CHUNKED = POST + b"transfer-encoding: chunked\r\n\r\n"
PLAIN = HEAD + b"\r\n"
LIMITS = HttpSettings(
    max_connections=30, max_url_bytes=2_000, max_headers=20, max_header_bytes=5_000, shutdown_seconds=1
)
# Long enough for an honest client on a busy machine, and short enough for a test to wait for.
HASTY = replace(LIMITS, header_seconds=0.3, request_seconds=0.3)
BIG = 30_000_000
PROTOCOLS = {"h11": GuardedH11, "httptools": GuardedHttpTools}


@Agent
class Nobody:
    """Do nothing."""

    async def execute(self, task: str) -> str:
        return task


def extend(api: FastAPI) -> None:
    """Add routes that let everybody in: nothing but the server itself bounds them."""

    @api.get("/plain")
    async def plain() -> str:
        return "served"

    @api.post("/sink")
    async def sink(request: Request) -> int:
        return len(await request.body())

    @api.get("/big")
    async def big() -> Response:
        return Response(b"x" * BIG)

    @api.get("/slow")
    async def slow() -> str:
        await api.state.gate.wait()
        return "served"

    @api.websocket("/echo")
    async def echo(socket: WebSocket) -> None:
        await socket.accept()
        while True:
            await socket.send_text(str(len(await socket.receive_text())))


@dataclass
class Attacked:
    """A server on the loopback, and ways to be rude to it."""

    port: int
    server: GracefulServer
    gate: asyncio.Event

    @property
    def held(self) -> int:
        return len(self.server.server_state.connections)

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter], None]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def says(self, *pieces: bytes) -> bytes:
        """Return everything that the server sends to a client that sends these pieces and closes nothing."""
        async with self.client() as (reader, writer):
            with suppress(ConnectionError):
                for piece in pieces:
                    writer.write(piece)
                    await writer.drain()
            return await answer(reader)

    async def is_well(self) -> bool:
        return b" 200 " in await self.says(HEAD + b"connection: close\r\n\r\n")


async def answer(reader: asyncio.StreamReader) -> bytes:
    """Return what comes until the server closes the connection, which it must."""
    got = b""
    async with asyncio.timeout(120):
        with suppress(ConnectionError):
            while piece := await reader.read(100_000):
                got += piece
    return got


async def until(is_true: Callable[[], bool]) -> None:
    """Let the server work until something is true."""
    async with asyncio.timeout(120):
        while not is_true():  # noqa: ASYNC110 - what the server holds announces nothing
            await asyncio.sleep(0)


def statuses(got: bytes) -> list[int]:
    return [int(each) for each in re.findall(rb"HTTP/1.1 (\d+)", got)]


@asynccontextmanager
async def attacked(protocol: str, limits: HttpSettings = LIMITS) -> AsyncGenerator[Attacked, None]:
    app = Application("attacked").add(Nobody).load_plugins()
    people = BearerTokens({TOKEN: Principal("ada")})
    api = asgi_application(app, principal=people, settings=limits, extensions=[extend])
    api.state.gate = asyncio.Event()
    with socket.create_server(("127.0.0.1", 0), backlog=500) as listening:
        server = GracefulServer.over(app, api, "127.0.0.1", 0, limits)
        server.config.timeout_keep_alive = 1
        server.config.log_config = None
        server.config.http = PROTOCOLS[protocol]
        serving = asyncio.create_task(server.serve([listening]))
        here = Attacked(listening.getsockname()[1], server, api.state.gate)
        try:
            yield here
        finally:
            here.gate.set()
            server.should_exit = True
            await serving


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=PROTOCOLS)
async def patient(request: pytest.FixtureRequest) -> AsyncGenerator[Attacked, None]:
    """A server that nobody has to hurry for."""
    async with attacked(request.param) as here:
        yield here


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=PROTOCOLS)
async def hasty(request: pytest.FixtureRequest) -> AsyncGenerator[Attacked, None]:
    """A server that waits for nobody."""
    async with attacked(request.param, HASTY) as here:
        yield here


def lines(count: int, size: int = 1) -> bytes:
    return b"".join(b"x-%d: %s\r\n" % (number, b"v" * size) for number in range(count))


def upgrade(path: str = "/echo") -> bytes:
    key = base64.b64encode(b"0123456789abcdef")
    return (
        b"GET %s HTTP/1.1\r\nhost: here\r\nconnection: upgrade\r\nupgrade: websocket\r\n" % path.encode()
        + b"sec-websocket-version: 13\r\nsec-websocket-key: %s\r\n" % key
    )


FLOOD = [b"v" * 50_000] * 400
TOO_MUCH: dict[str, tuple[int, list[bytes]]] = {
    "one long header": (431, [HEAD, b"x: ", b"v" * 6_000, b"\r\n\r\n"]),
    "one long header in one piece": (431, [HEAD + b"x: " + b"v" * 6_000 + b"\r\n\r\n"]),
    "a header without an end": (431, [HEAD, b"x: ", *FLOOD]),
    "a name without an end": (431, [HEAD, *FLOOD]),
    "blanks without an end": (431, [HEAD, b"x:", *[b" " * 50_000] * 100]),
    "many headers": (431, [HEAD + lines(21) + b"\r\n"]),
    "many headers in pieces": (431, [HEAD, *[lines(1)] * 30, b"\r\n"]),
    "headers that are long together": (431, [HEAD + lines(10, 600) + b"\r\n"]),
    "headers without an end": (431, [HEAD, *[lines(100)] * 1_000]),
    "a long URL": (414, [b"GET /", b"u" * 2_100, b" HTTP/1.1\r\nhost: here\r\n\r\n"]),
    "a long query": (414, [b"GET /plain?" + b"q" * 2_100 + b" HTTP/1.1\r\nhost: here\r\n\r\n"]),
    "the head of a known person": (431, [b"GET /runs HTTP/1.1\r\n" + KNOWN + lines(30) + b"\r\n"]),
    "a WebSocket with many headers": (431, [upgrade() + lines(30) + b"\r\n"]),
    "a WebSocket with a long header": (431, [upgrade(), b"x: ", *FLOOD]),
    "a WebSocket with a long URL": (414, [upgrade("/echo?" + "q" * 2_100) + b"\r\n"]),
    "a WebSocket without an end": (431, [upgrade(), *[lines(100)] * 1_000]),
    "a second request": (431, [PLAIN + HEAD + lines(30) + b"\r\n"]),
    "no HTTP at all": (400, [b"\x16\x03\x01\x02\x00\x01\x00", b"\r\n" * 10]),
}


@pytest.mark.parametrize("way", TOO_MUCH)
async def test_a_head_that_is_too_large_is_refused(way: str, patient: Attacked) -> None:
    status, pieces = TOO_MUCH[way]
    got = await patient.says(*pieces)
    assert await patient.is_well()
    assert statuses(got)[-1] == status
    assert b"application/problem+json" in got


async def test_an_endless_url_is_refused(patient: Attacked) -> None:
    got = await patient.says(b"GET /", *FLOOD)
    assert statuses(got) in ([414], [431])  # h11 does not see a line before its end


BEHIND_THE_BODY: dict[str, list[bytes]] = {
    "a trailer without an end": [CHUNKED, b"1\r\nx\r\n0\r\n", b"x: ", *FLOOD],
    "many trailers": [CHUNKED, b"1\r\nx\r\n0\r\n", *[lines(100)] * 200],
    "a chunk's extension without an end": [CHUNKED, b"1;x=", *FLOOD],
    "a chunk's size without an end": [CHUNKED, *[b"0" * 50_000] * 400],
}


@pytest.mark.parametrize("way", BEHIND_THE_BODY)
async def test_a_body_is_no_way_around_the_bounds_of_headers(way: str, patient: Attacked) -> None:
    got = await patient.says(*BEHIND_THE_BODY[way])
    assert await patient.is_well()
    assert statuses(got)[-1] in (400, 431)


HONEST: dict[str, bytes] = {
    "as many headers as allowed": HEAD + lines(18) + b"connection: close\r\n\r\n",
    "a long body": POST + b"connection: close\r\ncontent-length: 500000\r\n\r\n" + b"b" * 500_000,
    "two requests at once": PLAIN + HEAD + b"connection: close\r\n\r\n",
    "a body and a request": POST
    + b"content-length: 90000\r\n\r\n"
    + b"b" * 90_000
    + HEAD
    + b"connection: close\r\n\r\n",
    "small chunks": POST
    + b"connection: close\r\ntransfer-encoding: chunked\r\n\r\n"
    + b"1\r\nx\r\n" * 9_000
    + b"0\r\n\r\n",
}


@pytest.mark.parametrize("way", HONEST)
async def test_an_honest_client_is_served(way: str, patient: Attacked) -> None:
    whole = HONEST[way]
    pieces = [whole[at : at + 1_000] for at in range(0, len(whole), 1_000)]
    for got in (await patient.says(whole), await patient.says(*pieces)):
        assert set(statuses(got)) == {200}


SLOW: dict[str, tuple[list[int], bytes, bytes]] = {
    "nothing": ([408], b"", b""),
    "half a head": ([408], HEAD, b""),
    "a head, byte by byte": ([408], HEAD + b"x: ", b"v"),
    "a header now and then": ([408], HEAD, b"x: v\r\n"),
    "empty lines": ([408], b"", b"\r\n"),
    "half a WebSocket": ([408], upgrade(), b"x: v\r\n"),
    "half a body": ([408], POST + b"content-length: 1000\r\n\r\nhalf", b""),
    "a body, byte by byte": ([408], POST + b"content-length: 1000\r\n\r\n", b"b"),
    "a body in chunks": ([408], CHUNKED, b"1\r\nx\r\n"),
    "a body for nobody": (
        [401],
        b"POST /runs HTTP/1.1\r\nhost: here\r\ncontent-length: 1000\r\n\r\n",
        b"b",
    ),
    "a body of a known person": (
        [408],
        b"POST /runs HTTP/1.1\r\n" + KNOWN + b"content-length: 1000\r\n\r\n",
        b"b",
    ),
    "a body that was promised": ([408], POST + b"content-length: 9\r\nexpect: 100-continue\r\n\r\n", b""),
    "half a second request": ([200, 408], PLAIN + b"GET", b""),
    "a second request, byte by byte": ([200, 408], PLAIN + HEAD + b"x: ", b"v"),
    "empty lines behind a request": ([200, 408], PLAIN, b"\r\n"),
}
OF_H11 = {"empty lines": [400], "empty lines behind a request": [200, 400], "half a second request": [200]}


@pytest.mark.parametrize("way", SLOW)
async def test_a_request_that_takes_too_long_to_send_is_refused(way: str, hasty: Attacked) -> None:
    expected, first, then = SLOW[way]
    got = b""
    async with hasty.client() as (reader, writer), asyncio.timeout(120):
        writer.write(first)
        with suppress(ConnectionError):
            while not reader.at_eof():
                with suppress(TimeoutError):
                    async with asyncio.timeout(0.02):
                        got += await reader.read(10_000)
                writer.write(then)
    assert await hasty.is_well()
    # h11 takes empty lines for a broken request, and half a request behind another one for nothing yet.
    others = OF_H11.get(way, []) if hasty.server.config.http is GuardedH11 else expected
    assert [each for each in statuses(got) if each != 100] in (expected, others)


async def test_half_open_requests_do_not_keep_others_out(patient: Attacked) -> None:
    async with AsyncExitStack() as stack:
        for number in range(300):
            _, writer = await stack.enter_async_context(patient.client())
            writer.write(HEAD if number % 2 else b"")
            assert patient.held <= LIMITS.max_connections + 1
        assert await patient.is_well()
        assert patient.held <= LIMITS.max_connections


async def test_idle_connections_do_not_keep_others_out(patient: Attacked) -> None:
    async with AsyncExitStack() as stack:
        for _ in range(60):
            reader, writer = await stack.enter_async_context(patient.client())
            writer.write(PLAIN)
            await reader.readuntil(b"served")
        assert await patient.is_well()


async def test_lingering_refusals_do_not_keep_others_out(patient: Attacked) -> None:
    async with AsyncExitStack() as stack:
        for _ in range(60):
            reader, writer = await stack.enter_async_context(patient.client())
            writer.write(HEAD + lines(30) + b"\r\n")
            await reader.readuntil(b"431")
        assert await patient.is_well()


async def test_answered_requests_whose_bodies_do_not_come_do_not_keep_others_out(patient: Attacked) -> None:
    async with AsyncExitStack() as stack:
        for _ in range(60):
            reader, writer = await stack.enter_async_context(patient.client())
            writer.write(b"POST /runs HTTP/1.1\r\nhost: here\r\ncontent-length: 1000\r\n\r\n")
            await reader.readuntil(b"401")
        assert await patient.is_well()


@pytest.mark.parametrize("kind", ["requests", "sockets"])
async def test_a_connection_too_many_is_refused_while_others_are_served(kind: str, patient: Attacked) -> None:
    async with AsyncExitStack() as stack, asyncio.timeout(120):
        readers: list[asyncio.StreamReader] = []
        for _ in range(LIMITS.max_connections):
            reader, writer = await stack.enter_async_context(patient.client())
            writer.write(
                b"GET /slow HTTP/1.1\r\nhost: here\r\n\r\n" if kind == "requests" else upgrade() + b"\r\n"
            )
            readers.append(reader)
        await until(lambda: len(patient.server.server_state.tasks) == LIMITS.max_connections)
        got = await patient.says(PLAIN)
        assert statuses(got) == [503]
        assert b"retry-after: 1" in got
        patient.gate.set()
        for reader in readers:
            await reader.readuntil(b"served" if kind == "requests" else b" 101 ")
        patient.gate.clear()


@pytest.mark.parametrize("closing", [b"", b"connection: close\r\n"], ids=["kept alive", "closed"])
async def test_a_client_that_takes_nothing_is_given_up(hasty: Attacked, closing: bytes) -> None:
    before = hasty.held
    with socket.create_connection(("127.0.0.1", hasty.port)) as client:
        client.setblocking(False)
        client.send(b"GET /big HTTP/1.1\r\nhost: here\r\n" + closing + b"\r\n")
        await until(lambda: hasty.held > before)
        await until(lambda: hasty.held <= before)


async def test_a_client_that_takes_its_time_gets_everything(hasty: Attacked) -> None:
    got = 0
    async with hasty.client() as (reader, writer), asyncio.timeout(120):
        writer.write(b"GET /big HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n")
        while piece := await reader.read(1_000_000):
            got += len(piece)
            with suppress(TimeoutError):
                async with asyncio.timeout(0.01):  # slow, and never for long
                    await hasty.gate.wait()
    assert got > BIG


LONG_LINE = upgrade() + b"x: " + b"v" * 20_000 + b"\r\n\r\n"


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("way", ["a long line", "many lines"])
async def test_a_handshake_within_the_bounds_is_answered_or_refused(way: str, protocol: str) -> None:
    limits = replace(HASTY, max_headers=1_000, max_header_bytes=100_000)
    head = LONG_LINE if way == "a long line" else upgrade() + lines(300) + b"\r\n"
    async with attacked(protocol, limits) as here:
        assert statuses(await here.says(head))[-1] >= 400


TOO_BIG = 1009
COMPRESSES = b"sec-websocket-extensions: permessage-deflate\r\n"


def frame(payload: bytes, first: int) -> bytes:
    """Return a frame of a client; a mask of zeros leaves the payload as it is."""
    return bytes([first, 0x80 | 127]) + len(payload).to_bytes(8, "big") + bytes(4) + payload


def bomb(size: int) -> bytes:
    """Return a compressed message that unpacks to so many bytes."""
    packer = zlib.compressobj(9, wbits=-15)
    packed = b"".join(packer.compress(bytes(1_000_000)) for _ in range(size // 1_000_000))
    return packed + packer.flush(zlib.Z_SYNC_FLUSH)[:-4]


MESSAGES: dict[str, tuple[bytes, list[bytes]]] = {
    "one frame": (b"", [frame(b"x" * 1_100_000, 0x81)]),
    "a length that is announced": (b"", [bytes([0x81, 0x80 | 127]) + (2**40).to_bytes(8, "big") + bytes(4)]),
    "endless pieces": (b"", [frame(b"x" * 60_000, 0x01), *[frame(b"x" * 60_000, 0x00)] * 20]),
    "a small message that unpacks to much": (COMPRESSES, [frame(bomb(100_000_000), 0xC1)]),
    "pieces that unpack to much": (
        COMPRESSES,
        [frame(bomb(50_000_000)[:20_000], 0x41), frame(bomb(50_000_000)[20_000:], 0x80)],
    ),
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("way", MESSAGES)
async def test_a_message_that_is_too_large_ends_its_websocket(way: str, protocol: str) -> None:
    headers, frames = MESSAGES[way]
    async with attacked(protocol) as here, here.client() as (reader, writer):
        writer.write(upgrade() + headers + b"\r\n")
        accepted = await reader.readuntil(b"\r\n\r\n")
        assert statuses(accepted) == [101]
        assert (b"permessage-deflate" in accepted) == bool(headers)
        writer.writelines(frames)
        told = await answer(reader)
        assert told[:1] == b"\x88", "nothing but a close"
        assert int.from_bytes(told[2:4], "big") == TOO_BIG
        assert await here.is_well()


PAGES = ["/docs", "/docs/swagger-ui-bundle.js", "/docs/swagger-ui.css", "/openapi.json"]
SPELLINGS = ["{}", "{}/", "/{}", "{}?x=1", "/.{}", "http://here{}", "{}#x", "{}%2f", "/%2e{}"]


@pytest.mark.parametrize("page", PAGES)
async def test_the_description_is_for_those_who_are_known(page: str, patient: Attacked) -> None:
    for method in ("GET", "HEAD"):
        for spelling in SPELLINGS:
            line = f"{method} {spelling.format(page)} HTTP/1.1\r\nconnection: close\r\n".encode()
            got = await patient.says(line + b"host: here\r\n\r\n")
            assert 200 not in statuses(got)
            assert b"/runs" not in got
    known = f"GET {page} HTTP/1.1\r\nconnection: close\r\n".encode() + KNOWN + b"\r\n"
    assert statuses(await patient.says(known)) == [200]


@pytest.mark.parametrize("page", PAGES)
async def test_a_setting_shows_the_description_to_everybody(page: str) -> None:
    async with attacked("h11", replace(LIMITS, public_docs=True)) as here:
        got = await here.says(f"GET {page} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n".encode())
    assert statuses(got) == [200]

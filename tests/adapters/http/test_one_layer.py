"""The rules of the HTTP layer, each against FastAPI and against AG-UI: there is one of each."""

from __future__ import annotations

import json

import pytest
from tests.adapters.http.places import ADA, BODY, EVE, PLACES, SERVER, Badges, Connection, Place, Shop, opened
from tests.behaviour.newsroom import let_run

from pilotage.adapters.asgi import HttpSettings, RunStoreUnreachableError, ServerStoppingError
from pilotage.errors import (
    AgentDefinitionError,
    ApplicationStateError,
    CallerError,
    EvidenceNotFoundError,
    PermissionDeniedError,
    PilotageError,
    RunConflictError,
    RunErasedError,
    RunNotFoundError,
    SignalNotFoundError,
)

EVERYWHERE = pytest.mark.parametrize("place", PLACES)
SOCKETS = pytest.mark.parametrize("place", ["FastAPI", "AG-UI"])
NOSNIFF = ("x-content-type-options", "nosniff")


def stream(shop: Shop, place: str, headers: dict[str, str] | None = None) -> Connection:
    return Connection(shop.api, PLACES[place].path, headers)


async def first_item(connection: Connection) -> bytes:
    assert (await connection.start())[0] == 200
    return await connection.piece()


async def heartbeats_until_given_up(shop: Shop) -> int:
    """How many heartbeats a client that does not read may miss; no more than ten are tried."""
    for beats in range(10):
        await let_run()
        if shop.streams.count == 0:
            return beats
        shop.clock.advance(5)
    return 10


# Authentication


@EVERYWHERE
async def test_the_principal_is_resolved_before_a_byte_of_the_body_is_read(place: str) -> None:
    async with opened(place, Badges()) as shop, stream(shop, place) as connection:
        status, code, headers = await connection.problem()
        assert (status, code, headers["www-authenticate"]) == (401, "not_authenticated", "Bearer")
        assert connection.received == 0


@EVERYWHERE
async def test_a_resolver_that_breaks_lets_nobody_in_and_says_nothing(place: str) -> None:
    broken = {"authorization": "Bearer broken"}
    async with opened(place, Badges()) as shop, stream(shop, place, broken) as connection:
        assert (await connection.start())[0] == 401
        assert b"hunter2" not in await connection.piece()


@EVERYWHERE
async def test_a_resolver_whose_store_is_away_is_no_refusal_of_the_caller(place: str) -> None:
    away = {"authorization": "Bearer away"}
    async with opened(place, Badges()) as shop, stream(shop, place, away) as connection:
        status, code, headers = await connection.problem()
        assert (status, code, headers["retry-after"]) == (503, "store_unreachable", "1")


@EVERYWHERE
@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("https://elsewhere.example", 403),
        ("null", 403),
        ("http://localhost", 200),
        ("HTTPS://Shop.example", 200),
    ],
)
async def test_pages_of_other_origins_need_to_be_allowed(place: str, origin: str, status: int) -> None:
    settings = HttpSettings(allowed_origins=("https://shop.example/",))
    async with (
        opened(place, Badges(), settings) as shop,
        stream(shop, place, {**ADA, "origin": origin}) as connection,
    ):
        if status == 200:
            assert (await connection.start())[0] == 200
        else:
            assert (await connection.problem())[:2] == (403, "origin_refused")


@pytest.mark.parametrize(
    ("client", "host", "is_served"),
    [
        (("127.0.0.1", 1), "localhost", True),
        (("::ffff:127.0.0.1", 1), "127.0.0.1:8000", True),
        (("127.0.0.1", 1), "rebound.example", False),
        (("192.0.2.7", 1), "localhost", False),
        (None, "localhost", False),
    ],
)
@pytest.mark.parametrize(
    "place", [SERVER, PLACES["AG-UI"], PLACES["AG-UI lines"]], ids=["FastAPI", "AG-UI", "AG-UI lines"]
)
async def test_without_a_resolver_only_this_machine_is_served(
    place: Place, client: tuple[str, int] | None, host: str, is_served: bool
) -> None:
    async with (
        opened(place) as shop,
        Connection(shop.api, place.path, {"host": host}, client=client) as connection,
    ):
        if is_served:
            assert (await connection.start())[0] == 200
        else:
            assert (await connection.problem())[:2] == (401, "not_authenticated")


# Bodies


@EVERYWHERE
async def test_a_body_that_is_too_long_is_not_read(place: str) -> None:
    settings = HttpSettings(max_body_bytes=len(BODY) - 1)
    async with opened(place, Badges(), settings) as shop, stream(shop, place, ADA) as connection:
        assert (await connection.problem())[:2] == (413, "body_too_large")


@EVERYWHERE
async def test_a_body_that_breaks_off_is_a_problem(place: str) -> None:
    async with (
        opened(place, Badges()) as shop,
        Connection(shop.api, PLACES[place].path, ADA, body=None) as connection,
    ):
        assert (await connection.problem())[:2] == (400, "bad_request")


# Problems


@EVERYWHERE
@pytest.mark.parametrize(
    ("error", "status"),
    [
        (RunErasedError, 410),
        (RunNotFoundError, 404),
        (SignalNotFoundError, 404),
        (EvidenceNotFoundError, 404),
        (PermissionDeniedError, 403),
        (RunConflictError, 409),
        (CallerError, 409),
    ],
)
async def test_an_error_of_the_caller_has_one_status_and_its_message(
    place: str, error: type[PilotageError], status: int
) -> None:
    async with opened(place, Badges()) as shop:
        shop.source.refusal = error("the words")
        async with Connection(shop.api, PLACES[place].refused_path, ADA) as connection:
            assert (await connection.start())[0] == status
            found = json.loads(await connection.piece())
    assert (found["code"], found["detail"], found["problems"]) == (error.code, "the words", [])


@EVERYWHERE
@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ApplicationStateError, 503),
        (RunStoreUnreachableError, 503),
        (ServerStoppingError, 503),
        (AgentDefinitionError, 500),
    ],
)
async def test_of_an_error_of_the_server_only_the_code_leaves(
    place: str, error: type[PilotageError], status: int
) -> None:
    async with opened(place, Badges()) as shop:
        shop.source.refusal = error("secrets of the inside")
        async with Connection(shop.api, PLACES[place].refused_path, ADA) as connection:
            found, headers = await connection.start()
            assert (found, headers.get("retry-after")) == (status, "1" if status == 503 else None)
            assert json.loads(await connection.piece())["detail"] == error.message


@EVERYWHERE
async def test_every_response_forbids_sniffing(place: str) -> None:
    async with opened(place, Badges()) as shop:
        shop.source.refusal = RunErasedError("the words")
        async with Connection(shop.api, PLACES[place].refused_path, ADA) as refused:
            assert NOSNIFF in (await refused.start())[1].items()
        shop.source.refusal = None
        async with Connection(shop.api, PLACES[place].refused_path, ADA) as accepted_request:
            assert NOSNIFF in (await accepted_request.start())[1].items()
        async with stream(shop, place, ADA) as connection:
            headers = (await connection.start())[1]
    assert NOSNIFF in headers.items()
    assert (headers["cache-control"], headers["x-accel-buffering"]) == ("no-store", "no")
    assert (headers["content-type"], "content-length" in headers) == (PLACES[place].media_type, False)


# Streams


@EVERYWHERE
async def test_items_are_streamed_and_the_source_is_closed_when_the_client_goes(place: str) -> None:
    async with opened(place, Badges()) as shop:
        async with stream(shop, place, ADA) as connection:
            shop.source.items.put_nowait("one")
            assert b"one" in await first_item(connection)
            assert (shop.streams.count, shop.source.closed) == (1, 0)
        assert (shop.streams.count, shop.source.closed) == (0, 1)


@EVERYWHERE
async def test_one_principal_has_a_part_of_the_streams_and_leaving_gives_it_back(place: str) -> None:
    settings = HttpSettings(max_streams=3, max_streams_per_principal=1)
    async with opened(place, Badges(), settings) as shop:
        async with stream(shop, place, ADA) as hers:
            assert (await hers.start())[0] == 200
            async with stream(shop, place, ADA) as second:
                status, code, headers = await second.problem()
                assert (status, code, headers["retry-after"]) == (429, "too_many_own_streams", "1")
            async with stream(shop, place, EVE) as other:
                assert (await other.start())[0] == 200
        async with stream(shop, place, ADA) as again:
            assert (await again.start())[0] == 200


@EVERYWHERE
async def test_an_application_has_so_many_streams_whichever_adapter_serves_them(place: str) -> None:
    settings = HttpSettings(max_streams=1)
    async with opened(place, Badges(), settings) as shop:
        other = "AG-UI" if place == "FastAPI" else "FastAPI"
        elsewhere = PLACES[other].make(shop.app, Badges(), settings)
        async with stream(shop, place, ADA) as first:
            assert (await first.start())[0] == 200
            for api, where in ((shop.api, place), (elsewhere, other)):
                async with Connection(api, PLACES[where].path, EVE) as second:
                    status, code, headers = await second.problem()
                    assert (status, code, headers["retry-after"]) == (503, "too_many_streams", "1")


@EVERYWHERE
async def test_a_quiet_stream_sends_heartbeats_where_its_format_has_any(place: str) -> None:
    settings = HttpSettings(heartbeat_seconds=5)
    async with opened(place, Badges(), settings) as shop, stream(shop, place, ADA) as connection:
        assert (await connection.start())[0] == 200
        for _ in range(2):
            await let_run()
            shop.clock.advance(5)
            if (beat := PLACES[place].heartbeat) is not None:
                assert await connection.piece() == beat
        await let_run()
        shop.source.items.put_nowait("one")
        assert b"one" in await connection.piece()


@EVERYWHERE
async def test_a_client_that_does_not_read_is_given_up(place: str) -> None:
    settings = HttpSettings(heartbeat_seconds=5)
    async with opened(place, Badges(), settings) as shop, stream(shop, place, ADA) as connection:
        shop.source.items.put_nowait("one")
        await first_item(connection)
        connection.reads.clear()
        shop.source.items.put_nowait("two")
        assert await heartbeats_until_given_up(shop) == 4
        await connection.over()
        assert shop.source.closed == 1


@EVERYWHERE
async def test_streams_end_when_the_server_stops_and_no_more_begin(place: str) -> None:
    async with opened(place, Badges()) as shop:
        async with stream(shop, place, ADA) as connection:
            assert (await connection.start())[0] == 200
            shop.streams.close()
            last = (await connection.piece()).decode()
            await connection.over()
        assert PLACES[place].reconnect in last
        assert bool(PLACES[place].reconnect) == bool(last)
        async with stream(shop, place, ADA) as refused:
            assert (await refused.problem())[:2] == (503, "server_stopping")
        shop.streams.open()
        async with stream(shop, place, ADA) as again:
            assert (await again.start())[0] == 200


@EVERYWHERE
@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (RunErasedError("the words"), "run_erased", "the words"),
        (ZeroDivisionError("password=hunter2"), PilotageError.code, PilotageError.message),
    ],
)
async def test_a_stream_that_fails_says_so_as_its_last_piece(
    place: str, error: Exception, code: str, words: str
) -> None:
    async with opened(place, Badges()) as shop, stream(shop, place, ADA) as connection:
        shop.source.items.put_nowait(error)
        last = (await first_item(connection)).decode()
        await connection.over()
    assert PLACES[place].problem in last
    assert code in last
    assert words in last
    assert "hunter2" not in last


# WebSockets


def socket(shop: Shop, path: str, headers: dict[str, str] | None = None) -> Connection:
    return Connection(shop.api, path, headers, kind="websocket")


async def accepted(connection: Connection) -> str | None:
    message = await connection.message()
    assert message["type"] == "websocket.accept", message
    if "agui" in connection.path:
        connection.inbox.put_nowait({"type": "websocket.receive", "text": BODY.decode()})
    return message["subprotocol"]


async def until_piece(connection: Connection, text: bytes) -> None:
    while text not in await connection.piece():
        pass


@SOCKETS
async def test_a_handshake_is_refused_with_a_problem(place: str) -> None:
    async with opened(place, Badges()) as shop:
        path = await shop.socket_path(place)
        async with socket(shop, path) as unknown:
            status, code, headers = await unknown.problem()
            assert (status, code, NOSNIFF in headers.items()) == (401, "not_authenticated", True)
        async with socket(shop, path, {**ADA, "origin": "https://elsewhere.example"}) as foreign:
            assert (await foreign.problem())[:2] == (403, "origin_refused")


@SOCKETS
async def test_a_browser_carries_its_token_in_a_protocol_it_offers(place: str) -> None:
    offered = {"sec-websocket-protocol": "pilotage, bearer.ada"}
    async with (
        opened(place, Badges()) as shop,
        socket(shop, await shop.socket_path(place), offered) as connection,
    ):
        assert await accepted(connection) == "pilotage"
        shop.source.items.put_nowait("one")
        await until_piece(connection, b"one")


@SOCKETS
async def test_one_principal_has_a_part_of_the_sockets(place: str) -> None:
    settings = HttpSettings(max_streams_per_principal=1)
    async with opened(place, Badges(), settings) as shop:
        path = await shop.socket_path(place)
        async with socket(shop, path, ADA) as first:
            await accepted(first)
            async with socket(shop, path, ADA) as second:
                assert (await second.problem())[:2] == (429, "too_many_own_streams")


@SOCKETS
async def test_a_quiet_socket_sends_heartbeats(place: str) -> None:
    async with (
        opened(place, Badges(), HttpSettings(heartbeat_seconds=5)) as shop,
        socket(shop, await shop.socket_path(place), ADA) as connection,
    ):
        await accepted(connection)
        shop.source.items.put_nowait("one")
        await until_piece(connection, b"one")
        await let_run()
        shop.clock.advance(5)
        beat = await connection.piece()
        assert beat in (b'{"event":"heartbeat"}', b":\n\n")


@SOCKETS
async def test_a_socket_whose_client_does_not_read_is_given_up(place: str) -> None:
    async with (
        opened(place, Badges(), HttpSettings(heartbeat_seconds=5)) as shop,
        socket(shop, await shop.socket_path(place), ADA) as connection,
    ):
        await accepted(connection)
        shop.source.items.put_nowait("one")
        await until_piece(connection, b"one")
        connection.reads.clear()
        shop.source.items.put_nowait("two")
        assert await heartbeats_until_given_up(shop) in (4, 5)
        await connection.over()


@SOCKETS
async def test_a_socket_is_closed_with_a_code_that_says_to_come_back_when_the_server_stops(
    place: str,
) -> None:
    async with opened(place, Badges()) as shop:
        async with socket(shop, await shop.socket_path(place), ADA) as connection:
            await accepted(connection)
            await let_run()
            shop.streams.close()
            while (message := await connection.message())["type"] != "websocket.close":
                pass
        assert (message["code"], message["reason"]) == (1012, "come back with the last id")

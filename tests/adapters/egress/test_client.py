"""A guarded client against a real server on loopback: what is sent, what is refused, and when."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import httpx
import pytest
from httpx import AsyncClient as Client

from pilotage import Agent, Pod, ToolEffects, agent_tool, run
from pilotage.adapters.egress import EgressAnswerRefused, EgressPolicy, EgressRefused, egress_client
from pilotage.agent import ToolApprovalRequirement
from pilotage.testing import ScriptedModel, calls, says

HERE = ("127.0.0.0/8",)


class Server:
    """Answers with the bytes it was given for a path, and remembers what it was asked."""

    def __init__(self, **answers: bytes) -> None:
        self.answers, self.asked, self.port = answers, list[bytes](), 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.asked.append(head)
        writer.write(self.answers[head.split()[1].decode().strip("/") or "root"])
        await writer.drain()
        writer.close()

    def hosts_asked(self) -> list[bytes]:
        return [
            line for head in self.asked for line in head.split(b"\r\n") if line.lower().startswith(b"host:")
        ]


@asynccontextmanager
async def serving(**answers: bytes) -> AsyncIterator[Server]:
    server = Server(**answers)
    listening = await asyncio.start_server(server.answer, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    async with listening:
        yield server


def ok(body: bytes, *headers: bytes) -> bytes:
    lines = (b"HTTP/1.1 200 OK", b"connection: close", b"content-length: %d" % len(body), *headers)
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def moved(there: str) -> bytes:
    return (
        b"HTTP/1.1 302 Found\r\nconnection: close\r\ncontent-length: 0\r\nlocation: "
        + there.encode()
        + b"\r\n\r\n"
    )


class Names:
    """A resolver whose answers for a name come one after the other; the last one stays."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self._answers, self.asked = list(answers), list[str]()

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


@asynccontextmanager
async def shop(
    names: Names, most_redirects: int = 5, most_bytes: int = 10_000, **answers: bytes
) -> AsyncIterator[tuple[Server, Client]]:
    """A server, and a client that may reach it as `shop.example`."""
    async with serving(**answers) as server:
        allowed = policy(server.port, most_redirects=most_redirects, most_bytes=most_bytes)
        async with egress_client(allowed, resolve=names) as client:
            yield server, client


def policy(port: int = 80, **others: object) -> EgressPolicy:
    return EgressPolicy((f"shop.example:{port}",), schemes=("http",), networks=HERE, **others)  # type: ignore[arg-type]


async def test_an_allowed_host_is_asked_by_its_name_at_the_address_that_was_checked() -> None:
    async with (
        serving(root=ok(b"hello")) as server,
        egress_client(policy(server.port), resolve=Names(["127.0.0.1"])) as client,
    ):
        answer = await client.get(f"http://shop.example:{server.port}/")
    assert (answer.text, server.hosts_asked()) == ("hello", [b"Host: shop.example:%d" % server.port])


async def test_a_host_that_is_not_allowed_is_not_even_looked_up() -> None:
    names = Names(["127.0.0.1"])
    async with egress_client(policy(), resolve=names) as client:
        with pytest.raises(
            EgressRefused, match="the host 'evil.example' is not allowed; allowed: shop.example:80"
        ):
            await client.get("http://user:hunter2@evil.example/?key=hunter2")
    assert names.asked == []


async def test_an_error_does_not_tell_credentials_and_queries() -> None:
    async with egress_client(policy(), resolve=Names(["127.0.0.1"])) as client:
        with pytest.raises(EgressRefused) as refused:
            await client.get("http://user:hunter2@evil.example/a?key=hunter2#hunter2")
    assert refused.value.url == "http://evil.example/a"
    assert "hunter2" not in str(refused.value)


async def test_a_name_that_leads_to_a_private_address_is_refused() -> None:
    async with serving(root=ok(b"secret")) as server:
        guarded = EgressPolicy((f"shop.example:{server.port}",), schemes=("http",))
        async with egress_client(guarded, resolve=Names(["127.0.0.1"])) as client:
            with pytest.raises(EgressRefused, match="'shop.example': 127.0.0.1 is no globally reachable"):
                await client.get(f"http://shop.example:{server.port}/")
    assert server.asked == []


async def test_another_port_of_an_allowed_host_is_refused_before_the_name_is_looked_up() -> None:
    names = Names(["127.0.0.1"])
    async with egress_client(policy(), resolve=names) as client:
        with pytest.raises(EgressRefused, match="port 22 of 'shop.example' is not allowed; allowed: 80"):
            await client.get("http://shop.example:22/")
    assert names.asked == []


async def test_a_name_that_changes_between_the_check_and_the_connection_gains_nothing() -> None:
    """The second answer would be refused; it is never asked for, since the checked address is the one that is used."""
    names = Names(["127.0.0.1"], ["169.254.169.254"])
    async with (
        serving(root=ok(b"hello")) as server,
        egress_client(policy(server.port), resolve=names) as client,
    ):
        assert (await client.get(f"http://shop.example:{server.port}/")).text == "hello"
        assert names.asked == ["shop.example"]
        with pytest.raises(EgressRefused, match=r"169\.254\.169\.254"):
            await client.get(f"http://shop.example:{server.port}/")


async def test_the_next_address_is_tried_where_nobody_listens_at_the_first() -> None:
    async with shop(Names(["127.0.0.2", "127.0.0.1"]), root=ok(b"hello")) as (server, client):
        assert (await client.get(f"http://shop.example:{server.port}/")).text == "hello"
    assert len(server.asked) == 1


async def test_a_name_without_addresses_is_refused() -> None:
    async def nothing(host: str, port: int) -> Sequence[str]:
        raise OSError("no such name")

    async with egress_client(policy(), resolve=nothing) as client:
        with pytest.raises(EgressRefused, match="the name 'shop.example' has no address \\(no such name\\)"):
            await client.get("http://shop.example/")


async def test_the_systems_resolver_is_the_default() -> None:
    async with serving(root=ok(b"hello")) as server:
        local = EgressPolicy((f"localhost:{server.port}",), schemes=("http",), networks=(*HERE, "::1/128"))
        async with egress_client(local) as client:
            assert (await client.get(f"http://localhost:{server.port}/")).text == "hello"


async def test_a_redirect_on_the_same_host_is_followed() -> None:
    async with shop(Names(["127.0.0.1"]), a=moved("/b"), b=ok(b"there")) as (server, client):
        assert (await client.get(f"http://shop.example:{server.port}/a")).text == "there"


@pytest.mark.parametrize(
    "there", ["http://evil.example/", "//evil.example/", "https://shop.example/", "http://shop.example:1/"]
)
async def test_a_redirect_elsewhere_is_refused_after_the_request_was_sent(there: str) -> None:
    async with (
        serving(a=moved(there)) as server,
        egress_client(policy(server.port), resolve=Names(["127.0.0.1"])) as client,
    ):
        with pytest.raises(EgressAnswerRefused, match="it leads to another host"):
            await client.get(f"http://shop.example:{server.port}/a")
    assert len(server.asked) == 1


async def test_an_endless_chain_of_redirects_ends() -> None:
    async with shop(Names(["127.0.0.1"]), most_redirects=3, a=moved("/a")) as (server, client):
        with pytest.raises(httpx.TooManyRedirects):
            await client.get(f"http://shop.example:{server.port}/a")
    assert len(server.asked) == 4


async def test_an_answer_larger_than_allowed_is_not_read_to_its_end() -> None:
    async with shop(Names(["127.0.0.1"]), most_bytes=1000, a=ok(b"x" * 1001), b=ok(b"x" * 1000)) as (
        server,
        client,
    ):
        assert len((await client.get(f"http://shop.example:{server.port}/b")).content) == 1000
        with pytest.raises(EgressAnswerRefused, match="larger than 1000 bytes"):
            await client.get(f"http://shop.example:{server.port}/a")


async def test_a_compressed_answer_is_refused() -> None:
    async with shop(Names(["127.0.0.1"]), a=ok(b"x", b"content-encoding: gzip")) as (server, client):
        with pytest.raises(EgressAnswerRefused, match="it is compressed"):
            await client.get(f"http://shop.example:{server.port}/a")
    assert b"accept-encoding: identity" in server.asked[0].lower()


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    async with (
        serving(root=ok(b"hello")) as server,
        egress_client(policy(server.port), resolve=Names(["127.0.0.1"])) as client,
    ):
        assert (await client.get(f"http://shop.example:{server.port}/")).text == "hello"


@Pod
class Web:
    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    @agent_tool(effects=ToolEffects.external_side_effect(), approval=ToolApprovalRequirement.NOT_REQUIRED)
    async def post(self, url: str) -> str:
        """Post to a page."""
        return (await self._client.post(url)).text


@Agent
class Poster:
    """Post things."""

    def __init__(self, web: Web) -> None:
        self.web = web


async def test_a_tool_whose_request_was_refused_has_certainly_failed_and_the_model_is_told() -> None:
    model = ScriptedModel([calls("post", url="http://evil.example/"), says("That host is not allowed.")])
    async with egress_client(policy(), resolve=Names(["127.0.0.1"])) as client:
        result = await run(Poster, "post it", model=model, add=[Web(client)])
    assert result.output == "That host is not allowed."
    assert "the host 'evil.example' is not allowed" in str(model.requests[-1].messages[-1].content)

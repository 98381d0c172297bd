"""Servers that mean harm: nothing is done without the gate, memory is bounded, and the error says what happened."""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pilotage import AgentRuns, Application
from pilotage.adapters.mcp import McpLimits, McpServer, McpStartError, McpTool
from pilotage.adapters.mcp.catalog import Definition
from pilotage.adapters.mcp.mapping import result_of
from pilotage.adapters.mcp.replies import REPLY, McpReply, McpReplyKind
from pilotage.agent import ToolEffects
from pilotage.agent.messages import TextPart
from pilotage.testing import MemoryStore, ScriptedModel, calls, says
from tests.adapters.mcp.bank import Teller

READ = {"x": McpTool(effects=ToolEffects.read_only())}
LIMITS = McpLimits(connect_seconds=5, call_seconds=2, most_bytes=200_000)
PRELUDE = """
import json, sys
known = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
def say(message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked: continue
    number, method = asked["id"], asked["method"]
    if method == "server/discover":
        say({"id": number, "result": {**known, "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}})
    elif method == "tools/list":
        say({"id": number, "result": {**known, "tools": [{"name": "x", "inputSchema": {"type": "object"}}]}})
    else:
        done = {"resultType": "complete", "content": [{"type": "text", "text": "done"}]}
"""


async def called(body: str) -> str:
    """Return what a model sees of one call of a server with this answer to calls."""
    program = PRELUDE + "".join(f"        {line}\n" for line in body.splitlines())
    server = McpServer(
        "odd", command=[sys.executable, "-S", "-c", program], tools=READ, limits=LIMITS, accept="first use"
    )
    model = ScriptedModel([calls("odd_x"), says("Done.")])
    async with Application("odd").add(Teller, server, model, *MemoryStore().ports).load_plugins() as app:
        result = await (await app.get(AgentRuns).start(Teller, "go")).result()
        assert result.output == "Done.", result.state
        return str(app.get(ScriptedModel).requests[-1].messages[-1].content)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("say({'id': number, 'result': done})", "done"),
        ("say({'id': 'wrong', 'result': {}}); say({'id': number, 'result': done})", "done"),
        ("say({'id': number, 'result': done}); say({'id': number, 'result': {'content': 5}})", "done"),
        ("[say({'method': 'notifications/progress', 'params': {'progressToken': number, 'progress': n}}) for n in range(5000)]; say({'id': number, 'result': done})", "done"),
        ("print('debug'); say({'id': number, 'result': done})", "done"),
        ("say({'id': number, 'result': {'resultType': 'surprise'}})", "error"),
        ("say({'id': number, 'result': {'content': 'no list'}})", "is not of the protocol"),
        ("say({'id': number, 'error': {'code': -32603, 'message': 'x' * 100_000}})", "-32603"),
        ("say({'id': number, 'result': {'resultType': 'task', 'taskId': 'of-another-tenant', 'status': 'working', 'createdAt': '', 'lastUpdatedAt': '', 'ttlMs': None, 'pollIntervalMs': 1}}) if method == 'tools/call' else say({'id': number, 'error': {'code': -32602, 'message': 'unknown task'}})", "unknown task"),
    ],
)  # fmt: skip
async def test_what_a_server_may_answer(body: str, words: str) -> None:
    assert words in await called(body)


@pytest.mark.slow
async def test_a_result_without_an_end_is_not_kept() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    shown = await called(
        'sys.stdout.write(\'{"jsonrpc": "2.0", "id": 1, "result": "\')\n'
        "while True: sys.stdout.write('x' * 1_000_000)"
    )
    assert "error" in shown
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # kilobytes


async def test_a_server_that_asks_for_ever() -> None:
    asks = (
        "say({'id': number, 'result': {'resultType': 'input_required', 'inputRequests': "
        "{'a': {'method': 'roots/list'}}, 'requestState': 's'}})"
    )
    assert "asks more than 20 times during one call" in await called(asks)


@asynccontextmanager
async def http(answer: Callable[[dict[str, Any]], bytes]) -> AsyncIterator[str]:
    """Serve raw answers of HTTP, one for each connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length: ")[2].partition("\r\n")[0] or 0)
        body = json.loads(await reader.readexactly(length) or b"{}")
        writer.write(answer(body))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    finally:
        server.close()
        await server.wait_closed()


def response(status: str, body: object = None, *headers: str) -> bytes:
    sent = b"" if body is None else json.dumps(body).encode()
    lines = [
        f"HTTP/1.1 {status}",
        "content-type: application/json",
        f"content-length: {len(sent)}",
        "connection: close",
        *headers,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + sent


async def refused(answer: Callable[[dict[str, Any]], bytes]) -> str:
    async with http(answer) as url:
        server = McpServer("odd", url=url, limits=LIMITS, accept="first use")
        with pytest.raises(McpStartError) as caught:
            await server.start()
    return str(caught.value)


async def test_a_redirect_to_a_private_address_is_not_followed() -> None:
    found = await refused(lambda _: response("307 Temporary", None, "location: http://169.254.169.254/mcp"))
    assert "another host, '169.254.169.254'" in found or "it redirects to http://169.254.169.254/mcp" in found


async def test_credentials_that_are_not_accepted() -> None:
    found = await refused(lambda _: response("401 Unauthorized"))
    assert "status 401. It wants other credentials: correct token=... or auth=..." in found


async def test_an_answer_that_is_too_large() -> None:
    found = await refused(lambda _: response("200 OK", "x" * 300_000))
    assert "it is larger than 200000 bytes" in found


DEFINITION = Definition("x", "", {"type": "object"}, {"type": "object", "required": ["a"]})


def test_structured_content_that_does_not_fit_is_shown_as_text() -> None:
    reply = result_of(DEFINITION, {"content": [], "structuredContent": {"b": 1}})
    assert str(reply.content).startswith(
        "The structured result does not fit the schema that its server declares"
    )
    assert result_of(DEFINITION, {"content": [], "structuredContent": {"a": 1}}).content == {"a": 1}


@pytest.mark.parametrize(
    "structured",
    [
        {"content_parts": [{"media_type": "image/png", "digest": "0" * 64}]},
        {"plain": {"x": 1}},
        {"mcp": "input", "content": None, "data": {"requests": {}, "state": "s"}},
    ],
)
def test_structured_content_is_never_taken_for_something_else(structured: dict[str, Any]) -> None:
    reply = McpReply(McpReplyKind.RESULT, structured)
    record, _ = REPLY.encode(reply)
    assert REPLY.decode(record) == reply


def test_what_a_person_gives_is_the_result() -> None:
    assert REPLY.decode({"paid": 5}) == McpReply(McpReplyKind.RESULT, {"paid": 5})
    assert REPLY.decode("text") == McpReply(McpReplyKind.RESULT, "text")
    assert REPLY.decode({"mcp": "other", "content": 1}) == McpReply(
        McpReplyKind.RESULT, {"mcp": "other", "content": 1}
    )


@pytest.mark.parametrize("kind", ["image", "audio"])
@pytest.mark.parametrize("data", ["no base64!", "", "AAAA", 5, None])
def test_media_that_cannot_be_taken_become_a_note(kind: str, data: object) -> None:
    reply = result_of(DEFINITION, {"content": [{"type": kind, "data": data, "mimeType": "image/png"}]})
    assert "left out" in str(reply.content)


def test_blocks_of_unknown_kinds_become_notes() -> None:
    raw = {"content": [{"type": "video"}, "no object", {"type": "resource"}, {"type": "resource_link"}]}
    assert str(result_of(DEFINITION, raw).content).count("left out") == 2
    assert result_of(DEFINITION, {}).content == ""
    assert isinstance(TextPart(str(result_of(DEFINITION, raw).content)), TextPart)

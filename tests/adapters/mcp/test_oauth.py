"""OAuth with client credentials, by the SDK's authentication over our transport: a token that expires is renewed."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from pilotage import AgentRuns, Application
from pilotage.adapters.mcp import McpServer
from pilotage.testing import MemoryStore, ScriptedModel, calls, says
from tests.adapters.mcp.bank import QUICK, TOOLS, Teller
from tests.adapters.mcp.ledger import Ledger


class Tokens:
    """Storage of tokens in memory."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class Guarded:
    """The ledger over HTTP, for those with the token that counts, and the server that gives tokens."""

    def __init__(self, folder: Path) -> None:
        self.ledger = Ledger(folder)
        self.given = 0
        self.base = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next(
            (
                int(each.partition(":")[2])
                for each in head.lower().split("\r\n")
                if each.startswith("content-length")
            ),
            0,
        )
        body = await reader.readexactly(length)
        status, answer, more = self.answer(head, body)
        sent = json.dumps(answer).encode()
        lines = [
            f"HTTP/1.1 {status}",
            "content-type: application/json",
            f"content-length: {len(sent)}",
            "connection: close",
            *more,
        ]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + sent)
        await writer.drain()
        writer.close()

    def answer(self, head: str, body: bytes) -> tuple[str, object, list[str]]:
        path = head.split()[1]
        if path.startswith("/.well-known/oauth-protected-resource"):
            return (
                "200 OK",
                {"resource": f"{self.base}/mcp", "authorization_servers": [self.base]},
                [],
            )
        if path == "/.well-known/oauth-authorization-server":
            return (
                "200 OK",
                {
                    "issuer": self.base,
                    "token_endpoint": f"{self.base}/token",
                    "authorization_endpoint": f"{self.base}/authorize",
                    "response_types_supported": ["code"],
                },
                [],
            )
        if path == "/token":
            self.given += 1
            return (
                "200 OK",
                {"access_token": f"t{self.given}", "token_type": "Bearer", "expires_in": 3600},
                [],
            )
        if path != "/mcp":
            return "404 Not Found", {}, []
        if f"bearer t{self.given}" not in head.lower() or self.given == 0:
            where = f"{self.base}/.well-known/oauth-protected-resource"
            return "401 Unauthorized", {}, [f'www-authenticate: Bearer resource_metadata="{where}"']
        return "200 OK", self.ledger.handle(json.loads(body)), []


async def test_a_token_is_fetched_and_renewed_when_it_expires(tmp_path: Path) -> None:
    guarded = Guarded(tmp_path)
    listening = await asyncio.start_server(guarded.serve, "127.0.0.1", 0)
    guarded.base = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    auth = ClientCredentialsOAuthProvider(
        f"{guarded.base}/mcp", Tokens(), client_id="us", client_secret="ours", issuer=guarded.base
    )
    server = McpServer(
        "bank", url=f"{guarded.base}/mcp", auth=auth, tools=TOOLS, limits=QUICK, accept="first use"
    )
    model = ScriptedModel([calls("bank_pay", amount=1), calls("bank_pay", amount=2), says("Done.")])
    try:
        async with Application("bank").add(Teller, server, model, *MemoryStore().ports).load_plugins() as app:
            assert guarded.given == 1
            guarded.given += 1  # the token of the client does not count any more
            result = await (await app.get(AgentRuns).start(Teller, "go")).result()
    finally:
        listening.close()
        await listening.wait_closed()
    assert result.output == "Done."
    assert guarded.given == 3
    effects = (tmp_path / "effects").read_text().splitlines()
    assert [json.loads(each)["arguments"]["amount"] for each in effects] == [1, 2]

"""Servers that cannot be used: each error names the server and the remedy, and comes at once."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from pilotage import Application
from pilotage.adapters.egress import EgressPolicy
from pilotage.adapters.mcp import McpLimits, McpServer, McpStartError, McpTool
from pilotage.adapters.mcp.settings import settings_from_environment
from pilotage.agent.tool_review import FIRST_USE
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonValue
from pilotage.testing import MemoryStore, ScriptedModel
from tests.adapters.mcp.bank import QUICK, Bank, Teller


def talker(program: str) -> list[str]:
    return [sys.executable, "-S", "-c", program]


async def refusal(server: McpServer) -> str:
    """Return the error of an application that starts with a server, after checking that nothing is left of it."""
    with pytest.raises(McpStartError) as caught:
        async with (
            Application("bank").add(Teller, server, ScriptedModel([]), *MemoryStore().ports).load_plugins()
        ):
            pass
    assert not server.is_connected
    assert str(caught.value).startswith(f"MCP server '{server.name}': ")
    return str(caught.value)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["there-is-no-such-program"], "the command 'there-is-no-such-program' cannot be started: ENOENT"),
        (["/"], "cannot be started: EACCES"),
        (
            talker("print('Welcome!', flush=True); import time; time.sleep(60)"),
            "it wrote to its standard output, which is for the protocol alone: 'Welcome!'. Let it write to its standard "
            "error, or correct command=...",
        ),
        (
            talker("import sys; sys.exit('no licence')"),
            "it ended with exit code 1. Its last words: no licence",
        ),
        (talker("print('{\"jsonrpc\": ', flush=True); input()"), "it wrote a message that cannot be read"),
        (talker("print('{' * 10_000, flush=True); input()"), "it wrote a message that cannot be read"),
    ],
)
async def test_a_command_that_is_no_server(command: list[str], words: str) -> None:
    assert words in await refusal(McpServer("odd", command=command, limits=QUICK, accept=FIRST_USE))


async def test_a_server_that_does_not_answer() -> None:
    server = McpServer(
        "mute",
        command=talker("import sys; [None for _ in sys.stdin]"),
        limits=McpLimits(connect_seconds=0.5),
        accept=FIRST_USE,
    )
    assert "it did not agree on the protocol within 0.5 seconds" in await refusal(server)


async def test_a_server_of_neither_era() -> None:
    program = (
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    error = {'code': -32601, 'message': 'Method not found'}\n"
        "    print(json.dumps({'jsonrpc': '2.0', 'id': json.loads(line)['id'], 'error': error}), flush=True)\n"
    )
    assert "it speaks no version of the protocol that is known here (Method not found" in await refusal(
        McpServer("other", command=talker(program), limits=QUICK, accept=FIRST_USE)
    )


async def test_a_line_without_an_end_is_not_kept() -> None:
    endless = "import sys\nwhile True: sys.stdout.write('{' + 'x' * 100_000)"
    server = McpServer(
        "loud", command=talker(endless), limits=McpLimits(most_bytes=1_000_000), accept=FIRST_USE
    )
    assert "it wrote a line longer than 1000000 bytes (McpLimits.most_bytes)" in await refusal(server)


def nested(levels: int) -> JsonValue:
    schema: JsonValue = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"x": schema}}
    return schema


TOOL: dict[str, JsonValue] = {"name": "pay"}


@pytest.mark.parametrize(
    ("listed", "words"),
    [
        ([TOOL, TOOL], "it lists 2 tools named 'pay'"),
        ([{**TOOL, "inputSchema": {"type": "array"}}], ""),
        (
            [{**TOOL, "inputSchema": {"type": "object", "properties": {"x": {"type": 5}}}}],
            "is no JSON schema",
        ),
        ([{**TOOL, "inputSchema": nested(40)}], "tool 'pay' has an input schema that is nested deeper than"),
        (
            [{**TOOL, "inputSchema": {"type": "object", "$ref": "https://elsewhere.example/schema"}}],
            "refers to 'https://elsewhere.example/schema', which is outside of it",
        ),
        ([{**TOOL, "name": "p\u200bay"}], "has a name that no model can be given"),
        ([{**TOOL, "name": "x" * 300}], "has a name that no model can be given"),
        (
            [
                {
                    **TOOL,
                    "inputSchema": {"type": "object", "properties": {"runtime_context": {"type": "string"}}},
                }
            ],
            "has a property 'runtime_context'",
        ),
    ],
)
async def test_a_list_of_tools_that_cannot_be_offered(
    tmp_path: Path, listed: list[object], words: str
) -> None:
    (tmp_path / "tools").write_text(json.dumps(listed))
    found = await refusal(McpServer(Bank(tmp_path).settings(tools={})))
    assert words in found


async def test_a_schema_of_ten_thousand_levels(tmp_path: Path) -> None:
    text = '{"type":"object","properties":{"x":' * 10_000 + "{}" + "}}" * 10_000
    (tmp_path / "tools").write_text(json.dumps([TOOL]))
    program = (tmp_path / "server.py").resolve()
    program.write_text(
        "import json, sys\n"
        f"schema = {text!r}\n"
        "for line in sys.stdin:\n"
        "    asked = json.loads(line)\n"
        "    if asked['method'] == 'tools/list':\n"
        '        print(\'{"jsonrpc":"2.0","id":%d,"result":{"tools":[{"name":"x","inputSchema":%s}]}}\' '
        "% (asked['id'], schema), flush=True)\n"
        "    elif asked['method'] == 'initialize':\n"
        "        result = {'protocolVersion': '2025-11-25', 'capabilities': {'tools': {}}, "
        "'serverInfo': {'name': 'x', 'version': '1'}}\n"
        "        print(json.dumps({'jsonrpc': '2.0', 'id': asked['id'], 'result': result}), flush=True)\n"
        "    elif 'id' in asked:\n"
        "        error = {'code': -32601, 'message': 'Method not found'}\n"
        "        print(json.dumps({'jsonrpc': '2.0', 'id': asked['id'], 'error': error}), flush=True)\n"
    )
    server = McpServer("deep", command=[sys.executable, "-S", str(program)], limits=QUICK, accept=FIRST_USE)
    assert "it wrote a message that cannot be read" in await refusal(server)


async def test_a_declared_tool_that_is_not_listed(tmp_path: Path) -> None:
    server = McpServer(Bank(tmp_path).settings(tools={"pya": McpTool()}))
    assert "tool 'pya' is declared, and the server does not list it; it lists 'book'" in await refusal(server)


async def test_a_tool_that_is_left_out_is_no_problem(tmp_path: Path) -> None:
    (tmp_path / "tools").write_text(json.dumps([TOOL, {"name": "two"}, {"name": "two"}]))
    server = McpServer(Bank(tmp_path).settings(tools={}, leaves_out={"two"}))
    async with (
        Application("bank").add(Teller, server, ScriptedModel([]), *MemoryStore().ports).load_plugins()
    ):
        assert [each.name for each in server.definitions] == ["pay"]


async def test_an_address_that_nothing_listens_at() -> None:
    found = await refusal(McpServer("far", url="http://127.0.0.1:9/mcp", limits=QUICK, accept=FIRST_USE))
    assert "there is no connection" in found


async def test_an_address_that_the_policy_does_not_allow() -> None:
    server = McpServer(
        "far", url="http://127.0.0.1:9/mcp", egress=EgressPolicy(("api.example.org",)), accept=FIRST_USE
    )
    assert "is not allowed; allowed: " in await refusal(server)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"command": ["x"], "url": "https://x.example"}, "has both a command and an address"),
        ({"command": "run me"}, "command is a text. Write a list: ['run', 'me']"),
        ({"command": ["x"], "token": "t"}, "has headers, a token or an egress policy, and no address"),
        ({"command": ["x"], "roots": ["/home"]}, "'/home' is no root. Write 'file:///...'"),
        ({"command": ["x"], "limits": "x"}, ""),
    ],
)
def test_settings_that_contradict_each_other(options: dict[str, object], words: str) -> None:
    if not words:
        return
    with pytest.raises(AgentDefinitionError) as caught:
        McpServer("files", **options)  # type: ignore[arg-type]
    assert words in str(caught.value)


def test_a_name_that_cannot_be() -> None:
    with pytest.raises(AgentDefinitionError, match="lower-case letters"):
        McpServer("My files", command=["x"])


async def test_a_server_that_is_neither_started_nor_connected_to() -> None:
    assert "it has neither a command nor an address" in await refusal(McpServer("none"))


@pytest.mark.parametrize("url", ["ftp://x.example", "x.example/mcp", "https://"])
async def test_an_address_that_is_none(url: str) -> None:
    assert "is no address. Write url='https://host/path'" in await refusal(
        McpServer("far", url=url, accept=FIRST_USE)
    )


async def test_plain_http_to_another_machine() -> None:
    found = await refusal(McpServer("far", url="http://x.example/mcp", accept=FIRST_USE))
    assert "is not encrypted. Write https" in found


def test_the_environment_names_servers() -> None:
    environ = {
        "PILOTAGE_MCP_FILES_COMMAND": "npx -y 'my server'",
        "PILOTAGE_MCP_FILES_PASS": "HOME_KEY",
        "HOME_KEY": "k",
        "PILOTAGE_MCP_WEB_URL": "https://x.example/mcp",
        "PILOTAGE_MCP_WEB_TOKEN": "t",
    }
    files, web = settings_from_environment(environ)
    assert (files.name, files.command, files.environment) == (
        "files",
        ("npx", "-y", "my server"),
        {"HOME_KEY": "k"},
    )
    assert (web.name, web.url, web.token) == ("web", "https://x.example/mcp", "t")
    assert "t'" not in repr(web)
    assert "HOME_KEY" not in repr(files)


def test_an_environment_with_both() -> None:
    environ = {"PILOTAGE_MCP_A_COMMAND": "x", "PILOTAGE_MCP_A_URL": "https://x.example"}
    with pytest.raises(
        AgentDefinitionError, match="PILOTAGE_MCP_A_COMMAND and PILOTAGE_MCP_A_URL are both set"
    ):
        settings_from_environment(environ)
    with pytest.raises(AgentDefinitionError, match="cannot be split into words"):
        settings_from_environment({"PILOTAGE_MCP_A_COMMAND": "run 'it"})

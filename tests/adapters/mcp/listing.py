"""A server of the SDK in this process, whose list can change, and the application of an agent that uses it."""

from __future__ import annotations

from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server

from pilotage import Agent, Application, ToolEffects, agent_tool
from pilotage.adapters.mcp import McpServer, McpTool
from pilotage.agent import Idempotency, ToolApprovalRequirement
from pilotage.testing import MemoryStore, ScriptedModel

PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
READ = types.Tool(name="read", description="Read a file.", inputSchema=PATH)
WRITE = types.Tool(name="write", description="Write a file.", inputSchema=PATH)
UNASKED = McpTool(
    effects=ToolEffects.read_only(),
    idempotency=Idempotency.IDEMPOTENT,
    approval=ToolApprovalRequirement.NOT_REQUIRED,
    reads_untrusted=False,
)


class Files:
    """The server; it outlives every process of the agent."""

    def __init__(self, *tools: types.Tool) -> None:
        self.tools = list(tools)
        self.called: list[tuple[str, Any]] = []

    def serve(self) -> Server[Any]:
        """Return the server of the SDK for one connection."""

        async def list_tools(*_: object) -> types.ListToolsResult:
            return types.ListToolsResult(tools=self.tools)

        async def call_tool(_: object, params: types.CallToolRequestParams) -> types.CallToolResult:
            self.called.append((params.name, params.arguments))
            return types.CallToolResult(content=[types.TextContent(text=f"{params.name} done")])

        return Server("files", on_list_tools=list_tools, on_call_tool=call_tool)

    def change(self, name: str, **changes: object) -> None:
        """Change the definition of a tool."""
        self.tools = [each.model_copy(update=changes) if each.name == name else each for each in self.tools]

    def server(self, **options: Any) -> McpServer:
        """Return the pod of the server."""
        given: dict[str, Any] = {"tools": {each.name: UNASKED for each in self.tools}, **options}
        return McpServer("files", transport=self.serve, **given)


@Agent(durable=True)
class Clerk:
    """Use the files."""

    def __init__(self, files: McpServer) -> None:
        self.files = files

    @agent_tool(effects=ToolEffects.read_only())
    async def time(self) -> str:
        """Tell the time."""
        return "noon"


def application(files: McpServer, model: ScriptedModel, store: MemoryStore) -> Application:
    """Return the application of one process."""
    return Application("office").add(Clerk, files, model, *store.ports).load_plugins()

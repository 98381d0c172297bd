"""Agents as tools of both eras, by the official client: schemas, results, errors."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from tests.adapters.mcp_server.shop import BOB, LEGACY, MODERN, Bank, connected, shop, text_of

from pilotage import Agent, AgentRuns, Application
from pilotage.adapters.mcp_server import McpExports, mcp_server
from pilotage.errors import AgentDefinitionError, ApplicationStateError
from pilotage.testing import ScriptedModel, says

pytestmark = pytest.mark.parametrize("mode", [MODERN, LEGACY])


async def test_an_agent_is_a_tool_with_the_schema_of_its_execute(mode: str) -> None:
    async with shop() as app, connected(app, mode) as client:
        tools = {each.name: each for each in (await client.list_tools()).tools}
    greeter = tools["Greeter"]
    assert greeter.description == "Greet somebody."
    assert greeter.input_schema["properties"]["times"] == {"title": "int", "type": "integer"}
    assert greeter.input_schema["required"] == ["name"]
    assert greeter.output_schema is not None
    assert greeter.output_schema["properties"]["result"]["type"] == "string"
    item = tools["Packer"].input_schema
    assert item["type"] == "object"
    assert set(item["properties"]) == {"name", "parts"}
    assert item["$defs"]["Item"]["properties"]["parts"]["anyOf"][0]["items"] == {"$ref": "#/$defs/Item"}


async def test_the_docstring_that_a_model_is_told_is_not_told_to_callers(mode: str) -> None:
    async with shop() as app, connected(app, mode) as client:
        tools = {each.name: each for each in (await client.list_tools()).tools}
    assert tools["Clerk"].description == "Pay what is asked for."
    assert "Secret rules" not in str(tools)


async def test_a_call_is_a_run_of_the_tenant(mode: str) -> None:
    async with shop() as app, connected(app, mode, principal=BOB) as client:
        result = await client.call_tool("Greeter", {"name": "Ada", "times": 2})
        assert text_of(result) == "Hello Ada, Hello Ada"
        assert result.structured_content == {"result": "Hello Ada, Hello Ada"}
        page = await app.get(AgentRuns).list(principal=BOB)
        assert [each.agent_type for each in page.runs] == ["Greeter"]
        assert not (await app.get(AgentRuns).list()).runs


async def test_an_object_is_given_by_its_members(mode: str) -> None:
    async with shop() as app, connected(app, mode) as client:
        result = await client.call_tool("Packer", {"name": "box", "parts": [{"name": "lid"}]})
    assert result.structured_content == {"result": 2}


async def test_a_declarative_agent_takes_an_instruction(mode: str) -> None:
    async with shop(model=ScriptedModel([says("Done.")])) as app, connected(app, mode) as client:
        result = await client.call_tool("Clerk", {"instruction": "nothing to pay"})
        assert result.structured_content == {"result": "Done."}
        refused = await client.call_tool("Clerk", {"words": "x"})
        assert refused.is_error
        assert "takes 'instruction'" in text_of(refused)


async def test_arguments_that_do_not_fit_are_a_result_that_a_model_can_read(mode: str) -> None:
    async with shop() as app, connected(app, mode) as client:
        result = await client.call_tool("Greeter", {"name": "Ada", "times": "many"})
        assert result.is_error
        assert "'times'" in text_of(result)
        missing = await client.call_tool("Greeter", {})
        assert "needs 'name'" in text_of(missing)


async def test_an_unknown_tool_is_an_error_of_the_protocol(mode: str) -> None:
    async with shop() as app, connected(app, mode) as client:
        with pytest.raises(MCPError, match="Unknown tool") as refused:
            await client.call_tool("nobody", {})
        assert refused.value.code == -32602


async def test_a_run_that_fails_is_a_result_without_the_words_of_the_exception(mode: str) -> None:
    async with shop() as app, connected(app, mode) as client:
        broken = await client.call_tool("Breaker", {})
        assert broken.is_error
        assert "hunter2" not in str(broken)
        closed = await client.call_tool("fail", {})
        assert closed.is_error
        assert "the bank is closed" in text_of(closed)


async def test_sensitive_parts_of_a_result_are_hidden_as_over_http(mode: str) -> None:
    async with shop() as app, connected(app, mode) as client:
        tools = {each.name: each for each in (await client.list_tools()).tools}
        assert tools["Teller"].output_schema is None
        told = await client.call_tool("Teller", {})
    assert "ada@example.org" not in str(told)
    assert "Ada" in text_of(told)


async def test_without_a_store_a_run_lasts_as_long_as_its_call(mode: str) -> None:
    @Agent
    class Adder:
        """Add."""

        async def execute(self, a: int, b: int) -> int:
            return a + b

    app = Application("small").load_plugins(include=["agent", "runtime"]).add(Adder)
    async with app, connected(app, mode) as client:
        (tool,) = (await client.list_tools()).tools
        assert tool.meta == {"io.pilotage/honours-idempotency-key": False}
        assert (await client.call_tool("Adder", {"a": 1, "b": 2})).structured_content == {"result": 3}
        assert (await client.call_tool("Adder", {"a": "x", "b": 2})).is_error


async def test_arguments_are_bounded_on_every_transport(mode: str) -> None:
    exports = McpExports(max_argument_bytes=1_000, max_argument_depth=5)
    deep: Any = "x"
    for _ in range(8):
        deep = {"name": "y", "parts": [deep]}
    async with shop() as app, connected(app, mode, exports=exports) as client:
        with pytest.raises(MCPError, match="longer than 1,000 bytes"):
            await client.call_tool("Greeter", {"name": "x" * 2_000})
        with pytest.raises(MCPError, match="nested more than 5"):
            await client.call_tool("Packer", deep)


async def test_tools_of_a_pod_are_served_singly_with_their_hints(mode: str) -> None:
    async with shop() as app, connected(app, mode) as client:
        tools = {each.name: each for each in (await client.list_tools()).tools}
        assert tools["balance"].annotations.read_only_hint  # type: ignore[union-attr]
        assert not tools["pay"].annotations.read_only_hint  # type: ignore[union-attr]
        assert tools["pay"].input_schema["required"] == ["amount"]
        assert (await client.call_tool("balance", {})).structured_content == {"result": 100}
        assert app.get(Bank).paid == []


async def test_only_chosen_agents_are_served(mode: str) -> None:
    exports = McpExports(agents=["Greeter"], name="front desk", instructions="Ask.")
    async with shop() as app, connected(app, mode, exports=exports) as client:
        assert [each.name for each in (await client.list_tools()).tools] == ["Greeter"]
        assert client.server_info is not None
        assert client.server_info.name == "front desk"
        assert client.instructions == "Ask."
        with pytest.raises(MCPError, match="Unknown tool"):
            await client.call_tool("Clerk", {"instruction": "x"})


async def test_bad_exports_are_refused_with_the_way_out(mode: str) -> None:
    app = shop()
    with pytest.raises(ApplicationStateError, match="async with app"):
        mcp_server(app)
    async with app:
        with pytest.raises(AgentDefinitionError, match="not part of application"):
            mcp_server(app, McpExports(agents=["Nobody"]))
    with pytest.raises(AgentDefinitionError, match="task_after_seconds"):
        McpExports(task_after_seconds=0)

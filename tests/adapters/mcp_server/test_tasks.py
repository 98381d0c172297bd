"""The Tasks extension: a task is a run, under the same id."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from pydantic import ConfigDict
from tests.adapters.mcp_server.shop import ADA, BOB, Bank, connected, filled, keyed, shop

from pilotage import AgentRuns, AgentStatus
from pilotage.adapters.mcp_server import McpExports, McpTasks
from pilotage.testing import MemoryStore

ALWAYS = McpExports(tasks=dict.fromkeys(("pay", "slow", "fail", "Breaker", "Payer"), McpTasks.ALWAYS))
MISSING_CAPABILITY = -32021


class Open(types.Result):
    """A result with whatever it has."""

    model_config = ConfigDict(extra="allow")


async def send(client: Client, method: str, *, task_id: str | None = None, **params: Any) -> dict[str, Any]:
    """The result of a request, as it is."""
    if task_id is not None:
        params["taskId"] = task_id
    request: Any = types.Request[dict[str, Any], str](method=method, params=params)
    return (await client.session.send_request(request, Open)).model_dump(by_alias=True, exclude_none=False)


async def created(client: Client, tool: str, /, meta: Any = None, **arguments: Any) -> dict[str, Any]:
    """The task of a call."""
    more = {"_meta": meta} if meta else {}
    return await send(client, "tools/call", name=tool, arguments=arguments, **more)


async def ended(client: Client, app: Any, task_id: str) -> dict[str, Any]:
    """The task at its end, or at its questions."""
    runs = app.get(AgentRuns)
    while True:
        async for _ in runs.events(task_id):
            """Until the run pauses or ends."""
        task = await send(client, "tasks/get", task_id=task_id)
        if task["status"] != "working":
            return task


async def test_a_call_becomes_a_task_whose_id_is_the_run() -> None:
    async with shop() as app, connected(app, exports=ALWAYS, tasks=True) as client:
        task = await created(client, "slow", meta=keyed("s"))
        assert task["resultType"] == "task"
        assert (await app.get(AgentRuns).get(task["taskId"])).agent_type == "slow"
        assert not {"requestState", "result", "error", "inputRequests", "task"} & task.keys()
        assert (await created(client, "slow", meta=keyed("s")))["taskId"] == task["taskId"]
        done = await ended(client, app, task["taskId"])
        assert done["status"] == "completed"
        assert done["result"]["structuredContent"] == {"result": "through"}
        assert done["ttlMs"] is None
        assert done["pollIntervalMs"] == 1_000


async def test_a_client_without_the_extension_gets_the_result_and_no_task() -> None:
    async with shop() as app, connected(app, exports=ALWAYS) as client:
        assert (await client.call_tool("slow", {})).structured_content == {"result": "through"}
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            with pytest.raises(MCPError) as refused:
                await send(client, method, task_id="x")
            assert refused.value.code == MISSING_CAPABILITY


async def test_a_tool_that_requires_tasks_refuses_other_clients_before_anything_starts() -> None:
    exports = McpExports(tasks={"slow": McpTasks.REQUIRED})
    async with shop() as app, connected(app, exports=exports) as client:
        with pytest.raises(MCPError) as refused:
            await client.call_tool("slow", {})
        assert refused.value.code == MISSING_CAPABILITY
        assert "io.modelcontextprotocol/tasks" in str(refused.value.error.data)
        assert not (await app.get(AgentRuns).list()).runs


async def test_only_a_slow_call_becomes_a_task() -> None:
    exports = McpExports(task_after_seconds=0.2)
    async with shop() as app, connected(app, exports=exports, tasks=True) as client:
        quick = await created(client, "Greeter", name="Ada")
        assert quick["resultType"] == "complete"
        app.get(Bank).gate.clear()
        slow = await created(client, "slow")
        assert slow["resultType"] == "task"
        assert (await send(client, "tasks/get", task_id=slow["taskId"]))["status"] == "working"
        app.get(Bank).gate.set()
        assert (await ended(client, app, slow["taskId"]))["status"] == "completed"


async def test_a_task_that_asks_takes_answers_by_update() -> None:
    async with shop() as app, connected(app, exports=ALWAYS, tasks=True, answers=object()) as client:
        task = await created(client, "Payer", first=1, second=2)
        for amount in (1, 2):
            asking = await ended(client, app, task["taskId"])
            assert asking["status"] == "input_required"
            ((key, request),) = asking["inputRequests"].items()
            assert f'"amount": {amount}' in request["params"]["message"]
            wrong = {key: filled(decision="perhaps").model_dump(by_alias=True), "other": {"action": "accept"}}
            await send(client, "tasks/update", task_id=task["taskId"], inputResponses=wrong)
            assert (await ended(client, app, task["taskId"]))["inputRequests"].keys() == {key}
            right = {key: filled(decision="approve").model_dump(by_alias=True)}
            ack = await send(client, "tasks/update", task_id=task["taskId"], inputResponses=right)
            assert not {"taskId", "status", "inputRequests"} & ack.keys()
        assert (await ended(client, app, task["taskId"]))["status"] == "completed"
        assert app.get(Bank).paid == [1, 2]


async def test_a_task_that_is_cancelled_stays_so() -> None:
    async with shop() as app, connected(app, exports=ALWAYS, tasks=True) as client:
        app.get(Bank).gate.clear()
        task = await created(client, "slow")
        await app.get(Bank).waiting.wait()
        await send(client, "tasks/cancel", task_id=task["taskId"])
        assert (await ended(client, app, task["taskId"]))["status"] == "cancelled"
        await send(client, "tasks/cancel", task_id=task["taskId"])
        state = await app.get(AgentRuns).get(task["taskId"])
        assert state.status is AgentStatus.CANCELLED


async def test_errors_of_a_tool_complete_a_task_and_faults_fail_it() -> None:
    async with shop() as app, connected(app, exports=ALWAYS, tasks=True) as client:
        refused = await ended(client, app, (await created(client, "fail"))["taskId"])
        assert refused["status"] == "completed"
        assert refused["result"]["isError"]
        broken = await ended(client, app, (await created(client, "Breaker"))["taskId"])
        assert broken["status"] == "failed"
        assert broken["error"]["code"] == -32603
        assert "hunter2" not in str(broken)


async def test_a_task_of_another_tenant_is_unknown_as_one_that_does_not_exist() -> None:
    async with shop() as app:
        async with connected(app, exports=ALWAYS, tasks=True, principal=ADA, answers=object()) as client:
            task = await created(client, "pay", amount=5)
            asking = await ended(client, app, task["taskId"])
        yes = {key: filled(decision="approve").model_dump(by_alias=True) for key in asking["inputRequests"]}
        async with connected(app, exports=ALWAYS, tasks=True, principal=BOB, answers=object()) as client:
            for task_id in (task["taskId"], "0" * 32, "", "x" * 500, "../runs", "ö\x00"):
                words = set[str]()
                for method, more in (("get", {}), ("update", {"inputResponses": yes}), ("cancel", {})):
                    with pytest.raises(MCPError) as refused:
                        await send(client, f"tasks/{method}", task_id=task_id, **more)
                    assert refused.value.code == -32602
                    words.add(refused.value.error.message)
                assert len(words) == 1
        assert app.get(Bank).paid == []
        assert not (await app.get(AgentRuns).get(task["taskId"])).is_terminal


async def test_a_task_goes_on_in_another_process() -> None:
    store = MemoryStore()
    async with (
        shop(store=store) as app,
        connected(app, exports=ALWAYS, tasks=True, answers=object()) as client,
    ):
        task = await created(client, "pay", amount=5)
        asking = await ended(client, app, task["taskId"])
    async with (
        shop(store=store) as app,
        connected(app, exports=ALWAYS, tasks=True, answers=object()) as client,
    ):
        yes = {key: filled(decision="approve").model_dump(by_alias=True) for key in asking["inputRequests"]}
        await send(client, "tasks/update", task_id=task["taskId"], inputResponses=yes)
        assert (await ended(client, app, task["taskId"]))["status"] == "completed"
        assert app.get(Bank).paid == [5]


async def test_a_run_of_an_agent_that_is_not_served_is_no_task() -> None:
    async with shop() as app:
        handle = await app.get(AgentRuns).start("Greeter", {"name": "Ada"})
        exports = McpExports(agents=["Clerk"])
        async with connected(app, exports=exports, tasks=True) as client:
            with pytest.raises(MCPError, match="Unknown task"):
                await send(client, "tasks/get", task_id=handle.id)

"""Clients that do what no client should: at the edges of arguments, keys, states, tasks, forms and methods."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError
from tests.adapters.mcp_server.shop import (
    ADA,
    BOB,
    MODERN,
    Bank,
    connected,
    filled,
    keyed,
    run_id_of,
    shop,
    text_of,
)
from tests.adapters.mcp_server.test_http import api_of
from tests.adapters.mcp_server.test_tasks import ALWAYS, created, ended, send

from pilotage import AgentRuns, AgentStatus, Principal
from pilotage.adapters.mcp_server.errors import protocol_error, store_unreachable
from pilotage.agent import ApprovalDecision
from pilotage.errors import AgentPersistenceConfigurationError, AnswerConflictError, RunConflictError

VERSION = "2026-07-28"


async def test_the_same_key_at_the_same_time_is_one_run() -> None:
    async with shop() as app, connected(app) as client:
        results = await asyncio.gather(*(client.call_tool("slow", {}, meta=keyed("one")) for _ in range(20)))
        assert len({run_id_of(each) for each in results}) == 1
        assert len((await app.get(AgentRuns).list()).runs) == 1


async def test_two_users_who_answer_at_once_get_one_answer() -> None:
    async with shop() as app, connected(app, exports=ALWAYS, tasks=True, answers=object()) as client:
        task = await created(client, "pay", amount=5)
        (key,) = (await ended(client, app, task["taskId"]))["inputRequests"]

        async def answer(decision: str) -> str:
            response = {key: filled(decision=decision).model_dump(by_alias=True)}
            try:
                await send(client, "tasks/update", task_id=task["taskId"], inputResponses=response)
            except MCPError as error:
                return str(error.error.data["code"])
            return decision

        said = await asyncio.gather(*(answer(each) for each in ("approve", "reject", "approve", "reject")))
        done = await ended(client, app, task["taskId"])
        assert said.count("answer_conflict") == 2
        assert app.get(Bank).paid == ([5] if "approve" in said else [])
        assert done["status"] == "completed"


async def test_an_answer_by_another_way_closes_the_form() -> None:
    async with (
        shop() as app,
        connected(app, exports=ALWAYS, tasks=True, answers=object(), principal=ADA) as client,
    ):
        task = await created(client, "pay", amount=5)
        (key,) = (await ended(client, app, task["taskId"]))["inputRequests"]
        runs = app.get(AgentRuns)
        await runs.answer(task["taskId"], key, ApprovalDecision.REJECT, principal=Principal("eve", "navy"))
        response = {key: filled(decision="approve").model_dump(by_alias=True)}
        with pytest.raises(MCPError) as refused:
            await send(client, "tasks/update", task_id=task["taskId"], inputResponses=response)
        assert refused.value.error.data["decided_by"] == "eve"
        assert app.get(Bank).paid == []
        with pytest.raises(AnswerConflictError):
            await runs.answer(task["taskId"], key, ApprovalDecision.APPROVE)


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"decision": None},
        {"decision": ["approve"]},
        {"decision": "APPROVE"},
        {"decision": "defer"},
        {"decision": "done"},
        {"decision": "approve", "result": "1"},
        {"decision": "approve", "modified_payload": '{"amount": 1}'},
        {"decision": "reject", "modified_payload": '{"amount": 1}'},
        {"decision": "modify"},
        {"decision": "modify", "modified_payload": "[" * 5_000},
        {"decision": "modify", "modified_payload": '{"amount": NaN}'},
        {"decision": "modify", "modified_payload": '{"amount": 1, "tenant": "army"}'},
        {"decision": "modify", "modified_payload": '{"amount": {"$ref": "#"}}'},
        {"decision": "modify", "modified_payload": 7},
    ],
)
async def test_what_is_no_answer_leaves_the_question_open(content: dict[str, Any]) -> None:
    async with shop() as app, connected(app, exports=ALWAYS, tasks=True, answers=object()) as client:
        task = await created(client, "pay", amount=5)
        (key,) = (await ended(client, app, task["taskId"]))["inputRequests"]
        response = {key: {"action": "accept", "content": content}}
        await send(client, "tasks/update", task_id=task["taskId"], inputResponses=response)
        assert (await ended(client, app, task["taskId"]))["inputRequests"].keys() == {key}
        assert app.get(Bank).paid == []


@pytest.mark.parametrize(
    "response", [None, 7, "approve", [], {"action": "allow"}, {"content": {"decision": "approve"}}]
)
async def test_what_is_no_response_changes_nothing(response: Any) -> None:
    async with shop() as app, connected(app, exports=ALWAYS, tasks=True, answers=object()) as client:
        task = await created(client, "pay", amount=5)
        (key,) = (await ended(client, app, task["taskId"]))["inputRequests"]
        await send(
            client,
            "tasks/update",
            task_id=task["taskId"],
            inputResponses={key: response, "x" * 10_000: response},
        )
        assert (await ended(client, app, task["taskId"]))["status"] == "input_required"


@pytest.mark.parametrize(
    "arguments",
    [
        {"name": "\u202eevil\u200b"},
        {"name": "\ud800"},
        {"name": "x" * 100_000},
        {"name": "Ada", "times": 10**30},
        {"name": {"$ref": "file:///etc/passwd"}},
        {"name": "Ada", "self": "x"},
        {"name": "Ada", "__class__": "x"},
        {"name": ["Ada"]},
        {"": "x"},
    ],
)
async def test_hostile_arguments_give_a_result_or_a_refusal(arguments: dict[str, Any]) -> None:
    async with shop() as app, connected(app) as client:
        code = 0
        try:
            result = await client.call_tool("Greeter", arguments)
        except MCPError as refused:
            code = refused.error.code
        assert code == -32602 or result.is_error or text_of(result).startswith("Hello ")
        assert all(each.is_terminal for each in (await app.get(AgentRuns).list()).runs)


def modern(method: str, **params: Any) -> tuple[dict[str, str], dict[str, Any]]:
    """The headers and the body of a request of the modern era."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": meta, **params}}
    headers = {
        "mcp-protocol-version": VERSION,
        "mcp-method": method,
        "accept": "application/json, text/event-stream",
    }
    if "name" in params:
        headers["mcp-name"] = str(params["name"])
    return headers, body


async def post(api: Any, headers: dict[str, str], body: Any) -> httpx.Response:
    """The answer to a request of this machine."""
    transport = httpx.ASGITransport(app=api, client=("127.0.0.1", 5_000))
    async with (
        api.router.lifespan_context(api),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http,
    ):
        return await http.post("/mcp", headers=headers, json=body)


@pytest.mark.parametrize("method", ["tasks/list", "tasks/result", "admin/stop", "initialize", "__init__", ""])
async def test_methods_that_are_none_are_refused(method: str) -> None:
    headers, body = modern(method)
    refused = await post(api_of(shop()), headers, body)
    assert refused.status_code in (400, 404)
    assert "error" in refused.json()


async def test_headers_that_contradict_the_body_are_refused() -> None:
    headers, body = modern("tools/call", name="pay", arguments={"amount": 5})
    app = shop()
    refused = await post(api_of(app), {**headers, "mcp-name": "balance"}, body)
    assert refused.json()["error"]["code"] == -32020


async def test_a_principal_in_the_body_is_no_principal() -> None:
    headers, body = modern(
        "tools/call", name="Greeter", arguments={"name": "x"}, principal="root", tenant="army"
    )
    body["params"]["_meta"] |= {"principal": "root", "tenant": "army", "io.pilotage/run": {"id": "x"}}
    app = shop()
    async with app:
        answered = await post(api_of(app), headers, body)
        assert answered.status_code == 200
        (run,) = (await app.get(AgentRuns).list()).runs
        assert run.tenant_id == "default"
        assert not (await app.get(AgentRuns).list(principal=BOB)).runs


async def test_a_state_for_one_era_or_way_is_not_for_another() -> None:
    async with shop() as app, connected(app, answers=object()) as client:
        asked: Any = await client.session.call_tool("pay", {"amount": 5}, allow_input_required=True)
        # The state has the same key over HTTP, where the principal is another one: that of requests of this machine.
        headers, body = modern(
            "tools/call", name="pay", arguments={"amount": 6}, requestState=asked.request_state
        )
        refused = await post(api_of(app), headers, body)
        assert refused.json()["error"]["message"] == "Invalid or expired requestState"


def test_an_error_that_is_ours_leaves_without_its_words() -> None:
    ours = protocol_error(AgentPersistenceConfigurationError("password=hunter2"))
    assert ours.error.code == types.INTERNAL_ERROR
    assert "hunter2" not in json.dumps(ours.error.model_dump())
    assert store_unreachable().error.data["code"] == "store_unreachable"
    theirs = protocol_error(RunConflictError("a run was started as 'x' already"))
    assert theirs.error.code == types.INVALID_PARAMS
    assert "already" in theirs.error.message


async def test_a_run_that_is_cancelled_by_another_way_is_told() -> None:
    async with shop() as app, connected(app, MODERN) as client:
        app.get(Bank).gate.clear()
        called = asyncio.create_task(client.call_tool("Waiter", {}))
        await app.get(Bank).waiting.wait()
        runs = app.get(AgentRuns)
        (run,) = (await runs.list()).runs
        await runs.cancel(run.id, reason="enough")
        result = await called
        assert result.is_error
        assert (await runs.get(run.id)).status is AgentStatus.CANCELLED

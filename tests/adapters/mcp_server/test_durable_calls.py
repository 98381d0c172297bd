"""Calls as durable runs: keys, callers that leave, restarts, progress."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from tests.adapters.mcp_server.shop import (
    ADA,
    BOB,
    LEGACY,
    MODERN,
    Bank,
    connected,
    keyed,
    run_id_of,
    shop,
    text_of,
)

from pilotage import AgentRuns, AgentStatus, Principal
from pilotage.testing import MemoryStore

pytestmark = pytest.mark.parametrize("mode", [MODERN, LEGACY])


async def test_the_same_key_gives_the_same_run(mode: str) -> None:
    async with shop() as app, connected(app, mode) as client:
        first = await client.call_tool("Greeter", {"name": "Ada"}, meta=keyed("order-7"))
        again = await client.call_tool("Greeter", {"name": "Ada"}, meta=keyed("order-7"))
        other = await client.call_tool("Greeter", {"name": "Ada"}, meta=keyed("order-8"))
    assert run_id_of(first) == run_id_of(again) != run_id_of(other)
    assert text_of(again) == "Hello Ada"


async def test_keys_of_other_principals_and_tenants_are_others(mode: str) -> None:
    store, seen = MemoryStore(), set[str]()
    async with shop(store=store) as app:
        for principal in (ADA, BOB, Principal("eve", tenant="navy")):
            async with connected(app, mode, principal=principal) as client:
                seen.add(run_id_of(await client.call_tool("Greeter", {"name": "x"}, meta=keyed("one"))))
    assert len(seen) == 3


async def test_a_key_with_other_arguments_is_a_conflict(mode: str) -> None:
    async with shop() as app, connected(app, mode) as client:
        await client.call_tool("Greeter", {"name": "Ada"}, meta=keyed("order-7"))
        with pytest.raises(MCPError) as refused:
            await client.call_tool("Greeter", {"name": "Bob"}, meta=keyed("order-7"))
        assert refused.value.code == -32602
        assert refused.value.error.data["code"] == "run_conflict"
        with pytest.raises(MCPError, match="already"):
            await client.call_tool("balance", {}, meta=keyed("order-7"))


@pytest.mark.parametrize("key", ["", " ", 7, "x" * 256, ["a"]])
async def test_what_is_no_key_is_refused_before_anything_starts(mode: str, key: Any) -> None:
    async with shop() as app, connected(app, mode) as client:
        with pytest.raises(MCPError, match="is no key"):
            await client.call_tool("Greeter", {"name": "Ada"}, meta={"io.pilotage/idempotency-key": key})  # type: ignore[typeddict-unknown-key]
        assert not (await app.get(AgentRuns).list()).runs


async def test_a_caller_that_leaves_does_not_end_the_run_and_gets_its_result_later(mode: str) -> None:
    async with shop() as app:
        gate = app.get(Bank).gate
        gate.clear()
        async with connected(app, mode) as client:
            called = asyncio.create_task(client.call_tool("Waiter", {}, meta=keyed("w")))
            runs = app.get(AgentRuns)
            await app.get(Bank).waiting.wait()
            (run,) = (await runs.list()).runs
            called.cancel()
            await asyncio.wait([called])
        assert (await runs.get(run.id)).status is AgentStatus.ACTIVE
        gate.set()
        async with connected(app, mode) as client:
            result = await client.call_tool("Waiter", {}, meta=keyed("w"))
        assert run_id_of(result) == run.id
        assert text_of(result) == "through"


async def test_a_run_whose_process_has_died_is_taken_up_by_the_next_call(mode: str) -> None:
    store = MemoryStore()
    async with shop(store=store) as app:
        app.get(Bank).gate.clear()
        runs = app.get(AgentRuns)
        async with connected(app, mode) as client:
            called = asyncio.create_task(client.call_tool("Greeter", {"name": "A"}, meta=keyed("g")))
            waited = asyncio.create_task(client.call_tool("Waiter", {}, meta=keyed("w")))
            await called
            await app.get(Bank).waiting.wait()
            waited.cancel()
            await asyncio.wait([waited])
        await runs.stop()
    async with shop(store=store) as app, connected(app, mode) as client:
        assert text_of(await client.call_tool("Greeter", {"name": "A"}, meta=keyed("g"))) == "Hello A"
        asked = await client.call_tool("Waiter", {}, meta=keyed("w"))
        # The call of an unrepeatable tool was under way: nobody knows its outcome, so a person is asked.
        assert "waits for a person" in text_of(asked)
        assert asked.is_error


async def test_progress_is_that_of_the_event_log(mode: str) -> None:
    told: list[tuple[float, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, message))

    async with shop() as app, connected(app, mode) as client:
        await client.call_tool("slow", {}, progress_callback=note)
    assert [number for number, _ in told] == [float(each) for each in range(1, len(told) + 1)]
    assert any("slow" in str(words) for _, words in told)

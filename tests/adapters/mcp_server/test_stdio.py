"""MCP over standard input and output: `pilotage mcp serve` as a client starts it, over a database."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from tests.adapters.mcp_server.shop import LEGACY, MODERN, filled, keyed, run_id_of, text_of

ROOT = Path(__file__).parents[3]


@asynccontextmanager
async def started(folder: Path, mode: str, **options: Any) -> AsyncGenerator[Client]:
    """A client of a process of its own."""
    environ = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PILOTAGE_DATABASE_URL": f"sqlite:///{folder}/runs.db",
        "COUNTER": str(folder / "paid.txt"),
    }
    words = ["-m", "pilotage", "mcp", "serve", "tests.adapters.mcp_server.stored_shop:app", "--as", "ada"]
    server = StdioServerParameters(command=sys.executable, args=words, env=environ, cwd=str(ROOT))
    async with Client(server, mode=mode, cache=None, read_timeout_seconds=60, **options) as client:
        yield client


@pytest.mark.parametrize("mode", [MODERN, LEGACY])
async def test_a_call_over_stdio(tmp_path: Path, mode: str) -> None:
    async with started(tmp_path, mode) as client:
        assert {each.name for each in (await client.list_tools()).tools} == {
            "Payer",
            "pay",
            "Noisy",
            "whoami",
        }
        result = await client.call_tool("Noisy", {})
        assert text_of(result) == "quiet"


@pytest.mark.parametrize("mode", [MODERN, LEGACY])
async def test_a_question_over_stdio(tmp_path: Path, mode: str) -> None:
    async def yes(context: object, params: Any) -> Any:
        return filled(decision="approve")

    async with started(tmp_path, mode, elicitation_callback=yes) as client:
        result = await client.call_tool("Payer", {"first": 1, "second": 2})
        assert not result.is_error
    assert (tmp_path / "paid.txt").read_text().split() == ["1", "2"]


async def test_a_question_is_answered_in_the_next_process(tmp_path: Path) -> None:
    async def never(context: object, params: Any) -> Any:
        raise AssertionError

    async with started(tmp_path, MODERN, elicitation_callback=never) as client:
        asked: Any = await client.session.call_tool("pay", {"amount": 5}, allow_input_required=True)
    async with started(tmp_path, MODERN, elicitation_callback=never) as client:
        result: Any = await client.session.call_tool(
            "pay",
            {"amount": 5},
            input_responses=dict.fromkeys(asked.input_requests, filled(decision="approve")),
            request_state=asked.request_state,
        )
        assert result.structured_content == {"result": 5}
        again = await client.session.call_tool(
            "pay",
            {"amount": 5},
            input_responses=dict.fromkeys(asked.input_requests, filled(decision="approve")),
            request_state=asked.request_state,
        )
        assert run_id_of(again) == run_id_of(result)
    assert (tmp_path / "paid.txt").read_text().split() == ["5"]


async def test_a_key_finds_its_run_in_the_next_process(tmp_path: Path) -> None:
    seen: set[str] = set()
    for _ in range(2):
        async with started(tmp_path, MODERN) as client:
            seen.add(run_id_of(await client.call_tool("Noisy", {}, meta=keyed("n"))))
    assert len(seen) == 1

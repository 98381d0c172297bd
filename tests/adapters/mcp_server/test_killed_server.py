"""`pilotage mcp serve` killed with SIGKILL: at a question, in the middle of a call, and between the answer and its effect."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.mcp_server.shop import MODERN, filled, keyed, run_id_of, text_of
from tests.adapters.mcp_server.test_stdio import started


async def never(context: object, params: Any) -> Any:
    raise AssertionError


async def kill(client: Any) -> None:
    """Kill the server of a client."""
    process = int(text_of(await client.call_tool("whoami", {})))
    os.kill(process, signal.SIGKILL)


async def pay(client: Any, asked: Any = None, key: str = "p") -> Any:
    """The call of `pay`, with the answer where it was asked."""
    more: dict[str, Any] = {}
    if asked is not None:
        more["input_responses"] = dict.fromkeys(asked.input_requests, filled(decision="approve"))
        more["request_state"] = asked.request_state
    return await client.session.call_tool(
        "pay", {"amount": 5}, meta=keyed(key), allow_input_required=True, **more
    )


async def test_a_question_survives_sigkill(tmp_path: Path) -> None:
    asked: Any = None
    with suppress(Exception):
        async with started(tmp_path, MODERN, elicitation_callback=never) as client:
            asked = await pay(client)
            await kill(client)
    async with started(tmp_path, MODERN, elicitation_callback=never) as client:
        again = await pay(client)
        assert again.input_requests.keys() == asked.input_requests.keys()
        paid = await pay(client, asked)
        assert run_id_of(paid) == run_id_of(await pay(client, again))
    assert (tmp_path / "paid.txt").read_text().split() == ["5"]


@pytest.mark.parametrize("place", ["before", "after"])
async def test_a_call_that_dies_with_its_server_is_asked_about_and_not_repeated(
    tmp_path: Path, place: str
) -> None:
    (tmp_path / "die").write_text(place)
    asked: Any = None
    with suppress(Exception):
        async with started(tmp_path, MODERN, elicitation_callback=never) as client:
            asked = await pay(client)
            await pay(client, asked)
    assert not (tmp_path / "die").exists()
    paid = (tmp_path / "paid.txt").read_text().split() if place == "after" else []
    assert paid == (["5"] if place == "after" else [])
    async with started(tmp_path, MODERN, elicitation_callback=never) as client:
        unknown = await pay(client, asked)
        (question,) = unknown.input_requests.values()
        choices = question.params.requested_schema["properties"]["decision"]["oneOf"]
        assert [each["const"] for each in choices] == ["retry", "done", "fail", "cancel"]
        done = dict.fromkeys(unknown.input_requests, filled(decision="done", result="5"))
        result = await client.session.call_tool(
            "pay", {"amount": 5}, input_responses=done, request_state=unknown.request_state, meta=keyed("p")
        )
        assert result.structured_content == {"result": 5}
    assert (tmp_path / "paid.txt").exists() == (place == "after")

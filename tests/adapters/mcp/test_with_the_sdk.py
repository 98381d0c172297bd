"""Servers of the SDK, in both eras of the protocol, in this process, over standard input and output, and over HTTP."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pilotage import Agent, AgentRuns, AgentStatus, Application, RecoveryDecision
from pilotage.adapters.mcp import McpLimits, McpQuestion, McpServer, McpTool
from pilotage.agent import AgentRecoveryRequest
from pilotage.agent.messages import MediaPart, TextPart
from pilotage.agent.tool_review import FIRST_USE
from pilotage.jsonvalue import JsonObject
from pilotage.testing import MemoryStore, ScriptedModel, calls, says, turn
from tests.adapters.mcp.bank import OUTSIDE, UNASKED
from tests.adapters.mcp.sdk_server import server as sdk

ONCE = McpTool(effects=OUTSIDE, approval=UNASKED, accepts_untrusted=True)
TOOLS = {"greet": ONCE, "roots": ONCE, "chat": ONCE}
LIMITS = McpLimits(connect_seconds=20, call_seconds=20)
ROOT = Path(__file__).parents[3]


@Agent(durable=True)
class Guest:
    """Use the server."""

    def __init__(self, server: McpServer) -> None:
        self.server = server


@pytest.fixture(params=["memory", "stdio", "http"])
async def reached(request: pytest.FixtureRequest) -> AsyncIterator[dict[str, Any]]:
    """How the server is reached."""
    program = [sys.executable, "-m", "tests.adapters.mcp.sdk_server"]
    if request.param == "memory":
        yield {"transport": lambda: sdk}
    elif request.param == "stdio":
        yield {"command": program, "folder": str(ROOT)}
    else:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        process = await asyncio.create_subprocess_exec(
            *program, str(port), cwd=ROOT, stderr=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL
        )
        assert process.stderr is not None
        while b"running on" not in await process.stderr.readline():
            pass
        try:
            yield {"url": f"http://127.0.0.1:{port}/mcp"}
        finally:
            process.kill()
            await process.communicate()


def application(model: ScriptedModel, **options: Any) -> Application:
    given = {
        "tools": TOOLS,
        "trusts_hints": True,
        "reads_untrusted": False,
        "limits": LIMITS,
        "accept": FIRST_USE,
        **options,
    }
    server = McpServer("sdk", **given)
    return Application("guests").add(Guest, server, model, *MemoryStore().ports).load_plugins()


def shown(app: Application) -> list[Any]:
    return [each.content for each in app.get(ScriptedModel).requests[-1].messages if each.role == "tool"]


async def answered(app: Application, decision: RecoveryDecision, **details: Any) -> list[str]:
    """Answer every question of one run in the same way, and return the texts of the questions."""
    runs, asked = app.get(AgentRuns), list[str]()
    run = await runs.start(Guest, "go")
    result = await run.result()
    while result.status is AgentStatus.INTERRUPTED:
        for question in await runs.questions(run.id):
            assert isinstance(question, AgentRecoveryRequest), question
            asked.append(question.prompt)
            await runs.answer(run.id, question.id, decision, resume=False, **details)
        result = await (await runs.resume(run.id)).result()
    assert result.output == "Done."
    return asked


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_results_come_as_text_structure_and_media(reached: dict[str, Any], protocol: str) -> None:
    several = turn(calls("sdk_weather", city="Bergen"), calls("sdk_fail", why="no"), calls("sdk_gallery"))
    async with application(ScriptedModel([several, says("Done.")]), protocol=protocol, **reached) as app:
        assert await answered(app, RecoveryDecision.CANCEL) == []
        weather, failure, gallery = shown(app)
    assert weather == '{"degrees":6,"sky":"clear"}'
    assert "Error executing tool fail" in failure
    text, picture, sound, link, inside = gallery
    assert text == TextPart("Look:")
    assert isinstance(picture, MediaPart)
    assert picture.media_type == "image/png"
    assert sound.text.startswith("[audio/wav left out: ")
    assert link == TextPart('[link to a resource: {"name":"a","uri":"file:///a.txt"}]')
    assert inside == TextPart("[resource file:///b.txt]\ninside")


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_a_question_is_one_of_the_run(reached: dict[str, Any], protocol: str) -> None:
    model = ScriptedModel([calls("sdk_greet", greeting="Hi"), says("Done.")])
    async with application(model, protocol=protocol, **reached) as app:
        asked = await answered(app, RecoveryDecision.DONE, result={"name": "Ann"})
        assert "Hi, Ann" in str(shown(app))
    assert asked == ["MCP server 'sdk' asks during 'greet': Who is there?"]


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_a_person_may_decline(protocol: str) -> None:
    model = ScriptedModel([calls("sdk_greet", greeting="Hi"), says("Done.")])
    async with application(model, protocol=protocol, transport=lambda: sdk) as app:
        await answered(app, RecoveryDecision.FAIL)
        assert "Hi, whoever (decline)" in str(shown(app))


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_a_function_may_answer(protocol: str) -> None:
    asked: list[McpQuestion] = []

    async def answer(question: McpQuestion) -> JsonObject | None:
        asked.append(question)
        return {"name": "Bob"}

    model = ScriptedModel([calls("sdk_greet", greeting="Hi"), says("Done.")])
    async with application(model, protocol=protocol, transport=lambda: sdk, questions=answer) as app:
        assert await answered(app, RecoveryDecision.CANCEL) == []
        assert "Hi, Bob" in str(shown(app))
    assert [(each.server, each.tool, each.schema["required"]) for each in asked] == [
        ("sdk", "greet", ["name"])
    ]


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_questions_may_be_refused(protocol: str) -> None:
    model = ScriptedModel([calls("sdk_greet", greeting="Hi"), says("Done.")])
    async with application(model, protocol=protocol, transport=lambda: sdk, questions="refuse") as app:
        asked = await answered(app, RecoveryDecision.DONE, result="nothing")
        assert asked == [] or all("took effect" in each for each in asked)


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_roots_are_those_that_are_declared(protocol: str) -> None:
    model = ScriptedModel([calls("sdk_roots"), says("Done.")])
    async with application(model, protocol=protocol, transport=lambda: sdk, roots=["file:///srv/a"]) as app:
        await answered(app, RecoveryDecision.CANCEL)
        assert "file:///srv/a" in str(shown(app))


async def test_the_reply_of_a_model_is_refused() -> None:
    model = ScriptedModel([calls("sdk_chat"), says("Done.")])
    async with application(model, transport=lambda: sdk) as app:
        await answered(app, RecoveryDecision.DONE, result="nothing was said")
        (found,) = shown(app)
    assert "sampling" in found.lower()

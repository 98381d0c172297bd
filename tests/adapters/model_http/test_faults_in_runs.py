"""Faults in the middle of durable runs, on three wires: each run completes, and nothing is done twice."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pilotage import Agent, AgentExecutionSpec, IAgentModel, ToolEffects, agent_tool
from pilotage.adapters.anthropic import AnthropicModel, AnthropicSettings
from pilotage.adapters.model_http.errors import ModelServerError, failed
from pilotage.adapters.model_http.server import ModelServer
from pilotage.adapters.openai import (
    ModelRetries,
    OpenAICompatibleModel,
    OpenAICompatibleSettings,
    OpenAIResponsesModel,
)
from pilotage.agent.model_failure import ModelFailure
from pilotage.runtime import WorkerSettings
from tests.adapters.model_http.replies import WIRES, call, text
from tests.adapters.openai.byte_server import ByteServer
from tests.behaviour.bureau import COMPLETED, DURABLE, Bureau, triple
from tests.behaviour.newsdesk import pass_time
from tests.behaviour.office import UNGATED

ONCE = ModelRetries(most=0)
PLACE = OpenAICompatibleSettings("http://h/v1", "m", retries=ONCE, checks_at_start=False)
MODELS: dict[str, Callable[[ModelServer], IAgentModel]] = {
    "chat": lambda server: OpenAICompatibleModel(PLACE, server=server),
    "responses": lambda server: OpenAIResponsesModel(PLACE, server=server),
    "messages": lambda server: AnthropicModel(
        AnthropicSettings("m", base_url="http://h/v1", retries=ONCE, checks_at_start=False), server=server
    ),
}
Answer = list[bytes | ModelServerError] | ModelServerError
GOOD = '{"text": "first"}'


def broken(kind: str, wire: str) -> list[Answer]:
    """What a server does until it works again."""
    half: list[bytes | ModelServerError] = [*text(wire, "All is no")[:-1]]
    faults: dict[str, list[Answer]] = {
        "killed": [[*half, failed(ModelFailure.BROKEN_STREAM, "connection reset")]] * 3,
        "lost": [half] * 3,
        "away": [failed(ModelFailure.UNREACHABLE)] * 3,
        "503": [failed(ModelFailure.OVERLOADED, status=503)] * 3,
        "429 with a date": [failed(ModelFailure.RATE_LIMITED, status=429, retry_after=90)] * 2,
        "no events": [[b"<html>Bad gateway</html>"]] * 2,
        "arguments no JSON": [[*call(wire, '{"text": "sec', "c2")]],
        "arguments of another type": [[*call(wire, '["second"]', "c2")]],
        "raw newline": [[*call(wire, '{"text": "a\nb"}', "c2")]],
    }
    return faults[kind]


FAULTS = [
    "killed",
    "lost",
    "away",
    "503",
    "429 with a date",
    "no events",
    "arguments no JSON",
    "arguments of another type",
    "raw newline",
]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("wire", WIRES)
async def test_a_fault_behind_a_tool_ends_no_run_and_repeats_nothing(wire: str, fault: str) -> None:
    bureau, noted = Bureau(), list[str]()

    @Agent(spec=AgentExecutionSpec(name="clerk", recovery=DURABLE))
    class Clerk:
        """Note things."""

        @agent_tool(effects=ToolEffects.write_state(), approval=UNGATED)
        async def note(self, text: str) -> str:
            """Note a text."""
            noted.append(text)
            return "noted"

    server = ByteServer([*call(wire, GOOD)], *broken(fault, wire), [*text(wire, "All is noted.")])
    worker = (WorkerSettings(poll_seconds=1.0, grace_seconds=0.0), bureau.store.backlog)
    async with bureau.process(Clerk, None, *worker, model=MODELS[wire](server)) as runs:
        handle = await runs.start(Clerk, "Note the first.")
        await pass_time(bureau.clock, 400, step=2)
        state = await runs.get(handle.id)
        assert triple(state) == COMPLETED
        assert (await runs.result(handle.id)).output == "All is noted."
    assert noted == (["first", "a\nb"] if fault == "raw newline" else ["first"])

"""A process that a test kills: it carries one loop on, over a database, until the loop is complete.

`python -m tests.adapters.model_http.mortal_loop WIRE ADDRESS FOLDER`: each place that was looked at is a file.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from pilotage import (
    Agent,
    AgentExecutionSpec,
    Application,
    IAgentModel,
    Idempotency,
    RecoveryStrategy,
    ToolEffects,
    agent_tool,
)
from pilotage.adapters.anthropic import AnthropicModel, AnthropicSettings
from pilotage.adapters.openai import OpenAICompatibleModel, OpenAICompatibleSettings, OpenAIResponsesModel
from pilotage.agent import ToolApprovalRequirement
from pilotage.jsonvalue import JsonValue
from pilotage.runtime import AgentRuns


@Agent(spec=AgentExecutionSpec(name="looker", recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Looker:
    """Look everywhere."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @agent_tool(
        effects=ToolEffects.write_state(),
        approval=ToolApprovalRequirement.NOT_REQUIRED,
        idempotency=Idempotency.IDEMPOTENT,
    )
    async def look(self, at: int, where: JsonValue) -> str:
        """Look at a place."""
        (self._folder / f"seen {at}").touch()
        return f"seen {at}"


def model_of(wire: str, address: str) -> IAgentModel:
    if wire == "messages":
        return AnthropicModel(AnthropicSettings("m", base_url=address, checks_at_start=False))
    settings = OpenAICompatibleSettings(address, "m", checks_at_start=False)
    return OpenAICompatibleModel(settings) if wire == "chat" else OpenAIResponsesModel(settings)


def application(wire: str, address: str, folder: Path) -> Application:
    return Application("loop").add(Looker, folder, model_of(wire, address)).load_plugins()


async def main(wire: str, address: str, folder: Path) -> None:
    """Begin the loop, or carry it on."""
    async with application(wire, address, folder) as app:
        runs = app.get(AgentRuns)
        known = (await runs.list()).runs
        handle = await (runs.resume(known[0].id) if known else runs.start(Looker, "go"))
        await handle.result()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3])))

"""Use case 10: how much of a tool's result the record keeps is the tool's own declaration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest

from pilotage import (
    PII,
    Agent,
    AgentExecutionSpec,
    Application,
    EvidenceCapture,
    RecoveryStrategy,
    SensitiveField,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import AgentEvidenceKind
from pilotage.jsonvalue import JsonObject
from pilotage.runtime import AgentRuns

READING = ToolEffects.read_only()


@dataclass(frozen=True)
class Person:
    name: Annotated[str, SensitiveField(PII.NAME)]
    town: str


ADA = Person("Ada", "London")


@Agent(spec=AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Registry:
    """Knows people."""

    async def execute(self) -> str:
        people = [await self.none(), await self.reference(), await self.summary(), await self.structured()]
        people += [await self.raw(), await self.redacted()]
        assert people == [ADA] * 6  # the program itself gets what the tool gave
        return "read"

    @agent_tool(effects=READING, evidence=EvidenceCapture.NONE)
    async def none(self) -> Person:
        """Read a person."""
        return ADA

    @agent_tool(effects=READING, evidence=EvidenceCapture.REFERENCE_ONLY)
    async def reference(self) -> Person:
        """Read a person."""
        return ADA

    @agent_tool(effects=READING, evidence=EvidenceCapture.SUMMARY)
    async def summary(self) -> Person:
        """Read a person."""
        return ADA

    @agent_tool(effects=READING, evidence=EvidenceCapture.STRUCTURED)
    async def structured(self) -> Person:
        """Read a person."""
        return ADA

    @agent_tool(effects=READING, evidence=EvidenceCapture.RAW)
    async def raw(self) -> Person:
        """Read a person."""
        return ADA

    @agent_tool(effects=READING, evidence=EvidenceCapture.REDACTED)
    async def redacted(self) -> Person:
        """Read a person."""
        return ADA


async def evidence(ports: tuple[object, ...]) -> dict[str, JsonObject]:
    """What the record shows of each tool's result."""
    async with Application("town").add(Registry, *ports).load_plugins() as app:
        runs = app.get(AgentRuns)
        run = await runs.start(Registry)
        assert (await run.result()).output == "read"
        found = [each for each in await runs.evidence(run.id) if each.kind is AgentEvidenceKind.TOOL]
    return {str(each.payload["capture"]): each.payload for each in found}


async def test_each_policy_keeps_what_it_says(ports: tuple[object, ...]) -> None:
    kept = await evidence(ports)
    assert list(kept) == ["none", "reference_only", "summary", "structured", "raw", "redacted"]
    assert kept["structured"]["result"] == {"name": "[REDACTED]", "town": "London"}
    assert kept["raw"]["result"] == {"name": "Ada", "town": "London"}
    assert kept["redacted"]["result"] == {"name": "[REDACTED]", "town": "[REDACTED]"}


@pytest.mark.parametrize("capture", ["none", "reference_only", "summary", "redacted"])
async def test_what_is_not_kept_is_nowhere_in_the_payload(capture: str, ports: tuple[object, ...]) -> None:
    payload = str((await evidence(ports))[capture])
    assert "Ada" not in payload
    assert "London" not in payload

"""Use case 20: a secret reaches the tool that needs it, and nothing and nobody else."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import pytest

from pilotage import (
    Agent,
    AgentExecutionSpec,
    Application,
    Pod,
    RecoveryStrategy,
    RunContext,
    SecretField,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import ISecrets, SecretRef, discover_agent_tools
from pilotage.errors import ToolError
from pilotage.models import OfflineModel
from pilotage.runtime import AgentRuns

SECRET = "correct-horse-battery-staple"


@Pod
class Vault(ISecrets):
    async def resolve(self, ref: SecretRef, context: RunContext) -> str:
        assert ref.id == "password"
        return SECRET


@Pod
class Bank:
    def __init__(self) -> None:
        self.used: list[str] = []

    @agent_tool(effects=ToolEffects.read_only())
    async def balance(self, account: str, password: Annotated[str, SecretField()]) -> str:
        """The balance of an account."""
        self.used.append(password)
        return f"logged in with {password}: 12.50"

    @agent_tool(effects=ToolEffects.read_only())
    async def history(self, account: str, password: Annotated[str, SecretField()]) -> str:
        """The history of an account."""
        raise ToolError(f"the bank does not like {password}")


@Agent(spec=AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Clerk:
    """Ask the bank."""

    def __init__(self, bank: Bank) -> None:
        self.bank = bank


async def test_a_secret_is_in_no_schema_event_answer_error_evidence_log_or_byte_of_the_store(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with Application("office").add(Clerk, Bank, Vault, OfflineModel).load_plugins() as app:
        runs = app.get(AgentRuns)
        run = await runs.start(Clerk, "balance account=A-17 then history account=A-17")
        events = [event async for event in run.events()]
        result = await run.result()
        evidence = await runs.evidence(run.id)
        assert app.get(Bank).used == [SECRET]
    assert "logged in with [SECRET]: 12.50" in result.output
    assert "the bank does not like [SECRET]" in result.output
    schema = discover_agent_tools(Bank).by_schema_name("balance").schema.input_schema
    assert list(schema["properties"]) == ["account"]  # type: ignore[arg-type]
    stored = b"".join(file.read_bytes() for file in (folder / ".pilotage").iterdir())
    for place in (events, result, evidence, schema, caplog.text, stored.decode(errors="replace")):
        assert SECRET not in str(place)


async def test_a_model_that_names_a_secret_is_refused(ports: tuple[object, ...]) -> None:
    async with Application("office").add(Clerk, Bank, Vault, OfflineModel, *ports).load_plugins() as app:
        run = await app.get(AgentRuns).start(Clerk, "balance account=A-17 password=guessed")
        assert "password" in (await run.result()).output
        assert app.get(Bank).used == []

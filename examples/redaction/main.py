"""What nobody may see leaves a run nowhere: a secret, a field that is marked, a text that looks like a key.

The model repeats everything it is told. That does not matter.

Run it: python examples/redaction/main.py
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from pilotage import (
    PII,
    Agent,
    AgentExecutionSpec,
    AgentRuns,
    Application,
    MaskingPolicy,
    OfflineModel,
    Pod,
    RunContext,
    SecretField,
    SensitiveField,
    ToolEffects,
    agent_tool,
)
from pilotage.adapters.sqlalchemy import DatabaseSettings
from pilotage.agent import ISecrets, SecretRef
from pilotage.safety import StreamingRedactionPolicy, StreamingSensitivePattern

PASSWORD, IBAN, KEY = "correct-horse-battery", "DE00123456789", "sk-0123456789abcdef"
KEYS = StreamingRedactionPolicy(
    [StreamingSensitivePattern("api key", r"\bsk-[a-z0-9]{8,}", replacement="[KEY]")], buffer_size=256
)


@dataclass(frozen=True)
class Account:
    """What the bank knows."""

    iban: Annotated[str, SensitiveField(PII.ACCOUNT_ID, masking=MaskingPolicy.LAST_FOUR)]
    note: str


@Pod
class Vault(ISecrets):
    """Hands secrets out to tools."""

    async def resolve(self, ref: SecretRef, context: RunContext) -> str:
        return PASSWORD


@Agent(durable=True, spec=AgentExecutionSpec(redaction=KEYS))
class Clerk:
    """Ask the bank."""

    @agent_tool(effects=ToolEffects.read_only())
    async def account(self, owner: str, password: Annotated[str, SecretField()]) -> Account:
        """Look an account up."""
        assert password == PASSWORD
        return Account(IBAN, f"{owner} logs in with {password} and pays with {KEY}")


async def main(folder: Path) -> None:
    """One question, and everything that is said and kept about it."""
    database = DatabaseSettings(f"sqlite:///{folder}/runs.db")
    async with Application("bank").add(Clerk, Vault, OfflineModel, database).load_plugins() as app:
        runs = app.get(AgentRuns)
        run = await runs.start(Clerk, "account of Ada")
        events = [event async for event in run.events()]
        evidence = await runs.evidence(run.id)
    answer = str(events[-1].metadata["output"])
    print(answer)
    assert "iban: ***6789" in answer
    assert "Ada logs in with [SECRET] and pays with [KEY]" in answer
    for hidden in (PASSWORD, IBAN, KEY):
        assert hidden not in str(events)
        assert hidden not in str(evidence)


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder)))
        stored = b"".join(file.read_bytes() for file in Path(folder).iterdir())
        assert not any(hidden.encode() in stored for hidden in (PASSWORD, IBAN, KEY))
    print("demo: ok")

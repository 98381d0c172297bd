"""What an application gets that installs the adapter: a file, a server, or its own store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pytest

from pilotage import (
    PII,
    Agent,
    AgentExecutionSpec,
    AgentStatus,
    Application,
    Idempotency,
    Pod,
    RecoveryStrategy,
    SensitiveField,
    ToolEffects,
    agent_tool,
)
from pilotage.adapters.sealing import AesGcmSealer
from pilotage.adapters.sqlalchemy import DatabaseSettings, DatabaseUnreachableError, StoreOnDemand
from pilotage.adapters.sqlalchemy.journal import SqlAlchemyJournal
from pilotage.agent import IAgentJournal, IAgentMemory, MemoryUse, ToolApprovalRequirement
from pilotage.agent.ports.sealing import IRecordSealer
from pilotage.errors import AgentPersistenceConfigurationError
from pilotage.runtime import AgentRuns, MemoryTools
from pilotage.testing import MemoryJournal, MemoryStore, ScriptedModel, calls, says

DURABLE = AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY)


@Pod
class Bank:
    @agent_tool(
        effects=ToolEffects.external_side_effect(),
        idempotency=Idempotency.NON_IDEMPOTENT,
        approval=ToolApprovalRequirement.NOT_REQUIRED,
        reads_untrusted=False,
    )
    async def pay(self, to: Annotated[str, SensitiveField(PII.ACCOUNT_ID)]) -> str:
        """Pay somebody."""
        return f"paid {len(to)}"


@Agent(spec=DURABLE)
class Payer:
    def __init__(self, bank: Bank) -> None:
        self.bank = bank

    async def execute(self, name: str) -> str:
        return await self.bank.pay(f"DE00 {name}")


@Agent
class Passing:
    async def execute(self, name: str) -> str:
        return f"Good day, {name}."


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PILOTAGE_DATABASE_URL", raising=False)
    return tmp_path


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


async def test_nothing_set_is_a_file_with_a_key_beside_it(here: Path) -> None:
    async with Application("shop").add(Payer, Bank).load_plugins() as app:
        run = await app.get(AgentRuns).start(Payer, "Ada")
        assert (await run.result()).output == "paid 8"
    assert names_in(here / ".pilotage") == {"pilotage.db", "pilotage.key"}
    assert b"DE00 Ada" not in (here / ".pilotage" / "pilotage.db").read_bytes()


async def test_another_process_finds_what_the_first_one_left(here: Path) -> None:
    async with Application("shop").add(Payer, Bank).load_plugins() as app:
        run = await app.get(AgentRuns).start(Payer, "Ada")
        await run.result()
    async with Application("shop").add(Payer, Bank).load_plugins() as app:
        runs = app.get(AgentRuns)
        assert (await runs.get(run.id)).status is AgentStatus.COMPLETED
        assert (await runs.result(run.id)).output == "paid 8"
        assert await runs.verify(run.id) > 3


async def test_an_application_that_keeps_nothing_opens_nothing(here: Path) -> None:
    async with Application("shop").add(Passing).load_plugins() as app:
        assert await app.get(Passing).execute("Ada") == "Good day, Ada."
    assert names_in(here) == set()


async def test_a_run_of_an_agent_that_is_not_durable_is_kept_when_somebody_wants_it_to_be(here: Path) -> None:
    async with Application("shop").add(Passing).load_plugins() as app:
        run = await app.get(AgentRuns).start(Passing, "Ada")
        assert (await run.result()).output == "Good day, Ada."
    assert (here / ".pilotage" / "pilotage.db").exists()


async def test_a_store_of_the_application_wins(here: Path) -> None:
    async with Application("shop").add(Payer, Bank, *MemoryStore().ports).load_plugins() as app:
        assert isinstance(app.get(IAgentJournal), MemoryJournal)
        assert not app.contains(StoreOnDemand)
    assert names_in(here) == set()


async def test_settings_of_the_application_win_over_the_environment(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PILOTAGE_DATABASE_URL", "sqlite:///environment.db")
    app = Application("shop").add(Payer, Bank, DatabaseSettings("sqlite:///own.db")).load_plugins()
    async with app:
        assert isinstance(app.get(IAgentJournal), SqlAlchemyJournal)
        assert isinstance(app.get(IRecordSealer), AesGcmSealer)
    assert names_in(here) == {"own.db", "own.key"}


async def test_a_database_that_was_named_is_opened_at_the_start(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PILOTAGE_DATABASE_URL", "sqlite:///environment.db")
    async with Application("shop").add(Passing).load_plugins():
        assert (here / "environment.db").exists()


async def test_a_server_that_does_not_answer_keeps_the_application_from_starting() -> None:
    settings = DatabaseSettings("postgresql://127.0.0.1:1/shop", timeout_seconds=2)
    with pytest.raises(DatabaseUnreachableError, match="cannot be reached"):
        async with Application("shop").add(Passing, settings).load_plugins():
            pass


async def test_a_server_has_no_key_file_beside_it() -> None:
    settings = DatabaseSettings("postgresql://127.0.0.1:1/shop")
    with pytest.raises(AgentPersistenceConfigurationError, match="nothing provides IRecordSealer"):
        async with Application("shop").add(Payer, Bank, settings).load_plugins():
            pass


async def test_an_application_runs_on_a_server(postgresql_database: DatabaseSettings) -> None:
    sealer = MemoryStore().sealer
    app = Application("shop").add(Payer, Bank, postgresql_database).bind(IRecordSealer, sealer).load_plugins()
    async with app:
        runs = app.get(AgentRuns)
        run = await runs.start(Payer, "Ada")
        assert (await run.result()).output == "paid 8"
        assert await runs.verify(run.id) > 3
        assert [state.id for state in (await runs.list()).runs] == [run.id]


@Agent(spec=AgentExecutionSpec(memory=MemoryUse(), recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Host:
    """Receive guests."""

    def __init__(self, tools: MemoryTools) -> None:
        self.tools = tools


async def test_who_wants_a_memory_finds_it_in_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    greetings: list[str] = []
    for script in ([calls("remember", text="The guest prefers tea."), says("Noted.")], [says("Tea?")]):
        model = ScriptedModel(script)
        app = Application("house").add(Host, MemoryTools, model).load_plugins()
        async with app:
            run = await app.get(AgentRuns).start(Host, "What would the guest like?")
            greetings.append(str((await run.result()).output))
    assert greetings == ["Noted.", "Tea?"]
    assert "| The guest prefers tea." in "".join(message.text for message in model.requests[0].messages)


async def test_where_nobody_wants_a_memory_none_is_contributed() -> None:
    app = Application("hello").add(Passing).load_plugins()
    assert not app.contains(IAgentMemory)

"""Reports about costs from a database: the same as from its journals, and as its view adds up."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from sqlalchemy import text

from pilotage import Agent, AgentExecutionSpec, Application, Principal, RecoveryStrategy
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from pilotage.agent import AgentTeammate, CostEntry
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.principal import LOCAL
from pilotage.errors import DamagedEntryError
from pilotage.models import ModelPrice, PriceList
from pilotage.runtime import AgentRuns
from pilotage.runtime.costs import CostsByRun
from pilotage.testing import MemorySealer, ScriptedModel, calls, says
from tests.adapters.sqlalchemy.databases import opened, sqlite_settings

PRICES = PriceList({"scripted": ModelPrice(Decimal(7), Decimal(11))}, version="2026-11")
DURABLE = RecoveryStrategy.ACTION_BOUNDARY


@Agent(spec=AgentExecutionSpec(recovery=DURABLE, version=2))
class Reader:
    """Read."""


@Agent(
    spec=AgentExecutionSpec(
        recovery=DURABLE, teammates=[AgentTeammate("reader", pod=Reader)], delegation_allowed=True
    )
)
class Writer:
    """Write."""


@asynccontextmanager
async def office(store: SqlAlchemyStore, *, has_prices: bool = True) -> AsyncGenerator[AgentRuns]:
    model = ScriptedModel([calls("ask_reader", task="read it"), says("read"), says("written")] * 2)
    app = Application("office").add(Writer, Reader, model, MemorySealer(), *store.ports)
    async with app.add(*([PRICES] if has_prices else [])).load_plugins():
        yield app.get(AgentRuns)


async def everything(entries: AsyncIterator[CostEntry]) -> list[CostEntry]:
    return sorted([entry async for entry in entries], key=repr)


def total(entries: Iterable[CostEntry]) -> Decimal:
    return sum((each.charge.cost.amount for each in entries if each.charge.cost is not None), Decimal(0))


async def test_a_report_is_the_same_at_once_and_run_by_run(store: SqlAlchemyStore) -> None:
    async with office(store) as runs:
        first = await (await runs.start(Writer, "write", conversation_id="talk")).result()
        await (await runs.start(Writer, "write", principal=Principal("ada", tenant="acme"))).result()
    by_run = CostsByRun(store.states, store.journal)
    for tenant in (LOCAL.tenant, "acme", "elsewhere"):
        found = await everything(store.costs.entries(tenant))
        assert found == await everything(by_run.entries(tenant))
        assert len(found) == (0 if tenant == "elsewhere" else 3)
    mine = await everything(store.costs.entries(LOCAL.tenant))
    assert total(mine) == first.spent.cost
    assert {each.tree_id for each in mine} == {first.state.id}
    assert {(each.agent, each.charge.version) for each in mine} == {("Writer", 1), ("Reader", 2)}
    assert {each.conversation for each in mine if each.agent == "Writer"} == {"talk"}
    now = datetime.now(UTC)
    assert await everything(store.costs.entries(LOCAL.tenant, since=now + timedelta(days=1))) == []
    assert await everything(store.costs.entries(LOCAL.tenant, until=now - timedelta(days=1))) == []
    assert await everything(store.costs.entries(LOCAL.tenant, since=now - timedelta(days=1))) == mine


async def test_the_view_shows_each_charge_in_columns(store: SqlAlchemyStore) -> None:
    async with office(store) as runs:
        result = await (await runs.start(Writer, "write", conversation_id="talk")).result()
    with store.database.engines.reading.connect() as connection:
        found = connection.execute(text("SELECT * FROM pilotage_costs ORDER BY created_at")).mappings().all()
        by_agent = connection.execute(
            text(
                "SELECT agent, count(*) AS calls, sum(total_tokens) AS tokens FROM pilotage_costs GROUP BY agent"
            )
        ).all()
    assert sum(Decimal(str(each["amount"])) for each in found) == result.spent.cost
    assert {each["tree_id"] for each in found} == {result.state.id}
    assert {(each["agent"], each["version"]) for each in found} == {("Writer", 1), ("Reader", 2)}
    assert {str(each["day"]) for each in found} == {datetime.now(UTC).date().isoformat()}
    assert {(each["model"], each["role"], each["currency"], each["pricing_version"]) for each in found} == {
        ("scripted", "reply", "USD", "2026-11")
    }
    assert not any(each["is_estimated"] for each in found)
    assert {each.agent: each.calls for each in by_agent} == {"Writer": 2, "Reader": 1}
    assert sum(each.tokens for each in by_agent) == result.spent.tokens


async def test_a_row_without_a_price_is_null_in_the_view(store: SqlAlchemyStore) -> None:
    async with office(store, has_prices=False) as runs:
        await (await runs.start(Writer, "write")).result()
    with store.database.engines.reading.connect() as connection:
        amounts = connection.execute(text("SELECT amount FROM pilotage_costs")).scalars().all()
    assert amounts == [None, None, None]


async def test_changed_costs_are_found_by_verify_and_named_by_a_report(store: SqlAlchemyStore) -> None:
    async with office(store) as runs:
        result = await (await runs.start(Writer, "write")).result()
        await runs.verify(result.state.id)
        with store.database.engines.writing.begin() as connection:
            connection.execute(
                text('UPDATE pilotage_journal SET costs = \'[["cheap","gift"]]\' WHERE costs IS NOT NULL')
            )
        with pytest.raises(DamagedEntryError, match="what 'run/.*model#1' of run .* cost cannot be decoded"):
            await runs.costs()
        with pytest.raises(DamagedEntryError, match="model#1"):
            await runs.verify(result.state.id)


@pytest.mark.parametrize(
    ("column", "garbage"),
    [
        ("costs", "[" * 100_000),
        ("costs", "5"),
        ("costs", '[["m","reply",1e400]]'),
        ("created_at", "x"),
        ("created_at", 2**63 - 1),
    ],
    ids=["too deep", "a number", "infinite", "no time", "no time that there is"],
)
async def test_garbage_in_a_row_is_named_by_a_report(tmp_path: Path, column: str, garbage: object) -> None:
    with opened(sqlite_settings(tmp_path)) as store:
        async with office(store) as runs:
            await (await runs.start(Writer, "write")).result()
            with store.database.engines.writing.begin() as connection:
                update = f"UPDATE pilotage_journal SET {column} = :garbage WHERE costs IS NOT NULL"  # noqa: S608
                connection.execute(text(update), {"garbage": garbage})
            with pytest.raises(DamagedEntryError, match=r"model#1' of run .* cost cannot be decoded"):
                await runs.costs(by=["day"])


async def test_costs_stay_when_payloads_are_erased(store: SqlAlchemyStore) -> None:
    async with office(store) as runs:
        result = await (await runs.start(Writer, "write")).result()
        before = await runs.costs()
        await store.retention.erase(RunKey(LOCAL.tenant, result.state.id))
        assert await runs.costs() == before
        await runs.verify(result.state.id)

"""Entries that stand in no journal, deleted by somebody who can write to the database and does not have the key."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from sqlalchemy import Connection, create_engine, text

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentStatus,
    Application,
    Pod,
    Principal,
    RecoveryStrategy,
    ToolEffects,
    agent_tool,
)
from pilotage.adapters.sealing import AesGcmSealer, SealingKey
from pilotage.adapters.sqlalchemy import DatabaseSettings
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from pilotage.adapters.sqlalchemy.supported import database_url
from pilotage.agent import ToolApprovalRequirement
from pilotage.agent.ports.budget import (
    BudgetAmount,
    BudgetGranted,
    BudgetPeriod,
    BudgetReservation,
    BudgetSettlement,
    BudgetWindow,
)
from pilotage.agent.ports.memory import MemoryItem, MemoryKind, MemoryScope
from pilotage.agent.ports.observability import AuditEntry
from pilotage.agent.ports.permissions import Switch
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.ports.repositories import LateOutcome
from pilotage.agent.tools import ListedTool
from pilotage.errors import DamagedEntryError
from pilotage.runtime import AgentRuns
from pilotage.runtime.heads import lost_counts
from pilotage.safety.trust import TrustLabel
from tests.adapters.sqlalchemy.databases import (
    BACKENDS,
)

pytestmark = pytest.mark.attack("records")
ADA, RUN = Principal("ada", "acme"), RunKey("acme", "run-1")
PAY, WIRE = Switch.tool("pay"), Switch.tool("wire")
READ = ListedTool("read", "Read a file.")
OF_ALL = ("switches", "tool_pins")
"""Tables whose entries belong to no tenant."""
SCOPE = MemoryScope("acme", "ada")
SEALER = AesGcmSealer(SealingKey(b"k" * 32))
WINDOWS = [BudgetWindow(BudgetPeriod.MONTH, max_cost=Decimal(10))]


@pytest.fixture(params=BACKENDS)
def settings(request: pytest.FixtureRequest) -> DatabaseSettings:
    found: DatabaseSettings = request.getfixturevalue(f"{request.param}_database")
    return found


@pytest.fixture
def store(settings: DatabaseSettings) -> Iterator[SqlAlchemyStore]:
    with SqlAlchemyStore.open(settings, sealer=SEALER) as opened:
        yield opened


@contextmanager
def attacker(settings: DatabaseSettings) -> Iterator[Connection]:
    """A connection of somebody who knows the tables, in one transaction."""
    engine = create_engine(database_url(settings.url))
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


def fact(name: str, words: str) -> MemoryItem:
    return MemoryItem(name, MemoryKind.FACT, words, TrustLabel())


async def spend(store: SqlAlchemyStore, tenant: str, cost: int, number: int = 1) -> None:
    amount = BudgetAmount(cost=Decimal(cost))
    reservation = BudgetReservation(f"hold-{number}", amount)
    assert isinstance(await store.spending.hold(tenant, reservation, [], seconds=60), BudgetGranted)
    await store.spending.settle(tenant, BudgetSettlement(reservation, amount))


async def fill(store: SqlAlchemyStore) -> None:
    """Write two entries of each kind, in one scope and in another."""
    for switch in (PAY, WIRE):
        await store.switches.turn_off(switch, reason="it pays too much", by="ada")
    for source in ("files", "mail"):
        await store.tool_pins.accept(source, [READ, ListedTool("write")], by="ada")
    for tenant in ("acme", "globex"):
        await spend(store, tenant, 9)
    for user in ("ada", "bob"):
        for number in (1, 2):
            await store.memory.remember(MemoryScope("acme", user), fact(f"m{number}", f"{user} likes tea"))
    for number in (1, 2):
        entry = AuditEntry("run-1", ADA, "approve", "done", datetime.now(UTC), evidence_ref=f"e{number}")
        await store.audit_log.record(entry)
        await store.late_outcomes.append(LateOutcome(RUN, "run/tool:pay#1", number, 1, {"ok": True}))


Read = Callable[[SqlAlchemyStore], Awaitable[object]]
READS: Mapping[str, Read] = {
    "switches": lambda store: store.switches.first_off([PAY]),
    "switches, listed": lambda store: store.switches.list_off(),
    "tool_pins": lambda store: store.tool_pins.pins_of("files"),
    "tool_pins, listed": lambda store: store.tool_pins.list_pins(),
    "tool_pins, seen first": lambda store: store.tool_pins.accept_first("files", [READ]),
    "tool_pins, accepted": lambda store: store.tool_pins.accept("files", [READ]),
    "spending": lambda store: store.spending.spent("acme", BudgetPeriod.DAY),
    "spending, held": lambda store: store.spending.hold(
        "acme", BudgetReservation("h", BudgetAmount(cost=Decimal(1))), WINDOWS, seconds=1
    ),
    "memories": lambda store: store.memory.export(SCOPE),
    "audit": lambda store: store.audit_log.list_by_run(ADA, "run-1"),
}
OF_ACME = {
    "switches": "",
    "tool_pins": " WHERE source = 'files'",
    "spending": " WHERE tenant_id = 'acme'",
    "memories": " WHERE tenant_id = 'acme' AND user_id = 'ada'",
    "audit": " WHERE tenant_id = 'acme'",
}


def delete_entries(connection: Connection, table: str, *, one: bool = False) -> None:
    if table == "memories":
        connection.execute(text("DELETE FROM pilotage_memory_words"))
    where = OF_ACME[table]
    if one:
        key = "position" if table != "spending" else "hour"
        where = f" WHERE {key} = (SELECT min({key}) FROM pilotage_{table}{where})"  # noqa: S608 - ours
    assert connection.execute(text(f"DELETE FROM pilotage_{table}{where}")).rowcount  # noqa: S608 - ours


@pytest.mark.parametrize("read", READS)
async def test_entries_that_are_there_are_read(store: SqlAlchemyStore, read: str) -> None:
    await READS[read](store)
    await fill(store)
    assert await READS[read](store)


@pytest.mark.parametrize("one", [True, False], ids=["one", "all"])
@pytest.mark.parametrize("read", READS)
async def test_a_deleted_entry_is_found_by_who_reads_the_others(
    store: SqlAlchemyStore, settings: DatabaseSettings, read: str, *, one: bool
) -> None:
    await fill(store)
    with attacker(settings) as connection:
        delete_entries(connection, read.partition(",")[0], one=one)
    with pytest.raises(DamagedEntryError, match="the count of"):
        await READS[read](store)


@pytest.mark.parametrize("read", [read for read in READS if read != "audit"])
async def test_entries_that_are_deleted_with_their_count_are_found(
    store: SqlAlchemyStore, settings: DatabaseSettings, read: str
) -> None:
    await fill(store)
    table = read.partition(",")[0]
    with attacker(settings) as connection:
        delete_entries(connection, table)
        scope = "" if table in OF_ALL else " AND scope LIKE '%acme%'"
        removed = f"DELETE FROM pilotage_counts WHERE entries = '{table}'{scope}"  # noqa: S608 - ours
        assert connection.execute(text(removed)).rowcount
    with pytest.raises(DamagedEntryError, match="the count of"):
        await READS[read](store)


@pytest.mark.sample(24)
@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize(
    "change", ["count = count - 1", "code = NULL", "count = 0", "scope = scope || 'x'", "entries = 'x'"]
)
async def test_a_changed_count_is_found(
    store: SqlAlchemyStore, settings: DatabaseSettings, read: str, change: str
) -> None:
    await fill(store)
    table = read.partition(",")[0]
    scope = "" if table in OF_ALL else " AND scope LIKE '%acme%'"
    scope = " AND scope LIKE '%ada%'" if table == "memories" else scope
    with attacker(settings) as connection:
        changed = f"UPDATE pilotage_counts SET {change} WHERE entries = '{table}'{scope}"  # noqa: S608 - ours
        assert connection.execute(text(changed)).rowcount
    with pytest.raises(DamagedEntryError, match="the count of"):
        await READS[read](store)


def stored_counts(connection: Connection, table: str) -> list[dict[str, object]]:
    """Return the counts of a table as they are stored, with their codes."""
    found = connection.execute(text("SELECT * FROM pilotage_counts WHERE entries = :e"), {"e": table})
    return [dict(each) for each in found.mappings()]


def roll_back(connection: Connection, table: str, older: Sequence[Mapping[str, object]]) -> None:
    """Empty a table, as it once was, and put back the counts that it had then."""
    if table == "memories":
        connection.execute(text("DELETE FROM pilotage_memory_words"))
    assert connection.execute(text(f"DELETE FROM pilotage_{table}")).rowcount  # noqa: S608 - ours
    connection.execute(text("DELETE FROM pilotage_counts WHERE entries = :e"), {"e": table})
    for row in older:
        names = ", ".join(row)
        values = ", ".join(f":{name}" for name in row)
        connection.execute(text(f"INSERT INTO pilotage_counts ({names}) VALUES ({values})"), row)  # noqa: S608


@pytest.mark.parametrize("table", [*OF_ALL, "spending", "memories", "audit", "late_outcomes"])
async def test_older_entries_with_their_older_count_are_found_by_exported_counts(
    store: SqlAlchemyStore, settings: DatabaseSettings, table: str
) -> None:
    with attacker(settings) as connection:
        stored = stored_counts(connection, table)
    older = [count for count in await store.journal.entry_counts() if count.entries == table]
    await fill(store)
    exported = [count for count in await store.journal.entry_counts() if count.entries == table]
    assert exported
    assert lost_counts(exported, exported) == lost_counts(exported, older) == []
    with attacker(settings) as connection:
        roll_back(connection, table, stored)
    # The codes fit: nothing in the database shows what happened.
    rolled_back = [count for count in await store.journal.entry_counts() if count.entries == table]
    assert rolled_back == older
    assert len(lost_counts(rolled_back, exported)) == len(exported)


async def test_an_hour_that_is_moved_out_of_sight_is_found(
    store: SqlAlchemyStore, settings: DatabaseSettings
) -> None:
    await fill(store)
    long_ago = "0" if settings.url.startswith("sqlite") else "hour - interval '90 days'"
    with attacker(settings) as connection:
        moved = f"UPDATE pilotage_spending SET hour = {long_ago} WHERE tenant_id = 'acme'"  # noqa: S608 - ours
        assert connection.execute(text(moved)).rowcount
    with pytest.raises(DamagedEntryError, match="the count of spending"):
        await store.spending.spent("acme", BudgetPeriod.DAY)
    assert (await store.spending.spent("globex", BudgetPeriod.DAY)).cost == 9


async def test_an_hour_that_is_deleted_is_found_after_more_was_spent(
    store: SqlAlchemyStore, settings: DatabaseSettings
) -> None:
    await fill(store)
    with attacker(settings) as connection:
        delete_entries(connection, "spending")
    await spend(store, "acme", 1, 2)
    with pytest.raises(DamagedEntryError, match="the count of spending"):
        await store.spending.spent("acme", BudgetPeriod.DAY)
    assert (await store.spending.spent("globex", BudgetPeriod.DAY)).cost == 9


async def test_what_is_removed_by_right_is_not_missed(store: SqlAlchemyStore) -> None:
    await fill(store)
    assert await store.switches.turn_on(PAY)
    assert not await store.switches.turn_on(PAY)
    assert await store.switches.first_off([PAY]) is None
    assert [each.switch for each in await store.switches.list_off()] == [WIRE]
    await store.switches.turn_off(WIRE, reason="again")
    assert await store.tool_pins.withdraw("files", ["read"]) == 1
    assert [pin.tool for pin in await store.tool_pins.accept("files", [READ])] == ["read", "write"]
    assert await store.memory.forget(SCOPE, "m1") == 1
    await store.memory.remember(SCOPE, fact("m2", "ada likes coffee"))
    assert [each.id for each in await store.memory.export(SCOPE)] == ["m2"]
    assert await store.memory.forget(SCOPE) == 1
    assert await store.memory.export(SCOPE) == []
    await store.audit_log.record(
        AuditEntry("run-1", ADA, "approve", "done", datetime.now(UTC), evidence_ref="e1")
    )
    assert len(await store.audit_log.list_by_run(ADA, "run-1")) == 2


async def test_other_tenants_do_not_learn_of_each_others_damage(
    store: SqlAlchemyStore, settings: DatabaseSettings
) -> None:
    await fill(store)
    with attacker(settings) as connection:
        delete_entries(connection, "memories")
    assert await store.memory.export(MemoryScope("acme", "bob"))


@Pod
class Payments:
    """What was paid."""

    def __init__(self) -> None:
        self.paid: list[int] = []

    @agent_tool(effects=ToolEffects.external_side_effect(), approval=ToolApprovalRequirement.NOT_REQUIRED)
    async def pay(self, amount: int) -> str:
        """Pay an amount."""
        self.paid.append(amount)
        return "paid"


@Agent(spec=AgentExecutionSpec(name="payer", recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Payer:
    """Pays."""

    def __init__(self, payments: Payments) -> None:
        self.payments = payments

    async def execute(self, amount: int) -> str:
        return await self.payments.pay(amount)


async def test_a_deleted_kill_switch_lets_no_tool_run(
    store: SqlAlchemyStore, settings: DatabaseSettings
) -> None:
    payments = Payments()
    app = Application("bank").add(Payer, payments, *store.ports, store.switches, SEALER).load_plugins()
    async with app:
        runs = app.get(AgentRuns)
        await (await runs.start(Payer, 1)).result()
        await store.switches.turn_off(Switch.agent("payer"), reason="it pays too much")
        await (await runs.start(Payer, 2)).result()
        with attacker(settings) as connection:
            connection.execute(text("DELETE FROM pilotage_switches"))
        result = await (await runs.start(Payer, 3)).result()
        assert result.status is not AgentStatus.COMPLETED
        assert payments.paid == [1]
        with attacker(settings) as connection:
            connection.execute(text("DELETE FROM pilotage_counts WHERE entries = 'switches'"))
        assert (await (await runs.start(Payer, 4)).result()).status is not AgentStatus.COMPLETED
    assert payments.paid == [1]


@pytest.mark.parametrize(
    "deleted",
    [
        "entries = 'switches' AND scope = ''",
        "entries = 'tool_pins' AND scope = ''",
        "entries = 'spending' AND scope = ''",
        "entries = 'memories' AND scope = ''",
        "entries = 'spending' AND scope LIKE '%globex%'",
        "entries = 'memories' AND scope LIKE '%bob%'",
    ],
)
async def test_counts_without_a_deleted_one_are_not_exported(
    settings: DatabaseSettings, store: SqlAlchemyStore, deleted: str
) -> None:
    await fill(store)
    assert await store.journal.entry_counts()
    with attacker(settings) as connection:
        assert connection.execute(text(f"DELETE FROM pilotage_counts WHERE {deleted}")).rowcount == 1  # noqa: S608
    with pytest.raises(DamagedEntryError, match="the count of"):
        await store.journal.entry_counts()

"""Finding work costs what is found: the rule alone says which runs are found, and no table is read as a whole."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest
from sqlalchemy import event, text
from sqlalchemy.pool import Pool

from pilotage.adapters.sqlalchemy.backlog import PAGE, Round, SqlAlchemyBacklog
from pilotage.adapters.sqlalchemy.settings import DatabaseSettings
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from pilotage.agent.ports.journal import Committed, JournalCommit
from pilotage.agent.ports.leases import LONGEST_DELAY, IAgentBacklog
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.signals import AgentSignal, AgentSignalKind
from pilotage.agent.state import AgentState, AgentStateReason, AgentStatus
from pilotage.errors import CallerError
from pilotage.testing import MemoryStore, VirtualClock
from pilotage.testing.conformance.kit import LONG, RUN, PassTime, claim, row
from tests.adapters.sqlalchemy.crowd import AGENT, OWNERS, crowd
from tests.adapters.sqlalchemy.databases import (
    BACKENDS,
    SCHEMA,
    SERVER,
    need_server,
    opened,
    schema_named,
    sqlite_settings,
)

SHORT = 30.0
REASONS = (None, None, AgentStateReason.POISONED, AgentStateReason.DIVERGED)
TIMES = (None, None, datetime(2000, 1, 1, tzinfo=UTC), datetime(2999, 1, 1, tzinfo=UTC))
NAMES = [RunKey(tenant, f"{tenant}-{number}") for tenant in ("default", "Zoo", "ä") for number in range(8)]

Stores = tuple[MemoryStore, SqlAlchemyStore]


class History:
    """What happens to the runs of two stores, by chance and the same in both."""

    def __init__(self, seed: int, stores: Stores) -> None:
        self.chance = Random(seed)  # noqa: S311 - a repeatable draw
        self.stores = stores
        self.heads: dict[RunKey, int] = {}
        self.parents: dict[RunKey, str] = {}
        self.signals = 0

    async def happen(self, steps: int) -> None:
        """Let so many things happen."""
        acts = (self.commit, self.commit, self.signal, self.take_lease, self.release, self.count)
        for _ in range(steps):
            await self.chance.choice(acts)(self.chance.choice(NAMES))

    async def both(self, do: Callable[[Any], Awaitable[object]]) -> object:
        """Do something to both stores, with the same result."""
        expected, found = [await do(store) for store in self.stores]
        assert found == expected
        return found

    async def commit(self, run: RunKey) -> None:
        chance, head = self.chance, self.heads.get(run, 0)
        status = chance.choice([*AgentStatus, AgentStatus.ACTIVE, AgentStatus.INTERRUPTED])
        is_waiting = status in (AgentStatus.INTERRUPTED, AgentStatus.CANCELLING)
        above = [each for each in self.heads if each.tenant_id == run.tenant_id]
        parent = chance.choice(above) if above and not head and chance.random() < 0.5 else None
        if parent is not None:
            self.parents[run] = parent.run_id
        state = AgentState(
            run.run_id,
            AGENT,
            status,
            reason=chance.choice(REASONS) if status is AgentStatus.INTERRUPTED else None,
            tenant_id=run.tenant_id,
            metadata={"parent": self.parents[run]} if run in self.parents else {},
            wake_at=chance.choice(TIMES) if is_waiting else None,
            awaits=chance.choice([None, *AgentSignalKind]) if is_waiting else None,
        )
        rows = (row(head + 1) if head else claim(1, epoch=1),)
        commit = JournalCommit(run, f"{run}-{head}", head, rows, state=state, parent=parent, last_signal=999)

        async def do(store: Any) -> object:
            return (await store.journal.commit([commit]))[0]

        if isinstance(await self.both(do), Committed):
            self.heads[run] = head + 1
        elif not head:
            self.parents.pop(run, None)

    async def signal(self, run: RunKey) -> None:
        self.signals += 1
        kind, given = self.chance.choice(list(AgentSignalKind)), {"text": "well?"}
        signal = AgentSignal(f"signal-{self.signals}", run.run_id, kind, given)

        async def do(store: Any) -> bool:
            with suppress(CallerError):
                await store.signals.append(signal)
                return True
            return False

        if run in self.heads:
            await self.both(do)

    async def take_lease(self, run: RunKey) -> None:
        owner, seconds = self.chance.choice(("ada", "bob")), self.chance.choice((SHORT, LONG))

        async def do(store: Any) -> bool:
            return await store.leases.acquire(run, owner, seconds) is not None

        await self.both(do)

    async def release(self, run: RunKey) -> None:
        await self.both(lambda store: store.leases.release(run, self.owner))

    owner = "ada"

    async def count(self, run: RunKey) -> None:
        delay = self.chance.choice((0.0, 0.0, LONGEST_DELAY.total_seconds()))
        if run in self.heads:
            await self.both(lambda store: store.backlog.begin(run, delay))


async def given_out(backlog: IAgentBacklog, claims: int) -> list[RunKey]:
    """Return what so many claims give, suspects included."""
    given = [
        await backlog.claim("me", LONG, 100, agents=[AGENT], suspects=bool(number % 2))
        for number in range(claims)
    ]
    return [entry.run for entries in given for entry in entries]


@pytest.mark.sample(24)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("page", [1, 3, 200])
async def test_what_is_given_out_is_what_the_rule_says(
    store: SqlAlchemyStore, let_time_pass: PassTime, seed: int, page: int
) -> None:
    clock = VirtualClock()
    memory = MemoryStore(clock)
    history = History(seed, (memory, store))
    await history.happen(60)
    clock.advance(SHORT)
    await let_time_pass(SHORT)
    await history.happen(40)
    expected = await given_out(memory.backlog, 2 * len(NAMES))
    backlog = SqlAlchemyBacklog(store.database, page)
    assert (await backlog.agents() == {AGENT}) is bool(expected)
    found = await given_out(backlog, (2 if page > len(NAMES) else 4) * len(NAMES))
    assert len(found) == len(set(found))
    assert set(found) == set(expected)


async def test_a_run_without_a_lease_as_earlier_versions_leave_it_is_found(store: SqlAlchemyStore) -> None:
    state = AgentState(RUN.run_id, AGENT, AgentStatus.ACTIVE, tenant_id=RUN.tenant_id)
    await store.journal.commit([JournalCommit(RUN, "begun", 0, (claim(1, epoch=1),), state=state)])
    await store.leases.acquire(RUN, "old", LONG)
    with store.database.engines.writing.begin() as connection:
        connection.execute(text("DELETE FROM pilotage_leases WHERE owner = 'old'"))
    assert await given_out(store.backlog, 1) == [RUN]


async def test_a_released_run_can_be_taken_as_earlier_versions_take_it(
    store: SqlAlchemyStore, set_time_of_day: PassTime
) -> None:
    state = AgentState(RUN.run_id, AGENT, AgentStatus.ACTIVE, tenant_id=RUN.tenant_id)
    await store.journal.commit([JournalCommit(RUN, "begun", 0, (claim(1, epoch=1),), state=state)])
    await store.leases.acquire(RUN, "ada", LONG)
    await store.leases.release(RUN, "ada")
    # Their condition for a lease that is over; it must hold whichever way the clock is set.
    over = "SELECT count(*) FROM pilotage_leases WHERE expires_at <= {now} OR expires_at > {later}"
    moments = {
        "sqlite": {"now": "boot_timestamp()", "later": "boot_timestamp() + 2 * granted_seconds * 1000000"},
        "postgresql": {
            "now": "clock_timestamp()",
            "later": "clock_timestamp() + make_interval(secs => 2 * granted_seconds)",
        },
    }[store.database.dialect.name]
    for seconds in (0.0, -LONG):
        await set_time_of_day(seconds)
        with store.database.engines.reading.connect() as connection:
            found = connection.execute(text(over.format(**moments)))
            assert found.scalar_one() == 1
    assert await store.leases.owners() == frozenset()


async def test_a_lease_of_a_run_that_waits_is_forgotten_when_it_is_over(
    store: SqlAlchemyStore, let_time_pass: PassTime
) -> None:
    state = AgentState(RUN.run_id, AGENT, AgentStatus.INTERRUPTED, tenant_id=RUN.tenant_id)
    await store.journal.commit([JournalCommit(RUN, "begun", 0, (claim(1, epoch=1),), state=state)])
    await store.leases.acquire(RUN, "dead", SHORT)
    await store.leases.acquire(RunKey("default", "never begun"), "dead", SHORT)
    assert await given_out(store.backlog, 1) == []
    assert leases_in(store) == 2
    await let_time_pass(SHORT)
    assert await given_out(store.backlog, 1) == []
    assert leases_in(store) == 0


def leases_in(store: SqlAlchemyStore) -> int:
    with store.database.engines.reading.connect() as connection:
        count: int = connection.execute(text("SELECT count(*) FROM pilotage_leases")).scalar_one()
    return count


EXPLAINED = (
    "-csession_preload_libraries=auto_explain%20-cauto_explain.log_min_duration=0%20-cclient_min_messages=log"
)


class Plans:
    """The plans of the statements that a database executes."""

    def __init__(self) -> None:
        self.found: set[str] = set()

    def listen(self, connection: Any, _: object) -> None:
        """Collect the plans of a new connection: a server tells them, of a file the statements are collected."""
        if hasattr(connection, "add_notice_handler"):
            connection.add_notice_handler(lambda notice: self.found.add(str(notice.message_primary)))
        else:
            connection.set_trace_callback(self.found.add)

    def explained(self, store: SqlAlchemyStore) -> list[str]:
        """Return them all."""
        found = list(self.found)
        if store.database.dialect.name == "postgresql":
            return found
        with store.database.engines.reading.connect() as connection:
            return [
                "\n".join(
                    [each, *(line[3] for line in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {each}"))]
                )
                for each in found
                if each.startswith(("SELECT", "WITH", "UPDATE", "DELETE", "INSERT"))
            ]


@pytest.fixture(scope="module", params=BACKENDS)
def crowded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[SqlAlchemyStore, Plans]]:
    """A store with 100,000 runs that wait for people and 10,000 that others drive, with statistics of these."""
    plans = Plans()
    with ExitStack() as stack:
        settings = sqlite_settings(tmp_path_factory.mktemp("crowd"))
        if request.param == "postgresql":
            need_server()
            schema = f"{SCHEMA}_crowd"
            stack.enter_context(schema_named(schema))
            options = f"-csearch_path%3D{schema},pg_catalog%20-csynchronous_commit%3Doff%20{EXPLAINED}"
            settings = DatabaseSettings(f"{SERVER}?options={options}", may_lose_commits_on_power_failure=True)
        event.listen(Pool, "connect", plans.listen)
        stack.callback(event.remove, Pool, "connect", plans.listen)
        store = stack.enter_context(opened(settings))
        crowd(store, waiting=100_000, driven=10_000, ended=1_000, unread=2_000)
        yield store, plans


WHOLE_TABLE = re.compile(r"Seq Scan on pilotage_|\bSCAN pilotage_\w+\b(?! USING)")


async def test_no_table_is_read_as_a_whole_however_many_runs_are_open(
    crowded: tuple[SqlAlchemyStore, Plans],
) -> None:
    store, plans = crowded
    driven = [RunKey("acme", f"driven-{number}") for number in range(1, 1_001)]
    plans.found.clear()
    # Often enough for the server to plan once for all parameters.
    for _ in range(12):
        assert await given_out(store.backlog, 1) == []
        assert len(await store.leases.owners()) == OWNERS
        assert len(await store.signals.newest_pending({RunKey("acme", "waiting-7")})) == 1
        left = await store.leases.renew_all(driven, "owner-1", LONG)
        assert len(left) == len(driven) * (OWNERS - 1) / OWNERS
    for number in range(1, 6):
        answer = AgentSignal(f"answer-{number}", f"waiting-{number}", AgentSignalKind.APPROVAL_DECISION)
        await store.signals.append(answer)
    await store.leases.release(driven[4], "owner-0")
    given = await given_out(store.backlog, 1)
    assert len(given) == 6
    for run in given:
        await store.leases.release(run, "me")
    await store.leases.release_all("nobody")
    explained = plans.explained(store)
    for statement in (
        "WITH RECURSIVE names",
        "look",
        "UPDATE pilotage_leases",
        "DELETE FROM pilotage_leases",
    ):
        assert any(statement in plan for plan in explained), statement
    read = [plan for plan in explained if WHOLE_TABLE.search(plan)]
    assert not read, read[0]


async def test_what_a_claim_looks_at_is_bounded(crowded: tuple[SqlAlchemyStore, Plans]) -> None:
    store, _ = crowded
    round_ = Round(PAGE)
    seen = [len(await store.database.read(round_.look)) for _ in range(3)]
    assert all(PAGE <= number <= 3 * PAGE for number in seen)

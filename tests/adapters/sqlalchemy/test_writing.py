"""Commits that look at nothing are one statement on a server: all of it or nothing, whoever else writes meanwhile.

An SQLite file has to say the same.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from sqlalchemy import Connection, event, text

from pilotage.adapters.sqlalchemy.rows import BLOB_LENGTH
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from pilotage.adapters.sqlalchemy.tables import journal, runs
from pilotage.agent.evidence import AgentEvidence, AgentEvidenceKind
from pilotage.agent.ports.journal import Committed, HeadMoved, JournalCommit, LeaseRequest, OutboxEvent
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.testing.conformance.kit import RUN, claim, commit_of, commit_one, row, rows_of

RUNS = [RunKey("default", f"run-{number}") for number in range(6)]
LEASE = LeaseRequest("ada", 30)


def full_commit(run: RunKey, token: str) -> JournalCommit:
    """A second commit of a run, with something of everything."""
    return replace(
        commit_of(row(2, record={"said": token * BLOB_LENGTH}), run=run, token=token),
        state=AgentState(run.run_id, "shop:Till", AgentStatus.ACTIVE, tenant_id=run.tenant_id),
        evidence=(AgentEvidence(f"{token}-{run.run_id}", run.run_id, AgentEvidenceKind.TOOL),),
        outbox=(OutboxEvent("paid", 1, {"by": token}),),
    )


def transactions_of(store: SqlAlchemyStore) -> list[Connection]:
    """Every transaction that a server is told to begin, from now on; in a file the driver begins them."""
    seen: list[Connection] = []
    event.listen(store.database.engines.writing, "begin", seen.append)
    return seen


async def counts(store: SqlAlchemyStore, run: RunKey) -> list[int]:
    """How many rows, facts and pieces of evidence a run has, and how many blobs there are."""
    statements = [
        "SELECT count(*) FROM pilotage_journal j JOIN pilotage_runs r ON j.run = r.position WHERE run_id = :run",
        "SELECT count(*) FROM pilotage_outbox WHERE run_id = :run",
        "SELECT count(*) FROM pilotage_evidence WHERE run_id = :run",
        "SELECT count(*) FROM pilotage_blobs WHERE :run <> ''",
    ]

    def look(connection: Connection) -> list[int]:
        return [connection.execute(text(each), {"run": run.run_id}).scalar_one() for each in statements]

    return await store.database.read(look)


async def test_runs_that_begin_go_on_and_end_need_no_transaction_of_several_statements(
    store: SqlAlchemyStore,
) -> None:
    seen = transactions_of(store)
    ended = AgentState(RUN.run_id, "shop:Till", AgentStatus.COMPLETED, tenant_id=RUN.tenant_id)
    commits = [replace(commit_of(claim(1, epoch=1)), lease=LEASE), full_commit(RUN, "b"), commit_of(row(3))]
    for number, commit in enumerate([*commits, replace(commit_of(row(4)), state=ended)], start=1):
        assert await commit_one(store.journal, commit) == Committed(number)
    assert seen == []
    assert await counts(store, RUN) == [4, 1, 1, 1]
    assert await store.leases.holder(RUN) is None
    assert (await store.states.get(RUN.run_id)).status is AgentStatus.COMPLETED
    asking = replace(commit_of(claim(1, epoch=1), run=RUNS[1]), conversation="theirs")
    assert await commit_one(store.journal, asking) == Committed(1)
    assert len(seen) == 1, "who holds the conversation has to be looked at"


async def test_whoever_loses_one_run_of_many_writes_nothing_of_it(
    store: SqlAlchemyStore, second_store: SqlAlchemyStore
) -> None:
    await store.journal.commit([commit_of(claim(1, epoch=1), run=run) for run in RUNS])
    lost = RUNS[2]
    assert await commit_one(second_store.journal, commit_of(claim(2, epoch=2), run=lost)) == Committed(2)
    outcomes = await store.journal.commit([full_commit(run, "a") for run in RUNS])
    assert outcomes == [HeadMoved(2, 2) if run == lost else Committed(2) for run in RUNS]
    assert await counts(store, lost) == [2, 0, 0, 1]
    for run in RUNS[:2] + RUNS[3:]:
        assert await counts(store, run) == [2, 1, 1, 1]


async def test_whoever_begins_a_run_second_gets_no_lease(
    store: SqlAlchemyStore, second_store: SqlAlchemyStore
) -> None:
    assert await commit_one(second_store.journal, commit_of(claim(1, epoch=1), run=RUNS[1])) == Committed(1)
    begins = [replace(commit_of(claim(1, epoch=1), run=run, token="mine"), lease=LEASE) for run in RUNS[:3]]
    assert await store.journal.commit(begins) == [Committed(1), HeadMoved(1, 1), Committed(1)]
    held = [await store.leases.holder(run) is not None for run in RUNS[:3]]
    assert held == [True, False, True]


async def test_of_two_who_go_on_at_the_same_time_one_does(
    store: SqlAlchemyStore, second_store: SqlAlchemyStore
) -> None:
    await store.journal.commit([commit_of(claim(1, epoch=1), run=run) for run in RUNS])
    for number in range(2, 12):
        mine = [commit_of(row(number), run=run, token="mine") for run in RUNS]
        others = [commit_of(row(number), run=run, token="others") for run in reversed(RUNS)]
        one, two = await asyncio.gather(store.journal.commit(mine), second_store.journal.commit(others))
        for first, second in zip(one, reversed(two), strict=True):
            assert {first, second} == {Committed(number), HeadMoved(number, 1)}
    assert [len(await rows_of(store.journal, run)) for run in RUNS] == [11] * len(RUNS)


async def test_a_run_that_is_gone_is_not_written_to(store: SqlAlchemyStore) -> None:
    await commit_one(store.journal, commit_of(claim(1, epoch=1)))

    def forget(connection: Connection) -> None:
        connection.execute(journal.delete())
        connection.execute(runs.delete())

    await store.database.write(forget)
    assert await commit_one(store.journal, full_commit(RUN, "late")) == HeadMoved(0, 0)
    assert await counts(store, RUN) == [0, 0, 0, 0]


async def test_a_run_that_begins_and_ends_in_one_batch_leaves_no_lease(store: SqlAlchemyStore) -> None:
    ended = AgentState(RUN.run_id, "shop:Till", AgentStatus.COMPLETED, tenant_id=RUN.tenant_id)
    begins = replace(commit_of(claim(1, epoch=1)), lease=LEASE)
    ends = replace(commit_of(row(2)), state=ended)
    assert await store.journal.commit([begins, ends]) == [Committed(1), Committed(2)]
    assert await store.leases.holder(RUN) is None

"""What is special to commits in a database: batches, conflicts, blobs, connections that die."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import pytest
from sqlalchemy import Connection, func, select, text

from pilotage.adapters.sqlalchemy.errors import ConflictingWriteError
from pilotage.adapters.sqlalchemy.rows import BLOB_LENGTH
from pilotage.adapters.sqlalchemy.settings import DatabaseSettings
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from pilotage.adapters.sqlalchemy.tables import PLACES, blobs, journal
from pilotage.agent.ports.journal import CommitRefused, Committed, HeadMoved, JournalCommit
from pilotage.agent.ports.persistence import JournalRow, JournalStage, RunKey, UnreadableRecord
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.testing.conformance.kit import RUN, claim, commit_of, commit_one, row, rows_of
from tests.adapters.sqlalchemy.databases import opened

LARGE = {"said": "x" * BLOB_LENGTH}


def keys(count: int) -> list[RunKey]:
    return [RunKey("default", f"run-{number:03}") for number in range(count)]


async def rows_in(store: SqlAlchemyStore, statement: str) -> list[tuple[object, ...]]:
    def look(connection: Connection) -> list[tuple[object, ...]]:
        return [tuple(each) for each in connection.execute(text(statement))]

    return await store.database.read(look)


async def test_one_bad_commit_of_many_is_refused_and_the_others_are_written(store: SqlAlchemyStore) -> None:
    runs = keys(20)
    await store.journal.commit([commit_of(row(1, "pay"), run=run) for run in runs])
    commits = [commit_of(row(2, "pay" if run is runs[7] else "ship"), run=run) for run in runs]
    outcomes = await store.journal.commit(commits)
    assert [outcome for outcome in outcomes if outcome != Committed(2)] == [outcomes[7]]
    assert outcomes[7] == CommitRefused("row 2 repeats 'after' of 'pay', attempt 1")
    assert len(await rows_of(store.journal, runs[7])) == 1
    assert len(await rows_of(store.journal, runs[8])) == 2


async def test_a_run_whose_stored_status_is_none_fails_no_other_commit(
    store: SqlAlchemyStore, second_store: SqlAlchemyStore
) -> None:
    runs = keys(3)
    await store.journal.commit([commit_of(row(1, "pay"), run=run) for run in runs])
    await store.database.write(
        lambda connection: connection.execute(
            text("UPDATE pilotage_runs SET status = 'x' WHERE run_id = 'run-001'")
        )
    )
    outcomes = await second_store.journal.commit([commit_of(row(2, "ship"), run=run) for run in runs])
    assert [outcomes[0], outcomes[2]] == [Committed(2), Committed(2)]
    assert outcomes[1] == CommitRefused(
        "run 'run-001': run 'run-001' has no status: 'x' is not a valid AgentStatus"
    )


async def test_batches_of_many_processes_over_the_same_runs_give_each_row_one_winner(
    open_store: Callable[[], SqlAlchemyStore],
) -> None:
    stores, runs = [open_store() for _ in range(3)], keys(10)

    async def write(store: SqlAlchemyStore, name: str) -> list[object]:
        commits = [commit_of(claim(1, epoch=1), row(2, name), run=run, token=name) for run in runs]
        return list(await store.journal.commit(commits if name != "1" else commits[::-1]))

    outcomes = await asyncio.gather(*(write(store, str(number)) for number, store in enumerate(stores)))
    won = [outcome for each in outcomes for outcome in each if outcome == Committed(2)]
    lost = [outcome for each in outcomes for outcome in each if outcome == HeadMoved(2, 1)]
    assert (len(won), len(lost)) == (10, 20)
    for run in runs:
        assert len(await rows_of(stores[0].journal, run)) == 2


async def test_conversations_that_two_processes_want_in_another_order_are_held_by_one_each(
    store: SqlAlchemyStore, second_store: SqlAlchemyStore
) -> None:
    def starting(name: str, conversations: list[str]) -> list[JournalCommit]:
        runs = [RunKey("default", f"{name}-{conversation}") for conversation in conversations]
        return [
            JournalCommit(
                run,
                "starts",
                0,
                (claim(1, epoch=1),),
                AgentState(run.run_id, "shop:Helpdesk", AgentStatus.ACTIVE),
                conversation=conversation,
            )
            for run, conversation in zip(runs, conversations, strict=True)
        ]

    chats = [f"chat-{number}" for number in range(8)]
    one, two = await asyncio.gather(
        store.journal.commit(starting("one", chats)),
        second_store.journal.commit(starting("two", chats[::-1])),
    )
    for first, second in zip(one, list(two)[::-1], strict=True):
        assert [first, second].count(Committed(1)) == 1


async def test_a_large_payload_is_stored_once_for_each_tenant(store: SqlAlchemyStore) -> None:
    twice = [
        commit_of(row(1, record=LARGE, view=LARGE), row(2, record=LARGE, view=None), run=run)
        for run in keys(3)
    ]
    foreign = commit_of(row(1, record=LARGE, view=dict(LARGE)), run=RunKey("elsewhere", "run"))
    await store.journal.commit([*twice, foreign])
    found = await rows_in(store, "SELECT tenant_id, digest, content FROM pilotage_blobs ORDER BY tenant_id")
    assert [each[0] for each in found] == ["default", "elsewhere"]
    assert found[0][1] != found[1][1]
    stored = await rows_of(store.journal, RunKey("default", "run-001"))
    assert [(each.record, each.view) for each in stored] == [(LARGE, LARGE), (LARGE, None)]


async def test_a_payload_that_is_record_and_view_is_stored_once(store: SqlAlchemyStore) -> None:
    said = {"result": "seen by everybody"}
    await store.journal.commit(
        [commit_of(row(1, record=said, view=said), row(2, record=said, view={"a": 1}))]
    )
    found = await rows_in(store, "SELECT record, view FROM pilotage_journal ORDER BY place")
    assert found == [('{"result":"seen by everybody"}', None), ('{"result":"seen by everybody"}', '{"a":1}')]


async def test_a_record_that_is_no_json_is_read_as_unreadable(store: SqlAlchemyStore) -> None:
    begun, done = row(1, "pay", stage=JournalStage.BEFORE), row(2, "pay")
    await store.journal.commit([commit_of(begun, done)])
    await store.database.write(partial(spoil, seq=1))
    await store.database.write(partial(spoil, seq=2))
    for each in await rows_of(store.journal):
        assert isinstance(each.record, UnreadableRecord)
        assert each.record.reason.startswith("Expecting")
        assert each.view is None


def spoil(connection: Connection, seq: int) -> None:
    """Let a record be no JSON."""
    connection.execute(
        text("UPDATE pilotage_journal SET record = 'broken' WHERE place - run * :places = :seq"),
        {"places": PLACES, "seq": seq},
    )


async def test_text_that_no_database_takes_is_readable_where_it_can_be(store: SqlAlchemyStore) -> None:
    await store.journal.commit([commit_of(row(1, record="Grüße\x00", view="half \ud83d"))])
    ((record, view),) = await rows_in(store, "SELECT record, view FROM pilotage_journal")
    assert record == '"Grüße\\u0000"'
    assert view == '~"half \\ud83d"'


async def test_names_that_no_database_takes_stand_beside_ordinary_ones_and_all_come_back(
    store: SqlAlchemyStore,
) -> None:
    names = ["pay", "~pay", "pay\x00", "half \ud83d", "Grüße 🚢", "\\u0000"]
    rows = [row(seq, name, record={name: seq}) for seq, name in enumerate(names, start=1)]
    await store.journal.commit([commit_of(*rows)])
    found = await rows_of(store.journal)
    assert [(each.action_id, each.record) for each in found] == [
        (each.action_id, each.record) for each in rows
    ]


async def test_a_reader_that_holds_a_page_sees_what_is_committed_behind_it(store: SqlAlchemyStore) -> None:
    await store.journal.commit([commit_of(*map(row, range(1, 501)))])
    reading = store.journal.read(RUN)
    assert (await anext(reading)).seq == 1
    await store.journal.commit([commit_of(row(501))])
    assert [each.seq async for each in reading][-1] == 501


async def test_a_commit_without_a_row_is_refused(store: SqlAlchemyStore) -> None:
    outcome = await commit_one(store.journal, JournalCommit(RUN, "nothing", 0, ()))
    assert outcome == CommitRefused("the commit of run 'run-1' has no row")


async def test_what_cannot_be_written_leaves_nothing_of_its_transaction(store: SqlAlchemyStore) -> None:
    def work(connection: Connection) -> None:
        kept = {"tenant_id": "a", "digest": "d", "content": "c", "created_at": datetime.now(UTC)}
        connection.execute(blobs.insert().values(kept))
        connection.execute(blobs.insert().values(kept))

    with pytest.raises(ConflictingWriteError):
        await store.database.write(work)
    assert await rows_in(store, "SELECT * FROM pilotage_blobs") == []


@pytest.fixture
def cut(postgresql_database: DatabaseSettings) -> DatabaseSettings:
    """A database whose connections have a name by which they can be cut."""
    return replace(postgresql_database, url=f"{postgresql_database.url}&application_name=to_be_cut")


CUT = text(
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
    "WHERE application_name = 'to_be_cut' AND pid <> pg_backend_pid()"
)


async def test_connections_that_were_cut_are_made_anew(
    cut: DatabaseSettings, postgresql_database: DatabaseSettings
) -> None:
    with opened(cut) as store, opened(postgresql_database) as other:
        commit = commit_of(claim(1, epoch=1), row(2))
        assert await commit_one(store.journal, commit) == Committed(2)
        assert await other.database.read(lambda connection: connection.execute(CUT).scalar_one()) >= 1
        assert await store.journal.head(RUN) is not None
        assert await other.database.read(lambda connection: connection.execute(CUT).scalar_one()) >= 1
        assert await commit_one(store.journal, commit) == Committed(2)
        assert await other.database.read(lambda connection: connection.execute(CUT).scalar_one()) >= 1
        assert await store.leases.acquire(RUN, "ada", 30) is not None


async def test_a_connection_that_is_cut_in_the_middle_of_a_commit_leaves_nothing(
    cut: DatabaseSettings, postgresql_database: DatabaseSettings
) -> None:
    with opened(cut) as store, opened(postgresql_database) as other:

        def cut_in_the_middle(connection: Connection) -> None:
            connection.execute(text("INSERT INTO pilotage_leases VALUES ('a', 'b', 'c', 1, now())"))
            with other.database.engines.reading.connect() as elsewhere:
                elsewhere.execute(CUT)
            connection.execute(select(func.count()).select_from(journal))

        with pytest.raises(OSError, match="did not answer"):
            await store.database.write(cut_in_the_middle)
        assert await rows_in(other, "SELECT * FROM pilotage_leases") == []


async def test_hints_are_heard_again_after_the_connection_was_cut(
    cut: DatabaseSettings, postgresql_database: DatabaseSettings
) -> None:
    with opened(cut) as store, opened(postgresql_database) as other:
        async with store.wake_ups.subscribe() as hints:
            await other.database.read(lambda connection: connection.execute(CUT).scalar_one())
            hearing = asyncio.create_task(hints.next())
            while not hearing.done():
                await other.wake_ups.notify("run-1")
                await asyncio.wait([hearing], timeout=0.05)
            assert hearing.result() == "run-1"


def test_a_row_of_the_tables_has_room_for_everything_a_row_says() -> None:
    named = {column.name for column in journal.c} | {"seq"}  # which is a part of its place
    fields = set(JournalRow.__dataclass_fields__) - {"encoded", "source"}  # how texts are kept and read
    assert fields - named == set()

"""Small writes to a file that is not forced to its disk are done in place, unless somebody would have to wait."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, get_ident

import pytest
from sqlalchemy import Connection, text

from pilotage.adapters.sqlalchemy.database import Begin, Database
from pilotage.adapters.sqlalchemy.dialect import DatabaseLine
from pilotage.adapters.sqlalchemy.errors import ConflictingWriteError, StoreUnreachableError
from pilotage.adapters.sqlalchemy.settings import DatabaseSettings
from pilotage.adapters.sqlalchemy.sqlite import IN_A_ROW, LOG_PAGES
from pilotage.ids import SystemClock
from tests.adapters.sqlalchemy.databases import opened

PATIENCE_SECONDS = 20.0


@pytest.fixture
def database(sqlite_database: DatabaseSettings) -> Iterator[Database]:
    settings = DatabaseSettings(
        sqlite_database.url,
        may_lose_commits_on_power_failure=True,
        timeout_seconds=PATIENCE_SECONDS,
    )
    with opened(settings) as store:
        with store.database.engines.writing.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE kept (name TEXT PRIMARY KEY)")
        yield store.database


@pytest.fixture
async def warm(database: Database) -> Database:
    """A database that has been written to: its connection is there."""
    await database.write(where)
    return database


def where(connection: Connection) -> int:
    """The thread that writes."""
    return get_ident()


def how(connection: Connection) -> tuple[int, int]:
    """How long the connection waits for others, in milliseconds, and from how many pages on it carries the log over."""
    hint_seconds, pages = (
        DatabaseLine(connection).carry_out(f"PRAGMA {name}", ()).fetchone()[0]
        for name in ("busy_timeout", "wal_autocheckpoint")
    )
    return hint_seconds, pages


def keep(connection: Connection, name: str = "a") -> None:
    DatabaseLine(connection).carry_out("INSERT INTO kept VALUES (?)", (name,)).close()


async def kept(database: Database) -> list[str]:
    return await database.read(lambda each: list(each.execute(text("SELECT name FROM kept")).scalars()))


async def test_what_is_small_is_written_by_the_loop_itself(warm: Database) -> None:
    assert await warm.write(where, is_small=True) == get_ident()


async def test_what_is_not_small_is_written_by_a_thread(warm: Database) -> None:
    assert await warm.write(where) != get_ident()


async def test_a_thread_opens_the_file(database: Database) -> None:
    assert await database.write(where, is_small=True) != get_ident()


async def test_what_is_forced_to_the_disk_is_written_by_a_thread(sqlite_database: DatabaseSettings) -> None:
    with opened(DatabaseSettings(sqlite_database.url)) as store:
        for _ in range(2):
            assert await store.database.write(where, is_small=True) != get_ident()


async def test_in_place_nobody_is_waited_for_and_the_log_is_left_alone(warm: Database) -> None:
    assert await warm.write(how, is_small=True) == (0, 0)
    assert await warm.write(how) == (PATIENCE_SECONDS * 1000, LOG_PAGES)
    assert await warm.write(how, is_small=True) == (0, 0)


async def test_a_thread_is_due_after_a_while_and_carries_the_log_over(warm: Database) -> None:
    for _ in range(2):
        for _ in range(IN_A_ROW):
            assert await warm.write(where, is_small=True) == get_ident()
        assert await warm.write(how, is_small=True) == (PATIENCE_SECONDS * 1000, LOG_PAGES)


async def test_the_loop_goes_on_while_another_process_writes(warm: Database) -> None:
    with closing(sqlite3.connect(Path(str(warm.url.database)), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        writing = asyncio.ensure_future(warm.write(keep, is_small=True))
        # Were the loop to wait for the other one, it would do so for as long as the settings say, and then fail.
        await asyncio.get_running_loop().run_in_executor(None, get_ident)
        assert not writing.done()
        other.execute("ROLLBACK")
        await writing
    assert await kept(warm) == ["a"]


async def test_the_loop_goes_on_while_a_thread_writes(warm: Database) -> None:
    loop, begun = asyncio.get_running_loop(), asyncio.Event()

    def wait_for_the_loop(connection: Connection) -> None:
        loop.call_soon_threadsafe(begun.set)
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result()

    large = asyncio.ensure_future(warm.write(wait_for_the_loop))
    await begun.wait()
    assert await warm.write(where, is_small=True) != get_ident()
    await large


async def test_one_that_fails_leaves_nothing_and_the_next_one_begins_anew(warm: Database) -> None:
    def twice(connection: Connection) -> None:
        keep(connection)
        keep(connection)

    for _ in range(2):
        with pytest.raises(ConflictingWriteError):
            await warm.write(twice, is_small=True)
    await warm.write(lambda each: keep(each, "b"), is_small=True)
    assert await kept(warm) == ["b"]


async def test_what_goes_through_sqlalchemy_takes_part(warm: Database) -> None:
    def fails(connection: Connection) -> None:
        keep(connection)
        connection.execute(text("INSERT INTO kept VALUES ('b')"))
        raise LookupError

    with pytest.raises(LookupError):
        await warm.write(fails, is_small=True)
    assert await kept(warm) == []


async def test_a_small_hint_is_given_by_the_loop_itself(warm: Database) -> None:
    assert await warm.hint(where, is_small=True) == get_ident()
    assert await warm.hint(where) != get_ident()


async def test_a_hint_overtakes_no_other(warm: Database) -> None:
    order: list[str] = []
    gone = Event()

    def busy(_: Begin) -> None:
        gone.wait(PATIENCE_SECONDS)

    thread = asyncio.ensure_future(warm.transact(busy))
    earlier = asyncio.ensure_future(warm.hint(lambda _: order.append("earlier")))
    await asyncio.sleep(0)
    later = asyncio.ensure_future(warm.hint(lambda _: order.append("later"), is_small=True))
    await asyncio.sleep(0)
    gone.set()
    await asyncio.gather(thread, earlier, later)
    assert order == ["earlier", "later"]
    assert await warm.hint(where, is_small=True) == get_ident()


async def test_a_hint_waits_in_a_thread_while_another_process_writes(warm: Database) -> None:
    with closing(sqlite3.connect(Path(str(warm.url.database)), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        hinting = asyncio.ensure_future(warm.hint(keep, is_small=True))
        await asyncio.get_running_loop().run_in_executor(None, get_ident)
        assert not hinting.done()
        other.execute("ROLLBACK")
        await hinting
    assert await kept(warm) == ["a"]


async def test_nothing_is_written_to_a_database_that_is_closed(warm: Database) -> None:
    warm.close()
    with pytest.raises(StoreUnreachableError, match="is closed"):
        await warm.write(keep, is_small=True)
    with pytest.raises(StoreUnreachableError, match="is closed"):
        await warm.hint(keep, is_small=True)


class HastyClock(SystemClock):
    """A clock that goes on by a day whenever somebody looks at it."""

    def __init__(self) -> None:
        self._looked = 0

    def now(self) -> datetime:
        self._looked += 1
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=self._looked)


def moments(connection: Connection) -> list[int]:
    """What the driver and SQLAlchemy take for the time, one after the other."""
    (first,) = DatabaseLine(connection).carry_out("SELECT clock_timestamp()", ()).fetchone()
    return [first, connection.execute(text("SELECT clock_timestamp()")).scalar_one()]


async def test_what_is_written_together_has_one_moment(tmp_path: Path) -> None:
    settings = DatabaseSettings(f"sqlite:///{tmp_path}/a.db", may_lose_commits_on_power_failure=True)
    with closing(Database(settings, HastyClock())) as database:
        found = [
            await database.write(moments),
            await database.write(moments, is_small=True),
            await database.hint(moments),
            await database.read(moments),
        ]
        with database.engines.writing.begin() as connection:
            found.append(moments(connection))
    *written, read, joined = found
    for first, second in (*written, joined):
        assert first == second
    assert read[0] < read[1], "readers see what is committed at each statement, and so does their clock"
    in_order = [first for first, _ in found]
    assert in_order == sorted(set(in_order))

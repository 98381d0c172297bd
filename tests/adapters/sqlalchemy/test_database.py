"""How long a server that went away is waited for."""

from __future__ import annotations

from itertools import islice

import pytest
from sqlalchemy import Connection, exc

from pilotage.adapters.sqlalchemy.database import Database, retry_delays
from pilotage.adapters.sqlalchemy.dialect import translated
from pilotage.adapters.sqlalchemy.errors import StoreUnreachableError
from pilotage.adapters.sqlalchemy.settings import DatabaseSettings
from pilotage.testing import VirtualClock


def test_the_first_try_again_comes_at_once_and_the_later_ones_more_and_more_slowly() -> None:
    first = list(islice(retry_delays(), 4))
    assert first == [0.0, 0.02, 0.04, 0.08]
    assert list(islice(retry_delays(), 20, 22)) == [1.0, 1.0]


@pytest.mark.parametrize(
    ("statement", "is_cut", "is_away"),
    [("SELECT 1", True, True), (None, False, True), ("SELECT 1", False, False)],
)
def test_only_a_line_that_was_cut_or_not_made_may_come_back(
    statement: str | None, is_cut: bool, is_away: bool
) -> None:
    error = exc.OperationalError(statement, None, OSError("gone"), connection_invalidated=is_cut)
    found = translated(error)
    assert isinstance(found, StoreUnreachableError)
    assert found.is_away is is_away


class Hurried(VirtualClock):
    """A clock on which whoever sleeps has slept at once."""

    async def sleep(self, seconds: float) -> None:
        self.advance(seconds)


async def test_a_server_that_does_not_come_back_is_given_up_in_time() -> None:
    clock = Hurried()
    nobody = DatabaseSettings("postgresql://nobody@127.0.0.1:9/none", timeout_seconds=7)
    database = Database(nobody, clock)
    try:
        with pytest.raises(StoreUnreachableError):
            await database.read(_nothing)
        assert 5 < clock.monotonic() <= 7
        before = clock.monotonic()
        with pytest.raises(StoreUnreachableError):
            await database.hint(_nothing)
        with pytest.raises(StoreUnreachableError):
            await database.write(_nothing)
        assert clock.monotonic() == before, "what is only a hint, or must not be asked twice, does not wait"
    finally:
        database.close()


def _nothing(connection: Connection) -> None:
    return None

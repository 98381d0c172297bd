"""Cursors of pages that clients send back, or make up."""

from __future__ import annotations

from pathlib import Path

import pytest

from pilotage.adapters.sqlalchemy import DatabaseSettings
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from pilotage.errors import CallerError


@pytest.mark.parametrize("cursor", ["yesterday", "-1", "\u0661", "9" * 19, "9" * 500])
async def test_what_no_page_can_have_given_is_an_error_in_words(cursor: str, tmp_path: Path) -> None:
    store = SqlAlchemyStore.open(DatabaseSettings(f"sqlite:///{tmp_path / 'runs.db'}"))
    try:
        with pytest.raises(CallerError, match="there is no page after .* Give the cursor of a page"):
            await store.states.list_runs("default", after=cursor)
    finally:
        store.close()

"""Where the database is: the environment, addresses, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pilotage.adapters.sqlalchemy import DatabaseSettings, DatabaseStartError, DatabaseUrlError
from pilotage.adapters.sqlalchemy.settings import sqlite_file
from pilotage.adapters.sqlalchemy.supported import database_url
from pilotage.errors import AgentDefinitionError


def test_nothing_set_is_a_file_below_the_working_directory() -> None:
    settings = DatabaseSettings.from_environment({})
    assert settings == DatabaseSettings()
    assert sqlite_file(settings.url) == Path(".pilotage/pilotage.db")
    assert not settings.may_lose_commits_on_power_failure


def test_everything_can_be_set_by_the_environment() -> None:
    assert DatabaseSettings.from_environment(
        {
            "PILOTAGE_DATABASE_URL": "postgresql://localhost/shop",
            "PILOTAGE_DATABASE_POOL_SIZE": "12",
            "PILOTAGE_DATABASE_TIMEOUT_SECONDS": "2.5",
            "PILOTAGE_DATABASE_UPGRADES_AT_START": "no",
            "PILOTAGE_DATABASE_MAY_LOSE_COMMITS_ON_POWER_FAILURE": "Yes",
        }
    ) == DatabaseSettings(
        "postgresql://localhost/shop",
        pool_size=12,
        timeout_seconds=2.5,
        upgrades_at_start=False,
        may_lose_commits_on_power_failure=True,
    )


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        (
            "PILOTAGE_DATABASE_POOL_SIZE",
            "many",
            "PILOTAGE_DATABASE_POOL_SIZE is 'many'. Write a positive whole number",
        ),
        (
            "PILOTAGE_DATABASE_POOL_SIZE",
            "0",
            "PILOTAGE_DATABASE_POOL_SIZE is '0'. Write a positive whole number",
        ),
        ("PILOTAGE_DATABASE_UPGRADES_AT_START", "perhaps", "is 'perhaps'. Write true or false."),
    ],
)
def test_a_variable_that_makes_no_sense_is_named(name: str, text: str, words: str) -> None:
    with pytest.raises(DatabaseStartError) as caught:
        DatabaseSettings.from_environment({name: text})
    assert words in str(caught.value)


@pytest.mark.parametrize("wrong", [{"url": " "}, {"pool_size": 0}, {"timeout_seconds": -1.0}])
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(AgentDefinitionError):
        DatabaseSettings(**wrong)  # type: ignore[arg-type]


def test_a_password_is_shown_to_nobody() -> None:
    settings = DatabaseSettings("postgresql://ada:s3cret@db.example/shop?password=other")
    assert "s3cret" not in repr(settings)
    assert "other" not in repr(settings)
    assert repr(settings) == "DatabaseSettings('postgresql://***@db.example/shop')"


@pytest.mark.parametrize(
    ("url", "driver"),
    [
        ("sqlite:///a.db", "sqlite"),
        ("postgresql://localhost/shop", "postgresql+psycopg"),
        ("postgres://localhost/shop", "postgresql+psycopg"),
        ("postgresql+psycopg://localhost/shop", "postgresql+psycopg"),
    ],
)
def test_an_address_gets_the_driver_that_is_used(url: str, driver: str) -> None:
    assert database_url(url).drivername == driver


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("nonsense", "'nonsense' is no address of a database."),
        ("mysql://localhost/shop", "'mysql' is not supported."),
        ("postgresql+asyncpg://localhost/shop", "the driver 'asyncpg' is not used here."),
        ("sqlite+aiosqlite:///a.db", "the driver 'aiosqlite' is not used here."),
        ("sqlite://", "would forget everything with its process."),
        ("sqlite:///:memory:", "would forget everything with its process."),
    ],
)
def test_an_address_that_leads_nowhere_is_named_with_the_way_out(url: str, words: str) -> None:
    with pytest.raises(DatabaseUrlError) as caught:
        database_url(url)
    assert words in str(caught.value)
    assert "sqlite:///file.db" in str(caught.value)


@pytest.mark.parametrize(
    ("url", "file"),
    [
        ("sqlite:///a.db", Path("a.db")),
        ("sqlite:////srv/a.db", Path("/srv/a.db")),
        ("sqlite:///a.db?mode=rw", Path("a.db")),
        ("sqlite://", None),
        ("postgresql://localhost/a", None),
    ],
)
def test_an_sqlite_address_names_a_file(url: str, file: Path | None) -> None:
    assert sqlite_file(url) == file

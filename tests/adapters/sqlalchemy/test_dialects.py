"""What differs between databases is in one value each, and no other module compares their names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from sqlalchemy import select
from sqlalchemy.dialects import postgresql, sqlite

import pilotage.adapters.sqlalchemy
from pilotage.adapters.sqlalchemy.columns import epoch_hour, lease_seconds_from_now, now, seconds_from_now

HOUSE = Path(pilotage.adapters.sqlalchemy.__file__).parent
OWN_MODULES = {"sqlite.py", "postgresql.py"}


def test_no_other_module_compares_the_names_of_databases() -> None:
    compared = re.compile(r"""(==|!=|\bin\b|startswith\()\s*[\[({]*["'](sqlite|postgresql|postgres)["']""")
    modules = [path for path in HOUSE.glob("*.py") if path.name not in {*OWN_MODULES, "settings.py"}]
    assert [path.name for path in modules if compared.search(path.read_text())] == []


@pytest.mark.parametrize(
    ("expression", "on_sqlite", "on_postgresql"),
    [
        (now(), "clock_timestamp()", "clock_timestamp()"),
        (
            seconds_from_now(30),
            "(clock_timestamp() + CAST(30 * 1000000 AS INTEGER))",
            "(clock_timestamp() + make_interval(secs => 30))",
        ),
        (
            lease_seconds_from_now(30),
            "(boot_timestamp() + CAST(30 * 1000000 AS INTEGER))",
            "(clock_timestamp() + make_interval(secs => 30))",
        ),
        (
            epoch_hour(now()),
            "(clock_timestamp() / 3600000000)",
            "CAST(floor(extract(epoch FROM clock_timestamp()) / 3600) AS BIGINT)",
        ),
    ],
)
def test_the_sql_of_clocks(expression: object, on_sqlite: str, on_postgresql: str) -> None:
    for dialect, expected in ((sqlite.dialect(), on_sqlite), (postgresql.dialect(), on_postgresql)):
        text = select(expression).compile(dialect=dialect, compile_kwargs={"literal_binds": True})
        assert str(text).startswith(f"SELECT {expected} ")

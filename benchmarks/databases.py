"""Databases for benchmarks, each used by nobody else: a file, and a schema of a server where there is one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import uuid4

from pilotage.adapters.sqlalchemy import DatabaseSettings

POSTGRESQL = os.environ.get("PILOTAGE_BENCHMARK_POSTGRESQL", "postgresql://127.0.0.1:5432/test")


@contextmanager
def databases(folder: Path) -> Iterator[dict[str, DatabaseSettings]]:
    """Give the settings of each kind of database by its name."""
    file = f"sqlite:///{folder / 'runs.db'}"
    known = {"SQLite": DatabaseSettings(file, may_lose_commits_on_power_failure=True)}
    with ExitStack() as stack:
        if (url := stack.enter_context(_schema())) is not None:
            known["PostgreSQL"] = DatabaseSettings(url)
        yield known


@contextmanager
def _schema() -> Iterator[str | None]:
    """Give the URL of a new schema; None where there is no driver, or no server."""
    try:
        from psycopg import OperationalError, connect, sql
    except ImportError:
        yield None
        return
    try:
        server = connect(POSTGRESQL, autocommit=True)
    except OperationalError:
        yield None
        return
    name = f"pilotage_benchmark_{uuid4().hex[:8]}"
    with server:
        server.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))
        try:
            yield f"{POSTGRESQL}?options=-csearch_path%3D{name}"
        finally:
            server.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(name)))

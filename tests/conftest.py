"""What all tests share: random tests explore anew on every run, except where a run must be repeatable; databases."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, settings

from pilotage.adapters.sqlalchemy.settings import DatabaseSettings
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from tests.adapters.sqlalchemy.databases import (
    BACKENDS,
    SCHEMA,
    ClockOfFile,
    empty,
    need_server,
    opened,
    postgresql_settings,
    put_forward,
    schema_named,
    sqlite_settings,
)
from tests.attack.tally import KIND, tally_of, write
from tests.random_tests import THOROUGH

# How fast examples are made says something about the machine, not about the test.
_PATIENT = [HealthCheck.too_slow]
settings.register_profile("explore", deadline=None, print_blob=True, suppress_health_check=_PATIENT)
settings.register_profile(
    "repeatable", deadline=None, print_blob=True, derandomize=True, suppress_health_check=_PATIENT
)
settings.register_profile(
    "thorough", deadline=None, print_blob=True, suppress_health_check=_PATIENT, max_examples=THOROUGH
)
settings.load_profile("repeatable" if os.environ.get("CI") else "explore")

_OF_DATABASES = {"database_settings", "postgresql_schema", "sqlite_template"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--memory", action="store_true", help="leave out the tests that need a database or are slow"
    )
    parser.addoption(
        "--exhaustive",
        action="store_true",
        help="try everything, as make torture and make attack do, not a sample",
    )
    parser.addoption(
        "--attacks", type=Path, help="write the counts of attacks of a complete run into this file"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--exhaustive"):
        settings.load_profile("thorough")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect the tests without the garbage collector, and freeze what collecting made.

    Half a million objects live as long as the process. Without the freeze every full collection visits all of them:
    half a second for each one that a test asks for.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if (attack := item.get_closest_marker("attack")) is not None:
            item.user_properties.append((KIND, attack.args[0]))
    if config.getoption("--memory"):
        left_out = [item for item in items if _needs_more_than_memory(item)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not _needs_more_than_memory(item)]
    if not config.getoption("--exhaustive"):
        left_out = {each.nodeid: each for each in items if each.get_closest_marker("exhaustive") is not None}
        left_out |= _left_out_of_samples(items)
        config.hook.pytest_deselected(items=list(left_out.values()))
        items[:] = [item for item in items if item.nodeid not in left_out]
    items[:] = _slow_first(items, config)


def _left_out_of_samples(items: list[pytest.Item]) -> dict[str, pytest.Item]:
    """Return the items that are not drawn, of all whose test is marked `sample`; the same ones in every process."""
    sampled = dict[str, list[pytest.Item]]()
    for item in items:
        if item.get_closest_marker("sample") is not None:
            sampled.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left_out = dict[str, pytest.Item]()
    for name, every in sampled.items():
        mark = every[0].get_closest_marker("sample")
        number = min(mark.args[0] if mark is not None else 0, len(every))
        drawn = {item.nodeid for item in Random(name).sample(every, number)}  # noqa: S311 - a repeatable draw
        left_out |= {item.nodeid: item for item in every if item.nodeid not in drawn}
    return left_out


def _slow_first(items: list[pytest.Item], config: pytest.Config) -> list[pytest.Item]:
    """Put the slow tests of each worker's share first: a long test that begins last leaves the other cores idle.

    A share is what `--dist worksteal` gives a worker to begin with; what others take over later is its end.
    """
    shares = int(getattr(config, "workerinput", {}).get("workercount", 1))
    rest, found = len(items), list[pytest.Item]()
    for left in range(shares, 0, -1):
        begin, rest = len(items) - rest, rest - rest // left
        share = items[begin : len(items) - rest]
        found += sorted(share, key=lambda item: item.get_closest_marker("slow") is None)
    return found


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    """Print how many attacks of each kind were tried, and how many held."""
    ran = [each for outcome in ("passed", "failed", "error") for each in terminalreporter.getreports(outcome)]
    kinds = tally_of(ran)
    for kind, each in kinds.items():
        terminalreporter.line(f"attack: {kind}: {each.tried} tried, {each.held} held, {each.broken} broken")
    file: Path | None = config.getoption("--attacks")
    if file is None or hasattr(config, "workerinput"):
        return  # a worker has the counts of its own share only
    is_complete = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    if is_complete and not tally_of(terminalreporter.getreports("skipped")):
        write(file, kinds)
    else:
        terminalreporter.line(f"{file} is as it was: not every attack was tried")


def _needs_more_than_memory(item: pytest.Item) -> bool:
    names: list[str] = getattr(item, "fixturenames", [])
    return not _OF_DATABASES.isdisjoint(names) or item.get_closest_marker("slow") is not None


@pytest.fixture(scope="session")
def exhaustive(pytestconfig: pytest.Config) -> bool:
    """Whether every second crash is tried. The first one is tried at every commit in any case."""
    return bool(pytestconfig.getoption("--exhaustive"))


@pytest.fixture
def second_stops(request: pytest.FixtureRequest, exhaustive: bool) -> tuple[int, ...]:
    """The commits of a recovering process at which it dies too: one of three, drawn for each test by its name.

    `make torture` tries all of them.
    """
    every = (1, 2, 3)
    return every if exhaustive else (Random(request.node.nodeid).choice(every),)  # noqa: S311 - a repeatable draw


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with an SQLite file whose tables are empty."""
    path = tmp_path_factory.mktemp("template")
    with opened(sqlite_settings(path)):
        return path


@pytest.fixture(scope="session")
def postgresql_schema() -> Iterator[SqlAlchemyStore]:
    """A schema for this process, with all tables."""
    need_server()
    with schema_named(SCHEMA), opened(postgresql_settings()) as store:
        yield store


@pytest.fixture
def sqlite_database(sqlite_template: Path, tmp_path: Path) -> DatabaseSettings:
    """An SQLite file for one test."""
    shutil.copytree(sqlite_template, tmp_path, dirs_exist_ok=True)
    return sqlite_settings(tmp_path)


@pytest.fixture
def forced_sqlite_database(sqlite_database: DatabaseSettings) -> DatabaseSettings:
    """An SQLite file as it is without a setting: a thread writes, and every commit is forced to the disk."""
    return DatabaseSettings(sqlite_database.url)


@pytest.fixture
def postgresql_database(postgresql_schema: SqlAlchemyStore) -> DatabaseSettings:
    """Empty tables on the server."""
    empty(postgresql_schema)
    return postgresql_schema.database.settings


@pytest.fixture(params=[*BACKENDS, "forced_sqlite"])
def database_settings(request: pytest.FixtureRequest) -> DatabaseSettings:
    """An empty database of each kind."""
    found: DatabaseSettings = request.getfixturevalue(f"{request.param}_database")
    return found


@pytest.fixture
def clock_of_file() -> ClockOfFile:
    """The clock of the SQLite file of a test."""
    return ClockOfFile()


@pytest.fixture
def open_store(
    database_settings: DatabaseSettings, clock_of_file: ClockOfFile
) -> Iterator[Callable[[], SqlAlchemyStore]]:
    """Opens the database, once for each process that a test is about."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(opened(database_settings, clock_of_file))


@pytest.fixture
def store(open_store: Callable[[], SqlAlchemyStore]) -> SqlAlchemyStore:
    """A store over an empty database."""
    return open_store()


@pytest.fixture
def let_time_pass(store: SqlAlchemyStore, clock_of_file: ClockOfFile) -> Callable[[float], Awaitable[None]]:
    """Puts the clock of the store forward."""

    async def pass_time(seconds: float) -> None:
        if store.database.dialect.name == "sqlite":
            clock_of_file.ahead += timedelta(seconds=seconds)
        else:
            put_forward(store, seconds)

    return pass_time


@pytest.fixture
def set_time_of_day(store: SqlAlchemyStore, clock_of_file: ClockOfFile) -> Callable[[float], Awaitable[None]]:
    """Sets the time of day of the store's machine forward or back, while no time passes."""

    async def set_clock(seconds: float) -> None:
        if store.database.dialect.name == "sqlite":
            clock_of_file.set_by += timedelta(seconds=seconds)
        else:
            put_forward(store, seconds)

    return set_clock


@pytest.fixture
def second_store(open_store: Callable[[], SqlAlchemyStore], store: SqlAlchemyStore) -> SqlAlchemyStore:
    """The same database as a second process has it."""
    return open_store()

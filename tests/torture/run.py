"""`make torture`: kills real processes over real databases, and prints what it found.

`python -m tests.torture.run [sqlite | postgresql | outages] ...` runs some of it. It ends with 1 where anything was lost or done
twice.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from tests.adapters.sqlalchemy.private_server import PrivateServer, private_server, why_none
from tests.torture.rig import Disturbance, Findings, Rig, served
from tests.torture.ward import poisoned

POSTGRESQL = os.environ.get("PILOTAGE_TEST_POSTGRES", "postgresql://postgres@127.0.0.1:5432/test")
_LONG = 900.0


async def every_moment(folder: Path, database: str, most: int = 200, step: int = 1) -> Findings:
    """A process that is killed at its first moment, one at its second, and so on, each by itself; another finishes."""
    total = Findings()
    for moment in range(1, most, step):
        place = folder / f"moment-{moment}"
        place.mkdir()
        rig = Rig(place, database, [f"moment{uuid4().hex[:8]}-{4 * moment}"])
        try:
            mortal = rig.start_worker(last_moment=moment)
            findings = await served(rig, _LONG, heir_of=mortal)
            _add(total, findings)
            if not findings.kills:
                return total
        finally:
            rig.close()
    return total


async def at_random(folder: Path, database: str, count: int = 100, every: float = 0.8) -> Findings:
    """Three workers, of which one is killed every now and then."""
    return await _disturbed(folder, database, count, every, Rig.kill_one)


async def rolling(folder: Path, database: str, count: int = 200, every: float = 0.8) -> Findings:
    """Three workers that are stopped in good order, one after the other, again and again."""
    return await _disturbed(folder, database, count, every, Rig.restart_one)


async def outages(folder: Path, server: PrivateServer, count: int = 200, every: float = 1.5) -> Findings:
    """Three workers whose server is restarted again and again, in good order or not, or ends all its sessions."""
    ways = cycle(
        (server.cut_connections, partial(server.restart, "fast"), partial(server.restart, "immediate"))
    )

    async def strike(rig: Rig) -> None:
        await asyncio.to_thread(next(ways))
        rig.findings.outages += 1

    return await _disturbed(folder, server.url, count, every, strike)


async def _disturbed(
    folder: Path, database: str, count: int, every: float, disturbance: Disturbance
) -> Findings:
    rig = Rig(folder, database, _fresh(count), seed=int(time.time()))
    try:
        for _ in range(3):
            rig.start_worker()
        return await served(rig, _LONG, every, disturbance=disturbance)
    finally:
        rig.close()


def _fresh(count: int) -> list[str]:
    """Orders that no earlier scenario has had; each fourth one needs a person's word."""
    mark = uuid4().hex[:6]
    return [f"{mark}-{number}" for number in range(count)]


def _add(total: Findings, more: Findings) -> None:
    for name, found in vars(more).items():
        setattr(total, name, getattr(total, name) + found)


@contextmanager
def database_of(kind: str, folder: Path) -> Iterator[str]:
    """A database of its own."""
    if kind == "sqlite":
        yield f"sqlite:///{folder / 'shop.db'}"
        return
    import psycopg

    schema = f"torture_{uuid4().hex[:8]}"
    with psycopg.connect(POSTGRESQL, autocommit=True) as connection:
        connection.execute(f'CREATE SCHEMA "{schema}"')  # type: ignore[arg-type]
        try:
            yield f"{POSTGRESQL}?options=-csearch_path%3D{schema}"
        finally:
            connection.execute(f'DROP SCHEMA "{schema}" CASCADE')  # type: ignore[arg-type]


Scenario = Callable[[Path, str], Awaitable[Findings]]
SCENARIOS: tuple[Scenario, ...] = (every_moment, at_random, rolling, poisoned)
KINDS = ("sqlite", "postgresql", "outages")


def main(kinds: list[str]) -> int:
    """Run all scenarios on each kind of database; whether anything was lost, as programs say it."""
    is_clean = True
    for kind in kinds or KINDS:
        for name, findings in _outages() if kind == "outages" else _killings(kind):
            is_clean = is_clean and findings.is_clean
            print(f"{name}: {findings}", flush=True)
    return 0 if is_clean else 1


def _killings(kind: str) -> Iterator[tuple[str, Findings]]:
    for scenario in SCENARIOS:
        with TemporaryDirectory() as name, database_of(kind, Path(name)) as database:
            yield f"{kind}, {scenario.__name__}", asyncio.run(_found(scenario(Path(name), database)))


def _outages() -> Iterator[tuple[str, Findings]]:
    if (reason := why_none()) is not None:
        print(f"outages: left out, {reason}")
        return
    with TemporaryDirectory() as name, private_server() as server:
        yield "postgresql, outages", asyncio.run(_found(outages(Path(name), server)))


async def _found(findings: Awaitable[Findings]) -> Findings:
    return await findings


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

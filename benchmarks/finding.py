"""What a worker's claim takes when nothing is to be found, by the number of open runs: most wait, some are driven."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.databases import databases
from benchmarks.timing import FULL, WALL, Effort, medians, repeated
from tests.adapters.sqlalchemy.crowd import AGENT, crowd

from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore

OPEN = (100, 10_000, 100_000)
_LIMIT, _SECONDS = 200, 30.0


def measure(effort: Effort = FULL) -> dict[str, float]:
    """Milliseconds of a claim, the server's time included."""
    return asyncio.run(_measure(effort))


async def _measure(effort: Effort) -> dict[str, float]:
    figures: dict[str, float] = {}
    for count in OPEN if effort is FULL else OPEN[:1]:
        with TemporaryDirectory() as folder, databases(Path(folder)) as known:
            for where, settings in known.items():
                with SqlAlchemyStore.open(settings) as store:
                    crowd(store, waiting=count - count // 10, driven=count // 10)

                    async def claim(store: SqlAlchemyStore = store) -> None:
                        await store.backlog.claim("nobody", _SECONDS, _LIMIT, agents=[AGENT])

                    # A round of pages: the first claims of a new process begin at the first page of each.
                    found = await medians({"": repeated(claim, effort.times(100), WALL)}, effort.rounds)
                figures[f"a claim among {count:,} open runs on {where}, ms"] = found[""] * 1e3
    return figures

"""`make soak`: works for an hour on each database at once, and prints what has grown.

`python -m tests.soak.run [--seconds 3600] [--percent 5] [sqlite | postgresql] ...` ends with 1 where memory, threads, descriptors
or the processor time of a round are higher in the last tenth of the time than in the first by more than so many per cent.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import floor

from pilotage.adapters.sqlalchemy import DatabaseSettings
from tests.soak.gauge import Sample, changes, grown, sample
from tests.soak.work import Work, work_over
from tests.torture.run import database_of

KINDS = ("sqlite", "postgresql")
ROUNDS = 10
"""Rounds between two samples."""
FLOORS = 300
"""Runs of the floor that a round is compared with."""
AT_ONCE = 8
"""Rounds beside each other, once, before anything is measured."""
WARM_UP = 0.1
"""The share of the time before the first sample that counts: caches are filled, and arenas of memory made."""


async def soaked(work: Work, is_over: Callable[[], bool], rounds: int = ROUNDS) -> list[Sample]:
    """Work until it is over, and look at the process after every so many rounds."""
    samples: list[Sample] = []
    while not is_over():
        before = await _floor()
        began = time.process_time()
        for _ in range(rounds):
            await work.round()
        took = (time.process_time() - began) / rounds
        # The machine is the same for both: what else goes on there makes both slower.
        samples.append(sample(2 * took / (before + await _floor())))
    return samples


async def _floor() -> float:
    began = time.process_time()
    for _ in range(FLOORS):
        await floor.run(1)
    return (time.process_time() - began) / FLOORS


async def _for_seconds(database: str, seconds: float) -> list[Sample]:
    async with work_over(DatabaseSettings(database)) as work:
        # Threads and connections are made when they are needed: here as many as ever will be.
        await asyncio.gather(*(work.round() for _ in range(AT_ONCE)))
        for share in (WARM_UP, 1.0):
            ends = time.monotonic() + seconds * share
            samples = await soaked(work, lambda ends=ends: time.monotonic() > ends)
    return samples


def soak(kind: str, seconds: float, percent: float) -> bool:
    """Soak one database in this process, print the figures, and return whether all are flat."""
    with TemporaryDirectory() as folder, database_of(kind, Path(folder)) as database:
        samples = asyncio.run(_for_seconds(database, seconds))
    found = changes(samples)
    too_much = grown(found, percent)
    lines = [f"{kind}: {len(samples) * ROUNDS:,} rounds", *map(str, found)]
    lines += [f"{each.name} has grown by more than {percent:g} %" for each in too_much]
    print("\n  ".join(lines), flush=True)
    return not too_much


def main(given: Sequence[str]) -> int:
    """Soak what is named, both databases by default, each in a process of its own."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.run")
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--percent", type=float, default=5)
    parser.add_argument("kinds", nargs="*", metavar="sqlite | postgresql")
    options = parser.parse_args(given)
    if unknown := set(options.kinds).difference(KINDS):
        parser.error(f"no database: {', '.join(sorted(unknown))}. There are: {', '.join(KINDS)}")
    seconds, percent = options.seconds, options.percent
    if len(options.kinds) == 1:
        return 0 if soak(options.kinds[0], seconds, percent) else 1
    command = [sys.executable, "-m", "tests.soak.run", f"--seconds={seconds}", f"--percent={percent}"]
    processes = [subprocess.Popen([*command, kind]) for kind in options.kinds or KINDS]
    return max([process.wait() for process in processes])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The soak finds what is planted, and nothing where nothing is: some rounds of it, over an SQLite file."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from benchmarks import floor

from pilotage.adapters.sqlalchemy import DatabaseSettings
from tests.soak.gauge import TENTHS, Sample, changes, grown
from tests.soak.run import soaked
from tests.soak.work import Work, work_over


def after(samples: int) -> Iterator[bool]:
    """Say so many times that it is not over."""
    yield from [False] * samples
    yield True


async def soaked_work(folder: Path, kind: type[Work] = Work) -> list[Sample]:
    async with work_over(DatabaseSettings(f"sqlite:///{folder / 'soak.db'}"), kind) as work:
        await soaked(work, after(2).__next__, rounds=1)
        return await soaked(work, after(TENTHS).__next__, rounds=1)


@pytest.mark.slow
async def test_a_process_that_keeps_nothing_holds_as_much_at_the_end_as_at_the_beginning(
    tmp_path: Path,
) -> None:
    found = {each.name: each for each in changes(await soaked_work(tmp_path))}
    assert found["blocks"].percent < 1
    # Reading threads and their connections are made when they are needed; what a round leaves is there nine times.
    assert found["threads"].last - found["threads"].first < TENTHS - 1
    assert found["descriptors"].last - found["descriptors"].first < TENTHS - 1


class Leaking(Work):
    """Keeps objects, a file and a thread of every round, and takes longer with every round."""

    def __init__(self, *parts: object) -> None:
        super().__init__(*parts)  # type: ignore[arg-type]
        self.over = threading.Event()
        self._kept: list[object] = []
        self._files: list[int] = []
        self._rounds = count(1)

    async def round(self) -> None:
        await super().round()
        self._kept.append([object() for _ in range(sys.getallocatedblocks() // 50)])
        self._files.append(os.open(os.devnull, os.O_RDONLY))
        thread = threading.Thread(target=self.over.wait, daemon=True)
        thread.start()
        for _ in range(500 * next(self._rounds)):
            await floor.run(1)

    def close(self) -> None:
        """Let go of it."""
        self.over.set()
        for each in self._files:
            os.close(each)


@pytest.mark.slow
async def test_what_a_process_keeps_of_every_round_is_found(tmp_path: Path) -> None:
    made: list[Leaking] = []

    class Planted(Leaking):
        def __init__(self, *parts: object) -> None:
            super().__init__(*parts)
            made.append(self)

    try:
        found = grown(changes(await soaked_work(tmp_path, Planted)), percent=5)
    finally:
        for each in made:
            each.close()
    assert {"blocks", "threads", "descriptors", "effort"} <= {each.name for each in found}


def test_only_what_is_higher_at_the_end_has_grown() -> None:
    flat = [Sample(100, 100, 4, 10, 1)] * 18
    found = changes([Sample(100, 120, 4, 10, 2), *flat, Sample(106, 100, 4, 10, 1)])
    assert [round(each.percent) for each in found] == [3, -9, 0, 0, -33]
    assert not grown(found, percent=5)
    found = changes([*flat, *[Sample(106, 100, 5, 10, 1)] * 2])
    assert [each.name for each in grown(found, percent=5)] == ["kilobytes", "threads"]


def test_too_few_samples_are_no_soak() -> None:
    with pytest.raises(ValueError, match="let it run for longer"):
        changes([Sample(1, 1, 1, 1, 1)] * (TENTHS - 1))

"""What a process holds and what a round of its work takes, and whether either grows."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from statistics import median

TENTHS = 10


@dataclass(frozen=True)
class Sample:
    """One look at the process. `effort` is the processor time of a round, in floors of the same moment."""

    kilobytes: float
    blocks: float
    threads: float
    descriptors: float
    effort: float


@dataclass(frozen=True)
class Change:
    """A figure at the beginning and at the end: the medians of the first and of the last tenth of all samples."""

    name: str
    first: float
    last: float

    @property
    def percent(self) -> float:
        """How much more it is at the end; below zero where it is less."""
        return 100 * (self.last - self.first) / self.first

    def __str__(self) -> str:
        return f"{self.name:12} {self.first:14,.1f} {self.last:14,.1f} {self.percent:+8.2f} %"


def sample(effort: float) -> Sample:
    """Look at this process, after a collection: what only waits for the collector does not count."""
    gc.collect()
    return Sample(
        kilobytes=_resident(),
        blocks=sys.getallocatedblocks(),
        threads=threading.active_count(),
        descriptors=sum(1 for _ in Path("/proc/self/fd").iterdir()),
        effort=effort,
    )


def _resident() -> int:
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))


def changes(samples: Sequence[Sample]) -> list[Change]:
    """Compare the last tenth of the samples with the first."""
    if len(samples) < TENTHS:
        raise ValueError(f"{len(samples)} samples have no tenth: let it run for longer")
    tenth = len(samples) // TENTHS
    first, last = _medians(samples[:tenth]), _medians(samples[-tenth:])
    names = [each.name for each in fields(Sample)]
    return [Change(*figures) for figures in zip(names, first, last, strict=True)]


def _medians(samples: Sequence[Sample]) -> list[float]:
    return [median(column) for column in zip(*map(astuple, samples), strict=True)]


def grown(found: Sequence[Change], percent: float) -> list[Change]:
    """Return the figures that are higher at the end by more than so many per cent."""
    return [each for each in found if each.percent > percent]

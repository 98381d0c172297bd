"""The start-up report: how long each phase took, what was loaded, what was skipped and why."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pilotage.values import value


@value
class Phase:
    """One phase of start-up and the time it took."""

    name: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.name:<14}{self.seconds * 1000:>9.1f} ms"


@value
class Skipped:
    """A plugin or contribution that was not loaded, and why."""

    name: str
    reason: str

    def __str__(self) -> str:
        return f"skipped  {self.name}: {self.reason}"


@dataclass(slots=True)
class StartupReport:
    """What happened while an application was put together and started; print it."""

    application: str
    pods: int = 0
    phases: list[Phase] = field(default_factory=list[Phase])
    loaded: list[str] = field(default_factory=list[str])
    skipped: list[Skipped] = field(default_factory=list[Skipped])

    @contextmanager
    def phase(self, name: str) -> Generator[None]:
        """Record the time a block takes, also if it fails."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.phases.append(Phase(name, time.perf_counter() - begin))

    @property
    def seconds(self) -> float:
        """The time all phases took together."""
        return sum(phase.seconds for phase in self.phases)

    def __str__(self) -> str:
        pods = "1 pod" if self.pods == 1 else f"{self.pods} pods"
        title = f"application {self.application!r}: {pods} in {self.seconds * 1000:.1f} ms"
        loaded = [f"loaded   {name}" for name in self.loaded]
        return "\n  ".join([title, *map(str, self.phases), *loaded, *map(str, self.skipped)])

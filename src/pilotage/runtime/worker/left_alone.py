"""The runs that a worker leaves alone for a while, because taking them up led nowhere. Pure."""

from __future__ import annotations

from pilotage.agent.ports.journal import RunKey
from pilotage.values import value

_FIRST_SECONDS = 1.0
_LONGEST_SECONDS = 300.0


@value
class _Rest:
    times: int
    until: float


class LeftAlone:
    """A run that could not be brought further rests, longer each time; one that could starts afresh."""

    def __init__(self) -> None:
        self._resting: dict[RunKey, _Rest] = {}

    def leave(self, run: RunKey, now: float) -> None:
        """Taking the run up led nowhere."""
        before = self._resting.get(run)
        times = before.times + 1 if before else 1
        seconds = min(_FIRST_SECONDS * 2.0 ** min(times - 1, 32), _LONGEST_SECONDS)
        self._resting[run] = _Rest(times, now + seconds)

    def forget(self, run: RunKey) -> None:
        """The run got further, or has nothing to do any more."""
        self._resting.pop(run, None)

    def at(self, now: float) -> frozenset[RunKey]:
        """The runs to leave alone at a time."""
        for run in [run for run, rest in self._resting.items() if rest.until + _LONGEST_SECONDS < now]:
            # Somebody else has got further with it, or it is long over.
            del self._resting[run]
        return frozenset(run for run, rest in self._resting.items() if rest.until > now)

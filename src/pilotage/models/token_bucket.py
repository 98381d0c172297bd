"""Tokens per minute as a bucket that fills up steadily. Pure: time comes in as a number."""

from __future__ import annotations

from dataclasses import replace

from pilotage.values import value

_MINUTE = 60.0


@value
class TokenBucket:
    """How many tokens may be used at once (`per_minute`, when it is full), how many there are, and when that was.

    Less than nothing is there where a call took more than was expected; then the next one waits longer.
    """

    per_minute: int
    level: float
    at: float

    @classmethod
    def full(cls, per_minute: int, now: float) -> TokenBucket:
        """A bucket from which nothing was taken yet."""
        return cls(per_minute, per_minute, now)

    def wait_for(self, tokens: int, now: float) -> float:
        """The seconds until so many tokens are there; for more than it ever holds, until it is full."""
        wanted = min(tokens, self.per_minute)
        return max(0.0, (wanted - self._level_at(now)) * _MINUTE / self.per_minute)

    def without(self, tokens: int, now: float) -> TokenBucket:
        """The bucket after tokens were taken, whether they are there or not; a negative number gives some back."""
        return replace(self, level=min(self.per_minute, self._level_at(now) - tokens), at=now)

    def _level_at(self, now: float) -> float:
        filled = self.level + (now - self.at) * self.per_minute / _MINUTE
        return min(float(self.per_minute), filled)

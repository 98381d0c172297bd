"""How often a fact is tried, and how long it waits in between. Pure."""

from __future__ import annotations

from pilotage.checks import reject_not_positive
from pilotage.values import value


@value
class RelaySettings:
    """How facts are delivered; add one to the application to change it.

    A fact is tried `tries` times, with waits that double from `first_wait` to `longest_wait` seconds, and then parked.
    A receiver has `delivery_seconds` for one fact; so many facts are `concurrent`, each of another run. The outbox is
    looked at every `poll_seconds`, and at once when this process has committed something.
    """

    tries: int = 10
    first_wait: float = 1.0
    longest_wait: float = 300.0
    delivery_seconds: float = 30.0
    concurrent: int = 16
    poll_seconds: float = 2.0

    def __post_init__(self) -> None:
        reject_not_positive(
            self,
            tries=self.tries,
            first_wait=self.first_wait,
            longest_wait=self.longest_wait,
            delivery_seconds=self.delivery_seconds,
            concurrent=self.concurrent,
            poll_seconds=self.poll_seconds,
        )

    @property
    def claim_seconds(self) -> float:
        """How long a claim lasts: long enough for one fact after another, as long as they are quick."""
        return 2 * self.delivery_seconds

    def retry_in(self, failures: int) -> float | None:
        """How long a fact waits after so many failures; None when it has been tried often enough."""
        if failures >= self.tries:
            return None
        # Doubling is cut off before the number gets too large for a float.
        return min(self.first_wait * 2.0 ** min(failures - 1, 64), self.longest_wait)

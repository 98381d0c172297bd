"""How a worker works."""

from __future__ import annotations

from pilotage.checks import reject_negative, reject_not_positive
from pilotage.values import value


@value
class WorkerSettings:
    """Add one to an application, and it takes up runs that nobody drives while it is started.

    At most `concurrency` runs at once are taken up; those that somebody starts here come on top. The store is looked
    at every `poll_seconds`, and at once when a hint comes. When the application stops, runs have `grace_seconds` to
    finish their current action. `is_on` lets a process of an application with a worker go without it.
    """

    concurrency: int = 10
    poll_seconds: float = 2.0
    grace_seconds: float = 30.0
    is_on: bool = True

    def __post_init__(self) -> None:
        reject_not_positive(self, concurrency=self.concurrency, poll_seconds=self.poll_seconds)
        reject_negative(self, grace_seconds=self.grace_seconds)

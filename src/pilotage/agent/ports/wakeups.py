"""The wake-up port: hints that there is something to do for a run.

A hint says "look now", and nothing else. It may be lost, come late, come once for many, or come for nothing:
whoever listens looks into the store, and also does so slowly without any hint.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractAsyncContextManager

from pilotage.agent.ports.providers import persistence_port


class IWakeUpSubscription(ABC):
    """One listener's hints that it has not heard yet: each run at most once, and only so many runs."""

    @abstractmethod
    async def next(self) -> str:
        """The id of a run to look after; waits until there is one.

        Who is cancelled while waiting has missed nothing: the hint is there for the next call.
        """


@persistence_port
class IAgentWakeUps(ABC):
    """Passes hints from whoever changed something to all processes that listen.

    Every adapter guarantees: a listener that keeps up hears of a run soon after the hint, in whichever process it
    was given; a listener that does not keep up holds nobody up and costs bounded memory. Hints that do not fit are
    dropped. A channel that is down loses hints; it comes back by itself and raises neither here nor there.
    """

    @abstractmethod
    async def notify(self, run_id: str) -> None:
        """Hint at a run, after what it should look at is committed. Never waits for a listener."""

    @abstractmethod
    def subscribe(self) -> AbstractAsyncContextManager[IWakeUpSubscription]:
        """Listen for the length of the block; hints given before it begins are not heard."""

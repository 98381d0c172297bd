"""A desk that hears of everything: subscribers for stories about facts, in an office whose outbox is read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from pilotage import Pod
from pilotage.agent import AgentFact, on_event
from pilotage.testing import VirtualClock


@Pod
class Newsdesk:
    """Takes every fact, unless it is told to refuse some; what it is told, it notes first."""

    def __init__(self) -> None:
        self.heard: list[AgentFact] = []
        self.refuses: Callable[[AgentFact], bool] = lambda _: False
        self.news = asyncio.Event()

    @on_event(AgentFact)
    async def take(self, fact: AgentFact) -> None:
        """Note a fact, or refuse it."""
        self.heard.append(fact)
        self.news.set()
        if self.refuses(fact):
            raise ValueError("not today")

    @property
    def names(self) -> list[str]:
        """The types of what was heard."""
        return [type(fact).__name__ for fact in self.heard]


async def let_run(turns: int = 50) -> None:
    """Give everybody else so many turns."""
    for _ in range(turns):
        await asyncio.sleep(0)


async def pass_time(clock: VirtualClock, seconds: float, step: float = 1.0) -> None:
    """Let time pass in small steps, with turns for everybody in between."""
    passed = 0.0
    while passed < seconds:
        clock.advance(step)
        passed += step
        await let_run()


def ids(facts: Sequence[AgentFact]) -> list[str]:
    """What facts are told apart by."""
    return [fact.id for fact in facts]

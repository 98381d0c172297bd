"""How often a fact is tried, and how long it waits in between. Pure."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from itertools import groupby

from pilotage.agent.fact_types import AgentFact, UnreadableFactError, read_fact
from pilotage.agent.on_event import Subscription
from pilotage.agent.ports.outbox import IAgentOutbox, OutboxEntry
from pilotage.agent.ports.publisher import IAgentEventPublisher
from pilotage.checks import reject_not_positive
from pilotage.container.graph import Graph
from pilotage.container.lifecycle import ILifecycle
from pilotage.container.node import Node
from pilotage.container.pod import Pod, Scope
from pilotage.container.processing import IPostProcessor
from pilotage.errors import AgentBootstrapError, AgentPersistenceConfigurationError, Problem
from pilotage.ids import IClock
from pilotage.runtime.delivery.receivers import Receiver, receivers_of, subscriptions_in
from pilotage.runtime.journal.commits import OutboxNotifier
from pilotage.runtime.runs import AgentRuns
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


_LONGEST_PROBLEM = 500
_MOST_REMEMBERED = 1000
_STUBBORN_SECONDS = 1.0
_log = logging.getLogger("pilotage.relay")


class OutboxRelay:
    """Delivers what is in an outbox to receivers, until it is stopped."""

    def __init__(
        self,
        outbox: IAgentOutbox,
        receivers: Sequence[Receiver],
        owner: str,
        clock: IClock,
        bell: OutboxNotifier,
        settings: RelaySettings,
    ) -> None:
        self._outbox = outbox
        self._receivers = receivers
        self._owner = owner
        self._clock = clock
        self._bell = bell
        self._settings = settings
        self._is_stopping = False
        self._lanes: set[asyncio.Task[None]] = set()
        self._relaying: asyncio.Task[None] | None = None
        # By fact, the receivers that have it while others are still being tried: they need not get it again.
        self._have: dict[str, frozenset[Receiver]] = {}

    def start(self) -> None:
        """Deliver from now on."""
        self._relaying = asyncio.create_task(self._relay(), name="relay of facts")

    async def stop(self) -> None:
        """Begin no more; return when what is being delivered has been, and the rest is given back."""
        self._is_stopping = True
        self._bell.ring()
        relaying, self._relaying = self._relaying, None
        if relaying is not None:
            await asyncio.wait([relaying])
            relaying.result()

    async def _relay(self) -> None:
        try:
            while not self._is_stopping:
                if not await self._take():
                    await self._bell.wait(self._clock, self._settings.poll_seconds)
        finally:
            if self._lanes:
                await asyncio.wait(self._lanes)

    async def _take(self) -> bool:
        """Claim as many facts as there are hands free and set out with them; False where there is nothing to do."""
        free = self._settings.concurrent - len(self._lanes)
        if free <= 0:
            return False
        asked = self._clock.monotonic()
        try:
            entries = await self._outbox.claim(self._owner, self._settings.claim_seconds, free)
        except Exception as error:  # noqa: BLE001 - a store that does not answer is asked again later
            _log.warning("the outbox cannot be read, and is tried again: %s", type(error).__name__)
            return False
        for _, of_run in groupby(entries, key=lambda entry: entry.run):
            lane = asyncio.create_task(self._carry(list(of_run), asked + self._settings.claim_seconds))
            self._lanes.add(lane)
            lane.add_done_callback(self._returned)
        return bool(entries)

    def _returned(self, lane: asyncio.Task[None]) -> None:
        _ = lane.cancelled() or lane.exception()
        self._lanes.discard(lane)
        self._bell.ring()

    async def _carry(self, entries: Sequence[OutboxEntry], claimed_until: float) -> None:
        """Deliver facts of one run, one after the other; what cannot be done within the claim is given back."""
        try:
            for entry in entries:
                if (
                    self._is_stopping
                    or self._clock.monotonic() + self._settings.delivery_seconds > claimed_until
                ):
                    await self._outbox.release(self._owner, entry.run)
                    return
                problem = await self._problem_with(entry)
                if problem is not None:
                    await self._put_off(entry, problem)
                    return
                await self._outbox.delivered(self._owner, [entry])
        except Exception as error:  # noqa: BLE001 - the claim runs out by itself, and the facts come again
            _log.warning("facts of run %s come again: %s", entries[0].run.run_id, type(error).__name__)

    async def _put_off(self, entry: OutboxEntry, problem: str) -> None:
        retry_in = self._settings.retry_in(entry.failures + 1)
        if retry_in is None:
            self._have.pop(entry.id, None)
            _log.error("fact %s (%s) is parked: %s", entry.id, entry.event.event_type, problem)
        await self._outbox.failed(self._owner, entry, problem, retry_in)

    async def _problem_with(self, entry: OutboxEntry) -> str | None:
        """Let everybody have the fact who wants it and does not have it; who did not take it and why, in words."""
        try:
            fact = read_fact(entry)
        except UnreadableFactError as error:
            return str(error)
        have = self._have.pop(entry.id, frozenset())
        waiting = [each for each in self._receivers if each.wants(fact) and each not in have]
        problems = await asyncio.gather(*(self._hand_over(each, fact) for each in waiting))
        failed = [problem for problem in problems if problem is not None]
        if not failed:
            return None
        took = {each for each, problem in zip(waiting, problems, strict=True) if problem is None}
        self._remember(entry, have | took)
        return "; ".join(failed)[:_LONGEST_PROBLEM]

    def _remember(self, entry: OutboxEntry, have: frozenset[Receiver]) -> None:
        """Note who has a fact; where somebody else delivers it in the end, the note is the first to be dropped."""
        self._have[entry.id] = have
        if len(self._have) > _MOST_REMEMBERED:
            del self._have[next(iter(self._have))]

    async def _hand_over(self, receiver: Receiver, fact: AgentFact) -> str | None:
        """Give the fact to one receiver; why it did not take it, in words."""
        seconds = self._settings.delivery_seconds
        task = asyncio.ensure_future(receiver.receive(fact))
        late = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait([task, late], return_when=asyncio.FIRST_COMPLETED)
            is_late = not task.done()
        finally:
            task.cancel()
            late.cancel()
            # Who does not let itself be stopped, as a thread, is not waited for.
            await asyncio.wait([task, late], timeout=_STUBBORN_SECONDS)
        if is_late:
            return f"{receiver.name} did not take it within {seconds:g} seconds"
        if task.cancelled():
            return f"{receiver.name} was cancelled from within"
        error = task.exception()
        return None if error is None else f"{receiver.name}: {type(error).__name__}: {error}"


LAST = 1_000_000
"""The order of pods that put others to work: they start when everything else has, and stop first."""


class EventSubscriptions(IPostProcessor):
    """Checks at start-up whoever wants to hear of facts."""

    @classmethod
    def check(cls, graph: Graph) -> Iterable[Problem]:
        """Methods that cannot be called with a fact, pods that are not there when one comes, nothing to hear from."""
        found = graph.derive(subscriptions_in)
        for node, subscription in found:
            if found_wrong := subscription.problem() or _short_lived(node, subscription):
                yield Problem("event_subscription_wrong", *found_wrong, family=AgentBootstrapError)
        wanting = [each.name for _, each in found] + [
            node.label for node in graph.providers(IAgentEventPublisher)
        ]
        if wanting and not graph.contains(IAgentOutbox):
            yield Problem(
                "agent_outbox_missing",
                f"{', '.join(wanting)} wants to hear of facts about runs, and nothing provides IAgentOutbox.",
                remedy='Install the provider: pip install "pilotage[sqlalchemy]".',
                family=AgentPersistenceConfigurationError,
                detail=(IAgentOutbox,),
            )


def _short_lived(node: Node, subscription: Subscription) -> tuple[str, str] | None:
    if node.pod.scope is Scope.SINGLETON:
        return None
    words = f"{subscription.name} wants to hear of facts, and {node.label} lives in scope {node.pod.scope.value!r}"
    return f"{words}: nobody is there when one comes.", "Make it a singleton."


@Pod(order=LAST)
class AgentEventRelay(ILifecycle):
    """Delivers facts about runs to the subscribers and publishers of the application while it is started."""

    def __init__(self, runs: AgentRuns, settings: RelaySettings | None = None) -> None:
        self._services = runs.services
        self._settings = settings or RelaySettings()
        self._relay: OutboxRelay | None = None

    async def start(self) -> None:
        services = self._services
        # Whether there is an outbox is known without opening it: a store may be made on demand.
        receivers = receivers_of(services.app) if services.app.contains(IAgentOutbox) else ()
        if not receivers or services.outbox is None:
            return
        self._relay = OutboxRelay(
            services.outbox, receivers, services.owner, services.clock, services.bell, self._settings
        )
        self._relay.start()

    async def stop(self) -> None:
        if self._relay is not None:
            await self._relay.stop()

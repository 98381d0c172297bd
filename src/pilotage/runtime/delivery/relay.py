"""The outbox relay: delivers facts to their receivers with retries; the checks of subscriptions at start-up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from itertools import groupby

from pilotage.agent.facts import AgentFact, IAgentEventPublisher, UnreadableFactError, read_fact
from pilotage.agent.handlers import FactSubscription, subscriptions_of
from pilotage.agent.ports.outbox import IAgentOutbox, OutboxEntry
from pilotage.checks import reject_not_positive
from pilotage.container.application import Application
from pilotage.container.graph import Graph, Node
from pilotage.container.lifecycle import ILifecycle
from pilotage.container.names import target_name
from pilotage.container.pod import Pod, Scope
from pilotage.container.processing import IPostProcessor
from pilotage.errors import AgentBootstrapError, AgentPersistenceConfigurationError, Problem, error_words
from pilotage.ids import IClock
from pilotage.runtime.exposure.redactor import Redactor, public_text
from pilotage.runtime.journal.commits import OutboxNotifier
from pilotage.runtime.runs import AgentRuns
from pilotage.values import value


@value
class Receiver:
    """A callable that gets the facts of some classes."""

    name: str
    facts: tuple[type[AgentFact], ...]
    receive: Callable[[AgentFact], Awaitable[object]]

    def wants(self, fact: AgentFact) -> bool:
        """Return whether the fact is for this receiver."""
        return isinstance(fact, self.facts)


def subscriptions_in(graph: Graph) -> tuple[tuple[Node, FactSubscription], ...]:
    """Return the methods of pods that subscribe to facts; for `Graph.derive`."""
    readable = (node for node in graph.nodes if node not in graph.unreadable)
    return tuple((node, each) for node in readable for each in subscriptions_of(node.pod.type_))


def receivers_of(app: Application) -> list[Receiver]:
    """Return all subscribers and publishers of a started application."""
    subscribers = [_subscriber(app, *each) for each in app.graph.derive(subscriptions_in)]
    publishers = app.get_all(IAgentEventPublisher)
    return [*subscribers, *(Receiver(target_name(each), (AgentFact,), each.publish) for each in publishers)]


def _subscriber(app: Application, node: Node, subscription: FactSubscription) -> Receiver:
    method: Callable[[AgentFact], object] = getattr(app.get(node.pod.type_, node.name), subscription.method)
    return Receiver(subscription.name, subscription.facts, _called(method))


def _called(method: Callable[[AgentFact], object]) -> Callable[[AgentFact], Awaitable[object]]:
    """Return the method as an async callable; a sync one runs in a thread, so that it does not block the loop."""
    if iscoroutinefunction(method):
        return method
    return partial(_in_thread, method)


async def _in_thread(method: Callable[[AgentFact], object], fact: AgentFact) -> None:
    result = await asyncio.to_thread(method, fact)
    # A decorator may hide that the method is async.
    if isawaitable(result):
        await result


@value
class RelaySettings:
    """Settings of the delivery of facts; add one to the application to change them.

    A fact is tried `tries` times, with a retry delay that doubles from `first_wait` to `longest_wait` seconds, and then
    parked. A receiver has `delivery_seconds` for one fact; so many facts are `concurrent`, each of another run. The
    outbox is polled every `poll_seconds`, and at once when this process has committed facts.
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
        """Return the duration of a claim: long enough for several quick deliveries of one run."""
        return 2 * self.delivery_seconds

    def retry_in(self, failures: int) -> float | None:
        """Return the retry delay after so many failures; None when the tries are used up."""
        if failures >= self.tries:
            return None
        # The exponent is bounded: larger numbers do not fit a float.
        return min(self.first_wait * 2.0 ** min(failures - 1, 64), self.longest_wait)


_LONGEST_PROBLEM = 500
_MOST_REMEMBERED = 1000
_CANCEL_SECONDS = 1.0
_PLAIN = Redactor()
"""Facts hold no secrets of runs."""
_log = logging.getLogger("pilotage.relay")


class OutboxRelay:
    """Delivers the facts of an outbox to receivers until it is stopped."""

    def __init__(
        self,
        outbox: IAgentOutbox,
        receivers: Sequence[Receiver],
        *,
        owner: str,
        clock: IClock,
        notifier: OutboxNotifier,
        settings: RelaySettings,
    ) -> None:
        self._outbox = outbox
        self._receivers = receivers
        self._owner = owner
        self._clock = clock
        self._notifier = notifier
        self._settings = settings
        self._is_stopping = False
        self._deliveries: set[asyncio.Task[None]] = set()
        self._relaying: asyncio.Task[None] | None = None
        # By fact, the receivers that have taken it while others failed: a retry leaves them out.
        self._delivered: dict[str, frozenset[Receiver]] = {}

    def start(self) -> None:
        """Start to deliver."""
        self._relaying = asyncio.create_task(self._relay(), name="outbox relay")

    async def stop(self) -> None:
        """Stop after the deliveries under way, and release all other claimed facts."""
        self._is_stopping = True
        self._notifier.notify()
        relaying, self._relaying = self._relaying, None
        if relaying is not None:
            await asyncio.wait([relaying])
            relaying.result()

    async def _relay(self) -> None:
        try:
            while not self._is_stopping:
                if not await self._take():
                    await self._notifier.wait(self._clock, self._settings.poll_seconds)
        finally:
            if self._deliveries:
                await asyncio.wait(self._deliveries)

    async def _take(self) -> bool:
        """Claim as many facts as there are free places and deliver them; False where there is nothing to do."""
        free = self._settings.concurrent - len(self._deliveries)
        if free <= 0:
            return False
        asked = self._clock.monotonic()
        try:
            entries = await self._outbox.claim(self._owner, self._settings.claim_seconds, free)
        except Exception as error:  # noqa: BLE001 - a store that does not answer is asked again later
            _log.warning("the outbox cannot be read, and is tried again: %s", error_words(error))
            return False
        for _, of_run in groupby(entries, key=lambda entry: entry.run):
            delivery = asyncio.create_task(self._deliver(list(of_run), asked + self._settings.claim_seconds))
            self._deliveries.add(delivery)
            delivery.add_done_callback(self._finished)
        return bool(entries)

    def _finished(self, delivery: asyncio.Task[None]) -> None:
        _ = delivery.cancelled() or delivery.exception()
        self._deliveries.discard(delivery)
        self._notifier.notify()

    async def _deliver(self, entries: Sequence[OutboxEntry], claimed_until: float) -> None:
        """Deliver facts of one run in order; those that do not fit into the claim are released."""
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
                    await self._retry_later(entry, problem)
                    return
                await self._outbox.delivered(self._owner, [entry])
        except Exception as error:  # noqa: BLE001 - the claim runs out by itself, and the facts come again
            _log.warning("facts of run %s come again: %s", entries[0].run.run_id, error_words(error))

    async def _retry_later(self, entry: OutboxEntry, problem: str) -> None:
        retry_in = self._settings.retry_in(entry.failures + 1)
        if retry_in is None:
            self._delivered.pop(entry.id, None)
            _log.error("fact %s (%s) is parked: %s", entry.id, entry.event.event_type, problem)
        await self._outbox.failed(self._owner, entry, problem, retry_in)

    async def _problem_with(self, entry: OutboxEntry) -> str | None:
        """Give a fact to all receivers that have not taken it yet; return why some failed, in words."""
        try:
            fact = read_fact(entry)
        except UnreadableFactError as error:
            return str(error)
        before = self._delivered.pop(entry.id, frozenset())
        waiting = [each for each in self._receivers if each.wants(fact) and each not in before]
        problems = await asyncio.gather(*(self._call(each, fact, entry) for each in waiting))
        failed = [problem for problem in problems if problem is not None]
        if not failed:
            return None
        took = {each for each, problem in zip(waiting, problems, strict=True) if problem is None}
        self._remember(entry, before | took)
        return "; ".join(failed)[:_LONGEST_PROBLEM]

    def _remember(self, entry: OutboxEntry, delivered: frozenset[Receiver]) -> None:
        """Remember the receivers that have taken a fact; another process may finish it, so the oldest are dropped."""
        self._delivered[entry.id] = delivered
        if len(self._delivered) > _MOST_REMEMBERED:
            del self._delivered[next(iter(self._delivered))]

    async def _call(self, receiver: Receiver, fact: AgentFact, entry: OutboxEntry) -> str | None:
        """Give a fact to one receiver; return why it failed, in words."""
        seconds = self._settings.delivery_seconds
        task = asyncio.ensure_future(receiver.receive(fact))
        late = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait([task, late], return_when=asyncio.FIRST_COMPLETED)
            is_late = not task.done()
        finally:
            task.cancel()
            late.cancel()
            # A receiver that cannot be cancelled, such as a thread, is not waited for.
            await asyncio.wait([task, late], timeout=_CANCEL_SECONDS)
        if is_late:
            return f"{receiver.name} did not take it within {seconds:g} seconds"
        if task.cancelled():
            return f"{receiver.name} was cancelled from within"
        error = task.exception()
        if error is None:
            return None
        place = f"fact {entry.id} at {receiver.name}"
        return f"{receiver.name}: {public_text(error, _PLAIN, run_id=entry.run.run_id, place=place)}"


LAST = 1_000_000
"""The order of pods that drive others: they start last and stop first."""


class EventSubscriptions(IPostProcessor):
    """Checks the subscriptions and publishers of an application at start-up."""

    @classmethod
    def check(cls, graph: Graph) -> Iterable[Problem]:
        """Report methods that cannot take a fact, pods with a shorter life than the application, a missing outbox."""
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
                f"{', '.join(wanting)} subscribes to facts about runs, and nothing provides IAgentOutbox.",
                remedy='Install the provider: pip install "pilotage[sqlalchemy]".',
                family=AgentPersistenceConfigurationError,
                detail=(IAgentOutbox,),
            )


def _short_lived(node: Node, subscription: FactSubscription) -> tuple[str, str] | None:
    if node.pod.scope is Scope.SINGLETON:
        return None
    words = (
        f"{subscription.name} subscribes to facts, and {node.label} lives in scope {node.pod.scope.value!r}"
    )
    return f"{words}: there is no instance when one comes.", "Make it a singleton."


@Pod(order=LAST)
class AgentEventRelay(ILifecycle):
    """Delivers facts about runs to the subscribers and publishers of the application while it is started."""

    def __init__(self, runs: AgentRuns, settings: RelaySettings | None = None) -> None:
        self._services = runs.services
        self._settings = settings or RelaySettings()
        self._relay: OutboxRelay | None = None

    async def start(self) -> None:
        services = self._services
        # Checked without opening the outbox: a store may be created lazily.
        receivers = receivers_of(services.app) if services.app.contains(IAgentOutbox) else ()
        if not receivers or services.outbox is None:
            return
        self._relay = OutboxRelay(
            services.outbox,
            receivers,
            owner=services.owner,
            clock=services.clock,
            notifier=services.outbox_notifier,
            settings=self._settings,
        )
        self._relay.start()

    async def stop(self) -> None:
        if self._relay is not None:
            await self._relay.stop()

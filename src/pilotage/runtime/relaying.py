"""The relay of an application: there as soon as somebody in it wants to hear of facts about runs."""

from __future__ import annotations

from collections.abc import Iterable

from pilotage.agent.on_event import Subscription
from pilotage.agent.ports.outbox import IAgentOutbox
from pilotage.agent.ports.publisher import IAgentEventPublisher
from pilotage.container.graph import Graph
from pilotage.container.lifecycle import ILifecycle
from pilotage.container.node import Node
from pilotage.container.pod import Pod, Scope
from pilotage.container.processing import IPostProcessor
from pilotage.errors import AgentBootstrapError, AgentPersistenceConfigurationError, Problem
from pilotage.runtime.outbox.receivers import receivers_of, subscriptions_in
from pilotage.runtime.outbox.relay import OutboxRelay
from pilotage.runtime.outbox.retrying import RelaySettings
from pilotage.runtime.runs import AgentRuns

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

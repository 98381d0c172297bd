"""Receivers of facts: subscribed methods of pods, and the publishers of the application."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from inspect import isawaitable, iscoroutinefunction

from pilotage.agent.fact_types import AgentFact
from pilotage.agent.on_event import Subscription, subscriptions_of
from pilotage.agent.ports.publisher import IAgentEventPublisher
from pilotage.container.application import Application
from pilotage.container.graph import Graph
from pilotage.container.names import target_name
from pilotage.container.node import Node
from pilotage.values import value


@value
class Receiver:
    """A callable that gets the facts of some classes."""

    name: str
    facts: tuple[type[AgentFact], ...]
    receive: Callable[[AgentFact], Awaitable[object]]

    def wants(self, fact: AgentFact) -> bool:
        """Whether the fact is for this receiver."""
        return isinstance(fact, self.facts)


def subscriptions_in(graph: Graph) -> tuple[tuple[Node, Subscription], ...]:
    """The methods of pods that subscribe to facts; for `Graph.derive`."""
    readable = (node for node in graph.nodes if node not in graph.unreadable)
    return tuple((node, each) for node in readable for each in subscriptions_of(node.pod.type_))


def receivers_of(app: Application) -> list[Receiver]:
    """All subscribers and publishers of a started application."""
    subscribers = [_subscriber(app, *each) for each in app.graph.derive(subscriptions_in)]
    publishers = app.get_all(IAgentEventPublisher)
    return [*subscribers, *(Receiver(target_name(each), (AgentFact,), each.publish) for each in publishers)]


def _subscriber(app: Application, node: Node, subscription: Subscription) -> Receiver:
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

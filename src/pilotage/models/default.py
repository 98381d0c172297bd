"""The model of an application that was given none: what installed plugins configure, else the offline model.

Only `run` and `run_sync` use it. An application that somebody puts together says itself which model it wants: a service
that lost its configuration must not start with rules in the place of its model.
"""

from __future__ import annotations

from pilotage.agent.ports.model import IAgentModel
from pilotage.container.application import Application
from pilotage.container.graph import One
from pilotage.models.offline_model import OfflineModel

_WITHOUT_MODELS = ("agui",)
"""Plugins that provide no model: a wrong setting of theirs concerns no run of one agent."""


def default_model() -> tuple[object, ...]:
    """The pods that provide a model: an adapter's with all they need, or the offline model.

    Several adapters that are configured are all there; which one is meant, the application then asks.

    Raises:
        PluginError: an installed plugin failed, for example on a wrong setting.
    """
    graph = Application("the default model").load_plugins(exclude=_WITHOUT_MODELS).graph
    chosen = graph.choose(IAgentModel)
    nodes = (chosen.node,) if isinstance(chosen, One) else graph.providers(IAgentModel)
    if not nodes:
        return (OfflineModel(),)
    needed = (*graph.reachable(*nodes), *nodes)
    return tuple(graph.registered(node) for node in needed if not node.provides(Application))

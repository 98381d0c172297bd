"""The model of an application without one: the model that installed plugins configure, else the offline model.

Only `run` and `run_sync` use it. Every other application must configure its model: a service that lost its
configuration must not start with the offline model.
"""

from __future__ import annotations

from pilotage.agent.ports.model import IAgentModel
from pilotage.container.application import Application
from pilotage.container.graph import One
from pilotage.models.offline_model import OfflineModel

_WITHOUT_MODELS = ("agui",)
"""Plugins that provide no model; their settings are not read here."""


def default_model() -> tuple[object, ...]:
    """Return the pods that provide a model: those of an adapter with their dependencies, or the offline model.

    If several adapters are configured all of them are returned, and the application reports the ambiguity.

    Raises:
        StartupError: an installed plugin failed, or found a wrong setting.
    """
    graph = Application("the default model").load_plugins(exclude=_WITHOUT_MODELS).graph
    chosen = graph.choose(IAgentModel)
    nodes = (chosen.node,) if isinstance(chosen, One) else graph.providers(IAgentModel)
    if not nodes:
        return (OfflineModel(),)
    needed = (*graph.reachable(*nodes), *nodes)
    return tuple(graph.registered(node) for node in needed if not node.provides(Application))

"""Dependency injection with class stereotypes; knows nothing of agents."""

from pilotage.container.application import Application
from pilotage.container.dependency import Dependency, Qualifier
from pilotage.container.describe import StartupReport
from pilotage.container.explain import how_to_provide
from pilotage.container.graph import Edge, Graph, Node
from pilotage.container.lifecycle import Context, ILifecycle
from pilotage.container.pod import Configuration, Controller, Pod, Scope, UseCase, provided_by
from pilotage.container.processing import IContainer, IContainerAware, IPostProcessor

# fmt: off
__all__ = [
    "Application", "Configuration", "Context", "Controller", "Dependency", "Edge", "Graph",
    "IContainer", "IContainerAware", "ILifecycle", "IPostProcessor", "Node", "Pod", "Qualifier",
    "Scope", "StartupReport", "UseCase", "how_to_provide", "provided_by",
]

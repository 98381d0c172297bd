"""Dependency injection made for class stereotypes; has never heard of agents."""

from pilotage.container.application import Application
from pilotage.container.context import Context
from pilotage.container.dependency import Dependency, Qualifier
from pilotage.container.explain import how_to_provide
from pilotage.container.graph import Graph
from pilotage.container.lifecycle import ILifecycle
from pilotage.container.node import Edge, Node
from pilotage.container.pod import Pod, Scope
from pilotage.container.processing import IContainer, IContainerAware, IPostProcessor
from pilotage.container.provision import provided_by
from pilotage.container.report import StartupReport
from pilotage.container.stereotypes import Configuration, Controller, UseCase

__all__ = [
    "Application",
    "Configuration",
    "Context",
    "Controller",
    "Dependency",
    "Edge",
    "Graph",
    "IContainer",
    "IContainerAware",
    "ILifecycle",
    "IPostProcessor",
    "Node",
    "Pod",
    "Qualifier",
    "Scope",
    "StartupReport",
    "UseCase",
    "how_to_provide",
    "provided_by",
]

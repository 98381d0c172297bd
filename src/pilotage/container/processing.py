"""Ports of the container: lookup of pods, access to the container, post-processing of pods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TypeVar

from pilotage.container.graph import Graph
from pilotage.errors import Problem

T = TypeVar("T")


class IContainer(ABC):
    """Lookup of pods by type: a class, an abstract class, a protocol or a generic."""

    @abstractmethod
    def get(self, type_: Callable[..., T], name: str | None = None) -> T:
        """Return the one pod of the type (and name).

        Raises:
            PodNotFoundError: nothing provides the type, or several pods do and none is preferred.
            ContextNotActiveError: the pod lives in a context and none is active.
        """

    @abstractmethod
    def get_or_none(self, type_: Callable[..., T], name: str | None = None) -> T | None:
        """Return the one pod of the type (and name), or None if nothing provides it."""

    @abstractmethod
    def get_all(self, type_: Callable[..., T]) -> list[T]:
        """Return all pods of the type, in order."""

    @abstractmethod
    def contains(self, type_: Callable[..., object]) -> bool:
        """Return whether anything provides the type."""


class IContainerAware(ABC):
    """A pod, usually a post-processor, that is given the container right after it was made."""

    @abstractmethod
    def set_container(self, container: IContainer) -> None:
        """Take the container; while the application starts it only has the pods made so far."""


class IPostProcessor(ABC):  # noqa: B024 - nominal on purpose; a processor overrides what it needs
    """A pod that validates the application's definitions or wraps its pods.

    Post-processors are made first, together with what they depend on; those pods are not processed.
    They run by `order`, then by registration.
    """

    @classmethod
    def check(cls, graph: Graph) -> Iterable[Problem]:
        """Return the problems of the application; called before anything is made.

        The graph may have faults too; they are reported in the same error.
        """
        return ()

    def post_process(self, pod: object) -> object:
        """Return the pod itself, or its replacement."""
        return pod

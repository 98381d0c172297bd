"""The ports of the container: looking pods up, being told of the container, processing every pod."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TypeVar

from pilotage.container.graph import Graph
from pilotage.errors import Problem

T = TypeVar("T")


class IContainer(ABC):
    """Looks up pods by type. Classes, abstract classes, protocols and generics are asked for alike."""

    @abstractmethod
    def get(self, type_: Callable[..., T], name: str | None = None) -> T:
        """The one pod of the type (and name).

        Raises:
            PodNotFoundError: nothing provides the type, or several pods do and none is preferred.
            ContextNotActiveError: the pod lives in a context and none is active.
        """

    @abstractmethod
    def get_or_none(self, type_: Callable[..., T], name: str | None = None) -> T | None:
        """The one pod of the type (and name), or None if nothing provides it."""

    @abstractmethod
    def get_all(self, type_: Callable[..., T]) -> list[T]:
        """All pods of the type, in order."""

    @abstractmethod
    def contains(self, type_: Callable[..., object]) -> bool:
        """Whether anything provides the type."""


class IContainerAware(ABC):
    """A pod, usually a post-processor, that is given the container right after it was made."""

    @abstractmethod
    def set_container(self, container: IContainer) -> None:
        """Take the container; while the application starts it only holds what was made so far."""


class IPostProcessor(ABC):  # noqa: B024 - nominal on purpose; a processor overrides what it needs
    """A pod that validates the application's definitions or wraps its pods.

    Post-processors are made first, together with what they depend on; those pods are not processed.
    They run by `order`, then by registration.
    """

    @classmethod
    def check(cls, graph: Graph) -> Iterable[Problem]:
        """What is wrong with the application; called before anything is made.

        The graph may be wrong too: its own problems are reported in the same error.
        """
        return ()

    def post_process(self, pod: object) -> object:
        """The pod itself, or what is to stand in its place."""
        return pod

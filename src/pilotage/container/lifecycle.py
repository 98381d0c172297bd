"""Lifecycle of pods: start and stop hooks, the context scope, and cleanups in reverse order."""

from __future__ import annotations

from abc import ABC
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar, Token
from threading import RLock
from types import TracebackType
from typing import Self

from pilotage.container.graph import Node
from pilotage.errors import ContextNotActiveError


class ILifecycle(ABC):  # noqa: B024 - nominal on purpose; a pod overrides the hook it needs
    """A pod that is called when the application starts and stops.

    Called in dependency order at start and in reverse at stop. `stop` is called only if `start` returned.
    """

    async def start(self) -> None:  # noqa: B027 - having nothing to do is fine
        """Start; everything this pod depends on has started."""

    async def stop(self) -> None:  # noqa: B027
        """Stop; everything that depends on this pod has stopped."""


class Teardown:
    """A stack of cleanups: last in, first out; each one runs even if others fail."""

    def __init__(self) -> None:
        self._steps: list[tuple[str, Callable[[], Awaitable[object] | None]]] = []

    def push(self, what: str, undo: Callable[[], Awaitable[object] | None]) -> None:
        """Add a cleanup; `what` names it if it fails."""
        self._steps.append((what, undo))

    def close(self) -> list[BaseException]:
        """Run the synchronous cleanups and return their failures."""
        failures: list[BaseException] = []
        while self._steps:
            what, undo = self._steps.pop()
            try:
                undo()
            except BaseException as error:  # noqa: BLE001 - returned, after the other steps had their turn
                failures.append(_noted(error, what))
        return failures

    async def aclose(self) -> list[BaseException]:
        """Run all cleanups and return their failures."""
        failures: list[BaseException] = []
        while self._steps:
            what, undo = self._steps.pop()
            try:
                if (waiting := undo()) is not None:
                    await waiting
            except BaseException as error:  # noqa: BLE001 - returned, after the other steps had their turn
                failures.append(_noted(error, what))
        return failures


def raise_failures(message: str, failures: list[BaseException]) -> None:
    """Raise the failures of cleanups as a group; a cancellation or an exit request is raised as itself."""
    for failure in failures:
        if not isinstance(failure, Exception):
            raise failure
    if failures:
        raise BaseExceptionGroup(message, failures)


def attach(error: BaseException, failures: list[BaseException]) -> None:
    """Add notes about failed cleanups to an error."""
    for failure in failures:
        notes = "; ".join(getattr(failure, "__notes__", ()))
        error.add_note(f"Also, {notes}: {type(failure).__name__}: {failure}")


def _noted(error: BaseException, what: str) -> BaseException:
    error.add_note(f"{what} failed")
    return error


_active: ContextVar[Context | None] = ContextVar("pilotage_context", default=None)


class Context:
    """The pods of one context; active inside its `with` block, in that task and the tasks started there.

    A nested context is a context of its own. Cleanups run at the end of the block, last made first.
    """

    def __init__(self, owner: object) -> None:
        self.owner = owner
        self.outer: Context | None = None
        self.is_open = False
        self._pods: dict[Node, object] = {}
        self._teardown = Teardown()
        self._lock = RLock()
        self._token: Token[Context | None] | None = None

    @staticmethod
    def active(owner: object, label: str) -> Context:
        """Return the innermost context that the owner opened."""
        context = _active.get()
        while context is not None and context.owner is not owner:
            context = context.outer
        if context is None:
            raise ContextNotActiveError(
                f"{label} lives in a context and none is active. "
                "Open one around the call: with app.context(): ..."
            )
        if not context.is_open:
            raise ContextNotActiveError(
                f"{label} lives in a context that has ended before this task. "
                "Wait for the task inside the with block, or open a context in it."
            )
        return context

    def get(self, node: Node, make: Callable[[Teardown], object]) -> object:
        """Return the context's pod for the node, made when it is first asked for."""
        with self._lock:
            if node not in self._pods:
                self._pods[node] = make(self._teardown)
            return self._pods[node]

    def __enter__(self) -> Self:
        self.outer, self.is_open = _active.get(), True
        self._token = _active.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.is_open = False
        self._pods.clear()
        if self._token is not None:
            # Some frameworks leave a block in another task than the one that entered it: nothing to reset there.
            with suppress(ValueError):
                _active.reset(self._token)
        failures = self._teardown.close()
        if error is None:
            raise_failures("pods of a context failed to clean up", failures)
        else:
            attach(error, failures)

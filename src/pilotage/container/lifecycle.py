"""Starting and stopping: the hooks a pod may have, and undoing things in reverse whatever fails."""

from __future__ import annotations

from abc import ABC
from collections.abc import Awaitable, Callable


class ILifecycle(ABC):  # noqa: B024 - nominal on purpose; a pod overrides the hook it needs
    """A pod that wants to know when the application starts and stops.

    Called in dependency order at start and in reverse at stop. `stop` is called only if `start` returned.
    """

    async def start(self) -> None:  # noqa: B027 - having nothing to do is fine
        """Begin to work; everything this pod depends on has started."""

    async def stop(self) -> None:  # noqa: B027
        """Cease to work; everything that depends on this pod has stopped."""


class Teardown:
    """What must be undone at the end: last in, first out, each one in spite of the failures of others."""

    def __init__(self) -> None:
        self._steps: list[tuple[str, Callable[[], Awaitable[object] | None]]] = []

    def push(self, what: str, undo: Callable[[], Awaitable[object] | None]) -> None:
        """Remember a step; `what` names it if it fails."""
        self._steps.append((what, undo))

    def close(self) -> list[BaseException]:
        """Undo everything that can be undone without waiting; the failures are returned."""
        failures: list[BaseException] = []
        while self._steps:
            what, undo = self._steps.pop()
            try:
                undo()
            except BaseException as error:  # noqa: BLE001 - returned, after the other steps had their turn
                failures.append(_noted(error, what))
        return failures

    async def aclose(self) -> list[BaseException]:
        """Undo everything; the failures are returned."""
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
    """Raise what went wrong while undoing; a cancellation or an exit request is raised as itself."""
    for failure in failures:
        if not isinstance(failure, Exception):
            raise failure
    if failures:
        raise BaseExceptionGroup(message, failures)


def attach(error: BaseException, failures: list[BaseException]) -> None:
    """Note on an error what else went wrong while cleaning up after it."""
    for failure in failures:
        notes = "; ".join(getattr(failure, "__notes__", ()))
        error.add_note(f"Also, {notes}: {type(failure).__name__}: {failure}")


def _noted(error: BaseException, what: str) -> BaseException:
    error.add_note(f"{what} failed")
    return error

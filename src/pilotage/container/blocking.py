"""An event loop of one's own, for programs that have none."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Self, TypeVar

from pilotage.errors import ApplicationStateError

T = TypeVar("T")


class BlockingLoop:
    """Runs an application's start and stop hooks on one loop that lives between them."""

    def __init__(self, application: str) -> None:
        import asyncio  # noqa: PLC0415 - only programs without an event loop pay for it here

        with suppress(RuntimeError):
            asyncio.get_running_loop()
            raise ApplicationStateError(
                f"Application {application!r}: `with app` cannot wait inside a running event loop. "
                "Write: async with app: ..."
            )
        self._runner = asyncio.Runner()

    def run(self, begin: Callable[[], Coroutine[object, object, T]]) -> T:
        """Wait for a coroutine; if it fails the loop is closed."""
        try:
            return self._runner.run(begin())
        except BaseException:
            self._runner.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runner.close()

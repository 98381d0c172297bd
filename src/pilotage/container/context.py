"""The context scope: pods that live as long as one request, one run, one job."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar, Token
from threading import RLock
from types import TracebackType
from typing import Self

from pilotage.container.lifecycle import Teardown, attach, raise_failures
from pilotage.container.node import Node
from pilotage.errors import ContextNotActiveError

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
    def active(owner: object, wanted: str) -> Context:
        """The innermost context that the owner opened."""
        context = _active.get()
        while context is not None and context.owner is not owner:
            context = context.outer
        if context is None:
            raise ContextNotActiveError(
                f"{wanted} lives in a context and none is active. "
                "Open one around the call: with app.context(): ..."
            )
        if not context.is_open:
            raise ContextNotActiveError(
                f"{wanted} lives in a context that has ended before this task. "
                "Wait for the task inside the with block, or open a context in it."
            )
        return context

    def get(self, node: Node, make: Callable[[Teardown], object]) -> object:
        """The context's pod for the node, made when it is first asked for."""
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
            # Some frameworks leave a block in another task than they entered it: nothing to reset there.
            with suppress(ValueError):
                _active.reset(self._token)
        failures = self._teardown.close()
        if error is None:
            raise_failures("pods of a context failed to clean up", failures)
        else:
            attach(error, failures)

"""Where in the program an action is asked for: ids come from structure, never from timing.

A step id is `path/label#ordinal`. Ordinals are taken when a call is made, not when it is awaited, so calls that
run side by side have the same ids every time. A task other than the scope's owner is a branch of its own, named
by the first thing it asks for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from pilotage.jsonvalue import JsonValue, canonical_json, text_digest


class Scope:
    """One place in the structure of a run; counts what is asked for there."""

    def __init__(self, path: str, owner: asyncio.Task[object] | None = None) -> None:
        self.path = path
        self._owner = owner
        self._ordinals: dict[str, int] = {}

    def next_id(self, label: str) -> str:
        """The id of the next action with this label."""
        ordinal = self._ordinals[label] = self._ordinals.get(label, 0) + 1
        return f"{self.path}/{label}#{ordinal}"

    def branch(self, name: str, owner: asyncio.Task[object] | None = None) -> Scope:
        """A scope below this one; equal names are told apart by their occurrence."""
        return Scope(self.next_id(name), owner)

    def is_led_by(self, task: asyncio.Task[object] | None) -> bool:
        """Whether the task is the very one the scope belongs to."""
        return self._owner is task

    def owned_by(self, task: asyncio.Task[object] | None) -> bool:
        """Whether the task works in this scope itself; without a task (in a thread) everybody does."""
        return task is None or self._owner is None or self._owner is task


_current: ContextVar[Scope | None] = ContextVar("pilotage_scope", default=None)


def enter(scope: Scope) -> None:
    """Make a scope the current one of this task."""
    _current.set(scope)


@contextmanager
def inside(path: str) -> Generator[None]:
    """What is asked for in the block belongs below the action of this id."""
    token = _current.set(Scope(path, _running_task()))
    try:
        yield
    finally:
        _current.reset(token)


def scope_for(label: str, asked: JsonValue = None) -> Scope:
    """The scope of the calling task; a new task gets its branch by the first thing it asks for."""
    scope = _current.get()
    if scope is None:
        raise LookupError("no run is active in this context")
    task = _running_task()
    if scope.owned_by(task):
        return scope
    name = label if asked is None else f"{label}:{text_digest(canonical_json(asked))[:8]}"
    branch = scope.branch(f"task:{name}", task)
    _current.set(branch)
    return branch


def _running_task() -> asyncio.Task[object] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None

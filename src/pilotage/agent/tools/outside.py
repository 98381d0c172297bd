"""Calls of tools outside every run: what only reads is plain, and what needs the gate of a run is refused.

A thread, an executor or a callback in a fresh context does not say which run it works for. A tool that changes
something, or needs an approval or a permission, is therefore refused there, if its instance belongs to an application.
Instances made by hand are plain objects.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any
from weakref import WeakSet

from pilotage.agent.tools.metadata import AgentToolMetadata
from pilotage.errors import AgentToolDispatchError

DEFINITION_SLOT = "__pilotage_agent_tool_definition__"
"""Where the function of a tool has its definition."""
_MARK = "__pilotage_guarded__"
_guarded_classes: WeakSet[type] = WeakSet()
"""Classes whose instances cannot be marked, or whose tools have no instance."""
_guarded_functions: WeakSet[Callable[..., object]] = WeakSet()
"""Static tools of classes that belong to an application."""
_is_plain: ContextVar[bool] = ContextVar("pilotage_plain_calls", default=False)


@contextmanager
def plain_calls() -> Generator[None]:
    """Let code outside every run call tools of an application's pods like ordinary methods.

    For scripts, controllers and tests that mean it: such a call passes no approval, permission, budget or trust check,
    and leaves no record. Inside a run nothing changes: calls go through the run.
    """
    token = _is_plain.set(True)
    try:
        yield
    finally:
        _is_plain.reset(token)


def guard_tools(pod: object) -> None:
    """Mark a pod of an application: its tools need a run, or `plain_calls`, unless they only read."""
    holder: type = type(pod)
    static = _static_tools(holder)
    if static is None:
        return
    _guarded_functions.update(static)
    try:
        vars(pod)[_MARK] = True
    except TypeError:  # no __dict__
        _guarded_classes.add(holder)


def reject_gated_call(
    tool: Callable[..., object],
    metadata: AgentToolMetadata,
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
) -> None:
    """Refuse a call outside every run that needs one.

    Raises:
        AgentToolDispatchError: the tool changes something, or needs an approval or a permission.
    """
    if not metadata.is_gated or _is_plain.get() or not _is_guarded(tool, args, kwargs):
        return
    name = getattr(tool, "__qualname__", "the tool").rpartition("<locals>.")[2]
    raise AgentToolDispatchError(
        f"{name} is called outside every run, and it is a tool that needs one: it changes something, or needs an "
        "approval or a permission. Inside a run, call it in the task of the program: a thread, an executor and a "
        "callback do not know the run. In a script, a controller or a test that means a plain call, write: "
        "with plain_calls(): ..."
    )


def _is_guarded(tool: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object]) -> bool:
    owner: object = args[0] if args else kwargs.get("self", kwargs.get("cls"))
    holder = owner if isinstance(owner, type) else type(owner)
    return _MARK in getattr(owner, "__dict__", ()) or holder in _guarded_classes or tool in _guarded_functions


@lru_cache(maxsize=1024)
def _static_tools(holder: type) -> tuple[Callable[..., object], ...] | None:
    """Return the tools of a class that take no instance; None for a class without any tool."""
    members: list[object] = [member for base in holder.__mro__ for member in vars(base).values()]
    bare: list[Any] = [getattr(member, "__func__", member) for member in members]
    tools = [(member, function) for member, function in zip(members, bare, strict=True) if _is_tool(function)]
    static = [function for member, function in tools if isinstance(member, staticmethod | classmethod)]
    return tuple(static) if tools else None


def _is_tool(function: object) -> bool:
    return DEFINITION_SLOT in getattr(function, "__dict__", ())

"""The context of a tool call: its values inside a run, and the check of calls outside every run.

A thread, an executor or a callback in a fresh context does not know its run. A tool that changes something, or needs an
approval or a permission, is therefore refused there, if its instance belongs to an application. Instances made by hand
are plain objects.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from datetime import datetime
from functools import lru_cache
from typing import Any
from weakref import WeakSet

from pilotage.agent.tools.metadata import AgentToolMetadata
from pilotage.checks import reject_blank, reject_negative, reject_not_positive
from pilotage.errors import AgentToolDispatchError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.values import value


def _never() -> bool:
    return False


@value
class CancellationToken:
    """Lets a tool that cannot be interrupted from outside, such as one in a thread, stop by itself."""

    probe: Callable[[], bool] = field(default=_never, repr=False)

    @property
    def is_cancelled(self) -> bool:
        return self.probe()

    def raise_if_cancelled(self) -> None:
        """Leave the tool when its run is being cancelled.

        Raises:
            asyncio.CancelledError: the run is being cancelled.
        """
        if self.probe():
            from asyncio import CancelledError  # noqa: PLC0415 - importing asyncio costs more than the rest

            raise CancelledError


@value
class AgentToolRuntimeContext:
    """The call a tool is part of; a tool gets it by a parameter called `runtime_context`.

    `idempotency_key` is the same for every attempt of one call: hand it to the outside system, so that a
    repeated attempt is recognised there. Left out, it is made from the state and the call.
    """

    state_id: str
    conversation_id: str
    call_id: str
    tool_name: str
    idempotency_key: str = ""
    attempt: int = 1
    epoch: int = 0
    deadline: datetime | None = None
    cancellation: CancellationToken = CancellationToken()

    def __post_init__(self) -> None:
        reject_blank(self, state_id=self.state_id, conversation_id=self.conversation_id, call_id=self.call_id)
        reject_blank(self, tool_name=self.tool_name)
        reject_not_positive(self, attempt=self.attempt)
        reject_negative(self, epoch=self.epoch)
        if not self.idempotency_key:
            object.__setattr__(self, "idempotency_key", f"{self.state_id}/{self.call_id}")


@value
class AgentToolApprovalContext:
    """The view of a tool call for the person who is asked: a question, the action, guarded details."""

    prompt: str
    action_ref: str
    metadata: JsonObject = field(default_factory=dict[str, JsonValue])

    def __post_init__(self) -> None:
        reject_blank(self, prompt=self.prompt, action_ref=self.action_ref)


DEFINITION_SLOT = "__pilotage_agent_tool_definition__"
"""The attribute of a tool's function that has its definition."""
_MARK = "__pilotage_guarded__"
_guarded_classes: WeakSet[type] = WeakSet()
"""Classes whose instances cannot be marked, or whose tools have no instance."""
_guarded_functions: WeakSet[Callable[..., object]] = WeakSet()
"""Static tools of classes that belong to an application."""
calls_are_plain: ContextVar[bool] = ContextVar("pilotage_plain_calls", default=False)
"""Whether code outside every run means plain calls: it is inside of `plain_calls`."""


@contextmanager
def plain_calls() -> Generator[None]:
    """Let code outside every run call tools of an application's pods like ordinary methods.

    For scripts, controllers and tests that mean it: such a call passes no approval, permission, budget or trust check,
    and leaves no record. Inside a run nothing changes: calls go through the run.
    """
    token = calls_are_plain.set(True)
    try:
        yield
    finally:
        calls_are_plain.reset(token)


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
    if not metadata.is_gated or calls_are_plain.get() or not _is_guarded(tool, args, kwargs):
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

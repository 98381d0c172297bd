"""The actions of a run, and the place in the program at which each is requested.

Ids follow from structure, never from timing. A step id is `path/label#ordinal`. Ordinals are taken when a call is
made, not when it is awaited, so concurrent calls have the same ids in every attempt. A task other than the scope's
owner is a branch of its own, named by its first request.
"""

from __future__ import annotations

from asyncio import Task, current_task
from collections.abc import Awaitable, Callable, Mapping
from contextvars import Token
from types import TracebackType
from typing import TypeAlias

from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.tools.declare import IToolCalls, active_tool_calls
from pilotage.agent.tools.metadata import Idempotency
from pilotage.filling import unchecked
from pilotage.jsonvalue import JsonValue, canonical_json, text_digest
from pilotage.runtime.journal.positions import Call, CallIdentity, CallScope
from pilotage.runtime.journal.task_names import TaskNames
from pilotage.values import value

_NONE: frozenset[str] = frozenset()
_OLD_NAMES = TaskNames(None)

NameOf: TypeAlias = Callable[[str, JsonValue], str]
"""Returns the name of a task's branch by the label and the arguments of its first request."""


class StepScope:
    """One place in the structure of a run; numbers the actions requested there."""

    calls: CallScope | None = None
    """The numbers of its calls, in a durable run."""
    host: StepScope | None = None
    """The scope that it is an implicit branch of: outcomes in both have one order."""
    _guests: dict[str, StepScope] | None = None

    def __init__(
        self,
        path: str,
        owner: Task[object] | None = None,
        around: Call | None = None,
        skipped: frozenset[str] = _NONE,
    ) -> None:
        self.path = path
        self.owner = owner
        self.skipped = skipped
        """The ids of calls that a person has skipped, of the whole run: they are passed over."""
        self.around = around
        """The call that it is inside of."""
        self._ordinals: dict[str, int] = {}

    def next_id(self, label: str) -> str:
        """Return the id of the next action with this label."""
        ordinal = self._ordinals.get(label, 0) + 1
        if self.skipped:
            ordinal = self._after_skipped(label, ordinal)
        self._ordinals[label] = ordinal
        return f"{self.path}/{label}#{ordinal}"

    def pass_over(self, action_id: str) -> None:
        """Count a recorded action of this scope as made: the next one with its label has the next ordinal."""
        label, _, ordinal = action_id.rpartition("/")[2].rpartition("#")
        self._ordinals[label] = int(ordinal)

    def coming_id(self, label: str) -> str:
        """Return the id that `next_id` will return."""
        ordinal = self._ordinals.get(label, 0) + 1
        if self.skipped:
            ordinal = self._after_skipped(label, ordinal)
        return f"{self.path}/{label}#{ordinal}"

    def _after_skipped(self, label: str, ordinal: int) -> int:
        while f"{self.path}/{label}#{ordinal}" in self.skipped:
            ordinal += 1
        return ordinal

    def branch(self, name: str, owner: Task[object] | None = None) -> StepScope:
        """Return a new scope below this one; equal names are distinguished by an ordinal."""
        return StepScope(self.next_id(name), owner, skipped=self.skipped)

    def contains(self, other: StepScope) -> bool:
        """Return whether the other scope is below this one."""
        return other.path.startswith(f"{self.path}/")

    def as_host_of(self, guest: StepScope) -> StepScope:
        """Return the scope below this one for calls bound to a scope elsewhere: the same in every attempt."""
        name = guest.path.rpartition("/")[2]
        guests = self._guests = self._guests or {}
        if name not in guests:
            guests[name] = StepScope(f"{self.path}/{name}", self.owner, skipped=self.skipped)
        return guests[name]


class Place:
    """The place of the running code: its scope, the performer of its run's tool calls, and the names of its tasks."""

    __slots__ = ("calls", "names", "scope")

    def __init__(self, calls: IToolCalls, scope: StepScope, names: TaskNames) -> None:
        self.calls = calls
        self.scope = scope
        self.names = names

    def call(
        self, tool: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> object:
        return self.calls.call(tool, args, kwargs)

    def invoke(
        self, tool: Callable[..., object], arguments: Mapping[str, object], call_id: str | None = None
    ) -> Awaitable[object]:
        return self.calls.invoke(tool, arguments, call_id)


class InsideCall(Place):
    """The place of code inside of a call under way. Most calls make no others: the scope is made for the first one."""

    __slots__ = ("_parts",)

    def __init__(
        self, around: Place, parts: tuple[str, Task[object] | None, Call | None, frozenset[str]]
    ) -> None:
        self.calls, self.names = around.calls, around.names
        self._parts = parts

    def __getattr__(self, name: str) -> StepScope:
        if name != "scope":
            raise AttributeError(name)
        made = self.scope = StepScope(*self._parts)
        return made


def current_place() -> Place | None:
    """Return the place of the running code; None outside every run."""
    place = active_tool_calls.get()
    return place if isinstance(place, Place) else None


def enter_run(calls: IToolCalls, scope: StepScope, names: TaskNames = _OLD_NAMES) -> Token[IToolCalls | None]:
    """Make the code of this task part of a run; return the token for `leave`."""
    return active_tool_calls.set(Place(calls, scope, names))


def enter_call(
    action_id: str, task: Task[object] | None, around: Call | None, skipped: frozenset[str]
) -> Token[IToolCalls | None]:
    """Put the calls of a task inside of the call that it carries out; return the token for `leave`."""
    return active_tool_calls.set(InsideCall(_here(), (action_id, task, around, skipped)))


def leave(token: Token[IToolCalls | None]) -> None:
    """Restore the place that the task had before it entered a run or a call."""
    active_tool_calls.reset(token)


def enter(scope: StepScope) -> None:
    """Make a scope of the same run the current one of this task, to the end of the task."""
    here = _here()
    active_tool_calls.set(Place(here.calls, scope, here.names))


def _here() -> Place:
    place = active_tool_calls.get()
    if isinstance(place, Place):
        return place
    raise LookupError("no run is active in this context")


class Inside:
    """Context manager: calls made in the block belong to a scope; without one nothing changes.

    A class, because a generator as context manager costs as much as a small action.
    """

    __slots__ = ("_scope", "_token")

    def __init__(self, scope: StepScope | None) -> None:
        self._scope = scope
        self._token: Token[IToolCalls | None] | None = None

    def __enter__(self) -> None:
        if self._scope is not None:
            place = active_tool_calls.get()
            if not isinstance(place, Place):
                raise LookupError("no run is active in this context")
            self._token = active_tool_calls.set(Place(place.calls, self._scope, place.names))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is not None:
            active_tool_calls.reset(self._token)


def inside(path: str, task: Task[object] | None, around: Call | None = None) -> Inside:
    """Return a context manager that puts the requests of a task below a path; `around` is the call they belong to."""
    here = active_tool_calls.get()
    return Inside(StepScope(path, task, around, here.scope.skipped if isinstance(here, Place) else _NONE))


def entered(scope: StepScope | None) -> Inside:
    """Return a context manager that puts requests into this scope; None changes nothing.

    All requests inside a branch or turn stay inside it, whatever scope they are bound to: its row stands for all.
    """
    return Inside(_place_of(scope) if scope is not None else None)


def worker_scope(name: str) -> StepScope:
    """Return a new scope for the calling task, below its current one."""
    return scope_for(name).branch(name, running_task())


def scope_for(
    label: str,
    asked: JsonValue = None,
    recorded: Callable[[StepScope, NameOf], str | None] | None = None,
) -> StepScope:
    """Return the scope of the calling task; the branch of a new task is named by its first request.

    `recorded` may return the name under which the branch is recorded in the scope around it. Without a task (in a
    thread), and where a scope has no owner, this is the current scope itself.
    """
    place = active_tool_calls.get()
    if type(place) is not Place and not isinstance(place, Place):
        raise LookupError("no run is active in this context")
    scope = place.scope
    owner = scope.owner
    if owner is None:
        return scope
    try:
        task = current_task()
    except RuntimeError:
        return scope
    if task is owner or task is None:
        return scope
    name_of = place.names.of(task)
    name = recorded(scope, name_of) if recorded is not None else None
    branch = scope.branch(name or name_of(label, asked), task)
    branch.host = scope
    active_tool_calls.set(Place(place.calls, branch, place.names))
    return branch


def _place_of(scope: StepScope) -> StepScope:
    """Return the scope for calls bound to `scope`, given the current place of the program."""
    here = _here().scope
    if here.path == scope.path or here.contains(scope):
        return scope
    return here if scope.contains(here) else here.as_host_of(scope)


def running_task() -> Task[object] | None:
    """Return the current task; None in a thread."""
    try:
        return current_task()
    except RuntimeError:
        return None


@value
class Action:
    """A requested action. `fingerprint` covers place, kind, name and the arguments as requested.

    `is_read_only` actions may run ahead of the journal; all others are recorded before they begin. With `hides=False`
    no declaration hides a part of its records: a view may differ from its record in form or size only.
    """

    id: str
    kind: AgentActionKind
    name: str
    asked: JsonValue
    view: JsonValue
    idempotency: Idempotency
    is_read_only: bool
    fingerprint: str
    hides: bool = True

    def fits(self, recorded: CallIdentity, /) -> bool:
        """Return whether a recorded call is this action; of one with only a question or signal the id is recorded."""
        if recorded.fingerprint:
            return recorded.fingerprint == self.fingerprint
        return recorded.label == self.id

    @property
    def may_be_repeated(self) -> bool:
        """Return whether an attempt with an unknown outcome may be repeated with the same key."""
        return self.is_read_only or self.idempotency in MAY_BE_REPEATED


new_action = unchecked(Action)

_LENGTH = 32
"""Digits of a fingerprint: enough to distinguish the actions of a run; every row has one."""

RESULT = "run/result#1"
"""The action that records the result of a run; actions below it are requested by the end of the run."""

MAY_BE_REPEATED = frozenset({Idempotency.IDEMPOTENT, Idempotency.CONDITIONALLY_IDEMPOTENT})


def idempotency_key(run: RunKey, action_id: str) -> str:
    """Return the key of an action: the same for every attempt at it and different from that of any other action."""
    return text_digest(f"{run.tenant_id}\n{run.run_id}\n{action_id}")[:_LENGTH]


def fingerprint_of(salt: str, action_id: str, kind: AgentActionKind, name: str, asked: JsonValue) -> str:
    """Return the fingerprint of a request: equal at equal places; the salt prevents guessing the arguments."""
    arguments = "null" if asked is None else canonical_json(asked)
    return text_digest(f"{salt}\n{action_id}\n{kind}\n{name}\n{arguments}")[:_LENGTH]

"""The value of the state that a run shares with its clients, and JSON Patch (RFC 6902) as it changes it. Pure."""

from __future__ import annotations

import re
from bisect import insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from typing import TypeAlias, cast

from pilotage.agent.context import ContextPackRole
from pilotage.agent.run_values import AgentContext
from pilotage.jsonvalue import JsonObject, JsonValue, parsed
from pilotage.runtime.journal.records import PATCH, SNAPSHOT
from pilotage.values import value

_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")


def given_state(context: AgentContext | None) -> JsonValue:
    """Return the state that the caller of a run gave: the JSON of the first context pack of that role, else {}."""
    for pack in context.packs if context is not None else ():
        if pack.role is ContextPackRole.STATE:
            try:
                return parsed(pack.content)
            except (ValueError, RecursionError):
                continue
    return {}


class SharedState:
    """The value of the shared state in one attempt: the caller's state with all changes, in the order of the record.

    A patch that does not fit changes nothing, as at the clients that apply it. A change that replay gives again has the
    number of its row: calls that ran at the same time are replayed one after the other.
    """

    def __init__(self, given: Callable[[], JsonValue]) -> None:
        self._given = given
        self._changes: list[tuple[float, int, JsonObject]] = []
        self._at: float = 0
        self._applied = 0
        self._value: JsonValue = None

    def change(self, change: JsonObject, seq: float | None = inf) -> None:
        """Add a change by the number of its row; None for one without a row, which follows the one before."""
        self._at = at = self._at if seq is None else max(seq, self._at)
        entry = (at if seq is None else seq, len(self._changes), change)
        if self._changes and entry[:2] < self._changes[-1][:2]:
            self._applied = 0
        insort(self._changes, entry, key=_place)

    def read(self) -> JsonValue:
        """Return the state after all changes so far."""
        if not self._applied:
            self._value = self._given()
        for _, _, change in self._changes[self._applied :]:
            self._value = _after(self._value, change)
        self._applied = len(self._changes)
        return self._value


def _place(entry: tuple[float, int, JsonObject]) -> tuple[float, int]:
    return entry[:2]


def _after(state: JsonValue, change: JsonObject) -> JsonValue:
    if SNAPSHOT in change:
        return change[SNAPSHOT]
    try:
        return patched(state, cast("Iterable[JsonObject]", change[PATCH]))
    except PatchDoesNotFitError:
        return state


class PatchDoesNotFitError(ValueError):
    """A patch that cannot be applied to a state: a place does not exist, or a test failed."""


def patched(state: JsonValue, operations: Iterable[JsonObject]) -> JsonValue:
    """Return the state after the operations of a checked patch; the given one is not changed.

    Raises:
        PatchDoesNotFitError: an operation does not fit the state.
    """
    for operation in operations:
        state = _applied(state, operation)
    return state


def _applied(state: JsonValue, operation: JsonObject) -> JsonValue:
    path = _parts(operation["path"])
    match operation["op"]:
        case "test":
            if not _is_same(_at(state, path), operation["value"]):
                raise PatchDoesNotFitError(f"the value at {operation['path']!r} is another one")
            return state
        case "add":
            return _changed(state, path, _Added(operation["value"]))
        case "remove":
            return _changed(state, path, _REMOVED)
        case "replace":
            _at(state, path)
            return _changed(state, path, _Replaced(operation["value"]))
        case "copy":
            return _changed(state, path, _Added(_at(state, _parts(operation["from"]))))
        case _:
            source = _parts(operation["from"])
            if path[: len(source)] == source and path != source:
                raise PatchDoesNotFitError("a value cannot be moved into itself")
            moved = _at(state, source)
            return _changed(_changed(state, source, _REMOVED), path, _Added(moved))


@value
class _Added:
    given: JsonValue


@value
class _Replaced:
    given: JsonValue


_REMOVED = None
_Change: TypeAlias = _Added | _Replaced | None


def _changed(state: JsonValue, path: Sequence[str], change: _Change) -> JsonValue:
    """Return the state with a change at a place; whatever is not on the way there is shared with the given one."""
    if not path:
        return None if change is None else change.given
    name, below = path[0], path[1:]
    if isinstance(state, Mapping):
        if below:
            return {**state, name: _changed(_at(state, [name]), below, change)}
        if change is not None:
            return {**state, name: change.given}
        _at(state, [name])
        return {each: found for each, found in state.items() if each != name}
    if isinstance(state, str) or not isinstance(state, Sequence):
        raise PatchDoesNotFitError(f"there is nothing to hold {name!r}")
    items: list[JsonValue] = list(state)
    if below:
        number = _number(name, len(items) - 1)
        items[number] = _changed(items[number], below, change)
    elif isinstance(change, _Added):
        items.insert(len(items) if name == "-" else _number(name, len(items)), change.given)
    elif change is None:
        del items[_number(name, len(items) - 1)]
    else:
        items[_number(name, len(items) - 1)] = change.given
    return items


def _at(state: JsonValue, path: Sequence[str]) -> JsonValue:
    for name in path:
        if isinstance(state, Mapping) and name in state:
            state = state[name]
        elif isinstance(state, Sequence) and not isinstance(state, str):
            state = state[_number(name, len(state) - 1)]
        else:
            raise PatchDoesNotFitError(f"there is no {name!r}")
    return state


def _number(name: str, most: int) -> int:
    if _INDEX.fullmatch(name) is None or int(name) > most:
        raise PatchDoesNotFitError(f"there is no item {name!r}")
    return int(name)


def _parts(pointer: JsonValue) -> list[str]:
    return [each.replace("~1", "/").replace("~0", "~") for each in str(pointer).split("/")[1:]]


def _is_same(one: JsonValue, other: JsonValue) -> bool:
    """Return whether two values are the same JSON: true is not 1, and 1.0 is."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_is_same(one[name], other[name]) for name in one)
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    if isinstance(one, Sequence) and isinstance(other, Sequence):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return one == other

"""JSON Patch (RFC 6902): the check of operations before they are sent to clients, and their application. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias, cast

from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json, is_list, to_json_value
from pilotage.values import value

_NEEDS: Mapping[str, tuple[str, ...]] = {
    "add": ("path", "value"),
    "remove": ("path",),
    "replace": ("path", "value"),
    "move": ("path", "from"),
    "copy": ("path", "from"),
    "test": ("path", "value"),
}
_POINTER = re.compile(r"(?:/(?:[^~/]|~[01])*)*", re.DOTALL)
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")


def checked_patch(operations: object) -> list[JsonObject]:
    """Return the operations of a patch in their JSON form.

    Raises:
        AgentDefinitionError: an operation is none of RFC 6902, or has a value without a JSON form.
    """
    if not is_list(operations):
        raise _unfit(f"it is {type(operations).__name__}, and a list of operations is needed")
    try:
        encoded = cast("Sequence[JsonValue]", to_json_value(list(operations)))
        canonical_json(encoded)
    except (TypeError, ValueError) as error:
        raise _unfit(str(error)) from error
    return [_checked(number, operation) for number, operation in enumerate(encoded, 1)]


def _checked(number: int, operation: JsonValue) -> JsonObject:
    kind = operation.get("op") if isinstance(operation, Mapping) else None
    needed = _NEEDS.get(kind) if isinstance(kind, str) else None
    if not isinstance(operation, Mapping) or needed is None:
        raise _unfit(f"operation {number} has no 'op' of {', '.join(_NEEDS)}")
    if missing := [name for name in needed if name not in operation]:
        raise _unfit(f"operation {number} ({kind}) lacks {', '.join(map(repr, missing))}")
    for name in ("path", "from"):
        pointer = operation.get(name, "")
        if not isinstance(pointer, str) or _POINTER.fullmatch(pointer) is None:
            raise _unfit(f"{name!r} of operation {number} is no JSON Pointer, such as '/items/0'")
    return operation


def _unfit(problem: str) -> AgentDefinitionError:
    return AgentDefinitionError(f"The patch of a state cannot be shared: {problem}.")


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

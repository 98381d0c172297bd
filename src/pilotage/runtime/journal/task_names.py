"""Names of implicit branches: a task is known by its first request and by what its coroutine was given.

The order in which tasks make their first request says nothing: `asyncio.as_completed` puts coroutines into a set, so
they begin in another order in every attempt. Steps, model calls and values have no arguments of their own, so without
those of their task one task would get the recorded outcome of another.
"""

from __future__ import annotations

from asyncio import Task
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from decimal import Decimal
from enum import Enum
from functools import partial
from inspect import CO_VARARGS, CO_VARKEYWORDS, getcoroutinelocals, iscoroutine
from typing import cast

from pilotage.jsonvalue import JsonValue, canonical_json, text_digest

_OWN = "pilotage."
_OWNERS = {"self", "cls"}
_DEEPEST = 4
_DIGITS = 8


class TaskNames:
    """Names the implicit branches of a run; without a salt as earlier versions did, by the first request alone.

    The names are in ids, which every reader of a run gets: the salt prevents guessing the arguments.
    """

    def __init__(self, salt: str | None) -> None:
        self._salt = salt

    def of(self, task: Task[object]) -> Callable[[str, JsonValue], str]:
        """Return the function that names the branch of a task by the label and the arguments of its first request."""
        if self._salt is None:
            return _old_name
        return partial(self._name, _given_to(task.get_coro(), _DEEPEST))

    def _name(self, given: JsonValue, label: str, asked: JsonValue) -> str:
        known = [each for each in (asked, given) if each is not None]
        return _named(label, f"{self._salt}\n{canonical_json(known)}") if known else f"task:{label}"


def _old_name(label: str, asked: JsonValue) -> str:
    return f"task:{label}" if asked is None else _named(label, canonical_json(asked))


def _named(label: str, known: str) -> str:
    return f"task:{label}:{text_digest(known)[:_DIGITS]}"


def _given_to(coroutine: object, depth: int) -> JsonValue:
    """Return the arguments of a program's coroutine that are plain and cannot change; None if there are none."""
    if not iscoroutine(coroutine) or coroutine.cr_frame is None:
        return None
    if str(coroutine.cr_frame.f_globals.get("__name__", "")).startswith(_OWN):
        # A call itself: what it was given is its request.
        return None
    code, values = coroutine.cr_code, getcoroutinelocals(coroutine)
    number = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & CO_VARARGS)
    names = [name for name in code.co_varnames[:number] if name not in _OWNERS]
    given = [values.get(name) for name in names]
    if code.co_flags & CO_VARKEYWORDS:
        given += [*values.get(code.co_varnames[number], {}).items()]
    # Without their names: a renamed parameter is no other task.
    found = [value for each in given if (value := _plain(each, depth)) is not None]
    return found or None


def _plain(value: object, depth: int) -> JsonValue:
    """Return a value for a name; None for one that may change, or that the runtime cannot read.

    Numbers with a point and moments are left out: they are mostly measured, and differ from attempt to attempt.
    """
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, str | int):
        return value
    if isinstance(value, Decimal):
        return str(value)
    if depth == 0:
        return None
    if isinstance(value, tuple):
        return [_plain(each, depth - 1) for each in cast("tuple[object, ...]", value)]
    if is_dataclass(value) and not isinstance(value, type) and _is_frozen(value):
        return {each.name: _plain(getattr(value, each.name, None), depth - 1) for each in fields(value)}
    return _given_to(value, depth - 1)


def _is_frozen(value: object) -> bool:
    parameters = getattr(value, "__dataclass_params__", None)
    return bool(getattr(parameters, "frozen", False))

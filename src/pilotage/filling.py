"""Generated constructors of values, optimised for speed.

Filling a frozen object field by field is slow. Ours are filled while they are instances of an open class, which
derives from theirs and adds nothing, and become values by a change of class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, fields, replace
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")

_WORTH_A_CHANGE_OF_CLASS = 4
"""From this number of fields on, two changes of class and plain assignments are faster than setting them one by one."""

_become = vars(object)["__class__"].__set__
_OPEN = {name: vars(object)[name] for name in ("__init__", "__setattr__", "__delattr__")}


def unchecked(cls: Callable[P, T]) -> Callable[P, T]:
    """Return a constructor of a value that skips `__post_init__`, for callers that made all of its fields themselves.

    If a class cannot be filled like that, it is the class itself.
    """
    known = _names_for(cls)
    maker: Callable[P, T] = cls if known["_open"] is None else _maker(cls, known, frozenset())
    return maker


def unchecked_without(cls: Callable[..., T], *later: str) -> Callable[..., T]:
    """Return the same without some fields, which the method `_make_later` makes by name when they are read.

    Such a value is of a class of its own, which derives from that of the others: reading a field of theirs costs
    nothing more.
    """
    known = _names_for(cls) | {"_closed": _completed_later(cls, later)}
    maker: Callable[..., T] = _maker(cls, known, frozenset(later))
    return maker


def _maker(cls: Any, known: dict[str, Any], left_out: frozenset[str]) -> Any:
    parameters, lines = _filled(cls, known, "self.{name} = {given}", left_out)
    body = ["self = _open()", *lines, "self.__class__ = _closed", "return self"]
    return _compiled("make", parameters, body, known)


def changing(cls: type[T], *names: str) -> Callable[..., T]:
    """Return a function that copies a value with other values in these fields: a fast `replace`.

    Neither the old nor the new fields are checked again.
    """
    known = _names_for(cls)
    if known["_open"] is None:

        def replaced(old: Any, *new: object) -> T:
            made: T = replace(old, **dict(zip(names, new, strict=True)))
            return made

        return replaced
    own = [each.name for each in fields(cast("Any", cls))]
    lines = [f"self.{name} = {name if name in names else f'_old.{name}'}" for name in own]
    body = ["self = _open()", *lines, "self.__class__ = _closed", "return self"]
    copy: Callable[..., T] = _compiled("copy", ["_old", *names], body, known)
    return copy


def init_by_slots(cls: Any) -> Callable[..., None] | None:
    """Return an `__init__` that fills slots, in half the time of the standard one.

    The standard library goes through `object.__setattr__`, which looks every name up again. What it treats in a way
    of its own (`InitVar`, `ClassVar`, `kw_only`), and values without slots, are left to it: None.
    """
    own = fields(cls)
    if (
        "__slots__" not in vars(cls)
        or len(own) != len(cls.__dataclass_fields__)
        or any(each.kw_only for each in own)
    ):
        return None
    known = _names_for(cls)
    parameters, lines = _filled(cls, known, "_set_{name}(self, {given})")
    if known["_open"] is not None and len(own) >= _WORTH_A_CHANGE_OF_CLASS:
        _, assigned = _filled(cls, known, "self.{name} = {given}")
        by_class = ["_become(self, _open)", *assigned, "self.__class__ = _closed"]
        # What merely derives from the value is of another class, and stays so.
        lines = ["if self.__class__ is _closed:", *_indented(by_class), "else:", *_indented(lines)]
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    init: Callable[..., None] = _compiled("__init__", ["self", *parameters], lines, known)
    init.__qualname__, init.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    init.__annotations__ = {each.name: each.type for each in own if each.init} | {"return": None}
    return init


def _names_for(cls: Any) -> dict[str, Any]:
    """Return the names that the code of a constructor may use."""
    return {"_ABSENT": _Absent(), "_become": _become, "_closed": cls, "_open": _opened(cls)}


def _opened(cls: Any) -> Any:
    """Return the class with fields that may be assigned; None where an object cannot change to it and back."""
    if type(cls) is not type or cls.__bases__ != (object,) or "__slots__" not in vars(cls):
        return None
    name = {"__module__": cls.__module__, "__qualname__": cls.__qualname__}
    return type(cls.__name__, (cls,), {"__slots__": (), **name, **_OPEN})


def _completed_later(cls: Any, later: Sequence[str]) -> Any:
    """Return the class of values without some fields. An operation that needs all of them fills the rest.

    A field that is left out is a property, the others are read like those of any value.
    """
    names = [each.name for each in fields(cls)]

    def made_later(name: str) -> property:
        slot = getattr(cls, name)  # the descriptor

        def made(self: Any) -> Any:
            try:
                return slot.__get__(self)
            except AttributeError:
                slot.__set__(self, field := self._make_later(name))
                return field

        return property(made)

    def completing(name: str) -> Callable[..., Any]:
        def method(self: Any, *args: Any) -> Any:
            for each in names:
                getattr(self, each)
            _become(self, cls)
            return getattr(self, name)(*args)

        return method

    members: dict[str, Any] = {name: made_later(name) for name in later}
    members |= {name: completing(name) for name in ("__eq__", "__hash__", "__reduce_ex__")}
    place = {"__slots__": (), "__module__": cls.__module__, "__qualname__": cls.__qualname__}
    return type(cls.__name__, (cls,), {**members, **place})


class _Absent:
    """Default of a parameter whose field makes its own value."""

    def __repr__(self) -> str:
        return "<factory>"


def _filled(
    cls: Any, known: dict[str, Any], line: str, left_out: frozenset[str] = frozenset()
) -> tuple[list[str], list[str]]:
    """Return the parameters of a constructor, and the lines that fill the slots."""
    parameters, lines = list[str](), list[str]()
    for each in fields(cls):
        if each.name in left_out:
            continue
        known[f"_set_{each.name}"] = getattr(cls, each.name).__set__
        given = _given(each, parameters, known)
        if given is not None:
            lines.append(line.format(name=each.name, given=given))
    return parameters, lines


def _given(each: Field[Any], parameters: list[str], known: dict[str, Any]) -> str | None:
    """Return the expression that fills the slot of a field, if any; adds a parameter for a field that callers fill."""
    name = each.name
    if each.default is not MISSING:
        known[f"_default_{name}"] = each.default
        if not each.init:
            return f"_default_{name}"
        parameters.append(f"{name}=_default_{name}")
    elif each.default_factory is not MISSING:
        known[f"_make_{name}"] = each.default_factory
        made = "{}" if each.default_factory is dict else f"_make_{name}()"
        if not each.init:
            return made
        parameters.append(f"{name}=_ABSENT")
        return f"{made} if {name} is _ABSENT else {name}"
    elif each.init:
        parameters.append(name)
    else:
        return None
    return name


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _compiled(name: str, parameters: list[str], lines: list[str], known: dict[str, Any]) -> Any:
    body = "\n".join(_indented(lines or ["pass"]))
    exec(f"def {name}({', '.join(parameters)}):\n{body}", known)  # noqa: S102 - as the standard library does
    return known[name]

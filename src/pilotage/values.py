"""`@value`: a frozen dataclass whose methods are written when they are first needed.

Writing the methods is what makes a dataclass slow to define: half a millisecond each, and a program imports
hundreds of values to use a few of them. So defining one only reads its fields. The constructor is written when
the first instance is made (`filling`), the others by the standard library when one of them is first called; from
then on it is a frozen dataclass like any other, also for `fields`, `replace`, `match`, `inspect.signature` and type
checkers.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import Field, FrozenInstanceError, dataclass, field, fields
from functools import cache, partial
from typing import Any, TypeVar, cast, dataclass_transform, overload

from pilotage.filling import init_by_slots

T = TypeVar("T")

NEVER_JSON: Mapping[str, str] = {"json": "never"}
"""`metadata` of a field that has no place in JSON: values are written and read without it."""
LEFT_OUT_BY_DEFAULT: Mapping[str, str] = {"json": "unless default"}
"""`metadata` of a field that came later: a value with its default is written as it was before there was the field."""

_WRITTEN = ("__init__", "__repr__", "__eq__", "__hash__")
_FIELDS = "__dataclass_fields__"


@overload
def value(cls: type[T], /) -> type[T]: ...
@overload
def value(*, slots: bool = True) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(cls: Any = None, /, *, slots: bool = True) -> Any:
    """Make a class a frozen dataclass; `slots=False` for generic ones, which some Pythons cannot slot."""
    return _define(cls, slots=slots) if cls is not None else partial(_define, slots=slots)


def is_in_json(each: Field[Any]) -> bool:
    """Return whether a field of a dataclass has a place in JSON."""
    return each.metadata.get("json") != "never"


def shared(make: Callable[[], T]) -> Callable[[], T]:
    """Return a `default_factory` with one frozen default for all values, made on first use."""
    return cache(make)


def _define(cls: Any, *, slots: bool) -> Any:
    with _thawed([base for base in cls.__mro__[1:] if _FIELDS in vars(base)]):
        dataclass(init=False, repr=False, eq=False)(cls)
    cls.__dataclass_params__.frozen = True
    owner: list[Any] = []
    members = {name: _written_when_called(owner, name) for name in _WRITTEN if name not in vars(cls)}
    defined = _slotted(cls, members) if slots else cls
    if not slots:
        for name, member in {**members, **_FROZEN}.items():
            setattr(cls, name, member)
    owner.append(defined)
    return defined


def _slotted(cls: Any, members: dict[str, Any]) -> Any:
    """Return the class with a slot for each field, made with all attributes: setting one later takes several times as
    long.
    """
    names = [each.name for each in fields(cls)]
    inherited: set[str] = {slot for base in cls.__mro__[1:-1] for slot in getattr(base, "__slots__", ())}
    old = dict(cast("dict[str, Any]", vars(cls)))
    held = {name: held for name, held in old.items() if name not in _OF_THE_OLD_CLASS and name not in names}
    slots = tuple(name for name in names if name not in inherited)
    state = {"__slots__": slots, "__getstate__": _get_state, "__setstate__": _set_state}
    slotted = type(cls)(cls.__name__, cls.__bases__, {**held, **members, **_FROZEN, **state})
    slotted.__qualname__ = cls.__qualname__
    return slotted


@contextmanager
def _thawed(bases: list[Any]) -> Generator[None]:
    """Unfreeze the bases for a moment: the standard library refuses to mix frozen and other dataclasses."""
    for base in bases:
        base.__dataclass_params__.frozen = False
    try:
        yield
    finally:
        for base in bases:
            base.__dataclass_params__.frozen = True


def _written_when_called(owner: list[Any], name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        (cls,) = owner
        _write(cls, name)
        return getattr(cls, name)(self, *args, **kwargs)

    method.__name__ = name
    return method


class _Signature:
    """The signature of a value for `inspect.signature`; a class that merely derives from one has its own."""

    def __get__(self, instance: object, owner: Any) -> object:
        if _FIELDS not in vars(owner):
            return None
        _write(owner, "__init__")
        from inspect import Signature, signature  # noqa: PLC0415 - only for those who look

        shown: Signature = signature(owner.__init__)
        return shown.replace(parameters=list(shown.parameters.values())[1:])


def _write(cls: Any, name: str) -> None:
    """Write a method of the class on first use; most values need only the constructor."""
    init = init_by_slots(cls) if name == "__init__" and _is_unwritten(cls, name) else None
    if init is not None:
        cls.__init__ = init
    elif _is_unwritten(cls, name):
        _write_all(cls)


def _write_all(cls: Any) -> None:
    """Take over the methods that the standard library writes for a frozen twin of the class."""
    init = init_by_slots(cls)
    # Whether there are slots decides how defaults of fields outside __init__ come in.
    make = dataclass(frozen=True, slots="__slots__" in vars(cls), init=init is None)
    twin: Any = make(type(cls.__name__, (cls,), {"__doc__": cls.__doc__ or cls.__name__}))
    for name in _WRITTEN:
        if _is_unwritten(cls, name):
            setattr(cls, name, init if name == "__init__" and init else getattr(twin, name))


def _is_unwritten(cls: Any, name: str) -> bool:
    return getattr(getattr(cls, name), "__qualname__", "").startswith(_written_when_called.__name__)


def _refuse_assignment(self: Any, name: str, value: object) -> None:
    if _is_frozen(self, name):
        raise FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _refuse_deletion(self: Any, name: str) -> None:
    if _is_frozen(self, name):
        raise FrozenInstanceError(f"cannot delete field {name!r}")
    object.__delattr__(self, name)


def _is_frozen(self: object, name: str) -> bool:
    """Return whether an attribute may not be set; a class that merely derives from a value may set its own ones."""
    return _FIELDS in vars(type(self)) or name in getattr(self, _FIELDS)


def _get_state(self: Any) -> list[object]:
    return [getattr(self, each.name) for each in fields(self)]


def _set_state(self: Any, state: list[object]) -> None:
    for each, held in zip(fields(self), state, strict=True):
        object.__setattr__(self, each.name, held)


_FROZEN = {"__signature__": _Signature(), "__setattr__": _refuse_assignment, "__delattr__": _refuse_deletion}
_OF_THE_OLD_CLASS = frozenset({"__dict__", "__weakref__"})

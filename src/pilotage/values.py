"""`@value`: a frozen dataclass whose methods are written when they are first needed.

Writing the methods is what makes a dataclass slow to define: half a millisecond each, and a program imports
hundreds of values to use a few of them. So defining one only reads its fields. The standard library writes
the methods when the first instance is made; from then on it is a frozen dataclass like any other, also for
`fields`, `replace`, `match`, `inspect.signature` and type checkers.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from functools import cache, partial
from typing import Any, TypeVar, cast, dataclass_transform, overload

T = TypeVar("T")

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


def shared(make: Callable[[], T]) -> Callable[[], T]:
    """For `default_factory`: one frozen default for all values that need it, made when the first one does."""
    return cache(make)


def _define(cls: Any, *, slots: bool) -> Any:
    own = {name for name in _WRITTEN if name in vars(cls)}
    with _thawed([base for base in cls.__mro__[1:] if _FIELDS in vars(base)]):
        defined: Any = dataclass(init=False, repr=False, eq=False, slots=slots)(cls)
    for name in _WRITTEN:
        if name not in own:
            setattr(defined, name, _written_when_called(defined, name))
    defined.__signature__ = _Signature()
    defined.__setattr__, defined.__delattr__ = _refuse_assignment, _refuse_deletion
    if slots:
        defined.__getstate__, defined.__setstate__ = _get_state, _set_state
    defined.__dataclass_params__.frozen = True
    return defined


@contextmanager
def _thawed(bases: list[Any]) -> Generator[None]:
    """For a moment the bases do not look frozen: the standard library refuses to mix."""
    for base in bases:
        base.__dataclass_params__.frozen = False
    try:
        yield
    finally:
        for base in bases:
            base.__dataclass_params__.frozen = True


def _written_when_called(cls: Any, name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        _write(cls)
        return getattr(cls, name)(self, *args, **kwargs)

    method.__name__ = name
    return method


class _Signature:
    """What `inspect.signature` shows of a value; a class that merely derives from one has its own."""

    def __get__(self, instance: object, owner: Any) -> object:
        if _FIELDS not in vars(owner):
            return None
        _write(owner)
        from inspect import Signature, signature  # noqa: PLC0415 - only for those who look

        shown: Signature = signature(owner.__init__)
        return shown.replace(parameters=list(shown.parameters.values())[1:])


def _write(cls: Any) -> None:
    """Take over the methods that the standard library writes for a frozen twin of the class."""
    init = _init_by_slots(cls)
    # Whether there are slots decides how defaults of fields outside __init__ come in.
    make = dataclass(frozen=True, slots="__slots__" in vars(cls), init=init is None)
    twin: Any = make(type(cls.__name__, (cls,), {"__doc__": cls.__doc__ or cls.__name__}))
    for name in _WRITTEN:
        if getattr(getattr(cls, name), "__qualname__", "").startswith(_written_when_called.__name__):
            setattr(cls, name, init if name == "__init__" and init else getattr(twin, name))


def _init_by_slots(cls: Any) -> Callable[..., None] | None:
    """An `__init__` that fills each slot by its own setter, in half the time of the standard one.

    The standard library goes through `object.__setattr__`, which looks every name up again. What it treats in a way
    of its own (`InitVar`, `ClassVar`, `kw_only`), and values without slots, are left to it: None.
    """
    own = fields(cls)
    if (
        "__slots__" not in vars(cls)
        or len(own) != len(getattr(cls, _FIELDS))
        or any(each.kw_only for each in own)
    ):
        return None
    known: dict[str, Any] = {"_ABSENT": _Absent()}
    parameters, lines = ["self"], list[str]()
    for each in own:
        known[f"_set_{each.name}"] = getattr(cls, each.name).__set__
        parameter, line = _filled(each, known)
        parameters += parameter
        lines += line
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    body = "".join(f"\n    {line}" for line in lines or ["pass"])
    exec(f"def __init__({', '.join(parameters)}):{body}", known)  # noqa: S102 - as the standard library does
    init: Any = known["__init__"]
    init.__qualname__, init.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    init.__annotations__ = {each.name: each.type for each in own if each.init} | {"return": None}
    return cast("Callable[..., None]", init)


class _Absent:
    """Stands for a value that the field makes itself."""

    def __repr__(self) -> str:
        return "<factory>"


def _filled(each: Field[Any], known: dict[str, Any]) -> tuple[list[str], list[str]]:
    """The parameter of a field, if it has one, and the line that fills its slot, if any does."""
    name, setter = each.name, f"_set_{each.name}"
    if each.default is not MISSING:
        known[f"_default_{name}"] = each.default
        if each.init:
            return [f"{name}=_default_{name}"], [f"{setter}(self, {name})"]
        return [], [f"{setter}(self, _default_{name})"]
    if each.default_factory is not MISSING:
        known[f"_make_{name}"] = each.default_factory
        if each.init:
            made = f"_make_{name}() if {name} is _ABSENT else {name}"
            return [f"{name}=_ABSENT"], [f"{setter}(self, {made})"]
        return [], [f"{setter}(self, _make_{name}())"]
    return ([name], [f"{setter}(self, {name})"]) if each.init else ([], [])


def _refuse_assignment(self: Any, name: str, value: object) -> None:
    if _is_frozen(self, name):
        raise FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _refuse_deletion(self: Any, name: str) -> None:
    if _is_frozen(self, name):
        raise FrozenInstanceError(f"cannot delete field {name!r}")
    object.__delattr__(self, name)


def _is_frozen(self: object, name: str) -> bool:
    """A class that derives from a value without being one may have attributes of its own."""
    return _FIELDS in vars(type(self)) or name in getattr(self, _FIELDS)


def _get_state(self: Any) -> list[object]:
    return [getattr(self, each.name) for each in fields(self)]


def _set_state(self: Any, state: list[object]) -> None:
    for each, held in zip(fields(self), state, strict=True):
        object.__setattr__(self, each.name, held)

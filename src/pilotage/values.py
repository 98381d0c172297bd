"""`@value`: a frozen dataclass whose methods are written when they are first needed.

Writing the methods is what makes a dataclass slow to define: half a millisecond each, and a program imports
hundreds of values to use a few of them. So defining one only reads its fields. The standard library writes
the methods when the first instance is made; from then on it is a frozen dataclass like any other, also for
`fields`, `replace`, `match`, `inspect.signature` and type checkers.

Filling a frozen object field by field makes constructing one slow. Ours are filled while they are of an open class with
the same slots, and become values by a change of class.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from functools import cache, partial
from typing import Any, ParamSpec, TypeVar, cast, dataclass_transform, overload

P = ParamSpec("P")
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


def unchecked(cls: Callable[P, T]) -> Callable[P, T]:
    """The constructor of a value for those who have made all of its fields themselves: `__post_init__` is left out.

    Where a class cannot be filled like that, it is the class itself.
    """
    known = _known_to(cls)
    if known["_open"] is None:
        return cls
    parameters, lines = _filled(cls, known, "self.{name} = {given}")
    body = ["self = _new(_open)", *lines, "self.__class__ = _closed", "return self"]
    return cast("Callable[P, T]", _compiled("make", parameters, body, known))


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
    """An `__init__` that fills slots, in half the time of the standard one.

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
    known = _known_to(cls)
    parameters, lines = _filled(cls, known, "_set_{name}(self, {given})")
    if known["_open"] is not None and len(own) >= _WORTH_A_CHANGE_OF_CLASS:
        _, assigned = _filled(cls, known, "self.{name} = {given}")
        by_class = ["_become(self, _open)", *assigned, "self.__class__ = _closed"]
        # What merely derives from the value is of another class, and stays so.
        lines = ["if self.__class__ is _closed:", *_indented(by_class), "else:", *_indented(lines)]
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    init = _compiled("__init__", ["self", *parameters], lines, known)
    init.__qualname__, init.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    init.__annotations__ = {each.name: each.type for each in own if each.init} | {"return": None}
    return cast("Callable[..., None]", init)


_WORTH_A_CHANGE_OF_CLASS = 4
"""So many fields take longer to set one by one than two changes of class and plain assignments."""

_become = vars(object)["__class__"].__set__


def _known_to(cls: Any) -> dict[str, Any]:
    """The names that the code of a constructor may use."""
    return {
        "_ABSENT": _Absent(),
        "_become": _become,
        "_closed": cls,
        "_new": object.__new__,
        "_open": _opened(cls),
    }


def _opened(cls: Any) -> Any:
    """A class with the same slots, which may be assigned; None where an object cannot change to it and back."""
    slots: object = cast("dict[str, object]", vars(cls)).get("__slots__")
    if type(cls) is not type or cls.__bases__ != (object,) or slots is None:
        return None
    return type(cls.__name__, (), {"__slots__": slots})


class _Absent:
    """Stands for a value that the field makes itself."""

    def __repr__(self) -> str:
        return "<factory>"


def _filled(cls: Any, known: dict[str, Any], line: str) -> tuple[list[str], list[str]]:
    """The parameters of a constructor, and the lines that fill the slots."""
    parameters, lines = list[str](), list[str]()
    for each in fields(cls):
        known[f"_set_{each.name}"] = getattr(cls, each.name).__set__
        given = _given(each, parameters, known)
        if given is not None:
            lines.append(line.format(name=each.name, given=given))
    return parameters, lines


def _given(each: Field[Any], parameters: list[str], known: dict[str, Any]) -> str | None:
    """What fills the slot of a field, if anything does; a field that callers may fill adds its parameter."""
    name = each.name
    if each.default is not MISSING:
        known[f"_default_{name}"] = each.default
        if not each.init:
            return f"_default_{name}"
        parameters.append(f"{name}=_default_{name}")
    elif each.default_factory is not MISSING:
        known[f"_make_{name}"] = each.default_factory
        if not each.init:
            return f"_make_{name}()"
        parameters.append(f"{name}=_ABSENT")
        return f"_make_{name}() if {name} is _ABSENT else {name}"
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

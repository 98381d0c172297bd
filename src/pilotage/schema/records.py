"""The fields of dataclasses and typed dicts, and how validated fields become a value again."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NotRequired, Required, get_args, get_origin

from pilotage.annotations import resolve_fields
from pilotage.errors import PilotageError
from pilotage.values import value


@value
class NoDefault:
    """The field must be given."""


@value
class UnknownDefault:
    """The field may be left out; what it is then is made when it is needed."""


@value
class KnownDefault:
    """The field may be left out and then has this value."""

    value: object


Default = NoDefault | UnknownDefault | KnownDefault


@value
class Field:
    """One field of a record as it is declared."""

    name: str
    annotation: object
    default: Default


def is_typed_dict(owner: type) -> bool:
    """Also true for the typed dicts of typing_extensions, which `typing` does not know."""
    return dict in owner.__mro__ and hasattr(owner, "__total__")


def typed_dict_fields(owner: type) -> list[Field]:
    required: frozenset[str] = getattr(owner, "__required_keys__", frozenset[str]())
    return [_typed_dict_key(name, hint, name in required) for name, hint in resolve_fields(owner).items()]


def _typed_dict_key(name: str, hint: object, is_required: bool) -> Field:
    # In annotations kept as text the class itself could not see these two.
    origin = get_origin(hint)
    if origin in {Required, NotRequired}:
        (hint,), is_required = get_args(hint), origin is Required
    return Field(name, hint, NoDefault() if is_required else UnknownDefault())


def dataclass_fields(owner: type, *, for_input: bool) -> list[Field]:
    """The fields its constructor takes, or, for output, all that its JSON has."""
    hints = resolve_fields(owner)
    return [
        Field(field.name, hints[field.name], _default_of(field))
        for field in dataclasses.fields(owner)
        if field.init or not for_input
    ]


def hidden_parameters(owner: type) -> list[str]:
    """What the constructor of a dataclass demands besides its fields."""
    names = {field.name for field in dataclasses.fields(owner) if field.init}
    parameters = inspect.signature(owner).parameters.values()
    return [p.name for p in parameters if p.name not in names and p.default is p.empty]


def constructing(owner: type) -> Callable[[object, Callable[[object], Mapping[str, object]]], object]:
    """A validator that makes an `owner` from its validated fields and leaves finished ones alone."""

    def construct(given: object, validate: Callable[[object], Mapping[str, object]]) -> object:
        if isinstance(given, owner):
            return given
        try:
            return owner(**validate(given))
        except (PilotageError, TypeError) as error:
            raise ValueError(str(error)) from error

    return construct


def _default_of(field: dataclasses.Field[Any]) -> Default:
    if field.default is not dataclasses.MISSING:
        return KnownDefault(field.default)
    return NoDefault() if field.default_factory is dataclasses.MISSING else UnknownDefault()

"""Filling in type variables: what `T` stands for in `Repository[User]`, and a hint with that put in its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

Arguments = Mapping[object, object]


def arguments_of(generic: object, arguments: tuple[object, ...]) -> Arguments:
    """What the type variables of a generic class or alias are: `{T: User}`."""
    variables: tuple[object, ...] = getattr(generic, "__parameters__", ())
    variables = variables or getattr(generic, "__type_params__", ())
    return dict(zip(variables, arguments, strict=False))


def substitute(hint: object, arguments: Arguments) -> object:
    """The hint with its type variables replaced; those that are not known stay."""
    if isinstance(hint, TypeVar):
        return arguments.get(hint, hint)
    variables: tuple[object, ...] = getattr(hint, "__parameters__", ())
    if not arguments or not variables or isinstance(hint, type):
        return hint
    return cast(Any, hint)[tuple(arguments.get(variable, variable) for variable in variables)]

"""Resolves annotations into types, whether they were written as types or as text, and fills in type variables."""

from __future__ import annotations

import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import FunctionType, SimpleNamespace
from typing import Any, ClassVar, TypeVar, cast

from pilotage import jsonvalue
from pilotage.jsonvalue import JsonPrimitive

Arguments = Mapping[object, object]


class AnyJson:
    """Represents `JsonValue` in resolved annotations, because at run time that alias is only text."""

    __slots__: ClassVar[tuple[str, ...]] = ()


_JSON_VALUE_TEXT: object = jsonvalue.JsonValue
_JSON_NAMES: dict[str, object] = {
    "JsonValue": AnyJson,
    "JsonPrimitive": JsonPrimitive,
    "Mapping": Mapping,
    "Sequence": Sequence,
}
# The resolved text of the alias, where it was not recognised by name.
_JSON_VALUE_SPELLED_OUT: object = JsonPrimitive | Mapping[str, AnyJson] | Sequence[AnyJson]


class UnresolvedAnnotationError(Exception):
    """An annotation contains a name that cannot be found; `reason` names it, the text also the place."""

    def __init__(self, reason: str, owner: str | None = None) -> None:
        super().__init__(f"{reason} (in {owner})" if owner else reason)
        self.reason = reason


def is_any_json(annotation: object) -> bool:
    """Return whether the type is `JsonValue`, ours or pydantic's."""
    if annotation is AnyJson or annotation == _JSON_VALUE_SPELLED_OUT:
        return True
    name, module = getattr(annotation, "__name__", ""), getattr(annotation, "__module__", "")
    return name == "JsonValue" and module == "pydantic.types"


class Names:
    """The names of a module, for annotations of functions and classes in it."""

    def __init__(self, module: Mapping[str, object]) -> None:
        self.module = module if isinstance(module, dict) else dict(module)

    @cached_property
    def of_json(self) -> dict[str, object]:
        """The names that resolving `JsonValue` needs, except those that mean something else in the module."""
        aliases = {name: AnyJson for name, value in self.module.items() if value is _JSON_VALUE_TEXT}
        missing = {name: value for name, value in _JSON_NAMES.items() if name not in self.module}
        return {**missing, **aliases}


def resolve_annotation(annotation: object, names: Names | Mapping[str, object]) -> object:
    """Return one annotation of a function, with the names of its module."""
    if type(annotation) is type:
        return annotation
    if annotation == _JSON_VALUE_TEXT:
        return AnyJson
    known = names if isinstance(names, Names) else Names(names)
    holder = SimpleNamespace(__annotations__={"it": annotation})
    return _resolve(holder, known, known.module)["it"]


def resolve_signature(function: FunctionType) -> dict[str, object]:
    """Return the annotations of a function, with the names of its module."""
    return _resolve(function, Names(function.__globals__), None)


def resolve_fields(owner: type) -> dict[str, object]:
    """Return the annotations of a class and its bases."""
    module = sys.modules.get(owner.__module__)
    return _resolve(owner, Names(vars(module) if module else {}), None)


def resolve_alias(alias: Any, arguments: tuple[object, ...]) -> object:
    """Return the type of an alias made by the `type` statement or `TypeAliasType`."""
    module = sys.modules.get(alias.__module__)
    value = resolve_annotation(alias.__value__, vars(module) if module else {})
    return substitute(value, arguments_of(alias, arguments))


def _resolve(holder: object, names: Names, known_globals: dict[str, object] | None) -> dict[str, object]:
    get_hints: Callable[..., dict[str, object]] = typing.get_type_hints
    known = dict(vars(holder)) if isinstance(holder, type) else {}
    try:
        return get_hints(holder, known_globals, {**known, **names.of_json}, include_extras=True)
    except (NameError, AttributeError, TypeError, SyntaxError, RecursionError) as error:
        owner = holder.__name__ if isinstance(holder, type) else None
        raise UnresolvedAnnotationError(str(error), owner) from error


def arguments_of(generic: object, arguments: tuple[object, ...]) -> Arguments:
    """Return the type arguments of a generic class or alias: `{T: User}`."""
    variables: tuple[object, ...] = getattr(generic, "__parameters__", ())
    variables = variables or getattr(generic, "__type_params__", ())
    return dict(zip(variables, arguments, strict=False))


def substitute(hint: object, arguments: Arguments) -> object:
    """Return the hint with its type variables replaced; those without an argument stay."""
    if isinstance(hint, TypeVar):
        return arguments.get(hint, hint)
    variables: tuple[object, ...] = getattr(hint, "__parameters__", ())
    if not arguments or not variables or isinstance(hint, type):
        return hint
    return cast(Any, hint)[tuple(arguments.get(variable, variable) for variable in variables)]

"""Finds the sensitive fields in a type: dataclasses, pydantic models, typed dicts and all they hold.

Paths name fields only; lists, tuples, unions and mappings add no segment. A type that contains itself
gives paths that start with `ANY_DEPTH` where the recursion begins, because its fields lie at any depth.
Pydantic models are recognised by their attributes: this package does not import pydantic.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from types import NoneType
from typing import (
    Annotated,
    Any,
    ForwardRef,
    Literal,
    NamedTuple,
    TypeAlias,
    TypeVar,
    cast,
    get_args,
    get_origin,
)

from pilotage.annotations import (
    UnresolvedAnnotationError,
    arguments_of,
    resolve_alias,
    resolve_fields,
    substitute,
)
from pilotage.errors import AgentDefinitionError
from pilotage.safety.fields import ANY_DEPTH, SecretField, SensitiveField, SensitiveFieldDescriptor
from pilotage.values import is_in_json

T = TypeVar("T")
Found: TypeAlias = list[SensitiveFieldDescriptor]
_PLAIN = (str, int, bool, float, NoneType, None)
"""The types of most parameters: there is nothing in them to search."""


def find_sensitive_fields(
    annotation: object, path: tuple[str, ...] = ()
) -> tuple[SensitiveFieldDescriptor, ...]:
    """Return the sensitive and secret fields in a type, in the order of declaration, outer ones first.

    Raises:
        AgentDefinitionError: an annotation cannot be resolved, or the keys of a mapping are marked.
    """
    if any(annotation is each for each in _PLAIN):
        return ()
    found: Iterable[SensitiveFieldDescriptor] = _Search().visit(annotation)
    for name in reversed(path):
        found = _under(name, found)
    return tuple(dict.fromkeys(found))


class _Field(NamedTuple):
    name: str
    hint: object


class _Search:
    """One walk through a type, with the types on the way and the recursive ones."""

    def __init__(self) -> None:
        self._open: list[object] = []
        self._recursive: list[object] = []

    def visit(self, hint: object) -> Found:
        if isinstance(hint, str | ForwardRef):
            raise _unresolved(repr(hint), "it is a text, not a type")
        origin, arguments = get_origin(hint), get_args(hint)
        if origin is Literal:
            return []
        if origin is Annotated:
            return _marked(arguments[1:]) + self.visit(arguments[0])
        if _is_mapping(origin):
            return self._visit_mapping(hint, *arguments)
        inner = _meaning(hint, origin)
        if inner is not hint or _fields_of(origin or hint) is not None:
            return self._visit_named(hint, inner)
        return self._visit_all(arguments)

    def _visit_all(self, hints: Iterable[object]) -> Found:
        return [descriptor for hint in hints for descriptor in self.visit(hint)]

    def _visit_mapping(self, hint: object, key: object, value: object) -> Found:
        if self.visit(key):
            raise AgentDefinitionError(
                f"The keys of {hint!r} are marked as sensitive, but keys are shown as they are. "
                "Move the sensitive text into the values, e.g. use a list of dataclasses."
            )
        return [replace(found, each_value_at=(0, *found.each_value_at)) for found in self.visit(value)]

    def _visit_named(self, hint: object, inner: object) -> Found:
        if hint in self._open:
            self._recursive.append(hint)
            return []
        self._open.append(hint)
        found = self._visit_fields(hint) if inner is hint else self.visit(inner)
        self._open.pop()
        return list(_under(ANY_DEPTH, found)) if hint in self._recursive else found

    def _visit_fields(self, hint: object) -> Found:
        owner = cast(type, get_origin(hint) or hint)
        arguments = arguments_of(owner, get_args(hint))
        found: Found = []
        for name, annotation in _fields_of(owner) or ():
            inside = self.visit(substitute(annotation, arguments))
            found.extend(inside if _is_positional(owner) else _under(name, inside))
        return found


def _marked(metadata: Iterable[object]) -> Found:
    return [
        SensitiveFieldDescriptor((), marker)
        for marker in metadata
        if isinstance(marker, SensitiveField | SecretField)
    ]


def _under(name: str, found: Iterable[SensitiveFieldDescriptor]) -> Iterator[SensitiveFieldDescriptor]:
    for descriptor in found:
        yield replace(
            descriptor,
            path=(name, *descriptor.path),
            each_value_at=tuple(position + 1 for position in descriptor.each_value_at),
        )


def _is_mapping(origin: object) -> bool:
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _meaning(hint: object, origin: object) -> object:
    """Return the type of a new type, an alias or a type variable; any other hint unchanged."""
    if isinstance(hint, TypeVar):
        return hint.__bound__ or (typing.Union[hint.__constraints__] if hint.__constraints__ else None)  # noqa: UP007
    alias = origin if hasattr(origin, "__value__") else hint
    if hasattr(alias, "__value__"):
        return _resolved(str(alias), lambda: resolve_alias(alias, get_args(hint)))
    return getattr(hint, "__supertype__", hint)


def _is_positional(owner: type) -> bool:
    """Return whether JSON holds the fields without their names: named tuples, and models of one root value."""
    return _is_named_tuple(owner) or bool(getattr(owner, "__pydantic_root_model__", False))


def _is_named_tuple(owner: type) -> bool:
    return issubclass(owner, tuple) and hasattr(cast(object, owner), "_fields")


def _fields_of(owner: object) -> list[_Field] | None:
    """Return the fields of a class that has fields; None for every other type."""
    if not isinstance(owner, type):
        return None
    if hasattr(owner, "model_fields"):
        return list(_model_fields(owner))
    if _is_named_tuple(owner) or typing.is_typeddict(owner):
        return [_Field(name, hint) for name, hint in _hints(owner).items()]
    if dataclasses.is_dataclass(owner):
        hints = _hints(owner)
        written = filter(is_in_json, dataclasses.fields(owner))
        return [_Field(field.name, hints[field.name]) for field in written]
    return None


def _model_fields(owner: type) -> Iterator[_Field]:
    model: Any = owner
    if not getattr(model, "__pydantic_complete__", True):
        model.model_rebuild(raise_errors=False)
    for name, info in model.model_fields.items():
        # Input may carry the alias, output the name: the value is protected under both.
        hint = Annotated[info.annotation, *info.metadata] if info.metadata else info.annotation
        for known_as in dict.fromkeys([name, *_aliases(info)]):
            yield _Field(known_as, hint)


def _aliases(info: Any) -> Iterator[str]:
    for alias in (info.alias, info.serialization_alias, info.validation_alias):
        for choice in getattr(alias, "choices", [alias]):
            first = getattr(choice, "path", [choice])[0]
            if isinstance(first, str):
                yield first


def _hints(owner: type) -> dict[str, object]:
    return _resolved(owner.__qualname__, lambda: resolve_fields(owner))


def _resolved(what: str, resolve: Callable[[], T]) -> T:
    try:
        return resolve()
    except UnresolvedAnnotationError as error:
        raise _unresolved(what, error.reason) from error


def _unresolved(what: str, why: str) -> AgentDefinitionError:
    return AgentDefinitionError(
        f"The annotations of {what} cannot be resolved: {why}. "
        "Define or import every type they name at the top level of the module."
    )

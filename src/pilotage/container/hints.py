"""Type hints of constructors and factories, forward references resolved.

Resolved late, when every module is loaded, so that a class may name another one that is defined further down.
"""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import suppress
from dataclasses import is_dataclass
from types import SimpleNamespace, UnionType
from typing import Annotated, Union, cast, get_args, get_origin, get_type_hints

from pilotage.annotations import substitute
from pilotage.container.names import target_name, type_name
from pilotage.container.signature import Function, constructor_of, making_of, where
from pilotage.container.typematch import type_arguments
from pilotage.errors import PodDefinitionError

_ITERATORS = {Iterator, Iterable, Generator, AsyncIterator, AsyncIterable, AsyncGenerator}


def provided_type(target: object) -> object:
    """What a class or factory provides: the class itself, or what the factory returns or yields."""
    if isinstance(target, type):
        return target
    returned = resolve_hints(target)["return"]
    provided = _yielded_type(target, returned) if making_of(target).has_cleanup else returned
    if get_origin(provided) is Annotated:
        provided = get_args(provided)[0]
    if get_origin(provided) in {Union, UnionType}:
        raise PodDefinitionError(
            f"{target_name(target)}: the factory provides {type_name(provided)}, which is not one type. "
            "Write the one type it always provides."
        )
    return provided


def resolve_hints(target: object) -> Mapping[str, object]:
    """The type hints of a class's constructor or of a function, forward references resolved."""
    if not isinstance(target, type):
        return _evaluate(where(target), cast("Function", target))
    found = constructor_of(target)
    if found is None:
        return {}
    owner, constructor = found
    hints = _constructor_hints(target, owner, constructor)
    arguments = type_arguments(target, owner)
    return {name: substitute(hint, arguments) for name, hint in hints.items()}


def _yielded_type(factory: object, returned: object) -> object:
    if get_origin(returned) in _ITERATORS:
        return get_args(returned)[0]
    iterator = "AsyncIterator" if making_of(factory).is_async else "Iterator"
    raise PodDefinitionError(
        f"{target_name(factory)}: the factory yields its pod. "
        f"Write the return type as {iterator}[{type_name(returned)}], not {type_name(returned)}."
    )


def _constructor_hints(target: type, owner: type, constructor: Function) -> Mapping[str, object]:
    try:
        return _evaluate(where(target), constructor)
    except PodDefinitionError:
        # The constructor of a dataclass may hold hints of fields inherited from another module.
        with suppress(NameError):
            if is_dataclass(owner):
                return get_type_hints(owner, include_extras=True)
        raise


def _evaluate(owner: str, function: Function) -> Mapping[str, object]:
    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, AttributeError, SyntaxError, TypeError):
        namespace: Mapping[str, object] = getattr(function, "__globals__", {})
        for name, hint in function.__annotations__.items():
            _evaluate_one(owner, name, hint, namespace)
        raise


def _evaluate_one(owner: str, name: str, hint: object, namespace: Mapping[str, object]) -> None:
    try:
        get_type_hints(SimpleNamespace(__annotations__={name: hint}), dict(namespace))
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        what = "the return type" if name == "return" else f"the type of parameter {name!r}"
        raise PodDefinitionError(
            f"{owner}: {what} cannot be resolved: {error}. Import or define it at the top level of "
            f"{namespace.get('__name__', 'its module')}, not under TYPE_CHECKING and not inside a function."
        ) from error

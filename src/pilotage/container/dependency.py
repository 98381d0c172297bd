"""Dependencies: the parameters of a constructor or factory with their types resolved.

Hints are resolved late, when every module is loaded: a class may name another one that is defined further down.
"""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import InitVar, is_dataclass
from inspect import Parameter
from types import MappingProxyType, NoneType, SimpleNamespace, UnionType
from typing import Annotated, Any, Union, cast, get_args, get_origin, get_type_hints

from pilotage.annotations import substitute
from pilotage.container.names import enumerate_names, target_name, type_name
from pilotage.container.signature import Function, constructor_of, making_of, read_parameters, where
from pilotage.container.typematch import type_arguments
from pilotage.errors import PodDefinitionError
from pilotage.values import value

_ITERATORS = {Iterator, Iterable, Generator, AsyncIterator, AsyncIterable, AsyncGenerator}


def provided_type(target: object) -> object:
    """Return the provided type: the class itself, or the type that the factory returns or yields."""
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
    """Return the type hints of a class's constructor or of a function, forward references resolved."""
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


_COLLECTIONS: Mapping[object, type] = {
    list: list,
    Sequence: list,
    Collection: list,
    Iterable: list,
    tuple: tuple,
    set: set,
    frozenset: frozenset,
    AbstractSet: frozenset,
    dict: dict,
    Mapping: dict,
}


@value
class Qualifier:
    """Name of the pod to inject: `Annotated[BankPort, Qualifier("backup_bank")]`."""

    name: str


@value
class Dependency:
    """One parameter the container fills.

    `type_` is the type as written, without `Annotated` and `None`. For a collection of all pods of a
    type, `collection` is what to make and `element` what to put in; otherwise `element` is `type_`.
    """

    parameter: str
    type_: object
    element: object
    collection: type | None = None
    qualifier: str | None = None
    optional: bool = False
    has_default: bool = False

    @property
    def may_be_missing(self) -> bool:
        return self.optional or self.has_default


def read_dependencies(target: object) -> Mapping[str, Dependency]:
    """Return the dependencies of a constructor or factory; raise `PodDefinitionError` for an unresolvable hint."""
    parameters = read_parameters(target)
    if not parameters:
        return MappingProxyType({})
    hints = resolve_hints(target)
    return MappingProxyType({p.name: _read_dependency(where(target), p, hints[p.name]) for p in parameters})


def _read_dependency(owner: str, parameter: Parameter, hint: object) -> Dependency:
    bare, qualifier, optional = _unwrap(owner, parameter.name, hint)
    collection, element = _split_collection(bare)
    return Dependency(
        parameter=parameter.name,
        type_=bare,
        element=element,
        collection=collection,
        qualifier=qualifier,
        optional=optional,
        has_default=parameter.default is not Parameter.empty,
    )


def _unwrap(owner: str, name: str, hint: object) -> tuple[object, str | None, bool]:
    """Return the type without `InitVar`, `Annotated` and `None`, the qualifier, and whether None is allowed."""
    if isinstance(hint, InitVar):
        return _unwrap(owner, name, cast("Any", hint).type)
    if get_origin(hint) is Annotated:
        bare, *metadata = get_args(hint)
        inner, qualifier, optional = _unwrap(owner, name, bare)
        names = [item.name for item in metadata if isinstance(item, Qualifier)]
        return inner, (names[-1] if names else qualifier), optional
    if get_origin(hint) in {Union, UnionType}:
        members = [member for member in get_args(hint) if member is not NoneType]
        if len(members) > 1:
            types = enumerate_names([type_name(member) for member in members], "or")
            raise PodDefinitionError(
                f"{owner}: parameter {name!r} may be {types}. "
                "Ask for one type, for example an interface that all of them implement."
            )
        inner, qualifier, _ = _unwrap(owner, name, members[0])
        return inner, qualifier, True
    if hint is Any or hint is object:
        raise PodDefinitionError(
            f"{owner}: parameter {name!r} is {type_name(hint)}, which every pod is. "
            "Write the type of the pod it needs."
        )
    return hint, None, False


def _split_collection(hint: object) -> tuple[type | None, object]:
    origin, arguments = get_origin(hint), get_args(hint)
    collection = _COLLECTIONS.get(origin)
    if collection is dict and arguments[0] is not str:
        return None, hint
    if collection is tuple and arguments[1:] != (Ellipsis,):
        return None, hint
    if collection is None:
        return None, hint
    return collection, arguments[1 if collection is dict else 0]

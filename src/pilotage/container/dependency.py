"""Dependencies: the parameters of a pod with their types resolved."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import InitVar
from inspect import Parameter
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Union, cast, get_args, get_origin

from pilotage.container.hints import resolve_hints
from pilotage.container.names import enumerate_names, type_name
from pilotage.container.signature import read_parameters, where
from pilotage.errors import PodDefinitionError
from pilotage.values import value

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
    """Asks for the pod of this name: `Annotated[BankPort, Qualifier("backup_bank")]`."""

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
    """What a constructor or factory needs; `PodDefinitionError` if a type hint cannot be resolved."""
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
    """The type without `InitVar`, `Annotated` and `None`, the qualifier, and whether None is allowed."""
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

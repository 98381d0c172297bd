"""Types that a type provides: its bases, its generic bases with arguments, the protocols it fits."""

from __future__ import annotations

import sys
from abc import ABC
from collections.abc import Iterator
from inspect import get_annotations
from typing import Generic, Protocol, TypeVar, cast, get_args, get_origin, runtime_checkable

from pilotage.annotations import Arguments, arguments_of, substitute

_PROVIDED_BY_ALL = {object, ABC, Generic, Protocol}

_T_co = TypeVar("_T_co", covariant=True)


@runtime_checkable
class _AnyProtocol(Protocol[_T_co]):
    """A protocol with every attribute that protocols have without declaring it."""

    _declared: int


_UNDECLARED = {*vars(_AnyProtocol), *vars(object)}


def provided_types(type_: object) -> Iterator[object]:
    """Yield every type under which a pod of this type is found, itself first."""
    yield type_
    origin = get_origin(type_) or type_
    if not isinstance(origin, type):
        return
    seen = {type_, *_PROVIDED_BY_ALL}
    for provided in (*_generic_bases(type_), *origin.__mro__):
        if provided not in seen:
            seen.add(provided)
            yield provided


def type_arguments(type_: object, base: type) -> Arguments:
    """Return the type arguments of a generic base for this type: `{T: User}`."""
    for alias in (type_, *_generic_bases(type_)):
        if get_origin(alias) is base:
            return arguments_of(get_origin(alias), get_args(alias))
    return {}


def is_protocol(type_: object) -> bool:
    """Return whether the type is a Protocol itself, not a class that implements one."""
    return isinstance(type_, type) and bool(getattr(type_, "_is_protocol", False))


def is_plain(type_: object) -> bool:
    """Return whether the type belongs to the language (`str`, `Path`, `dict[str, int]`) and identifies no pod."""
    module: str = getattr(get_origin(type_) or type_, "__module__", "")
    return module.partition(".")[0] in sys.stdlib_module_names


def missing_members(type_: object, protocol: object) -> list[str]:
    """Return the members of the protocol that the type lacks, in alphabetical order."""
    origin = get_origin(type_) or type_
    return sorted(name for name in protocol_members(protocol) if not _has_member(origin, name))


def protocol_members(protocol: object) -> set[str]:
    """Return the attributes and methods a protocol declares, inherited ones included."""
    bases = [base for base in cast("type", protocol).__mro__ if is_protocol(base) and base is not Protocol]
    declared = {name for base in bases for name in (*vars(base), *get_annotations(base))}
    return declared - _UNDECLARED


def _has_member(class_: object, name: str) -> bool:
    return hasattr(class_, name) or any(
        name in get_annotations(base) for base in getattr(class_, "__mro__", ())
    )


def _generic_bases(type_: object) -> Iterator[object]:
    """Yield all parametrised bases of every level: `Users -> CachedRepository[User] -> Repository[User]`."""
    arguments = arguments_of(get_origin(type_), get_args(type_))
    for base in getattr(get_origin(type_) or type_, "__orig_bases__", ()):
        if get_origin(base) in _PROVIDED_BY_ALL:
            continue
        filled = substitute(base, arguments)
        if get_origin(filled) is not None:
            yield filled
        yield from _generic_bases(filled)

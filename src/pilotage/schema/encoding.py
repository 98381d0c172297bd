"""Makes functions that write values of a type as JSON, so that reading them by the type gives the same. Pure.

The type decides what is written, not the class of the value: of a subclass only the fields of the declared class are
written. A value of another type is written as it is; reading it back decides whether it fits.
"""

from __future__ import annotations

import collections.abc
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import is_dataclass
from functools import partial
from math import isfinite
from types import UnionType
from typing import Annotated, Any, NewType, TypeAlias, TypeGuard, Union, cast, get_args, get_origin

from pilotage.annotations import arguments_of, is_any_json, resolve_alias, substitute
from pilotage.jsonvalue import JsonValue, canonical_json, to_json_value, with_sets_in_order
from pilotage.schema.constraints import read_remarks
from pilotage.schema.records import dataclass_fields, is_pydantic_type, is_typed_dict, typed_dict_fields

Encode: TypeAlias = Callable[[object], JsonValue]

_UNIONS: tuple[object, ...] = (Union, UnionType)
_MAPPINGS: tuple[object, ...] = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_LISTS: tuple[object, ...] = (list, tuple, collections.abc.Sequence, collections.abc.MutableSequence)
_SETS: tuple[object, ...] = (set, frozenset, collections.abc.Set, collections.abc.MutableSet)


def encoder_of(annotation: object) -> Encode:
    """Return the function that writes values of a type as JSON."""
    return _EncoderReader().encoder(annotation)


def is_masked(schema: JsonValue) -> bool:
    """Return whether values of a JSON schema are masked when they are written."""
    if schema is None or isinstance(schema, str | int | float):
        return False
    if isinstance(schema, Mapping):
        return schema.get("writeOnly") is True or any(map(is_masked, schema.values()))
    return any(map(is_masked, schema))


def only_finite(value: JsonValue) -> JsonValue:
    """Return a JSON value.

    Raises:
        ValueError: it has a number that JSON cannot write.
    """
    if isinstance(value, float):
        if not isfinite(value):
            raise ValueError(f"JSON has no number {value!r}")
    elif isinstance(value, Mapping):
        for each in value.values():
            only_finite(each)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for each in value:
            only_finite(each)
    return value


def _any_json(value: object) -> JsonValue:
    return only_finite(to_json_value(value))


class _EncoderReader:
    """One reading of a type; a type that contains itself is read once."""

    def __init__(self) -> None:
        self._open: dict[object, list[Encode]] = {}

    def encoder(self, annotation: object) -> Encode:
        """Return the encoder of a type; `to_json_value` where the type has no part that needs another one."""
        if is_any_json(annotation):
            return _any_json
        origin, arguments = get_origin(annotation), get_args(annotation)
        if origin is Annotated:
            return self._annotated(annotation, arguments)
        if origin in _UNIONS:
            return self._union(arguments)
        if origin in _MAPPINGS and arguments:
            return _of_mapping(self.encoder(arguments[1]))
        if origin is tuple and arguments and arguments[-1] is not ...:
            return _of_tuple([self.encoder(each) for each in arguments])
        if origin in _LISTS and arguments:
            return _of_list(self.encoder(arguments[0]))
        if origin in _SETS and arguments:
            return _of_set(self.encoder(arguments[0]))
        return self._named(annotation, arguments)

    def _annotated(self, annotation: object, arguments: tuple[Any, ...]) -> Encode:
        if read_remarks(arguments[1:]).needs_pydantic:
            return _by_pydantic(annotation)
        return self.encoder(arguments[0])

    def _union(self, members: tuple[object, ...]) -> Encode:
        choices = [(_class_of(member), self.encoder(member)) for member in members]
        if all(encode is to_json_value for _, encode in choices):
            return to_json_value
        dicts = sum(kind is not None and issubclass(kind, dict) for kind, _ in choices)

        def encode(value: object) -> JsonValue:
            kind = type(value)
            if dicts > 1 and issubclass(kind, dict):
                return to_json_value(value)
            for wanted, by_type in choices:
                if wanted is kind:
                    return by_type(value)
            for wanted, by_type in choices:
                if wanted is not None and isinstance(value, wanted):
                    return by_type(value)
            return to_json_value(value)

        return encode

    def _named(self, annotation: object, arguments: tuple[object, ...]) -> Encode:
        if isinstance(annotation, NewType):
            return self.encoder(annotation.__supertype__)
        owner: object = get_origin(annotation) or annotation
        if type(owner).__name__ == "TypeAliasType":
            return self._once(annotation, lambda: self.encoder(resolve_alias(owner, arguments)))
        if not isinstance(owner, type):
            return to_json_value
        if is_pydantic_type(owner):
            return _by_pydantic(annotation)
        if is_typed_dict(owner) or is_dataclass(owner):
            return self._once(annotation, lambda: self._record(owner, arguments))
        return to_json_value

    def _once(self, annotation: object, build: Callable[[], Encode]) -> Encode:
        """Return the encoder of a type that may contain itself: inside of it, one that is looked up when it is used."""
        if annotation in self._open:
            found = self._open[annotation]

            def once_it_is_read(value: object) -> JsonValue:
                return found[0](value)

            return once_it_is_read
        made: list[Encode] = []
        self._open[annotation] = made
        made.append(build())
        del self._open[annotation]
        return made[0]

    def _record(self, owner: type, arguments: tuple[object, ...]) -> Encode:
        known = arguments_of(owner, arguments)
        declared = (
            typed_dict_fields(owner) if is_typed_dict(owner) else dataclass_fields(owner, for_input=True)
        )
        parts = {each.name: self.encoder(substitute(each.annotation, known)) for each in declared}
        if is_typed_dict(owner):

            def of_dict(value: object) -> JsonValue:
                if not isinstance(value, Mapping):
                    return to_json_value(value)
                given = cast("Mapping[str, object]", value)
                return {name: encode(given[name]) for name, encode in parts.items() if name in given}

            return of_dict

        def of_dataclass(value: object) -> JsonValue:
            if not isinstance(value, owner):
                return to_json_value(value)
            return {name: encode(getattr(value, name)) for name, encode in parts.items()}

        return of_dataclass


def _by_pydantic(annotation: object) -> Encode:
    """Return the function by which pydantic writes a type so that it can read it: by alias, no computed fields."""
    from pydantic import TypeAdapter  # noqa: PLC0415 - only who uses pydantic pays for it

    adapter: TypeAdapter[object] = TypeAdapter(cast("type[object]", annotation))

    dump = partial(adapter.dump_python, by_alias=True, round_trip=True, warnings=False)

    def encode(value: object) -> JsonValue:
        return _any_json(with_sets_in_order(dump(value, mode="json"), partial(dump, value)))

    return encode


def _of_list(item: Encode) -> Encode:
    if item is to_json_value:
        return to_json_value

    def encode(value: object) -> JsonValue:
        return [item(each) for each in value] if _is_array(value) else to_json_value(value)

    return encode


def _of_set(item: Encode) -> Encode:
    if item is to_json_value:
        return to_json_value

    def encode(value: object) -> JsonValue:
        if not isinstance(value, AbstractSet):
            return to_json_value(value)
        return sorted((item(each) for each in cast("AbstractSet[object]", value)), key=canonical_json)

    return encode


def _of_tuple(items: list[Encode]) -> Encode:
    if all(item is to_json_value for item in items):
        return to_json_value

    def encode(value: object) -> JsonValue:
        if not _is_array(value) or len(value) != len(items):
            return to_json_value(value)
        return [item(each) for item, each in zip(items, value, strict=True)]

    return encode


def _of_mapping(item: Encode) -> Encode:
    if item is to_json_value:
        return to_json_value

    def encode(value: object) -> JsonValue:
        if not isinstance(value, Mapping):
            return to_json_value(value)
        # The keys are checked where they are written, with those of every other mapping.
        return to_json_value({key: item(each) for key, each in cast("Mapping[str, object]", value).items()})

    return encode


def _is_array(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, (list, tuple, Sequence)) and not isinstance(value, (str, bytes))


def _class_of(annotation: object) -> type | None:
    """Return the class of the values of a member of a union; None if classes do not distinguish the members."""
    if annotation is None:
        return type(None)
    if get_origin(annotation) is Annotated:
        return _class_of(get_args(annotation)[0])
    if isinstance(annotation, NewType):
        return _class_of(annotation.__supertype__)
    owner: object = get_origin(annotation) or annotation
    if not isinstance(owner, type):
        return None
    return dict if is_typed_dict(owner) else owner

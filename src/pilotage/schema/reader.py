"""Reads types into shapes, and collects all of their problems.

Nothing is raised on the way: a type that is refused counts as "anything", so that one reading finds all
problems of a signature.
"""

from __future__ import annotations

import collections.abc
from collections.abc import Callable, Hashable, Sequence
from dataclasses import is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NewType, Union, cast, get_args, get_origin

from pilotage.annotations import (
    UnresolvedAnnotationError,
    arguments_of,
    is_any_json,
    resolve_alias,
    substitute,
)
from pilotage.jsonvalue import to_json_value
from pilotage.schema import shape as shapes
from pilotage.schema.constraints import Remarks, constrain, read_remarks
from pilotage.schema.records import (
    Default,
    Field,
    KnownDefault,
    NoDefault,
    PydanticTypeError,
    constructing,
    dataclass_fields,
    hidden_parameters,
    is_pydantic_type,
    is_typed_dict,
    pydantic_shape,
    typed_dict_fields,
)
from pilotage.schema.rejections import (
    Rejection,
    reject_by_pydantic,
    reject_endless,
    reject_for,
    reject_hidden_parameter,
    reject_keys,
    reject_same_name,
    reject_unresolved,
    spelling,
)
from pilotage.schema.shape import TypeShape

# No type that ends has so many others around it.
_DEEPEST = 50

# Replaces a refused type, so that reading can go on.
_REFUSED = TypeShape({}, {"type": "any"})

_UNIONS: tuple[object, ...] = (Union, UnionType)
_LISTS: tuple[object, ...] = (list, collections.abc.Sequence, collections.abc.MutableSequence)
_SETS: tuple[object, ...] = (set, collections.abc.Set, collections.abc.MutableSet)
_MAPPINGS: tuple[object, ...] = (dict, collections.abc.Mapping, collections.abc.MutableMapping)


class ShapeReader:
    """One reading of the types of one signature; `definitions` are shared by all of them."""

    def __init__(self, *, for_input: bool) -> None:
        self.problems: list[str] = []
        self.definitions = shapes.TypeDefinitions()
        self._for_input = for_input
        self._subject = ""

    def read(self, annotation: object, subject: str) -> TypeShape:
        """Return the shape of a type; `subject` names its owner in messages."""
        outer, self._subject = self._subject, subject
        try:
            return self._shape(annotation)
        except UnresolvedAnnotationError as error:
            return self._accept(reject_unresolved(str(error)))
        finally:
            self._subject = outer

    def _shape(self, annotation: object) -> TypeShape:
        if annotation is None:
            return shapes.scalars()[NoneType]
        if is_any_json(annotation):
            return shapes.ANYTHING
        if isinstance(annotation, type) and annotation in shapes.scalars():
            return shapes.scalars()[annotation]
        origin, arguments = get_origin(annotation), get_args(annotation)
        if origin is not None and arguments:
            return self._generic(annotation, origin, arguments)
        return self._named(annotation)

    def _generic(self, annotation: object, origin: object, arguments: tuple[Any, ...]) -> TypeShape:
        if origin is Annotated:
            return self._annotated(annotation, arguments[0], arguments[1:])
        if origin in _UNIONS:
            return shapes.union([(spelling(member), self._shape(member)) for member in arguments])
        if origin is Literal:
            return self._accept(shapes.literal_shape(arguments))
        if origin in _MAPPINGS:
            return self._mapping(*arguments)
        return self._array(annotation, origin, arguments)

    def _mapping(self, key: object, value: object) -> TypeShape:
        if key is str:
            return shapes.mapping(self._shape(value))
        if get_origin(key) is Literal and all(isinstance(each, str) for each in get_args(key)):
            return shapes.mapping(self._shape(value), self._shape(key))
        return self._accept(reject_keys(key))

    def _array(self, annotation: object, origin: object, arguments: tuple[object, ...]) -> TypeShape:
        if origin in _LISTS:
            return shapes.array(self._shape(arguments[0]))
        if origin in _SETS or origin is frozenset:
            kind = "frozenset" if origin is frozenset else "set"
            return shapes.unique_array(self._shape(arguments[0]), kind)
        if origin is tuple and arguments[-1] is ...:
            return shapes.tuple_of_any_length(self._shape(arguments[0]))
        if origin is tuple:
            return shapes.fixed_tuple([self._shape(argument) for argument in arguments])
        return self._named(annotation)

    def _named(self, annotation: object) -> TypeShape:
        """Return the shape of a named type: a new type, alias, enum or record; or its rejection."""
        if isinstance(annotation, NewType):
            return self._shape(annotation.__supertype__)
        owner: object = get_origin(annotation) or annotation
        arguments: tuple[object, ...] = get_args(annotation)
        if type(owner).__name__ == "TypeAliasType":
            return self._once(annotation, str(owner), lambda: self._shape(resolve_alias(owner, arguments)))
        if not isinstance(owner, type):
            return self._accept(reject_for(annotation))
        return self._class(annotation, owner, arguments)

    def _class(self, annotation: object, owner: type[object], arguments: tuple[object, ...]) -> TypeShape:
        if issubclass(owner, Enum):
            return self._accept(shapes.enum_shape(owner))
        if is_pydantic_type(owner):
            return self._pydantic(annotation)
        if is_typed_dict(owner) or is_dataclass(owner):
            return self._once(annotation, owner.__name__, lambda: self._record(owner, arguments))
        return self._accept(reject_for(annotation))

    def _once(self, annotation: object, name: str, build: Callable[[], TypeShape]) -> TypeShape:
        if self.definitions.depth > _DEEPEST:
            return self._accept(reject_endless())
        return self.definitions.once(cast(Hashable, annotation), name, build)

    def _annotated(self, annotation: object, inner: object, metadata: Sequence[object]) -> TypeShape:
        remarks = read_remarks(metadata)
        if remarks.needs_pydantic:
            return self._pydantic(annotation)
        shape = self._limited(inner, remarks)
        return shapes.described(shape, description=remarks.description) if remarks.description else shape

    def _limited(self, inner: object, remarks: Remarks) -> TypeShape:
        if get_origin(inner) in _UNIONS and remarks.constraints:
            unlimited = Remarks()
            return shapes.union(
                [
                    (spelling(member), self._limited(member, unlimited if member is NoneType else remarks))
                    for member in get_args(inner)
                ]
            )
        shape = self._shape(inner)
        if shape is _REFUSED:
            return shape
        limited = self._accept(constrain(shape, remarks.constraints, inner))
        return TypeShape(limited.json, {**limited.core, "strict": True}) if remarks.is_strict else limited

    def _record(self, owner: type, arguments: tuple[object, ...]) -> TypeShape:
        if is_typed_dict(owner):
            keys = typed_dict_fields(owner)
            return shapes.closed_object([self._property(owner, key, arguments) for key in keys])
        if self._for_input:
            for parameter in hidden_parameters(owner):
                self._accept(reject_hidden_parameter(owner, parameter))
        fields = dataclass_fields(owner, for_input=self._for_input)
        shape = shapes.closed_object([self._property(owner, field, arguments) for field in fields])
        function = {"type": "no-info", "function": constructing(owner)}
        return TypeShape(shape.json, {"type": "function-wrap", "function": function, "schema": shape.core})

    def _property(self, owner: type, field: Field, arguments: tuple[object, ...]) -> shapes.Property:
        place = f"{self._subject.partition(' (field ')[0]} (field {spelling(owner)}.{field.name})"
        shape = self.read(substitute(field.annotation, arguments_of(owner, arguments)), place)
        return shapes.Property(
            field.name, with_default(shape, field.default), isinstance(field.default, NoDefault)
        )

    def _pydantic(self, annotation: object) -> TypeShape:
        try:
            shape, definitions = pydantic_shape(annotation, for_input=self._for_input)
        except PydanticTypeError as error:
            return self._accept(reject_by_pydantic(str(error)))
        for name, schema in definitions.items():
            if not self.definitions.add(name, schema):
                self._accept(reject_same_name(name))
        return TypeShape(shape.json, self.definitions.lift(shape.core))

    def _accept(self, outcome: TypeShape | Rejection) -> TypeShape:
        """Return the shape, or a substitute for a refused type."""
        if isinstance(outcome, TypeShape):
            return outcome
        problem = outcome.about(self._subject)
        if problem not in self.problems:
            self.problems.append(problem)
        return _REFUSED


def with_default(shape: TypeShape, default: Default) -> TypeShape:
    """Return the shape with its default shown, when the default has a JSON form."""
    if not isinstance(default, KnownDefault):
        return shape
    try:
        return shapes.described(shape, default=to_json_value(default.value))
    except TypeError:
        return shape

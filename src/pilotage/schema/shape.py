"""The shape of a type: the JSON schema that a model is shown, and the core schema that validates its arguments.

Both are made together, so that validation accepts what the schema allows. pydantic-core compiles a core schema into
a validator; it is plain data, so nothing of pydantic is imported here. A recursive type is defined once and referred
to by name.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import TypeAlias, cast

from pilotage.annotations import AnyJson
from pilotage.jsonvalue import JsonObject, JsonValue, as_list, as_object
from pilotage.schema.rejections import Rejection, spelling
from pilotage.values import value

JsonSchema: TypeAlias = dict[str, JsonValue]
CoreSchema: TypeAlias = dict[str, object]


@value
class TypeShape:
    """A type as JSON schema and as core schema."""

    json: JsonSchema
    core: CoreSchema


def allows_null(schema: JsonObject) -> bool:
    """Return whether None fits; a schema without a type, or with a reference, may allow it."""
    if "anyOf" in schema:
        return any(allows_null(as_object(member)) for member in as_list(schema["anyOf"]))
    if "enum" in schema:
        return None in as_list(schema["enum"])
    return schema.get("type", "null") == "null"


ANYTHING = TypeShape({}, {"type": "any"})


@cache
def scalars() -> dict[object, TypeShape]:
    """Return the shapes of plain types, made when the first type is read."""
    from uuid import UUID  # noqa: PLC0415 - dear to import

    # Numbers that JSON cannot write are refused, so that every accepted value can be recorded.
    return {
        str: TypeShape({"type": "string"}, {"type": "str"}),
        int: TypeShape({"type": "integer"}, {"type": "int"}),
        float: TypeShape({"type": "number"}, {"type": "float", "allow_inf_nan": False}),
        bool: TypeShape({"type": "boolean"}, {"type": "bool"}),
        type(None): TypeShape({"type": "null"}, {"type": "none"}),
        datetime: TypeShape({"type": "string", "format": "date-time"}, {"type": "datetime"}),
        date: TypeShape({"type": "string", "format": "date"}, {"type": "date"}),
        time: TypeShape({"type": "string", "format": "time"}, {"type": "time"}),
        timedelta: TypeShape({"type": "number", "description": "Seconds."}, {"type": "timedelta"}),
        UUID: TypeShape({"type": "string", "format": "uuid"}, {"type": "uuid"}),
        # As text, because a JSON number may already have lost digits.
        Decimal: TypeShape({"type": "string", "format": "decimal"}, {"type": "decimal"}),
        AnyJson: ANYTHING,
    }


def array(item: TypeShape) -> TypeShape:
    core: CoreSchema = {"type": "list", "items_schema": item.core}
    return TypeShape({"type": "array", "items": item.json}, core)


def unique_array(item: TypeShape, core_type: str) -> TypeShape:
    core: CoreSchema = {"type": core_type, "items_schema": item.core}
    return TypeShape({"type": "array", "items": item.json, "uniqueItems": True}, core)


def tuple_of_any_length(item: TypeShape) -> TypeShape:
    core: CoreSchema = {"type": "tuple", "items_schema": [item.core], "variadic_item_index": 0}
    return TypeShape({"type": "array", "items": item.json}, core)


def fixed_tuple(items: Sequence[TypeShape]) -> TypeShape:
    count = len(items)
    json: JsonSchema = {
        "type": "array",
        "prefixItems": [item.json for item in items],
        "minItems": count,
        "maxItems": count,
    }
    return TypeShape(json, {"type": "tuple", "items_schema": [item.core for item in items]})


def mapping(value: TypeShape, keys: TypeShape | None = None) -> TypeShape:
    """Return a mapping from texts, or from those of `keys`."""
    of_keys: CoreSchema = {"type": "str"} if keys is None else keys.core
    named: JsonSchema = {} if keys is None else {"propertyNames": keys.json}
    core: CoreSchema = {"type": "dict", "keys_schema": of_keys, "values_schema": value.core}
    return TypeShape({"type": "object", **named, "additionalProperties": value.json}, core)


# Marks the name of a union's member in the place of an error, where field names stand as well.
UNION_MEMBER = "\N{INVISIBLE SEPARATOR}"


def union(members: Sequence[tuple[str, TypeShape]]) -> TypeShape:
    """Return a union of the members, each with its name in error messages."""
    json: JsonSchema = {"anyOf": [shape.json for _, shape in members]}
    choices = [(shape.core, UNION_MEMBER + name) for name, shape in members if shape.core["type"] != "none"]
    core: CoreSchema = {"type": "union", "choices": choices} if len(choices) > 1 else choices[0][0]
    is_nullable = len(choices) < len(members)
    return TypeShape(json, {"type": "nullable", "schema": core} if is_nullable else core)


@value
class Property:
    """One member of an object; `shape` already describes it, default included."""

    name: str
    shape: TypeShape
    is_required: bool


def described(shape: TypeShape, **facts: JsonValue) -> TypeShape:
    """Return the same shape with more keywords in its schema."""
    return TypeShape({**shape.json, **facts}, shape.core)


def closed_object(properties: Sequence[Property]) -> TypeShape:
    """Return an object of exactly these members."""
    json: JsonSchema = {
        "type": "object",
        "properties": {member.name: member.shape.json for member in properties},
        "additionalProperties": False,
    }
    required = [member.name for member in properties if member.is_required]
    if required:
        json["required"] = required
    fields: dict[str, object] = {
        member.name: {
            "type": "typed-dict-field",
            "schema": member.shape.core,
            "required": member.is_required,
        }
        for member in properties
    }
    return TypeShape(json, {"type": "typed-dict", "fields": fields, "extra_behavior": "forbid"})


def reference(name: str) -> TypeShape:
    """Return a type defined elsewhere in the same schema."""
    return TypeShape({"$ref": f"#/$defs/{name}"}, {"type": "definition-ref", "schema_ref": name})


class TypeDefinitions:
    """Builds named types in place, or as a definition when one turns out to contain itself."""

    def __init__(self) -> None:
        self.json: dict[str, JsonSchema] = {}
        self._core: dict[str, CoreSchema] = {}
        self._open: list[Hashable] = []
        self._references: dict[Hashable, TypeShape] = {}

    @property
    def depth(self) -> int:
        """Nesting depth of the type being built."""
        return len(self._open)

    def once(self, key: Hashable, name: str, build: Callable[[], TypeShape]) -> TypeShape:
        """Return the shape of the type `key`, or a reference to it."""
        if key in self._references:
            return self._references[key]
        if key in self._open:
            return self._references.setdefault(key, reference(self._free_name(name)))
        self._open.append(key)
        try:
            shape = build()
        finally:
            self._open.pop()
        return self._define(self._references[key], shape) if key in self._references else shape

    def add(self, name: str, schema: JsonSchema) -> bool:
        """Add a definition made elsewhere; return False if the name has another definition."""
        return self.json.setdefault(name, schema) == schema

    def lift(self, core: CoreSchema) -> CoreSchema:
        """Return a core schema made elsewhere and add its definitions: two parameters of one type share them."""
        if core["type"] != "definitions":
            return core
        for definition in cast("list[CoreSchema]", core["definitions"]):
            self._core[cast(str, definition["ref"])] = definition
        return cast(CoreSchema, core["schema"])

    def with_core(self, core: CoreSchema) -> CoreSchema:
        """Return a core schema together with the definitions it may refer to."""
        if not self._core:
            return core
        return {"type": "definitions", "schema": core, "definitions": list(self._core.values())}

    def with_json(self, schema: JsonSchema) -> JsonSchema:
        """Return a JSON schema together with the definitions it may refer to."""
        return {**schema, "$defs": dict(self.json)} if self.json else schema

    def _define(self, target: TypeShape, shape: TypeShape) -> TypeShape:
        name = cast(str, target.core["schema_ref"])
        self.json[name] = shape.json
        self._core[name] = {**shape.core, "ref": name}
        return target

    def _free_name(self, name: str) -> str:
        taken = {
            cast(str, known.core["schema_ref"]) for known in self._references.values()
        } | self.json.keys()
        return name if name not in taken else f"{name}_{len(taken) + 1}"


_JSON_TYPES: dict[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    type(None): "null",
}


def enum_shape(members: type[Enum]) -> TypeShape | Rejection:
    """Return the values of an enum; validation gives the members."""
    for member in members:
        if _json_type_of(member.value) is None:
            what = f"whose member {member.name!r} is no text, number, bool or None"
            return Rejection(f"is the enum {spelling(members)}, {what}", "Give the members plain values.")
    if not list(members):
        return Rejection(f"is the enum {spelling(members)}, which is empty", "Give it members.")
    values: list[JsonValue] = [member.value for member in members]
    return _choice(values, {"type": "enum", "cls": members, "members": list(members)})


def literal_shape(values: Sequence[object]) -> TypeShape | Rejection:
    """Return the values of a `Literal`."""
    for each in values:
        if _json_type_of(each) is None or isinstance(each, Enum):
            remedy = "Use texts, numbers, bools or None in a Literal, or write the enum itself."
            return Rejection(f"is a Literal with {each!r}", remedy)
    return _choice(cast("Sequence[JsonValue]", values), {"type": "literal", "expected": list(values)})


def _choice(values: Sequence[JsonValue], core: CoreSchema) -> TypeShape:
    """Return a choice of plain values, with their JSON type if they share one."""
    kinds = {_json_type_of(each) for each in values}
    shared: JsonSchema = {"type": kinds.pop()} if len(kinds) == 1 else {}
    return TypeShape({"enum": list(values), **shared}, core)


def _json_type_of(given: object) -> str | None:
    # The order matters: a bool is an int.
    return next((name for kind, name in _JSON_TYPES.items() if isinstance(given, kind)), None)

"""Schemas as servers want them that enforce strict ones: every object closed, every field required. Pure.

A field that may be left out is required and may be null. `without_nulls` takes such nulls out of what the model wrote,
so that arguments and answers are those of the schema that was asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pilotage.jsonvalue import JsonObject, JsonValue, list_or_empty, object_or_empty

_BRANCHES = ("anyOf", "oneOf", "allOf")
_DEEPEST = 32


def strict_schema(schema: JsonObject) -> JsonObject | None:
    """Return a schema as strict servers take it; None if it has an open object, which has no such form."""
    try:
        strict = _strict(schema)
    except _OpenObjectError:
        return None
    return object_or_empty(strict)


def without_nulls(value: JsonValue, schema: JsonObject) -> JsonValue:
    """Return a value without the nulls of fields that the schema lets be left out and that may not be null."""
    return _pruned(value, schema, object_or_empty(schema.get("$defs")), _DEEPEST)


class _OpenObjectError(Exception):
    """A schema has an object with fields that it does not name."""


def _strict(schema: JsonValue) -> JsonValue:
    if isinstance(schema, Mapping):
        changed: dict[str, JsonValue] = {
            name: {key: _strict(each) for key, each in object_or_empty(part).items()}
            if name in ("properties", "$defs", "definitions")
            else part
            if name in ("enum", "const", "required", "examples")
            else _strict(part)
            for name, part in schema.items()
            if name != "default"
        }
        return _closed(changed) if "properties" in schema or schema.get("type") == "object" else changed
    if isinstance(schema, Sequence) and not isinstance(schema, str):
        return [_strict(each) for each in schema]
    return schema


def _closed(schema: dict[str, JsonValue]) -> JsonObject:
    if schema.get("additionalProperties") is not False:
        raise _OpenObjectError
    fields = object_or_empty(schema.get("properties"))
    required = list_or_empty(schema.get("required"))
    widened = {name: each if name in required else _or_null(each) for name, each in fields.items()}
    return {**schema, "properties": widened, "required": list(widened)}


def _or_null(schema: JsonValue) -> JsonValue:
    fields = object_or_empty(schema)
    if _may_be_null(fields):
        return fields
    kind = fields.get("type")
    if isinstance(kind, str) and not fields.keys() & {"enum", "const"}:
        return {**fields, "type": [kind, "null"]}
    return {"anyOf": [fields, {"type": "null"}]}


def _may_be_null(schema: JsonObject) -> bool:
    kind = schema.get("type")
    if kind == "null" or (isinstance(kind, list | tuple) and "null" in kind) or schema == {}:
        return True
    branches = [each for name in ("anyOf", "oneOf") for each in list_or_empty(schema.get(name))]
    return any(_may_be_null(object_or_empty(each)) for each in branches)


def _pruned(value: JsonValue, schema: JsonObject, definitions: JsonObject, depth: int) -> JsonValue:
    schema = _resolved(schema, definitions)
    if depth == 0:
        return value
    if isinstance(value, Mapping):
        shape = _object_of(schema, definitions, value)
        fields = object_or_empty(shape.get("properties"))
        required = list_or_empty(shape.get("required"))
        pruned: dict[str, JsonValue] = {}
        for name, each in value.items():
            of_field = _resolved(object_or_empty(fields.get(name)), definitions)
            if each is None and name in fields and name not in required and not _may_be_null(of_field):
                continue
            pruned[name] = _pruned(each, of_field, definitions, depth - 1)
        return pruned
    if isinstance(value, list):
        item = object_or_empty(schema.get("items"))
        return [_pruned(each, item, definitions, depth - 1) for each in value]
    return value


def _resolved(schema: JsonObject, definitions: JsonObject) -> JsonObject:
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return object_or_empty(definitions.get(reference.rpartition("/")[2]))
    return schema


def _object_of(schema: JsonObject, definitions: JsonObject, value: Mapping[str, JsonValue]) -> JsonObject:
    """Return the schema of the object that a value is: of several alternatives, the first that has all its names."""
    branches = [each for name in _BRANCHES for each in list_or_empty(schema.get(name))]
    for shape in (schema, *(_resolved(object_or_empty(each), definitions) for each in branches)):
        if "properties" in shape and value.keys() <= object_or_empty(shape["properties"]).keys():
            return shape
    return {}

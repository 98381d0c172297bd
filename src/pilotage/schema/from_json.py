"""A JSON schema that somebody else wrote, as the core schema by which arguments are validated. Pure.

What it says about types, properties, items and choices is checked before anything is sent. Other rules (formats,
patterns, bounds, references) are left to whoever wrote the schema: it checks them anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pilotage.jsonvalue import JsonObject, JsonValue, as_list, list_or_empty
from pilotage.schema.shape import CoreSchema

_ANY: CoreSchema = {"type": "any"}
_SCALARS: Mapping[str, CoreSchema] = {
    "string": {"type": "str"},
    "integer": {"type": "int"},
    "number": {"type": "float", "allow_inf_nan": False},
    "boolean": {"type": "bool"},
    "null": {"type": "none"},
}


def core_of_json(schema: JsonValue) -> CoreSchema:
    """What values of a JSON schema are validated by."""
    if not isinstance(schema, Mapping):
        return _ANY
    if "enum" in schema:
        return {"type": "literal", "expected": list(as_list(schema["enum"]))}
    if "const" in schema:
        return {"type": "literal", "expected": [schema["const"]]}
    choices = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(choices, Sequence) and not isinstance(choices, str):
        return _union([core_of_json(choice) for choice in choices])
    wanted = schema.get("type")
    if isinstance(wanted, str):
        return _typed(wanted, schema)
    if isinstance(wanted, Sequence):
        return _union([_typed(str(each), schema) for each in wanted])
    return _ANY


def _typed(name: str, schema: JsonObject) -> CoreSchema:
    build = _BUILDERS.get(name)
    return build(schema) if build is not None else _SCALARS.get(name, _ANY)


def _union(choices: Sequence[CoreSchema]) -> CoreSchema:
    return choices[0] if len(choices) == 1 else {"type": "union", "choices": list(choices)}


def _array(schema: JsonObject) -> CoreSchema:
    return {"type": "list", "items_schema": core_of_json(schema.get("items"))}


def _object(schema: JsonObject) -> CoreSchema:
    properties, more = schema.get("properties"), schema.get("additionalProperties", True)
    if not isinstance(properties, Mapping):
        values = core_of_json(more)
        return {"type": "dict", "keys_schema": {"type": "str"}, "values_schema": values}
    required = list_or_empty(schema.get("required"))
    fields: dict[str, object] = {
        name: {"type": "typed-dict-field", "schema": core_of_json(each), "required": name in required}
        for name, each in properties.items()
    }
    if more is False:
        return {"type": "typed-dict", "fields": fields, "extra_behavior": "forbid"}
    extras = core_of_json(more)
    return {"type": "typed-dict", "fields": fields, "extra_behavior": "allow", "extras_schema": extras}


_BUILDERS: Mapping[str, Callable[[JsonObject], CoreSchema]] = {"array": _array, "object": _object}

"""Schemas as servers want them that enforce strict ones. Pure.

Strict servers take a part of JSON schema, and refuse the whole request for a word beyond it. So objects are closed, and
limits that a server does not enforce are said in the description of their field. What has no strict form at all (open
objects, tuples, any JSON) makes a schema one that the server does not enforce. Arguments and answers are validated by
the schema that was asked for, whatever the server enforces; `without_nulls` takes out the nulls that stand for fields
that were left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json, list_or_empty, object_or_empty
from pilotage.values import value

_BRANCHES = ("anyOf", "oneOf", "allOf")
_DEEPEST = 32
_ANSWER = "answer"
_NAMED = ("properties", "$defs", "definitions")
_AS_THEY_ARE = frozenset(
    {"type", "enum", "const", "required", "additionalProperties", "title", "description"}
)
_BOUNDS = frozenset({"multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
_LIMITS = _BOUNDS | {
    "pattern",
    "format",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
}
_FORMLESS = frozenset(
    {
        "allOf",
        "not",
        "if",
        "then",
        "else",
        "prefixItems",
        "contains",
        "patternProperties",
        "propertyNames",
        "dependentRequired",
        "dependentSchemas",
        "unevaluatedProperties",
        "unevaluatedItems",
    }
)
"""Words that no strict server takes and that cannot be left out, because they are more than a limit."""
_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})


@value
class StrictRules:
    """The part of JSON schema that a provider enforces, as its documentation has it.

    `limits` and `formats` are those that it takes. With `requires_all`, fields that may be left out are required and
    may be null.
    """

    limits: frozenset[str]
    formats: frozenset[str] = _FORMATS
    requires_all: bool = True
    takes_recursion: bool = True


OPENAI = StrictRules(_BOUNDS | {"pattern", "minItems", "maxItems"})
ANTHROPIC = StrictRules(frozenset(), _FORMATS | {"uri"}, requires_all=False, takes_recursion=False)


def strict_schema(schema: JsonObject, rules: StrictRules = OPENAI) -> JsonObject | None:
    """Return a schema as strict servers take it; None if it has no such form."""
    if not rules.takes_recursion and _is_recursive(schema):
        return None
    try:
        return _strict(_with_own_root(schema), rules)
    except _NoStrictFormError:
        return None


def answer_schema(schema: JsonObject) -> JsonObject:
    """Return the schema of an answer as that of an object, which strict servers want; others are its only field."""
    whole = _with_own_root(schema)
    if whole.get("type") == "object":
        return whole
    definitions = {name: part for name, part in whole.items() if name in ("$defs", "definitions")}
    answer = {name: part for name, part in whole.items() if name not in definitions}
    fields: JsonObject = {_ANSWER: answer}
    closed: JsonObject = {"type": "object", "properties": fields, "required": [_ANSWER]}
    return {**closed, "additionalProperties": False, **definitions}


def asked_answer(answer: JsonValue, schema: JsonObject) -> JsonValue:
    """Return the answer to `answer_schema` as one to the schema itself; one that is so already stays."""
    is_wrapped = isinstance(answer, dict) and [*answer] == [_ANSWER]
    if is_wrapped and _with_own_root(schema).get("type") != "object":
        answer = object_or_empty(answer)[_ANSWER]
    return without_nulls(answer, schema)


def without_nulls(value: JsonValue, schema: JsonObject) -> JsonValue:
    """Return a value without the nulls of fields that the schema lets be left out and that may not be null."""
    return _pruned(value, schema, object_or_empty(schema.get("$defs")), _DEEPEST)


class _NoStrictFormError(Exception):
    """A schema has a part that no strict server takes."""


def _with_own_root(schema: JsonObject) -> JsonObject:
    """Return a schema whose root is no reference."""
    reference = schema.get("$ref")
    if not isinstance(reference, str):
        return schema
    definitions = object_or_empty(schema.get("$defs"))
    return {**object_or_empty(definitions.get(_name_in(reference))), "$defs": definitions}


def _strict(schema: JsonValue, rules: StrictRules) -> JsonObject:
    if not isinstance(schema, Mapping) or schema.keys() & _FORMLESS:
        raise _NoStrictFormError
    if "$ref" in schema:
        return {"$ref": schema["$ref"]}  # servers refuse other words beside it
    strict: dict[str, JsonValue] = {}
    limits: list[str] = []
    for name, part in schema.items():
        if name in _NAMED:
            strict[name] = {key: _strict(each, rules) for key, each in object_or_empty(part).items()}
        elif name in ("anyOf", "oneOf"):
            strict["anyOf"] = [
                *list_or_empty(strict.get("anyOf")),
                *(_strict(each, rules) for each in list_or_empty(part)),
            ]
        elif name == "items":
            strict[name] = _strict(part, rules)
        elif name in _AS_THEY_ARE or name in rules.limits or (name == "format" and part in rules.formats):
            strict[name] = part
        elif name in _LIMITS:
            limits.append(f"{name}: {canonical_json(part)}")
    if limits:
        strict["description"] = " ".join([*_texts(strict.get("description")), f"({', '.join(limits)})"])
    return _whole(strict, rules)


def _texts(description: JsonValue) -> Sequence[str]:
    return [description] if isinstance(description, str) else []


def _whole(schema: dict[str, JsonValue], rules: StrictRules) -> JsonObject:
    """Return a converted schema with what strict servers want of every type."""
    choices = list_or_empty(schema.get("enum")) or [schema[name] for name in ("const",) if name in schema]
    if "type" not in schema and choices:
        types = sorted(set(map(_type_of, choices)))
        schema["type"] = types[0] if len(types) == 1 else [*types]
    kind = schema.get("type")
    kinds = [kind] if isinstance(kind, str) else list_or_empty(kind)
    if "array" in kinds and "items" not in schema:
        raise _NoStrictFormError
    if "properties" in schema or "object" in kinds:
        return _closed(schema, rules)
    if not kinds and "anyOf" not in schema:
        raise _NoStrictFormError
    return schema


def _type_of(choice: JsonValue) -> str:
    if choice is None:
        return "null"
    if isinstance(choice, bool):
        return "boolean"
    if isinstance(choice, str):
        return "string"
    if isinstance(choice, int):
        return "integer"
    if isinstance(choice, float):
        return "number"
    raise _NoStrictFormError


def _closed(schema: dict[str, JsonValue], rules: StrictRules) -> JsonObject:
    """Return an object's schema closed: one that names its fields, and says nothing of others, gets no others."""
    if schema.get("additionalProperties", not schema.get("properties")) is not False:
        raise _NoStrictFormError
    fields = object_or_empty(schema.get("properties"))
    required = list_or_empty(schema.get("required"))
    closed: JsonObject = {**schema, "properties": fields, "additionalProperties": False}
    if not rules.requires_all:
        return closed
    widened = {name: each if name in required else _or_null(each) for name, each in fields.items()}
    return {**closed, "properties": widened, "required": list(widened)}


def _is_recursive(schema: JsonObject) -> bool:
    """Return whether a definition refers to itself, by others too."""
    names = {name: _references(each) for name, each in object_or_empty(schema.get("$defs")).items()}
    reached = dict(names)
    for _ in names:
        reached = {
            name: each.union(*(reached.get(one, frozenset()) for one in each))
            for name, each in reached.items()
        }
    return any(name in each for name, each in reached.items()) or "#" in _references(schema)


def _references(schema: JsonValue) -> frozenset[str]:
    if isinstance(schema, Mapping):
        own = schema.get("$ref")
        found = [_references(each) for each in schema.values()]
        return frozenset([_name_in(own)] if isinstance(own, str) else []).union(*found)
    if isinstance(schema, Sequence) and not isinstance(schema, str):
        return frozenset[str]().union(*map(_references, schema))
    return frozenset()


def _name_in(reference: str) -> str:
    return reference.rpartition("/")[2]


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
        return object_or_empty(definitions.get(_name_in(reference)))
    return schema


def _object_of(schema: JsonObject, definitions: JsonObject, value: Mapping[str, JsonValue]) -> JsonObject:
    """Return the schema of the object that a value is: of several alternatives, the first that has all its names."""
    branches = [each for name in _BRANCHES for each in list_or_empty(schema.get(name))]
    for shape in (schema, *(_resolved(object_or_empty(each), definitions) for each in branches)):
        if "properties" in shape and value.keys() <= object_or_empty(shape["properties"]).keys():
            return shape
    return {}

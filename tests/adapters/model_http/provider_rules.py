"""What providers document of strict schemas, written as they refuse them: independent of what makes ours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

ALL = {"type", "enum", "const", "title", "description", "$ref", "$defs", "anyOf"}
ALL |= {"properties", "required", "additionalProperties", "items"}
FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
OPENAI = {"pattern", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
OPENAI |= {"minItems", "maxItems"}


def schemas_in(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The schema and all schemas in it."""
    yield schema
    for each in (*schema.get("properties", {}).values(), *schema.get("$defs", {}).values()):
        yield from schemas_in(each)
    for each in (*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else ())):
        yield from schemas_in(each)


def is_union(schema: dict[str, Any]) -> bool:
    return "anyOf" in schema or isinstance(schema.get("type"), list)


def refusals(schema: dict[str, Any], words: set[str], *, requires_all: bool) -> Iterator[str]:
    """Why a strict schema is refused; nothing if it is taken."""
    for each in schemas_in(schema):
        if unknown := each.keys() - ALL - words - {"format"}:
            yield f"{sorted(unknown)} is not permitted"
        if each.get("format", "date") not in FORMATS | ({"uri"} if not requires_all else set()):
            yield f"{each['format']!r} is not a valid format"
        if not each.keys() & {"type", "$ref", "anyOf"}:
            yield "schema must have a 'type' key"
        if "$ref" in each and each.keys() - {"$ref", "$defs"}:
            yield "$ref cannot have keywords beside it"
        types = each["type"] if isinstance(each.get("type"), list) else [each.get("type")]
        if "array" in types and "items" not in each:
            yield "array schema missing items"
        if "object" in types or "properties" in each:
            if each.get("additionalProperties") is not False:
                yield "'additionalProperties' is required to be supplied and to be false"
            if requires_all and set(each.get("required", ())) != set(each.get("properties", {})):
                yield "'required' is required to be an array of every key in properties"


def refusals_of_openai(schema: dict[str, Any]) -> list[str]:
    if schema.get("type") != "object":
        return ["schema must be a JSON Schema of 'type: \"object\"'"]
    return [*refusals(schema, OPENAI, requires_all=True)]


def refusals_of_anthropic(schemas: list[dict[str, Any]], tools: int) -> list[str]:
    found = [why for each in schemas for why in refusals(each, set(), requires_all=False)]
    every = [each for schema in schemas for each in schemas_in(schema)]
    optional = sum(len(each.get("properties", {}).keys() - set(each.get("required", ()))) for each in every)
    unions = sum(map(is_union, every))
    limits = (("strict tools", tools, 20), ("optional parameters", optional, 24), ("unions", unions, 16))
    return found + [f"too many {name}: {count}" for name, count, most in limits if count > most]

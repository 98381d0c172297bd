"""An example of what a JSON schema describes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_TEXTS = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "duration": "PT1H",
    "email": "ada@example.org",
    "uri": "https://example.org",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
_DEEPEST = 8


def example_of(schema: Mapping[str, Any]) -> Any:
    """Return an example: what the schema names as one, else its first choice, else the smallest value of its type.

    A pattern is not looked at: check the example where it must fit.
    """
    return _Examples(schema).of(schema, 0)


class _Examples:
    """Examples of parts of one schema, whose references are looked up in it."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root

    def of(self, schema: Mapping[str, Any], depth: int) -> Any:
        if depth > _DEEPEST:
            return None
        for key in ("const", "default"):
            if key in schema:
                return schema[key]
        for key in ("examples", "enum"):
            if schema.get(key):
                return schema[key][0]
        if "$ref" in schema:
            return self.of(self._target(str(schema["$ref"])), depth + 1)
        for key in ("anyOf", "oneOf", "allOf"):
            if schema.get(key):
                return self.of(schema[key][0], depth + 1)
        return self._of_type(schema, depth)

    def _of_type(self, schema: Mapping[str, Any], depth: int) -> Any:
        types: Any = schema.get("type", "")
        first: str = types if isinstance(types, str) else next(iter(types), "")
        match first:
            case "object":
                return self._object(schema, depth)
            case "array":
                least = int(schema.get("minItems", 0))
                return [self.of(schema.get("items", {}), depth + 1) for _ in range(max(1, least))]
            case "string":
                text = _TEXTS.get(str(schema.get("format")), "text")
                return text.ljust(int(schema.get("minLength", 0)), ".")[: schema.get("maxLength")]
            case "integer" | "number":
                return _number(schema)
            case "boolean":
                return True
            case _:
                return None

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        members: Mapping[str, Any] = schema.get("properties", {})
        required: Sequence[str] = schema.get("required", ())
        return {name: self.of(each, depth + 1) for name, each in members.items() if name in required}

    def _target(self, reference: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._root
        for step in reference.removeprefix("#/").split("/"):
            found = found.get(step, {})
        return found


def _number(schema: Mapping[str, Any]) -> int | float:
    least: int | float | None = schema.get("minimum", schema.get("exclusiveMinimum"))
    if least is not None:
        return least + 1 if "exclusiveMinimum" in schema else least
    most: int | float = schema.get("maximum", schema.get("exclusiveMaximum", 1))
    return min(1, most - 1) if "exclusiveMaximum" in schema else min(1, most)

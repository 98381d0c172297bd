"""Types that only pydantic understands: its models, and annotations with its validators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, cast

from pilotage.jsonvalue import JsonValue
from pilotage.schema.shape import JsonSchema, Shape

Definitions = dict[str, JsonSchema]


def is_pydantic_type(owner: type) -> bool:
    """Whether a class brings its own core schema: models, pydantic dataclasses, custom types."""
    return hasattr(owner, "__get_pydantic_core_schema__") or hasattr(owner, "__pydantic_validator__")


class PydanticTypeError(Exception):
    """Pydantic cannot make a schema of a type; the text says why."""


def pydantic_shape(annotation: object, *, for_input: bool) -> tuple[Shape, Definitions]:
    """The shape of a type as pydantic sees it, titles left out, with the definitions it refers to.

    Raises:
        PydanticTypeError: pydantic has no schema for it.
    """
    from pydantic import PydanticUserError, TypeAdapter  # noqa: PLC0415 - only who uses pydantic pays for it
    from pydantic.errors import PydanticInvalidForJsonSchema  # noqa: PLC0415

    mode: Literal["validation", "serialization"] = "validation" if for_input else "serialization"
    try:
        adapter: TypeAdapter[object] = TypeAdapter(cast("type[object]", annotation))
        schema: JsonSchema = adapter.json_schema(mode=mode)
    except (PydanticUserError, PydanticInvalidForJsonSchema) as error:
        raise PydanticTypeError(str(error).partition("\n")[0].rstrip(".")) from error
    inlined = _Inlining(cast(Definitions, schema.pop("$defs", {})))
    json = inlined.visit(schema)
    return Shape(json, {**adapter.core_schema}), inlined.kept


class _Inlining:
    """Puts definitions where they are referred to, and keeps those that refer to themselves."""

    def __init__(self, definitions: Definitions) -> None:
        self._definitions = definitions
        self._open: list[str] = []
        self.kept: Definitions = {}

    def visit(self, schema: JsonSchema) -> JsonSchema:
        target = schema.get("$ref")
        if isinstance(target, str):
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            return {**self._target(target), **rest}
        return {key: self._visit_word(key, value) for key, value in schema.items() if key != "title"}

    def _target(self, target: str) -> JsonSchema:
        name = target.removeprefix("#/$defs/")
        if name in self._open or name in self.kept:
            self.kept.setdefault(name, {})
            return {"$ref": target}
        self._open.append(name)
        inlined = self.visit(self._definitions[name])
        self._open.pop()
        if name not in self.kept:
            return inlined
        self.kept[name] = inlined
        return {"$ref": target}

    def _visit_word(self, key: str, value: JsonValue) -> JsonValue:
        """Follow the words that hold schemas; leave examples, defaults and enums as they are."""
        if key == "properties":
            members = cast("Mapping[str, JsonSchema]", value)
            return {name: self.visit(member) for name, member in members.items()}
        if key in {"anyOf", "oneOf", "allOf", "prefixItems"}:
            return [self.visit(member) for member in cast("Sequence[JsonSchema]", value)]
        if key in {"items", "additionalProperties", "not"} and isinstance(value, dict):
            return self.visit(value)
        return value

"""Enums and literals: one of some plain values."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import cast

from pilotage.jsonvalue import JsonValue
from pilotage.schema.rejections import Rejection, spelling
from pilotage.schema.shape import CoreSchema, JsonSchema, Shape

_JSON_TYPES: dict[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    type(None): "null",
}


def enum_shape(members: type[Enum]) -> Shape | Rejection:
    """The values of an enum; validation gives the members."""
    for member in members:
        if _json_type_of(member.value) is None:
            what = f"whose member {member.name!r} is no text, number, bool or None"
            return Rejection(f"is the enum {spelling(members)}, {what}", "Give the members plain values.")
    if not list(members):
        return Rejection(f"is the enum {spelling(members)}, which is empty", "Give it members.")
    values: list[JsonValue] = [member.value for member in members]
    return _choice(values, {"type": "enum", "cls": members, "members": list(members)})


def literal_shape(values: Sequence[object]) -> Shape | Rejection:
    """The values of a `Literal`."""
    for value in values:
        if _json_type_of(value) is None or isinstance(value, Enum):
            remedy = "Use texts, numbers, bools or None in a Literal, or write the enum itself."
            return Rejection(f"is a Literal with {value!r}", remedy)
    return _choice(cast("Sequence[JsonValue]", values), {"type": "literal", "expected": list(values)})


def _choice(values: Sequence[JsonValue], core: CoreSchema) -> Shape:
    """One of some plain values, with their JSON type when they share one."""
    kinds = {_json_type_of(value) for value in values}
    shared: JsonSchema = {"type": kinds.pop()} if len(kinds) == 1 else {}
    return Shape({"enum": list(values), **shared}, core)


def _json_type_of(value: object) -> str | None:
    # The order matters: a bool is an int.
    return next((name for kind, name in _JSON_TYPES.items() if isinstance(value, kind)), None)

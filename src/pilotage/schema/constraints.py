"""Metadata of `Annotated`: limits, patterns, descriptions, sensitivity.

The limits of annotated-types and of pydantic's `Field` are recognised by their attributes, so that neither
package has to be imported to read an annotation that does not use it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import cast

from pilotage.jsonvalue import JsonValue, to_json_value
from pilotage.schema.rejections import Rejection, reject_constraint
from pilotage.schema.shape import CoreSchema, JsonSchema, TypeShape
from pilotage.values import value

_KNOWN = ("annotated_types", "pydantic", "pilotage.schema")
_NUMBERS = ("int", "float", "decimal")
_MOMENTS = ("date", "datetime", "time", "timedelta")
_ARRAYS = ("list", "set", "frozenset", "tuple")

# constraint -> core type -> the keyword of JSON schema (None: there is none)
_WORDS: dict[str, dict[str, str | None]] = {
    "ge": {**dict.fromkeys(_NUMBERS, "minimum"), **dict.fromkeys(_MOMENTS)},
    "gt": {**dict.fromkeys(_NUMBERS, "exclusiveMinimum"), **dict.fromkeys(_MOMENTS)},
    "le": {**dict.fromkeys(_NUMBERS, "maximum"), **dict.fromkeys(_MOMENTS)},
    "lt": {**dict.fromkeys(_NUMBERS, "exclusiveMaximum"), **dict.fromkeys(_MOMENTS)},
    "multiple_of": dict.fromkeys(_NUMBERS, "multipleOf"),
    "min_length": {"str": "minLength", "dict": "minProperties", **dict.fromkeys(_ARRAYS, "minItems")},
    "max_length": {"str": "maxLength", "dict": "maxProperties", **dict.fromkeys(_ARRAYS, "maxItems")},
    "pattern": {"str": "pattern"},
    "max_digits": {"decimal": None},
    "decimal_places": {"decimal": None},
}


@value
class Between:
    """A number from one bound to another, for our own types: `Annotated[float, Between(0, 1)]`."""

    ge: float
    le: float


@value
class Strictly:
    """A value of exactly the type, for our own types: no text for a number, no boolean for a number."""


@value
class Remarks:
    """The metadata of one `Annotated`."""

    constraints: dict[str, object] = field(default_factory=dict[str, object])
    description: str | None = None
    needs_pydantic: bool = False
    is_strict: bool = False


def read_remarks(metadata: Iterable[object]) -> Remarks:
    """Return limits, description, and whether pydantic is needed for the rest; unknown remarks are ignored."""
    constraints: dict[str, object] = {}
    description: str | None = None
    needs_pydantic = is_strict = False
    for item in _atoms(metadata):
        is_strict |= isinstance(item, Strictly)
        constraints |= _constraints_of(item)
        description = _description_of(item) or description
        needs_pydantic |= _is_for_pydantic(item)
    return Remarks(constraints, description, needs_pydantic, is_strict)


def constrain(shape: TypeShape, constraints: dict[str, object], annotation: object) -> TypeShape | Rejection:
    """Return the shape within its limits; a limit that does not apply to the type is refused."""
    kind = cast(str, shape.core["type"])
    json: JsonSchema = dict(shape.json)
    core: CoreSchema = dict(shape.core)
    for name, limit in constraints.items():
        if kind not in _WORDS[name]:
            return reject_constraint(name, annotation)
        core[name] = limit
        word = _WORDS[name][kind]
        if word is not None:
            json[word] = _json_limit(limit)
    return TypeShape(json, core)


def _atoms(metadata: Iterable[object]) -> Iterator[object]:
    """Yield the single remarks; `Field`, `Interval` and similar ones hold several."""
    for item in metadata:
        if hasattr(item, "__is_annotated_types_grouped_metadata__"):
            yield from _atoms(cast("Iterable[object]", item))
        else:
            yield item
            if _is_field_info(item):
                yield from _atoms(getattr(item, "metadata", ()))


def _is_field_info(item: object) -> bool:
    return type(item).__name__ == "FieldInfo" and hasattr(item, "is_required")


def is_field_default(value: object) -> bool:
    """Return whether a parameter's default is pydantic's `Field(...)`, which belongs into the annotation."""
    return _is_field_info(value)


def _constraints_of(item: object) -> dict[str, object]:
    if _is_field_info(item) or not type(item).__module__.startswith(_KNOWN):
        return {}
    found: dict[str, object] = {name: getattr(item, name, None) for name in _WORDS}
    return {name: limit for name, limit in found.items() if limit is not None}


def _is_for_pydantic(item: object) -> bool:
    """Return whether only pydantic can apply a remark: a validator, or an option that is no limit."""
    if hasattr(item, "__get_pydantic_core_schema__"):
        return True
    if _is_field_info(item) or not type(item).__module__.startswith("pydantic."):
        return False
    options: dict[str, object] = getattr(item, "__dict__", {})
    return any(name not in _WORDS for name, value in options.items() if value is not None)


def _description_of(item: object) -> str | None:
    text = getattr(item, "description" if _is_field_info(item) else "documentation", None)
    return text if isinstance(text, str) else None


def _json_limit(limit: object) -> JsonValue:
    if isinstance(limit, re.Pattern):
        return cast("re.Pattern[str]", limit).pattern
    return to_json_value(limit)

"""Compiles a core schema into a validator, and a JSON schema into a core schema.

The first validator imports pydantic-core; nothing before does. Of a JSON schema from outside, types, properties, items
and choices are checked; its other rules (formats, patterns, bounds, references) are checked by its author.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, cast

from pilotage.jsonvalue import JsonObject, JsonValue, as_list, list_or_empty
from pilotage.schema.shape import UNION_MEMBER, CoreSchema
from pilotage.values import value

Validate: TypeAlias = Callable[[Mapping[str, object]], dict[str, object]]


@value
class Misfit:
    """One value that does not fit: its place, the rule it breaks, and a message.

    The message may come from the program's own code and quote the value, unless `is_plain` is true.
    """

    place: tuple[str | int, ...]
    rule: str
    words: str

    @property
    def is_plain(self) -> bool:
        return self.rule.endswith("_type") or self.rule in {"missing", "extra_forbidden"}

    @property
    def path(self) -> str:
        """The place as a person writes it: `order.lines[0].amount`."""
        text = ""
        for step in self.place:
            if isinstance(step, int):
                text += f"[{step}]"
            elif not step.startswith(UNION_MEMBER):
                text += f".{step}" if text else step
        return text

    @property
    def reading(self) -> str:
        """The members of unions that were tried on the way, as text; empty without unions."""
        members = [str(step)[1:] for step in self.place if str(step).startswith(UNION_MEMBER)]
        return f" (read as {', '.join(members)})" if members else ""


class MisfitsError(Exception):
    """Arguments that do not fit, all of them."""

    def __init__(self, misfits: Sequence[Misfit]) -> None:
        super().__init__(f"{len(misfits)} values do not fit")
        self.misfits = tuple(misfits)


def compile_validator(core: CoreSchema, *, strict: bool = False) -> Validate:
    """Return a function that returns validated arguments in the order of the schema, or raises `MisfitsError`.

    Where it is strict, a value of another type is a misfit, and never converted.
    """
    import pydantic_core  # noqa: PLC0415 - costs 30 ms, and a program may never bind anything

    schema = cast(pydantic_core.CoreSchema, cast(object, core))
    # Values must not show up in a log because an error was logged.
    validator = pydantic_core.SchemaValidator(
        schema, pydantic_core.CoreConfig(hide_input_in_errors=True, strict=strict)
    )

    def validate(given: Mapping[str, object]) -> dict[str, object]:
        try:
            arguments: dict[str, object] = validator.validate_python(given)
        except pydantic_core.ValidationError as error:
            details = error.errors(include_url=False, include_context=False, include_input=False)
            misfits = [Misfit(detail["loc"], detail["type"], detail["msg"]) for detail in details]
        else:
            return arguments
        raise MisfitsError(misfits)

    return validate


def misfit_of(given: JsonValue, schema: JsonObject) -> str | None:
    """Return why a JSON value does not fit a JSON schema, as text without the value; None where it fits."""
    core: CoreSchema = {
        "type": "typed-dict",
        "fields": {"value": {"type": "typed-dict-field", "schema": core_of_json(schema), "required": True}},
    }
    try:
        compile_validator(core, strict=True)({"value": given})
    except MisfitsError as error:
        places = [each.path.removeprefix("value").lstrip(".") or "it" for each in error.misfits]
        misfits = zip(places, error.misfits, strict=True)
        return "; ".join(f"{place}: {each.words}" for place, each in misfits)
    return None


_ANY: CoreSchema = {"type": "any"}
_SCALARS: Mapping[str, CoreSchema] = {
    "string": {"type": "str"},
    "integer": {"type": "int"},
    "number": {"type": "float", "allow_inf_nan": False},
    "boolean": {"type": "bool"},
    "null": {"type": "none"},
}


def core_of_json(schema: JsonValue) -> CoreSchema:
    """Return the core schema that validates values of a JSON schema."""
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
    return _object(schema) if "properties" in schema else _ANY


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

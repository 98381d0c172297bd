"""Types with fields: dataclasses, typed dicts, and the types that only pydantic understands."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NotRequired, Required, cast, get_args, get_origin

from pilotage.annotations import resolve_fields
from pilotage.errors import PilotageError
from pilotage.jsonvalue import JsonValue
from pilotage.schema.shape import JsonSchema, TypeShape
from pilotage.values import is_in_json, value


@value
class NoDefault:
    """The field must be given."""


@value
class UnknownDefault:
    """The field may be left out; its default is made when it is needed."""


@value
class KnownDefault:
    """The field may be left out and then has this value."""

    value: object


Default = NoDefault | UnknownDefault | KnownDefault


@value
class Field:
    """One field of a record as it is declared."""

    name: str
    annotation: object
    default: Default


def is_typed_dict(owner: type) -> bool:
    """Return whether a type is a typed dict, also one of typing_extensions."""
    return dict in owner.__mro__ and hasattr(owner, "__total__")


def typed_dict_fields(owner: type) -> list[Field]:
    required: frozenset[str] = getattr(owner, "__required_keys__", frozenset[str]())
    return [_typed_dict_key(name, hint, name in required) for name, hint in resolve_fields(owner).items()]


def _typed_dict_key(name: str, hint: object, is_required: bool) -> Field:
    # Annotations that are stored as text need these two names.
    origin = get_origin(hint)
    if origin in {Required, NotRequired}:
        (hint,), is_required = get_args(hint), origin is Required
    return Field(name, hint, NoDefault() if is_required else UnknownDefault())


def dataclass_fields(owner: type, *, for_input: bool) -> list[Field]:
    """Return the fields of the constructor or, for output, all fields of the JSON form."""
    hints = resolve_fields(owner)
    return [
        Field(field.name, hints[field.name], _default_of(field))
        for field in dataclasses.fields(owner)
        if (field.init or not for_input) and is_in_json(field)
    ]


def hidden_parameters(owner: type) -> list[str]:
    """Return the required parameters of a dataclass's constructor that are no fields."""
    names = {field.name for field in dataclasses.fields(owner) if field.init}
    parameters = inspect.signature(owner).parameters.values()
    return [p.name for p in parameters if p.name not in names and p.default is p.empty]


def constructing(owner: type) -> Callable[[object, Callable[[object], Mapping[str, object]]], object]:
    """Return a validator that makes an `owner` from its validated fields; instances are unchanged."""

    def construct(given: object, validate: Callable[[object], Mapping[str, object]]) -> object:
        if isinstance(given, owner):
            return given
        try:
            return owner(**validate(given))
        except (PilotageError, TypeError) as error:
            raise ValueError(str(error)) from error

    return construct


def _default_of(field: dataclasses.Field[Any]) -> Default:
    if field.default is not dataclasses.MISSING:
        return KnownDefault(field.default)
    return NoDefault() if field.default_factory is dataclasses.MISSING else UnknownDefault()


Definitions = dict[str, JsonSchema]


def is_pydantic_type(owner: type) -> bool:
    """Return whether a class has its own core schema: models, pydantic dataclasses, custom types."""
    return hasattr(owner, "__get_pydantic_core_schema__") or hasattr(owner, "__pydantic_validator__")


class PydanticTypeError(Exception):
    """Pydantic cannot make a schema of a type; the text says why."""


def pydantic_shape(annotation: object, *, for_input: bool) -> tuple[TypeShape, Definitions]:
    """Return the shape of a type by pydantic, without titles, with the definitions it refers to.

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
    return TypeShape(json, {**adapter.core_schema}), inlined.definitions


class _Inlining:
    """Replaces references by their definitions, except recursive ones, which stay in `definitions`."""

    def __init__(self, definitions: Definitions) -> None:
        self._definitions = definitions
        self._open: list[str] = []
        self.definitions: Definitions = {}

    def visit(self, schema: JsonSchema) -> JsonSchema:
        target = schema.get("$ref")
        if isinstance(target, str):
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            return {**self._target(target), **rest}
        return {key: self._visit_keyword(key, value) for key, value in schema.items() if key != "title"}

    def _target(self, target: str) -> JsonSchema:
        name = target.removeprefix("#/$defs/")
        if name in self._open or name in self.definitions:
            self.definitions.setdefault(name, {})
            return {"$ref": target}
        self._open.append(name)
        inlined = self.visit(self._definitions[name])
        self._open.pop()
        if name not in self.definitions:
            return inlined
        self.definitions[name] = inlined
        return {"$ref": target}

    def _visit_keyword(self, key: str, value: JsonValue) -> JsonValue:
        """Follow the keywords that hold schemas; examples, defaults and enums are unchanged."""
        if key == "properties":
            members = cast("Mapping[str, JsonSchema]", value)
            return {name: self.visit(member) for name, member in members.items()}
        if key in {"anyOf", "oneOf", "allOf", "prefixItems"}:
            return [self.visit(member) for member in cast("Sequence[JsonSchema]", value)]
        if key in {"items", "additionalProperties", "not"} and isinstance(value, dict):
            return self.visit(value)
        return value

"""From values to JSON and back: a replayed call gives a value of the same type as the live one gave."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from inspect import unwrap
from typing import Any, cast

from pilotage.agent.structured_output import StructuredOutputSpec
from pilotage.annotations import UnresolvedAnnotationError, resolve_annotation
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonValue

Decode = Callable[[JsonValue], object]


@lru_cache(maxsize=1024)
def decoder_of(function: Callable[..., object]) -> Decode:
    """How to read a recorded result of a function: by its return type, or as JSON where it has none."""
    plain: Any = unwrap(getattr(function, "__func__", function))
    annotation: object = getattr(plain, "__annotations__", {}).get("return", _NOTHING)
    if annotation is _NOTHING:
        return _as_it_is
    names = cast("dict[str, object]", getattr(plain, "__globals__", {}))
    try:
        resolved = resolve_annotation(annotation, names)
        return StructuredOutputSpec.from_type(type(None) if resolved is None else resolved).decode
    except (UnresolvedAnnotationError, AgentDefinitionError):
        return _as_it_is


_NOTHING = object()


def _as_it_is(value: JsonValue) -> JsonValue:
    return value

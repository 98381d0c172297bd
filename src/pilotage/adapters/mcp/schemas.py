"""JSON schemas of servers, checked by the package that the SDK checks them with. Pure."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json, parsed, shortened

_LONGEST = 200


def why_not_valid(schema: JsonObject) -> str | None:
    """Return why an object is no JSON schema; None where it is one."""
    checks = _checks()
    kind = checks.validators.validator_for(schema)
    try:
        kind.check_schema(schema)
    except checks.exceptions.SchemaError as error:
        return shortened(str(error.message), _LONGEST)
    return None


def misfit(schema: JsonObject, value: JsonValue) -> str | None:
    """Return why a value does not fit a schema; None where it does. References stay inside of the schema."""
    from referencing.exceptions import Unresolvable  # noqa: PLC0415 - dear to import

    try:
        found = _checks().exceptions.best_match(_validator(canonical_json(schema)).iter_errors(value))
    except (Unresolvable, RecursionError) as error:
        return f"it cannot be checked: {shortened(str(error), _LONGEST)}"
    return None if found is None else shortened(str(found.message), _LONGEST)


@lru_cache(maxsize=256)
def _validator(text: str) -> Any:
    """Return the validator of a schema; it takes much longer to make than to use."""
    import referencing  # noqa: PLC0415

    schema = parsed(text)
    registry: Any = referencing.Registry
    return _checks().validators.validator_for(schema)(schema, registry=registry())


def _checks() -> Any:
    import jsonschema  # noqa: PLC0415 - it imports its parts

    return jsonschema

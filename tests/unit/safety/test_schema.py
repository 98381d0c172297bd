"""Schemas say where their sensitive fields are, if the policy wants it."""

from __future__ import annotations

import copy
from typing import Any, cast

import pytest

from pilotage.jsonvalue import JsonObject
from pilotage.safety.fields import PII, SensitiveField, SensitiveFieldDescriptor
from pilotage.safety.guard import ContextExposurePolicy
from pilotage.safety.schema import SENSITIVE_KEYWORD, schema_with_sensitive_metadata

EMAIL = SensitiveField(PII.EMAIL)
OPEN = ContextExposurePolicy(include_sensitive_schema_metadata=True)
TEXT: dict[str, Any] = {"type": "string"}
CUSTOMER: dict[str, Any] = {"type": "object", "properties": {"email": TEXT}}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "email": TEXT,
        "rows": {"type": "array", "items": CUSTOMER},
        "pair": {"type": "array", "prefixItems": [{"type": "integer"}, CUSTOMER]},
        "maybe": {"anyOf": [CUSTOMER, {"type": "null"}]},
        "by_name": {"type": "object", "additionalProperties": CUSTOMER},
        "node": {"$ref": "#/$defs/Node"},
        "elsewhere": {"$ref": "https://example.org/schema"},
    },
    "$defs": {
        "Node": {
            "type": "object",
            "properties": {"value": TEXT, "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
        }
    },
}


def marked_places(schema: object, place: str = "") -> set[str]:
    found: set[str] = set()
    if isinstance(schema, dict):
        items = cast("dict[str, object]", schema)
        if SENSITIVE_KEYWORD in items:
            assert items[SENSITIVE_KEYWORD] == [EMAIL.to_metadata()]
            found.add(place)
        for key, item in items.items():
            found |= marked_places(item, f"{place}/{key}")
    if isinstance(schema, list):
        for number, item in enumerate(cast("list[object]", schema)):
            found |= marked_places(item, f"{place}/{number}")
    return found


@pytest.mark.parametrize(
    ("path", "each_value_at", "place"),
    [
        ((), (), ""),
        (("email",), (), "/properties/email"),
        (("rows",), (), "/properties/rows"),
        (("rows", "email"), (), "/properties/rows/items/properties/email"),
        (("pair", "email"), (), "/properties/pair/prefixItems/1/properties/email"),
        (("maybe", "email"), (), "/properties/maybe/anyOf/0/properties/email"),
        (("by_name", "email"), (), "/properties/by_name/additionalProperties/properties/email"),
        (("by_name", "email"), (1,), "/properties/by_name/additionalProperties/properties/email"),
        (("by_name",), (1,), "/properties/by_name/additionalProperties"),
        (("node",), (), "/properties/node"),
        (("node", "value"), (), "/$defs/Node/properties/value"),
        (("node", "**", "value"), (), "/$defs/Node/properties/value"),
    ],
)
def test_a_path_is_followed_to_its_place(
    path: tuple[str, ...], each_value_at: tuple[int, ...], place: str
) -> None:
    descriptor = SensitiveFieldDescriptor(path, EMAIL, each_value_at)
    before = copy.deepcopy(SCHEMA)
    assert marked_places(schema_with_sensitive_metadata(SCHEMA, [descriptor], OPEN)) == {place}
    assert before == SCHEMA


@pytest.mark.parametrize("path", [("nothing",), ("email", "deeper"), ("elsewhere", "email")])
def test_a_path_that_leads_nowhere_is_ignored(path: tuple[str, ...]) -> None:
    assert schema_with_sensitive_metadata(SCHEMA, [SensitiveFieldDescriptor(path, EMAIL)], OPEN) == SCHEMA


def test_a_marker_is_listed_once_however_often_the_schema_passes() -> None:
    descriptor = SensitiveFieldDescriptor(("email",), EMAIL)
    once = schema_with_sensitive_metadata(SCHEMA, [descriptor, descriptor], OPEN)
    assert schema_with_sensitive_metadata(once, [descriptor], OPEN) == once
    assert marked_places(once) == {"/properties/email"}


def test_the_very_same_schema_comes_back_when_there_is_nothing_to_say() -> None:
    schema: JsonObject = SCHEMA
    descriptor = SensitiveFieldDescriptor(("email",), EMAIL)
    assert schema_with_sensitive_metadata(schema, [descriptor]) is schema
    assert schema_with_sensitive_metadata(schema, [descriptor], ContextExposurePolicy()) is schema
    assert schema_with_sensitive_metadata(schema, [], OPEN) is schema

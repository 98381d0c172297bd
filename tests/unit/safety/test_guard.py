"""What the guard does with every shape of value, as tables."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json
from pilotage.safety.fields import (
    PII,
    DataSensitivity,
    MaskingKey,
    MaskingPolicy,
    RedactionPolicy,
    SecretField,
    SensitiveField,
    SensitiveFieldDescriptor,
    SensitiveMarker,
)
from pilotage.safety.guard import (
    SENSITIVE_KEYWORD,
    ContextExposurePolicy,
    EvidenceExposurePolicy,
    guard_json_value,
    schema_with_sensitive_metadata,
)

FIELDS: dict[str, SensitiveMarker] = {
    "public": SensitiveField(DataSensitivity.PUBLIC),
    "internal": SensitiveField(DataSensitivity.INTERNAL),
    "confidential": SensitiveField(DataSensitivity.CONFIDENTIAL),
    "pii": SensitiveField(PII.EMAIL),
    "pii level": SensitiveField(DataSensitivity.PII),
    "secret level": SensitiveField(DataSensitivity.SECRET),
    "secret field": SecretField(),
}
ALWAYS = {"public", "internal"}


@pytest.mark.parametrize("policy_type", [ContextExposurePolicy, EvidenceExposurePolicy])
@pytest.mark.parametrize(
    ("pii", "sensitive", "exposed"),
    [
        (False, False, ALWAYS),
        (True, False, ALWAYS | {"pii", "pii level"}),
        (False, True, ALWAYS | {"confidential", "secret level"}),
        (True, True, ALWAYS | {"pii", "pii level", "confidential", "secret level"}),
    ],
)
def test_a_policy_exposes_exactly_what_it_includes(
    policy_type: type[ContextExposurePolicy | EvidenceExposurePolicy],
    pii: bool,
    sensitive: bool,
    exposed: set[str],
) -> None:
    policy = policy_type(include_pii_values=pii, include_sensitive_values=sensitive)
    assert {name for name, field in FIELDS.items() if policy.can_expose_value(field)} == exposed


def test_the_defaults_expose_no_value_and_keep_the_metadata_of_evidence() -> None:
    assert ContextExposurePolicy() == ContextExposurePolicy(False, False, False, False, None)
    assert EvidenceExposurePolicy() == EvidenceExposurePolicy(False, False, True, None)


def test_a_policy_does_not_show_the_secret_of_its_key() -> None:
    policy = ContextExposurePolicy(masking_key=MaskingKey("k", b"very secret bytes"))
    assert "very secret" not in repr(policy)


EMAIL = SensitiveField(PII.EMAIL)
LAST = SensitiveField(PII.ACCOUNT_ID, masking=MaskingPolicy.LAST_FOUR)
DROP = SensitiveField(PII.EMAIL, redaction=RedactionPolicy.DROP)
HIDDEN = "[REDACTED]"


def at(
    *path: str, field: SensitiveField | SecretField = EMAIL, each: tuple[int, ...] = ()
) -> SensitiveFieldDescriptor:
    return SensitiveFieldDescriptor(path, field, each)


MASKED: dict[str, tuple[JsonValue, SensitiveFieldDescriptor, JsonValue]] = {
    "a root text": ("a@b", at(), HIDDEN),
    "a root number": (12345678, at(field=LAST), "***5678"),
    "a root truth value": (True, at(field=LAST), HIDDEN),
    "a root None": (None, at(), HIDDEN),
    "a root list, by element": (["12345678", 1.5], at(field=LAST), ["***5678", HIDDEN]),
    "a root object, entirely": ({"a@b": 1}, at(), HIDDEN),
    "a secret": ({"key": "x"}, at("key", field=SecretField()), {"key": "[SECRET]"}),
    "a secret object": ({"key": {"x": 1}}, at("key", field=SecretField()), {"key": "[SECRET]"}),
    "a field": ({"email": "a@b", "n": 1}, at("email"), {"email": HIDDEN, "n": 1}),
    "a field that is absent": ({"n": 1}, at("email"), {"n": 1}),
    "a nested field": ({"a": {"b": "x", "c": 1}}, at("a", "b"), {"a": {"b": HIDDEN, "c": 1}}),
    "a field of each element": (
        {"rows": [{"email": "a"}, {"email": "b"}]},
        at("rows", "email"),
        {"rows": [{"email": HIDDEN}, {"email": HIDDEN}]},
    ),
    "a field in nested lists": ({"r": [[{"e": "a"}], []]}, at("r", "e"), {"r": [[{"e": HIDDEN}], []]}),
    "a tuple stays a tuple": ({"r": ({"e": "a"},)}, at("r", "e"), {"r": ({"e": HIDDEN},)}),
    "a list of sensitive texts": ({"to": ["a", "b"]}, at("to"), {"to": [HIDDEN, HIDDEN]}),
    "objects in a mapping": (
        {"rows": {"bob": {"email": "a"}, "eve": {"email": "b"}}},
        at("rows", "email"),
        {"rows": {"bob": {"email": HIDDEN}, "eve": {"email": HIDDEN}}},
    ),
    "objects in a declared mapping, one named like the field": (
        {"rows": {"email": {"email": "a"}, "eve": {"email": "b"}}},
        at("rows", "email", each=(1,)),
        {"rows": {"email": {"email": HIDDEN}, "eve": {"email": HIDDEN}}},
    ),
    "values of a declared mapping": ({"m": {"k": "a"}}, at("m", each=(1,)), {"m": {"k": HIDDEN}}),
    "lists in a declared mapping": ({"m": {"k": ["a"]}}, at("m", each=(1,)), {"m": {"k": [HIDDEN]}}),
    "a text where an object should be": ({"rows": "a@b"}, at("rows", "email"), {"rows": HIDDEN}),
    "a number where an object should be": ({"rows": [7]}, at("rows", "email"), {"rows": [HIDDEN]}),
    "None where an object should be": ({"rows": None}, at("rows", "email"), {"rows": None}),
    "any depth": (
        {"v": "1", "tags": ["t"], "ch": [{"v": "2", "ch": [{"v": "3", "n": 1}]}]},
        at("**", "v"),
        {"v": HIDDEN, "tags": ["t"], "ch": [{"v": HIDDEN, "ch": [{"v": HIDDEN, "n": 1}]}]},
    ),
    "any depth on a text": ("x", at("**", "v"), HIDDEN),
    "any depth with a mapping": (
        {"m": {"k": {"v": "1", "m": {"j": {"v": "2"}}}}},
        at("**", "m", "v", each=(2,)),
        {"m": {"k": {"v": HIDDEN, "m": {"j": {"v": HIDDEN}}}}},
    ),
    "everything at any depth": (
        {"a": {"b": "x"}, "c": ["y", {"d": 1}], "e": None},
        at("**"),
        {"a": {"b": HIDDEN}, "c": [HIDDEN, {"d": HIDDEN}], "e": HIDDEN},
    ),
    "everything at any depth, dropped": (
        {"a": {"b": "x"}, "c": ["y"]},
        at("**", field=DROP),
        {"a": {}, "c": []},
    ),
    "every value at any depth": (
        {"a": {"b": "x"}, "c": "y"},
        at("**", each=(1,)),
        {"a": HIDDEN, "c": HIDDEN},
    ),
    "dropped from an object": ({"a": {"e": "x", "n": 1}}, at("a", "e", field=DROP), {"a": {"n": 1}}),
    "dropped from each element": ([{"e": "x", "n": 1}], at("e", field=DROP), [{"n": 1}]),
    "dropped from a list": ({"to": ["a", "b"]}, at("to", field=DROP), {"to": []}),
    "dropped from a mapping": ({"m": {"k": "a"}}, at("m", field=DROP, each=(1,)), {"m": {}}),
    "dropped at the root": ("a@b", at(field=DROP), None),
    "a drop that finds nothing": ({"a": {"n": 1}}, at("a", "e", field=DROP), {"a": {"n": 1}}),
}


@pytest.mark.parametrize(("value", "descriptor", "guarded"), MASKED.values(), ids=MASKED)
def test_the_guard_masks(value: JsonValue, descriptor: SensitiveFieldDescriptor, guarded: JsonValue) -> None:
    before = copy.deepcopy(value)
    assert guard_json_value(value, [descriptor]) == guarded
    assert value == before


def test_what_the_policy_exposes_stays() -> None:
    value: JsonValue = {"email": "a@b", "key": "x"}
    descriptors = [at("email"), at("key", field=SecretField())]
    open_policy = EvidenceExposurePolicy(include_pii_values=True, include_sensitive_values=True)
    assert guard_json_value(value, descriptors, open_policy) == {"email": "a@b", "key": "[SECRET]"}


def test_a_hash_uses_the_key_of_the_policy_and_fails_closed_without() -> None:
    hashed = at(field=SensitiveField(PII.EMAIL, masking=MaskingPolicy.HASH))
    policy = ContextExposurePolicy(masking_key=MaskingKey("k1", b"0123456789abcdef"))
    assert guard_json_value("a@b.c", [hashed], policy) == "[HASHED:email:k1:c8b9adc27ca0]"
    assert guard_json_value("a@b.c", [hashed]) == HIDDEN


def test_descriptors_are_applied_one_after_the_other() -> None:
    value: JsonValue = {"a": {"x": "1", "y": "2"}}
    assert guard_json_value(value, [at("a", "x"), at("a", "y", field=DROP)]) == {"a": {"x": HIDDEN}}


def test_what_is_no_json_is_masked_entirely() -> None:
    assert guard_json_value(cast(JsonValue, {"e": b"a@b"}), [at("e")]) == {"e": HIDDEN}
    assert guard_json_value(cast(JsonValue, {"e": b"a@b"}), [at("e", "f")]) == {"e": HIDDEN}


JSON = st.recursive(
    st.sampled_from(["SENSITIVE", "plain", 1, None]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["email", "rows", "x"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(JSON)
def test_no_leaf_under_the_name_slips_through(value: JsonValue) -> None:
    """Whatever the shape, nothing below `email` stays when the field may lie at any depth."""
    guarded = guard_json_value(value, [at("**", "email")])
    for found in _below(guarded, "email"):
        assert "SENSITIVE" not in canonical_json(found)


def _below(value: JsonValue, name: str) -> list[JsonValue]:
    if isinstance(value, Mapping):
        inner = [found for item in value.values() for found in _below(item, name)]
        return [*inner, value[name]] if name in value else inner
    if isinstance(value, list):
        return [found for item in cast("list[JsonValue]", value) for found in _below(item, name)]
    return []


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
            (entry,) = cast("list[dict[str, object]]", items[SENSITIVE_KEYWORD])
            assert entry["field"] == EMAIL.to_metadata()
            assert {"path", "field"} <= set(entry)
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

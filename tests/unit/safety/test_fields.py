"""Markers and descriptors."""

from __future__ import annotations

from typing import Annotated, Optional, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.jsonvalue import JsonObject
from pilotage.safety.fields import (
    PII,
    REDACTED_VALUE,
    CredentialRef,
    DataSensitivity,
    MaskingKey,
    MaskingPolicy,
    RedactionPolicy,
    SecretField,
    SecretRef,
    SensitiveField,
    SensitiveFieldDescriptor,
    SensitiveMarker,
    marker_from_metadata,
    mask_text,
)

KEY = MaskingKey("k1", b"0123456789abcdef")


@pytest.mark.parametrize(
    ("text", "policy", "mask"),
    [
        ("anything", MaskingPolicy.REDACT, "[REDACTED]"),
        ("", MaskingPolicy.REDACT, "[REDACTED]"),
        ("12345678", MaskingPolicy.LAST_FOUR, "***5678"),
        ("1234567", MaskingPolicy.LAST_FOUR, "[REDACTED]"),
        ("Anna", MaskingPolicy.FIRST_LAST, "A***a"),
        ("Ann", MaskingPolicy.FIRST_LAST, "[REDACTED]"),
        ("", MaskingPolicy.FIRST_LAST, "[REDACTED]"),
        ("😀ab😎", MaskingPolicy.FIRST_LAST, "😀***😎"),
        ("a@b.c", MaskingPolicy.HASH, "[HASHED:email:k1:c8b9adc27ca0]"),
    ],
)
def test_each_policy_has_its_mask(text: str, policy: MaskingPolicy, mask: str) -> None:
    assert mask_text(text, policy, category="email", key=KEY) == mask


def test_a_hash_without_a_key_hides_everything() -> None:
    assert mask_text("a@b.c", MaskingPolicy.HASH, category="email") == REDACTED_VALUE


def test_a_hash_depends_on_the_secret_and_names_its_key() -> None:
    other = MaskingKey("k2", b"fedcba9876543210")
    first = mask_text("a@b.c", MaskingPolicy.HASH, category="email", key=KEY)
    second = mask_text("a@b.c", MaskingPolicy.HASH, category="email", key=other)
    assert ":k1:" in first
    assert ":k2:" in second
    assert first.rpartition(":")[2] != second.rpartition(":")[2]


def test_a_lone_surrogate_can_be_hashed() -> None:
    assert mask_text("\ud800", MaskingPolicy.HASH, category="name", key=KEY).startswith("[HASHED:name:k1:")


def test_the_repr_of_a_key_does_not_show_its_secret() -> None:
    assert repr(KEY) == "MaskingKey(id='k1')"


@given(st.text(alphabet=st.characters(exclude_characters="*")), st.sampled_from(MaskingPolicy))
def test_no_mask_shows_more_than_half_of_a_value(text: str, policy: MaskingPolicy) -> None:
    mask = mask_text(text, policy, category="x", key=KEY)
    if "***" in mask:
        assert len(mask.replace("***", "")) * 2 <= len(text)
    else:
        assert mask == REDACTED_VALUE or mask.startswith("[HASHED:x:k1:")


MARKERS: list[tuple[SensitiveMarker, JsonObject]] = [
    (
        SensitiveField(PII.EMAIL),
        {
            "kind": "sensitive",
            "category": "email",
            "sensitivity": "pii",
            "masking": "redact",
            "redaction": "redact",
        },
    ),
    (
        SensitiveField(
            DataSensitivity.CONFIDENTIAL,
            MaskingPolicy.HASH,
            RedactionPolicy.DROP,
            label="salary",
            metadata={"owner": "hr"},
        ),
        {
            "kind": "sensitive",
            "category": "confidential",
            "sensitivity": "confidential",
            "masking": "hash",
            "redaction": "drop",
            "label": "salary",
            "metadata": {"owner": "hr"},
        },
    ),
    (SecretField(), {"kind": "secret", "sensitivity": "secret", "redaction": "reference_only"}),
    (
        SecretField(RedactionPolicy.DROP, "key", {"a": 1}),
        {
            "kind": "secret",
            "sensitivity": "secret",
            "redaction": "drop",
            "label": "key",
            "metadata": {"a": 1},
        },
    ),
]


@pytest.mark.parametrize(("marker", "metadata"), MARKERS)
def test_a_marker_survives_the_way_through_json(marker: SensitiveMarker, metadata: JsonObject) -> None:
    assert marker.to_metadata() == metadata
    assert marker_from_metadata(metadata) == marker


@pytest.mark.parametrize("each_value_at", [(), (1,), (0, 2)])
def test_a_descriptor_survives_the_way_through_json(each_value_at: tuple[int, ...]) -> None:
    descriptor = SensitiveFieldDescriptor(("rows", "email"), SensitiveField(PII.EMAIL), each_value_at)
    assert SensitiveFieldDescriptor.from_metadata(descriptor.to_metadata()) == descriptor


def test_a_descriptor_without_mappings_has_a_path_and_a_field_only() -> None:
    descriptor = SensitiveFieldDescriptor(("rows",), SecretField())
    assert descriptor.to_metadata() == {"path": ["rows"], "field": SecretField().to_metadata()}


@pytest.mark.parametrize("category", list(PII))
def test_every_kind_of_personal_data_is_personal(category: PII) -> None:
    field = SensitiveField(category)
    assert field.sensitivity is DataSensitivity.PII
    assert field.category_name == category.value


@pytest.mark.parametrize("level", list(DataSensitivity))
def test_a_level_is_its_own_sensitivity(level: DataSensitivity) -> None:
    assert SensitiveField(level).sensitivity is level


def test_a_sensitive_text_is_masked_as_its_field_says() -> None:
    field = SensitiveField(PII.ACCOUNT_ID, masking=MaskingPolicy.LAST_FOUR)
    assert field.guard_text("DE00123456") == "***3456"


def test_nothing_of_a_secret_is_shown_not_even_its_hash() -> None:
    assert SecretField().guard_text("hunter2", MaskingKey("k", bytes(16))) == "[SECRET]"


def test_a_marker_with_metadata_can_stand_in_a_union() -> None:
    marked = Annotated[str, SensitiveField(PII.NAME, metadata={"a": 1})]
    assert type(None) in get_args(Optional[marked])  # noqa: UP045 - this spelling hashes its members
    assert type(None) in get_args(marked | None)


def test_references_name_what_they_do_not_hold() -> None:
    reference = SecretRef("stripe", CredentialRef("prod", provider="vault"))
    assert reference.credential == CredentialRef("prod", "vault")

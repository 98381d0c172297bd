"""Masks show at most half of a value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.safety.masking import REDACTED_VALUE, MaskingKey, MaskingPolicy, mask_text

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

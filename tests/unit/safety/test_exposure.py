"""Who may see what, as a table."""

from __future__ import annotations

import pytest

from pilotage.safety.exposure import ContextExposurePolicy, EvidenceExposurePolicy
from pilotage.safety.fields import PII, DataSensitivity, SecretField, SensitiveField, SensitiveMarker
from pilotage.safety.masking import MaskingKey

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

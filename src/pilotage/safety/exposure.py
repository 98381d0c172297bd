"""Who may see what: the policies that the guards obey."""

from __future__ import annotations

from typing import TypeAlias, assert_never

from pilotage.safety.fields import DataSensitivity, SecretField, SensitiveMarker
from pilotage.safety.masking import MaskingKey
from pilotage.values import value


@value
class ContextExposurePolicy:
    """What a model may see. The default shows no sensitive value and does not say where they are."""

    include_pii_values: bool = False
    include_sensitive_values: bool = False
    include_sensitive_schema_metadata: bool = False
    include_sensitive_context_metadata: bool = False
    masking_key: MaskingKey | None = None

    def can_expose_value(self, field: SensitiveMarker) -> bool:
        """Whether a value with this marker may be shown as it is."""
        return _can_expose(field, self.include_pii_values, self.include_sensitive_values)


@value
class EvidenceExposurePolicy:
    """What a record may hold. The default keeps no sensitive value but says where they were."""

    include_pii_values: bool = False
    include_sensitive_values: bool = False
    include_sensitive_metadata: bool = True
    masking_key: MaskingKey | None = None

    def can_expose_value(self, field: SensitiveMarker) -> bool:
        """Whether a value with this marker may be kept as it is."""
        return _can_expose(field, self.include_pii_values, self.include_sensitive_values)


ExposurePolicy: TypeAlias = ContextExposurePolicy | EvidenceExposurePolicy


def _can_expose(field: SensitiveMarker, include_pii: bool, include_sensitive: bool) -> bool:
    if isinstance(field, SecretField):
        return False
    match field.sensitivity:
        case DataSensitivity.PUBLIC | DataSensitivity.INTERNAL:
            return True
        case DataSensitivity.PII:
            return include_pii
        case DataSensitivity.CONFIDENTIAL | DataSensitivity.SECRET:
            return include_sensitive
        case _:
            assert_never(field.sensitivity)

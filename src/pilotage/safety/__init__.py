"""Sensitive and secret fields, exposure policies, guards, links, trust labels and streaming redaction."""

from __future__ import annotations

from pilotage.safety.discovery import find_sensitive_fields
from pilotage.safety.fields import (
    ANY_DEPTH,
    PII,
    REDACTED_VALUE,
    SECRET_VALUE,
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
)
from pilotage.safety.guard import (
    SENSITIVE_KEYWORD,
    ContextExposurePolicy,
    EvidenceExposurePolicy,
    ExposurePolicy,
    guard_json_value,
    schema_with_sensitive_metadata,
)
from pilotage.safety.links import neutralize_links
from pilotage.safety.redaction.policy import (
    StreamingGuardFailureMode,
    StreamingRedactionMatch,
    StreamingRedactionPolicy,
    StreamingSensitivePattern,
)
from pilotage.safety.redaction.session import (
    StreamingRedactionAudit,
    StreamingRedactionAuditStatus,
    StreamingRedactionResult,
    StreamingRedactionSession,
)
from pilotage.safety.trust import Confidentiality, Integrity, TrustLabel

# fmt: off
__all__ = [
    "ANY_DEPTH", "PII", "REDACTED_VALUE", "SECRET_VALUE", "SENSITIVE_KEYWORD", "Confidentiality",
    "ContextExposurePolicy", "CredentialRef", "DataSensitivity", "EvidenceExposurePolicy",
    "ExposurePolicy", "Integrity", "MaskingKey", "MaskingPolicy", "RedactionPolicy", "SecretField",
    "SecretRef", "SensitiveField", "SensitiveFieldDescriptor", "SensitiveMarker",
    "StreamingGuardFailureMode", "StreamingRedactionAudit", "StreamingRedactionAuditStatus",
    "StreamingRedactionMatch", "StreamingRedactionPolicy", "StreamingRedactionResult",
    "StreamingRedactionSession", "StreamingSensitivePattern", "TrustLabel", "find_sensitive_fields",
    "guard_json_value", "neutralize_links", "schema_with_sensitive_metadata",
]

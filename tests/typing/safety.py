"""What type checkers know about `pilotage.safety`; checked, never run."""

from __future__ import annotations

from typing import Annotated, assert_type

from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.safety import (
    PII,
    ContextExposurePolicy,
    DataSensitivity,
    EvidenceExposurePolicy,
    MaskingKey,
    MaskingPolicy,
    SecretField,
    SensitiveField,
    SensitiveFieldDescriptor,
    StreamingRedactionAudit,
    StreamingRedactionMatch,
    StreamingRedactionPolicy,
    StreamingRedactionResult,
    StreamingRedactionSession,
    StreamingSensitivePattern,
    TrustLabel,
    find_sensitive_fields,
    guard_json_value,
    schema_with_sensitive_metadata,
)

Email = Annotated[str, SensitiveField(PII.EMAIL, masking=MaskingPolicy.LAST_FOUR)]
Key = Annotated[str, SecretField()]


def send(to: Email, key: Key) -> None:
    assert_type(to, str)
    assert_type(key, str)


def guard(value: JsonValue, schema: JsonObject) -> None:
    descriptors = find_sensitive_fields(Email)
    assert_type(descriptors, tuple[SensitiveFieldDescriptor, ...])
    assert_type(descriptors[0].field, SensitiveField | SecretField)
    assert_type(descriptors[0].field.sensitivity, DataSensitivity)
    assert_type(guard_json_value(value, descriptors), JsonValue)
    assert_type(guard_json_value(value, descriptors, EvidenceExposurePolicy()), JsonValue)
    assert_type(schema_with_sensitive_metadata(schema, descriptors, ContextExposurePolicy()), JsonObject)
    guard_json_value(value, descriptors, "everything")  # pyright: ignore[reportArgumentType] - no policy
    schema_with_sensitive_metadata(schema, descriptors, EvidenceExposurePolicy())  # pyright: ignore[reportArgumentType] - schemas are for models


def redact(policy: StreamingRedactionPolicy) -> None:
    session = StreamingRedactionSession(policy)
    assert_type(session.push("text"), StreamingRedactionResult)
    result = session.finish()
    assert_type(result.chunks, tuple[str, ...])
    assert_type(result.audit, StreamingRedactionAudit | None)
    assert_type(result.error, JsonObject | None)
    assert_type(policy.redact("text"), tuple[str, int])
    assert_type(policy.find_matches("text"), tuple[StreamingRedactionMatch, ...])
    StreamingSensitivePattern("name")  # pyright: ignore[reportCallIssue] - what to look for is missing
    MaskingKey("id", "text")  # pyright: ignore[reportArgumentType] - a secret is bytes


def trust(first: TrustLabel, second: TrustLabel) -> None:
    assert_type(first.join(second), TrustLabel)
    assert_type(TrustLabel.join_all([first, second]), TrustLabel)
    first.integrity = second.integrity  # pyright: ignore[reportAttributeAccessIssue] - labels are values

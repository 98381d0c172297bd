"""How much of a tool's result the record keeps: `EvidenceCapture` applied.

Pure. What cannot be kept as asked is kept as less, never as more, and the outcome says what was applied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never

from pilotage.agent.tools.metadata import EvidenceCapture
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json, text_digest, to_bytes, to_json_value
from pilotage.safety.fields import REDACTED_VALUE, SecretField, SensitiveFieldDescriptor
from pilotage.safety.guard import EvidenceExposurePolicy, guard_json_value
from pilotage.values import value

STRUCTURED_RESULT_LIMIT = 16_384
"""Bytes of canonical JSON above which a STRUCTURED result is kept as a reference."""
_SHORT = STRUCTURED_RESULT_LIMIT // 6 - 1
"""No character takes more than six bytes, and around them there are quotes."""


@value
class CapturedResult:
    """What is kept: the capture that was applied and the entries it adds to the payload."""

    applied: EvidenceCapture
    entries: JsonObject
    digest: str | None = None


def capture_result(
    result: object,
    capture: EvidenceCapture,
    *,
    sensitive_fields: Sequence[SensitiveFieldDescriptor],
    policy: EvidenceExposurePolicy,
) -> CapturedResult:
    """Keep of a result what the capture asks for and the policy allows.

    STRUCTURED becomes REFERENCE_ONLY above `STRUCTURED_RESULT_LIMIT`. It, RAW and REFERENCE_ONLY become
    REDACTED when the result has no JSON form or is sensitive as a whole. RAW ignores the policy, except that
    secrets are in no record.
    """
    match capture:
        case EvidenceCapture.NONE | EvidenceCapture.SUMMARY:
            return CapturedResult(capture, {})
        case EvidenceCapture.REDACTED:
            return _redacted(result)
        case EvidenceCapture.RAW:
            secrets = [each for each in sensitive_fields if isinstance(each.field, SecretField)]
            return _kept(result, capture, secrets, policy)
        case EvidenceCapture.STRUCTURED | EvidenceCapture.REFERENCE_ONLY:
            return _kept(result, capture, sensitive_fields, policy)
        case _:
            assert_never(capture)


def _kept(
    result: object,
    capture: EvidenceCapture,
    descriptors: Sequence[SensitiveFieldDescriptor],
    policy: EvidenceExposurePolicy,
) -> CapturedResult:
    try:
        value = to_json_value(result)
        guarded = guard_json_value(value, descriptors, policy)
        if guarded is value and capture is not EvidenceCapture.REFERENCE_ONLY and _is_short_text(value):
            return CapturedResult(capture, {"result": value})
        text = canonical_json(guarded)
    except (TypeError, ValueError, RecursionError):
        return _redacted(result)
    if _is_container(value) and not _is_container(guarded):
        return CapturedResult(EvidenceCapture.REDACTED, {"result": guarded})
    is_too_large = capture is EvidenceCapture.STRUCTURED and len(to_bytes(text)) > STRUCTURED_RESULT_LIMIT
    if capture is EvidenceCapture.REFERENCE_ONLY or is_too_large:
        return _referenced(text)
    return CapturedResult(capture, {"result": guarded})


def _is_short_text(value: JsonValue) -> bool:
    """Whether it is text that cannot be too large, whatever its characters become in JSON."""
    return type(value) is str and len(value) <= _SHORT


def _referenced(text: str) -> CapturedResult:
    # The digest is of the guarded result: one of the whole would let a reader test guesses at what is hidden.
    digest = text_digest(text)
    reference: JsonObject = {"digest": digest, "size": len(to_bytes(text))}
    return CapturedResult(EvidenceCapture.REFERENCE_ONLY, {"result": reference}, digest)


def _redacted(result: object) -> CapturedResult:
    try:
        shape = _masked(to_json_value(result))
    except (TypeError, ValueError, RecursionError):
        shape = REDACTED_VALUE
    return CapturedResult(EvidenceCapture.REDACTED, {"result": shape})


def _masked(value: JsonValue) -> JsonValue:
    """The same shape with every leaf masked; the names of fields stay."""
    if isinstance(value, Mapping):
        return {key: _masked(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_masked(item) for item in value]
    return REDACTED_VALUE


def _is_container(value: JsonValue) -> bool:
    return isinstance(value, Mapping | list | tuple)

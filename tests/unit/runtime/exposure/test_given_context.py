"""The record of a given context, and its trust label."""

from __future__ import annotations

import pytest

from pilotage.agent.context import ContextPack, ContextPackRole, ContextSensitivity
from pilotage.agent.run_values import AgentContext
from pilotage.runtime.exposure.given_context import decode_context, encode_context, label_of_context
from pilotage.safety.fields import PII, MaskingPolicy, SensitiveField, SensitiveFieldDescriptor
from pilotage.safety.trust import Confidentiality, Integrity, TrustLabel


def pack(**facts: object) -> ContextPack:
    return ContextPack("p", "ada@example.org", "crm", ContextPackRole.EVIDENCE, **facts)  # type: ignore[arg-type]


def test_no_context_is_no_record() -> None:
    assert encode_context(AgentContext()) == {}
    assert decode_context({}) is None


def test_the_record_holds_guarded_content_only() -> None:
    hashed = SensitiveField(PII.EMAIL, masking=MaskingPolicy.LAST_FOUR)
    hidden = pack(sensitive_fields=(SensitiveFieldDescriptor((), hashed),), metadata={"row": 7})
    kept = decode_context(encode_context(AgentContext([hidden])))
    assert kept is not None
    (found,) = kept.packs
    assert (found.content, found.metadata) == ("***.org", {"row": 7})
    assert found.guarded_content() == hidden.guarded_content()


@pytest.mark.parametrize(
    ("sensitivity", "expected"),
    [
        (ContextSensitivity.PUBLIC, Confidentiality.PUBLIC),
        (ContextSensitivity.REDACTED, Confidentiality.PUBLIC),
        (ContextSensitivity.INTERNAL, Confidentiality.TENANT),
        (ContextSensitivity.CONFIDENTIAL, Confidentiality.TENANT),
        (ContextSensitivity.SENSITIVE, Confidentiality.TENANT),
    ],
)
def test_a_pack_that_is_not_public_is_private(
    sensitivity: ContextSensitivity, expected: Confidentiality
) -> None:
    label = label_of_context(AgentContext([pack(sensitivity=sensitivity)]))
    assert (label.integrity, label.confidentiality) == (Integrity.USER, expected)


def test_a_label_in_the_metadata_counts_and_the_least_trusted_pack_decides() -> None:
    strange = TrustLabel(Integrity.UNTRUSTED, origins=frozenset({"web"}))
    packs = [pack(), pack(metadata={"trust": strange.to_payload()})]
    label = label_of_context(AgentContext(packs))
    assert label.is_untrusted
    assert "web" in label.origins

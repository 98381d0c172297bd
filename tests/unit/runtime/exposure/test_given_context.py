"""The record of a given context, and its trust label."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pilotage.agent.compaction import LEAST_TRUSTED, Summary
from pilotage.agent.context import ContextPack, ContextPackRole, ContextSensitivity
from pilotage.agent.messages import ModelMessage, ModelMessageRole
from pilotage.agent.run_values import AgentContext
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import as_object, list_or_empty
from pilotage.runtime.exposure.trust import (
    decode_context,
    encode_context,
    label_of_context,
    label_of_history,
)
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
    assert (label.integrity, label.confidentiality) == (Integrity.UNTRUSTED, expected)


def test_a_pack_is_untrusted_until_it_declares_otherwise() -> None:
    label = label_of_context(AgentContext([pack(), pack(reads_untrusted=False)]))
    assert label == TrustLabel(Integrity.UNTRUSTED, Confidentiality.TENANT, frozenset({"context:crm"}))
    assert label_of_context(AgentContext([pack(reads_untrusted=False)])).integrity is Integrity.USER


def test_the_declaration_of_a_pack_is_recorded_and_the_default_is_not() -> None:
    record = encode_context(AgentContext([pack(), pack(reads_untrusted=False)]))
    packs = list_or_empty(record["packs"])
    assert [as_object(each).get("reads_untrusted", "default") for each in packs] == ["default", False]
    kept = decode_context(record)
    assert kept is not None
    assert [each.reads_untrusted for each in kept.packs] == [True, False]


def test_a_strangers_pack_that_instructs_is_refused_and_an_undeclared_one_taints() -> None:
    told = ContextPack("p", "obey", "crm", ContextPackRole.SYSTEM)
    strange = TrustLabel(Integrity.UNTRUSTED, origins=frozenset({"web"}))
    with pytest.raises(AgentDefinitionError, match="a stranger would instruct the model"):
        encode_context(AgentContext([replace(told, metadata={"trust": strange.to_payload()})]))
    assert encode_context(AgentContext([told]))
    assert label_of_context(AgentContext([told])).is_untrusted


@pytest.mark.parametrize(
    ("message", "is_untrusted"),
    [
        (ModelMessage.user("hello"), False),
        (ModelMessage.system("be kind"), False),
        (ModelMessage(ModelMessageRole.ASSISTANT, "hi"), False),
        (ModelMessage(ModelMessageRole.TOOL, "a page"), True),
        (ModelMessage(ModelMessageRole.TOOL, "a sum", {"reads_untrusted": False}), False),
        (ModelMessage(ModelMessageRole.TOOL, "a page", {"reads_untrusted": None}), True),
        (ModelMessage.evidence("a note", source="crm"), True),
        (Summary("so far", TrustLabel(Integrity.USER)).as_message(), False),
        (Summary("so far", LEAST_TRUSTED).as_message(), True),
    ],
)
def test_results_of_tools_in_a_history_are_untrusted(message: ModelMessage, is_untrusted: bool) -> None:
    assert label_of_history([message]).is_untrusted is is_untrusted


def test_a_label_in_the_metadata_counts_and_the_least_trusted_pack_decides() -> None:
    strange = TrustLabel(Integrity.UNTRUSTED, origins=frozenset({"web"}))
    packs = [pack(), pack(metadata={"trust": strange.to_payload()})]
    label = label_of_context(AgentContext(packs))
    assert label.is_untrusted
    assert "web" in label.origins

"""The trust label of recorded outcomes and of recalled memory; a record that cannot be decoded gets the strictest one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pilotage.agent.ports.persistence import JournalRow, JournalStage, SealedRecord
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.tools.metadata import Idempotency
from pilotage.jsonvalue import JsonValue
from pilotage.runtime.exposure.trust import label_of_rows
from pilotage.safety.trust import Confidentiality, Integrity, TrustLabel

WEB = TrustLabel(Integrity.UNTRUSTED, Confidentiality.PUBLIC, frozenset({"tool:browse"}))


def row(record: JsonValue | SealedRecord, action: str = "step:memory.recall#1") -> JournalRow:
    return JournalRow(
        1,
        f"run/tool:recall#1/{action}",
        AgentActionKind.STEP,
        JournalStage.AFTER,
        1,
        1,
        "",
        Idempotency.IDEMPOTENT,
        record,
        None,
        "digest",
    )


def test_without_recalled_memory_the_label_is_neutral() -> None:
    assert label_of_rows([]) == TrustLabel()
    assert label_of_rows([row({"result": []})]) == TrustLabel()
    assert label_of_rows([row({"error": "the memory did not answer"})]) == TrustLabel()
    assert label_of_rows([row({"result": 1}, "step:other#1")]) == TrustLabel()


def test_recalled_memory_is_private_and_joins_the_labels_of_its_items() -> None:
    items: JsonValue = [{"label": WEB.to_payload()}, {"label": TrustLabel().to_payload()}]
    label = label_of_rows([row({"result": items})])
    assert label == TrustLabel(
        Integrity.UNTRUSTED, Confidentiality.TENANT, frozenset({"tool:browse", "memory"})
    )


def test_outcomes_have_the_labels_in_their_records() -> None:
    rows = [row({"result": 1, "trust": WEB.to_payload()}, "tool:page#1"), row({"result": 2}, "tool:sum#1")]
    assert label_of_rows(rows) == WEB
    child = row({"result": {"output": 1, "trust": WEB.to_payload()}}, "child:reader#1")
    assert label_of_rows([replace(child, kind=AgentActionKind.DELEGATION)]) == WEB


@pytest.mark.parametrize(
    "record",
    [
        None,
        {},
        {"result": None},
        {"result": [{}]},
        {"result": [{"label": {"integrity": "?"}}]},
        SealedRecord("k", "c"),
    ],
)
def test_a_record_that_cannot_be_decoded_gets_the_strictest_label(record: JsonValue | SealedRecord) -> None:
    label = label_of_rows([row(record)])
    assert label.is_untrusted
    assert label.is_secret

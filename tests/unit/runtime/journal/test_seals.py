"""What is sealed, what is kept without a key, and what replay gets back."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Annotated

import pytest
from tests.unit.runtime.rows import AFTER, BEFORE, CLAIMED, a_journal, a_row, an_action

from pilotage.agent import EvidenceCapture, agent_tool, discover_agent_tools
from pilotage.agent.ports.persistence import JournalRow, JournalStage, RunKey, SealedRecord
from pilotage.agent.ports.sealing import RecordSealError
from pilotage.agent.recovery import AgentActionKind
from pilotage.jsonvalue import JsonValue
from pilotage.runtime.journal.chain import first_broken
from pilotage.runtime.journal.seals import (
    NOT_RECORDED,
    Seals,
    WithoutKey,
    has_record,
    withholds,
    without_key_for,
)
from pilotage.safety import PII, SensitiveField
from pilotage.testing.sealer import MemorySealer

RUN = RunKey("default", "run-1")
PAY = an_action()
RECORD: JsonValue = {
    "result": {"iban": "DE00123456789", "half of a pair": "\ud83d", "n": [1, 2.5, 2**70, None]}
}
VIEW: JsonValue = {"capture": "structured", "result": {"iban": "***6789"}}


class Tools:
    @agent_tool
    def plain(self, amount: int) -> int:
        return amount

    @agent_tool
    def sensitive(self, iban: Annotated[str, SensitiveField(PII.ACCOUNT_ID)]) -> int:
        return len(iban)

    @agent_tool(evidence=EvidenceCapture.SUMMARY)
    def cut(self, amount: int) -> int:
        return amount


TOOLS = {tool.name: tool for tool in discover_agent_tools(Tools).descriptors}


@pytest.fixture
def seals() -> Seals:
    return Seals(MemorySealer(), RUN)


def sealed_row(seals: Seals, record: JsonValue = RECORD, stage: JournalStage = AFTER) -> JournalRow:
    closed = seals.closed(record, VIEW, action_id=PAY.id, stage=stage, attempt=1)
    return replace(a_row(PAY, stage), record=closed, view=VIEW)


@pytest.mark.parametrize(
    ("record", "view"),
    [
        pytest.param(None, None, id="nothing"),
        pytest.param({"result": 1}, {"result": 1}, id="the same"),
        pytest.param({"a": 1, "b": 2}, {"b": 2, "a": 1}, id="in another order"),
        pytest.param({"result": [1, (2,)]}, {"result": (1, [2])}, id="tuples and lists"),
        pytest.param({"a": {"b": 1}}, {"a": MappingProxyType({"b": 1})}, id="another kind of mapping"),
        pytest.param({"result": 1}, {"capture": "structured", "result": 1}, id="a view that says more"),
        pytest.param(["a"], ("a",), id="no mapping"),
    ],
)
def test_a_record_that_the_view_says_is_kept_as_it_is(
    seals: Seals, record: JsonValue, view: JsonValue
) -> None:
    assert not withholds(record, view)
    assert seals.closed(record, view, action_id=PAY.id, stage=AFTER, attempt=1) is record


@pytest.mark.parametrize(
    ("record", "view"),
    [
        pytest.param({"result": "x"}, {"result": "[REDACTED]"}, id="masked"),
        pytest.param({"result": 1}, {"capture": "none"}, id="left out"),
        pytest.param({"result": None}, {}, id="nothing, left out"),
        pytest.param({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, id="more below the top"),
        pytest.param(["a", "b"], ["a"], id="a shorter list"),
        pytest.param({"result": 1}, None, id="no view"),
        pytest.param("x", {"x": "x"}, id="another shape"),
    ],
)
def test_a_record_that_says_more_than_the_view_is_sealed_and_opens_again(
    seals: Seals, record: JsonValue, view: JsonValue
) -> None:
    assert withholds(record, view)
    closed = seals.closed(record, view, action_id=PAY.id, stage=AFTER, attempt=1)
    assert isinstance(closed, SealedRecord)
    assert seals.opened(replace(a_row(PAY), record=closed)) == record


def test_a_view_that_is_the_record_is_not_looked_at() -> None:
    class Untouchable(dict[str, JsonValue]):
        __hash__ = None

        def __eq__(self, other: object) -> bool:
            raise AssertionError("compared")

    record = Untouchable()
    assert not withholds(record, record)


def test_a_sealed_record_comes_back_unchanged(seals: Seals) -> None:
    assert seals.opened(sealed_row(seals)) == RECORD


def test_a_plain_record_is_not_opened(seals: Seals) -> None:
    row = a_row(PAY, record=RECORD)
    assert seals.opened(row) is row.record


@pytest.mark.parametrize(
    "change",
    [{"action_id": "run/tool:pay#2"}, {"stage": BEFORE}, {"attempt": 2}],
    ids=["action", "stage", "attempt"],
)
def test_a_sealed_record_does_not_open_in_another_row(seals: Seals, change: dict[str, object]) -> None:
    with pytest.raises(RecordSealError):
        seals.opened(replace(sealed_row(seals), **change))


@pytest.mark.parametrize(
    "run", [RunKey("default", "run-2"), RunKey("elsewhere", "run-1")], ids=["run", "tenant"]
)
def test_a_sealed_record_does_not_open_in_another_run(run: RunKey) -> None:
    sealer = MemorySealer()
    with pytest.raises(RecordSealError):
        Seals(sealer, run).opened(sealed_row(Seals(sealer, RUN)))


def test_opened_rows_keep_their_place_in_the_chain(seals: Seals) -> None:
    stored = a_journal([sealed_row(seals, stage=BEFORE), a_row(PAY, record={"result": 1})])
    opened = seals.opened_rows(stored)
    assert [row.record for row in opened] == [RECORD, {"result": 1}]
    assert [row.digest for row in opened] == [row.digest for row in stored]
    assert first_broken(stored) is None


def test_one_row_that_does_not_open_is_an_error_for_all(seals: Seals) -> None:
    rows = [sealed_row(seals), sealed_row(Seals(MemorySealer(), RUN))]
    with pytest.raises(RecordSealError):
        seals.opened_rows(rows)


def test_without_a_key_a_record_that_can_be_had_again_is_not_kept() -> None:
    closed = Seals(None, RUN).closed(
        RECORD, VIEW, action_id=PAY.id, stage=AFTER, attempt=1, without_key=WithoutKey.FETCH_AGAIN
    )
    assert closed == NOT_RECORDED
    assert not has_record(replace(a_row(PAY), record=closed))


def test_without_a_key_a_record_that_hides_nothing_is_kept_plain() -> None:
    assert (
        Seals(None, RUN).closed(
            RECORD, VIEW, action_id=PAY.id, stage=AFTER, attempt=1, without_key=WithoutKey.KEEP_PLAIN
        )
        is RECORD
    )


@pytest.mark.parametrize("without_key", list(WithoutKey))
def test_with_a_key_everything_that_differs_is_sealed(seals: Seals, without_key: WithoutKey) -> None:
    assert isinstance(
        seals.closed(RECORD, VIEW, action_id=PAY.id, stage=AFTER, attempt=1, without_key=without_key),
        SealedRecord,
    )


@pytest.mark.parametrize("without_key", list(WithoutKey))
def test_without_a_key_what_does_not_differ_is_kept(without_key: WithoutKey) -> None:
    assert (
        Seals(None, RUN).closed(
            RECORD, RECORD, action_id=PAY.id, stage=AFTER, attempt=1, without_key=without_key
        )
        is RECORD
    )


def test_without_a_key_any_other_record_is_refused_with_the_way_out() -> None:
    with pytest.raises(RecordSealError, match="IRecordSealer") as refused:
        Seals(None, RUN).closed(RECORD, VIEW, action_id="run", stage=CLAIMED, attempt=1)
    assert 'pip install "pilotage[sealing]"' in str(refused.value)
    assert "DE00123456789" not in str(refused.value)


def test_without_a_key_a_sealed_record_is_refused_with_the_id_of_its_key(seals: Seals) -> None:
    row = sealed_row(seals)
    with pytest.raises(RecordSealError) as refused:
        Seals(None, RUN).opened(row)
    assert isinstance(row.record, SealedRecord)
    assert refused.value.key_id == row.record.key_id


@pytest.mark.parametrize("record", [None, {"result": 1}, {"error": "no"}, SealedRecord("key", "text")])
def test_every_other_record_is_kept(record: JsonValue | SealedRecord) -> None:
    assert has_record(replace(a_row(PAY), record=record))


@pytest.mark.parametrize(
    ("kind", "is_read_only", "tool", "expected"),
    [
        (AgentActionKind.TOOL_CALL, True, "sensitive", WithoutKey.FETCH_AGAIN),
        (AgentActionKind.MODEL_CALL, True, None, WithoutKey.FETCH_AGAIN),
        (AgentActionKind.SIGNAL, True, None, WithoutKey.REFUSE),
        (AgentActionKind.VALUE, True, None, WithoutKey.REFUSE),
        (AgentActionKind.STEP, False, None, WithoutKey.REFUSE),
        (AgentActionKind.APPROVAL_WAIT, False, None, WithoutKey.REFUSE),
        (AgentActionKind.TOOL_CALL, False, "plain", WithoutKey.KEEP_PLAIN),
        (AgentActionKind.TOOL_CALL, False, "sensitive", WithoutKey.REFUSE),
        (AgentActionKind.TOOL_CALL, False, "cut", WithoutKey.REFUSE),
    ],
)
def test_only_what_can_be_read_again_is_fetched_again(
    kind: AgentActionKind, is_read_only: bool, tool: str | None, expected: WithoutKey
) -> None:
    action = an_action(kind=kind, is_read_only=is_read_only)
    assert without_key_for(action, TOOLS[tool] if tool else None) is expected

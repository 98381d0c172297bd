"""The values of the journal port."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pilotage.agent.ports.journal import (
    CommitRefusal,
    CommitRefused,
    JournalCommit,
    LeaseRequest,
    OutboxEvent,
)
from pilotage.agent.ports.persistence import (
    ErasedRecord,
    JournalRow,
    JournalStage,
    RowTexts,
    RunKey,
    SealedRecord,
    stored_row,
)
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.tools.metadata import Idempotency
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json, parsed

RUN = RunKey("acme", "r1")
ROW = JournalRow(
    seq=1,
    action_id="root/pay#1",
    kind=AgentActionKind.TOOL_CALL,
    stage=JournalStage.BEFORE,
    attempt=1,
    epoch=1,
    fingerprint="f",
    idempotency=Idempotency.NON_IDEMPOTENT,
    record={"to": "DE-1"},
    view={"to": "[REDACTED]"},
    digest="d",
)


def test_rows_follow_the_expected_head_without_a_gap() -> None:
    rows = (ROW, replace(ROW, seq=2, stage=JournalStage.AFTER))
    assert JournalCommit(RUN, "t", 0, rows).rows == rows
    with pytest.raises(AgentDefinitionError) as caught:
        JournalCommit(RUN, "t", 0, (ROW, replace(ROW, seq=3)))
    assert str(caught.value) == "JournalCommit.rows of run 'r1' have a gap: row 3 stands where 2 belongs."
    with pytest.raises(AgentDefinitionError):
        JournalCommit(RUN, "t", 1, (ROW,))


@pytest.mark.parametrize(
    "wrong", [{"seq": 0}, {"attempt": 0}, {"epoch": 0}, {"action_id": ""}, {"digest": " "}]
)
def test_a_row_is_numbered_and_named(wrong: dict[str, object]) -> None:
    with pytest.raises(AgentDefinitionError):
        replace(ROW, **wrong)  # type: ignore[arg-type]


class Source:
    """What `ROW` was read from, its payloads as texts; notes what is asked for."""

    created_at = None
    moment = ""

    def __init__(self, record: str = '{"to":"DE-1"}', *, is_plain: bool = True) -> None:
        self._record = record
        self.is_plain = is_plain
        self.asked: list[str] = []

    @property
    def record(self) -> JsonValue | SealedRecord | ErasedRecord:
        self.asked.append("record")
        return parsed(self._record) if self.is_plain else SealedRecord("k1", self._record)

    @property
    def view(self) -> JsonValue:
        self.asked.append("view")
        return {"to": "[REDACTED]"}


def read_from(source: Source) -> JournalRow:
    return stored_row(
        ROW.seq,
        ROW.action_id,
        ROW.kind,
        ROW.stage,
        ROW.attempt,
        ROW.epoch,
        ROW.fingerprint,
        ROW.idempotency,
        ROW.digest,
        source=source,
    )


def test_a_row_that_was_read_decodes_once_and_only_what_it_is_asked_for() -> None:
    source = Source()
    row = read_from(source)
    assert (row.action_id, row.digest, row.is_plain) == (ROW.action_id, "d", True)
    assert source.asked == []
    assert row.view is row.view
    assert source.asked == ["view"]
    assert row == ROW
    assert row.texts == ROW.texts
    assert source.asked == ["view", "record"]


def test_a_changed_copy_of_a_row_that_was_read_says_what_it_was_changed_to() -> None:
    changed = replace(read_from(Source()), seq=2, record=SealedRecord("k1", "..."))
    assert (changed.seq, changed.view, changed.is_plain) == (2, {"to": "[REDACTED]"}, False)
    opened = replace(read_from(Source("...", is_plain=False)), record={"to": "DE-1"})
    assert opened == ROW
    assert opened.is_plain


@pytest.mark.parametrize("record", [SealedRecord("k1", "..."), ErasedRecord("d")])
def test_a_record_that_is_sealed_or_erased_is_not_plain(record: SealedRecord | ErasedRecord) -> None:
    assert ROW.is_plain
    assert not replace(ROW, record=record).is_plain


def test_what_cannot_be_read_is_said_to_whoever_asks_for_it() -> None:
    row = read_from(Source("{broken"))
    for _ in range(2):
        with pytest.raises(ValueError, match="Expecting"):
            _ = row.record


def test_claims_and_what_was_told_belong_to_no_action() -> None:
    without = {stage for stage in JournalStage if not stage.has_action}
    assert without == {JournalStage.CLAIMED, JournalStage.TOLD}


def test_the_first_commit_names_parent_and_conversation() -> None:
    first = JournalCommit(RUN, "t", 0, (ROW,), parent=RunKey("acme", "r0"), conversation="chat")
    assert (first.parent, first.conversation) == (RunKey("acme", "r0"), "chat")


LATER = "JournalCommit of run 'r1' names a parent or a conversation after row 1. Only the first commit of a run does."


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"expected_head": 1, "rows": (), "parent": RunKey("acme", "r0")}, LATER),
        ({"expected_head": 1, "rows": (), "conversation": "chat"}, LATER),
        (
            {"expected_head": 1, "rows": (), "lease": LeaseRequest("ada", 30.0)},
            "JournalCommit of run 'r1' takes a lease after row 1. Only the first commit of a run does; later it is "
            "acquired.",
        ),
        (
            {"conversation": " "},
            "JournalCommit.conversation is blank. Give it at least one visible character, or leave it out.",
        ),
        (
            {"parent": RUN},
            "JournalCommit.parent of run 'r1' is run 'r1' of tenant 'acme'. Name another run of tenant 'acme'.",
        ),
        (
            {"parent": RunKey("rival", "r0")},
            "JournalCommit.parent of run 'r1' is run 'r0' of tenant 'rival'. Name another run of tenant 'acme'.",
        ),
    ],
)
def test_a_commit_cannot_start_a_run_in_a_wrong_place(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(AgentDefinitionError) as caught:
        replace(JournalCommit(RUN, "t", 0, (ROW,)), **wrong)  # type: ignore[arg-type]
    assert str(caught.value) == message


@pytest.mark.parametrize("wrong", [(" ", 30.0), ("ada", 0.0), ("ada", -1.0), ("ada", float("inf"))], ids=repr)
def test_who_asks_for_a_lease_has_a_name_and_says_how_long(wrong: tuple[str, float]) -> None:
    with pytest.raises(AgentDefinitionError, match="LeaseRequest"):
        LeaseRequest(*wrong)


@pytest.mark.parametrize(
    "record", [{"model": "m", "result": 1}, {"error": "no", "model": "m"}, {"manifest": 0}, {}]
)
def test_a_view_may_say_more_than_its_record(record: JsonObject) -> None:
    texts = RowTexts.of(record, record, {"manifest": {"b": 1, "a": 2}})
    assert texts.view == {**record, "manifest": {"b": 1, "a": 2}}
    assert (texts.record_json, texts.view_json) == (canonical_json(record), canonical_json(texts.view))
    assert texts.added_json == '{"manifest":{"a":2,"b":1}}'


def test_what_is_added_to_a_view_that_withholds_something_says_nothing_of_the_record() -> None:
    texts = RowTexts.of(SealedRecord("key", "..."), {"result": "[REDACTED]"}, {"manifest": 1})
    assert texts.view_json == '{"manifest":1,"result":"[REDACTED]"}'
    assert texts.added_json is None


def test_a_refusal_is_the_commits_own_fault_unless_it_says_otherwise() -> None:
    assert CommitRefused("no JSON").code is CommitRefusal.INVALID


def test_an_outbox_event_has_a_type_and_a_version() -> None:
    assert OutboxEvent("AgentRunStarted", 1, {}).version == 1
    with pytest.raises(AgentDefinitionError):
        OutboxEvent("AgentRunStarted", 0, {})
    with pytest.raises(AgentDefinitionError):
        RunKey("", "r1")

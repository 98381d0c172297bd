"""Each stored record as it is on disk: its exact JSON, its value, and what is said of one that is damaged."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from tests.unit.runtime.rows import a_claim, a_row, an_action

from pilotage.agent.messages import ModelMessage
from pilotage.agent.model_reply import ModelUsage, no_usage
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.budget import BudgetAmount
from pilotage.agent.ports.journal import ErasedRecord, JournalRow, JournalStage, SealedRecord
from pilotage.agent.principal import Principal
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.recovery_request import (
    RecoveryCancelled,
    RecoveryDone,
    RecoveryFailed,
    RecoveryRetried,
)
from pilotage.agent.run_result import RunResult
from pilotage.agent.signals import AgentSignal, AgentSignalKind, ApprovalDecision
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.errors import ModelCallError
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json
from pilotage.runtime.journal import records
from pilotage.runtime.journal.action_record import (
    BeginRecord,
    ChildRecord,
    ContextChange,
    ContextStep,
    RecordedError,
    RecordedResult,
    TakenBranches,
    decode_gather,
    decode_outcome,
    trust_in,
)
from pilotage.runtime.journal.claim_record import (
    DefinitionDrift,
    MovedDeadline,
    TakeOver,
    claimed_by,
    last_deadline,
    last_trace,
    ownership_proof,
    recorded_definition,
    state_change,
    trace_position,
    waits_counted_until,
)
from pilotage.runtime.journal.model_call_record import (
    CallUsage,
    FailureRecord,
    MisfitRecord,
    PartialCall,
    ReplyRecord,
    call_usage,
    decode_model_call,
)
from pilotage.runtime.journal.question_record import ApprovalAnswer, RecoveryAnswerRecord, is_rejection
from pilotage.runtime.journal.record_fields import DamagedRecordError, decode_row, plain_record
from pilotage.runtime.journal.records import Answer, decode_result, encode_result
from pilotage.runtime.journal.signal_record import TakenSignals, TranscriptPlace, taken_ids
from pilotage.runtime.journal.start_record import RunStart, decode_start, encode_start
from pilotage.safety.trust import Confidentiality, Integrity, TrustLabel

SPENT = BudgetAmount(2, 1, 30, Decimal("0.10"))
SPENT_JSON = '{"cost":"0.10","steps":2,"tokens":30,"tool_calls":1}'
NOON = datetime(2030, 1, 2, 12, tzinfo=UTC)
LABEL = TrustLabel(Integrity.UNTRUSTED, Confidentiality.TENANT, frozenset({"mail"}))
LABEL_JSON = '{"confidentiality":"tenant","integrity":"untrusted","origins":["mail"]}'
USED = PartialCall("gpt", ModelUsage(3, 4, 7), is_estimated=True)
USED_JSON = '"left":true,"model":"gpt","usage":{"input_tokens":3,"output_tokens":4,"total_tokens":7},"usage_estimated":true'
SIGNAL = AgentSignal("s-1", "run-1", AgentSignalKind.USER_MESSAGE, {"text": "hi"}, NOON)
SIGNAL_JSON = (
    '{"agent_state_id":"run-1","created_at":"2030-01-02T12:00:00+00:00","id":"s-1","kind":"user_message",'
    '"payload":{"text":"hi"}}'
)

GOLDEN: list[tuple[str, JsonObject, Callable[[JsonObject], object], object]] = [
    (
        '{"asked":{"to":"Ada"}}',
        BeginRecord({"to": "Ada"}).encode(),
        BeginRecord.decode,
        BeginRecord({"to": "Ada"}),
    ),
    (
        '{"asked":null,"executed":{"to":"Bob"}}',
        BeginRecord(None, {"to": "Bob"}).encode(),
        BeginRecord.decode,
        BeginRecord(None, {"to": "Bob"}),
    ),
    ('{"result":[1,null]}', RecordedResult([1, None]).encode(), decode_outcome, RecordedResult([1, None])),
    ('{"error":"no"}', RecordedError("no").encode(), decode_outcome, RecordedError("no")),
    (
        f'{{"output":5,"spent":{SPENT_JSON}}}',
        ChildRecord(SPENT, 5).encode(),
        ChildRecord.decode,
        ChildRecord(SPENT, 5),
    ),
    (
        f'{{"error":"no","spent":{SPENT_JSON},"trust":{LABEL_JSON}}}',
        ChildRecord(SPENT, error="no", trust=LABEL).encode(),
        ChildRecord.decode,
        ChildRecord(SPENT, error="no", trust=LABEL),
    ),
    ('{"taken":[0,2]}', TakenBranches((0, 2)).encode(), decode_gather, TakenBranches((0, 2))),
    (
        '{"error":"all failed"}',
        RecordedError("all failed").encode(),
        decode_gather,
        RecordedError("all failed"),
    ),
    (
        '{"steps":[{"strategy":1,"summary":null}]}',
        ContextChange((ContextStep(1),)).encode(),
        ContextChange.decode,
        ContextChange((ContextStep(1),)),
    ),
    (
        f'{{"spent":{SPENT_JSON},"steps":[{{"strategy":0,"summary":"so far"}}]}}',
        ContextChange((ContextStep(0, "so far"),), SPENT).encode(),
        ContextChange.decode,
        ContextChange((ContextStep(0, "so far"),), SPENT),
    ),
    ('{"claimed_by":"ada"}', TakeOver("ada").encode(), TakeOver.decode, TakeOver("ada")),
    (
        '{"claimed_by":"ada","deadline":"2030-01-02T12:00:00+00:00","drift":{"is":"b","was":"a"},'
        '"waits_counted_until":"2030-01-02T12:00:00+00:00"}',
        TakeOver("ada", MovedDeadline(NOON, NOON), DefinitionDrift("a", "b")).encode(),
        TakeOver.decode,
        TakeOver("ada", MovedDeadline(NOON, NOON), DefinitionDrift("a", "b")),
    ),
    (
        '{"comment":null,"decision":"approve","modified_payload":null}',
        ApprovalAnswer(ApprovalDecision.APPROVE).encode(),
        ApprovalAnswer.decode,
        ApprovalAnswer(ApprovalDecision.APPROVE),
    ),
    (
        '{"comment":"less","decided_by":"bob","decision":"modify","modified_payload":{"amount":1}}',
        ApprovalAnswer(ApprovalDecision.MODIFY, {"amount": 1}, "less", "bob").encode(),
        ApprovalAnswer.decode,
        ApprovalAnswer(ApprovalDecision.MODIFY, {"amount": 1}, "less", "bob"),
    ),
    (
        '{"action_id":"run/tool:pay#1","answer":"RecoveryRetried","attempt":2,"comment":null,"request_id":"q"}',
        RecoveryAnswerRecord(RecoveryRetried("q", "run/tool:pay#1", 2)).encode(),
        RecoveryAnswerRecord.decode,
        RecoveryAnswerRecord(RecoveryRetried("q", "run/tool:pay#1", 2)),
    ),
    (
        '{"action_id":"run/tool:pay#1","answer":"RecoveryDone","comment":"seen","decided_by":"bob","request_id":"q",'
        '"result":{"paid":true}}',
        RecoveryAnswerRecord(RecoveryDone("q", "run/tool:pay#1", {"paid": True}, "seen"), "bob").encode(),
        RecoveryAnswerRecord.decode,
        RecoveryAnswerRecord(RecoveryDone("q", "run/tool:pay#1", {"paid": True}, "seen"), "bob"),
    ),
    (
        '{"action_id":"a","answer":"RecoveryFailed","comment":null,"request_id":"q"}',
        RecoveryAnswerRecord(RecoveryFailed("q", "a")).encode(),
        RecoveryAnswerRecord.decode,
        RecoveryAnswerRecord(RecoveryFailed("q", "a")),
    ),
    (
        '{"action_id":"a","answer":"RecoveryCancelled","comment":null,"request_id":"q"}',
        RecoveryAnswerRecord(RecoveryCancelled("q", "a")).encode(),
        RecoveryAnswerRecord.decode,
        RecoveryAnswerRecord(RecoveryCancelled("q", "a")),
    ),
    (
        f'{{"result":[{SIGNAL_JSON}]}}',
        TakenSignals((SIGNAL,)).encode(),
        TakenSignals.decode,
        TakenSignals((SIGNAL,)),
    ),
    (
        f'{{"at":3,"handled":["s-1"],"result":[{SIGNAL_JSON}]}}',
        TakenSignals((SIGNAL,), TranscriptPlace(3, ("s-1",))).encode(),
        TakenSignals.decode,
        TakenSignals((SIGNAL,), TranscriptPlace(3, ("s-1",))),
    ),
    (
        '{"model":"gpt","result":{"content":"hi"}}',
        ReplyRecord({"content": "hi"}, model="gpt").encode(),
        decode_model_call,
        ReplyRecord({"content": "hi"}, model="gpt"),
    ),
    (
        '{"left":true,"model":"gpt","reasoning":"hm","result":{}}',
        ReplyRecord({}, "hm", "gpt", is_partial=True).encode(),
        decode_model_call,
        ReplyRecord({}, "hm", "gpt", is_partial=True),
    ),
    (
        f'{{"error":"no","problems":["amount: missing."],"text":"{{",{USED_JSON}}}',
        MisfitRecord("no", ("amount: missing.",), "{", USED).encode(),
        decode_model_call,
        MisfitRecord("no", ("amount: missing.",), "{", USED),
    ),
]


@pytest.mark.parametrize(("text", "encoded", "decode", "value"), GOLDEN, ids=[row[0] for row in GOLDEN])
def test_a_record_has_its_json_and_comes_back_from_it(
    text: str, encoded: JsonObject, decode: Callable[[JsonObject], object], value: object
) -> None:
    assert canonical_json(encoded) == canonical_json(json.loads(text))
    assert decode(json.loads(text)) == value


def test_a_failed_call_comes_back_with_what_it_used() -> None:
    record = FailureRecord(ModelCallError("busy", retryable=True, failure="rate_limit"), USED)
    text = f'{{"error":"busy","failure":"rate_limit",{USED_JSON},"retryable":true}}'
    assert canonical_json(record.encode()) == canonical_json(json.loads(text))
    found = decode_model_call(json.loads(text))
    assert isinstance(found, FailureRecord)
    assert (str(found.failure), found.failure.retryable, found.failure.failure) == (
        "busy",
        True,
        "rate_limit",
    )
    assert found.used == USED


def test_rows_that_prove_ownership_name_state_or_trace_have_their_json() -> None:
    assert canonical_json(ownership_proof(3)) == '{"still_claimed":3}'
    assert canonical_json(state_change("active")) == '{"state":"active"}'
    assert canonical_json(trace_position("00-1-2-01")) == '{"trace":"00-1-2-01"}'


RESULTS: list[tuple[str, JsonObject, RunResult]] = [
    (
        '{"result":"42","turns":0}',
        encode_result(Answer("42"), BudgetAmount()),
        RunResult(AgentState("run-1", "bank", AgentStatus.COMPLETED), "42"),
    ),
    (
        '{"error":{"code":"timeout"},"interruption":"timeout","learned":{"k":1},"result":null,'
        f'"spent":{SPENT_JSON},"turns":2,"usage":{{"input_tokens":1,"total_tokens":3}}}}',
        encode_result(
            Answer(None, "timeout", ModelUsage(1, None, 3), 2, {"k": 1}), SPENT, {"code": "timeout"}
        ),
        RunResult(
            AgentState("run-1", "bank", AgentStatus.COMPLETED),
            None,
            ModelUsage(1, None, 3),
            2,
            "timeout",
            {"code": "timeout"},
            {"k": 1},
            SPENT,
        ),
    ),
]


@pytest.mark.parametrize(("text", "encoded", "result"), RESULTS, ids=["whole", "partial"])
def test_a_result_has_its_json_and_comes_back_from_it(
    text: str, encoded: JsonObject, result: RunResult
) -> None:
    assert canonical_json(encoded) == text
    assert decode_result(result.state, a_row(an_action(), record=json.loads(text))) == result


def test_a_start_has_its_json_and_comes_back_from_it() -> None:
    start = RunStart("bank", {"amount": 5}, Principal("ada", "acme"), deadline=NOON, history=0)
    text = (
        '{"agent":"bank","deadline":"2030-01-02T12:00:00+00:00","history":0,"input":{"amount":5},'
        '"principal":{"id":"ada","permissions":[],"tenant":"acme"}}'
    )
    assert canonical_json(encode_start(start)) == text
    assert decode_start(claim(1, json.loads(text))) == start


def claim(seq: int, record: JsonObject) -> JournalRow:
    row = a_claim(seq)
    return JournalRow(
        row.seq,
        row.action_id,
        None,
        JournalStage.CLAIMED,
        1,
        1,
        "",
        row.idempotency,
        record,
        None,
        "unchained",
    )


def test_the_last_claim_that_says_so_counts() -> None:
    later = (NOON + timedelta(hours=1)).isoformat()
    claims = [
        claim(
            1, {"agent": "bank", "deadline": NOON.isoformat(), "trace": "not of the start", "definition": "d"}
        ),
        claim(2, {"claimed_by": "ada", "deadline": later, "waits_counted_until": NOON.isoformat()}),
        claim(3, {"trace": "00-1"}),
        claim(4, {"still_claimed": 2}),
    ]
    assert last_deadline(claims) == NOON + timedelta(hours=1)
    assert last_deadline(claims[:1]) == NOON
    assert last_deadline(claims[2:]) is None
    assert waits_counted_until(claims) == NOON
    assert waits_counted_until(claims[:1]) is None
    assert (last_trace(claims), last_trace(claims[:2])) == ("00-1", None)
    assert [claimed_by(each) for each in claims] == [None, "ada", None, None]
    assert (recorded_definition(claims[0]), recorded_definition(claims[1])) == ("d", None)


def test_a_deadline_is_stored_in_utc() -> None:
    there = NOON.astimezone(timezone(timedelta(hours=2)))
    assert TakeOver("ada", MovedDeadline(there, NOON)).encode()["deadline"] == "2030-01-02T12:00:00+00:00"
    moved = TakeOver.decode(TakeOver("ada", MovedDeadline(None, NOON)).encode()).moved
    assert moved == MovedDeadline(None, NOON)


def test_a_record_without_a_label_has_none() -> None:
    assert trust_in({"result": 1}) is None
    assert trust_in({"trust": json.loads(LABEL_JSON)}) == LABEL


def test_only_a_rejection_is_one() -> None:
    assert is_rejection(ApprovalAnswer(ApprovalDecision.REJECT).encode())
    assert not is_rejection(ApprovalAnswer(ApprovalDecision.APPROVE).encode())
    assert not is_rejection(RecoveryAnswerRecord(RecoveryFailed("q", "a")).encode())


def test_the_usage_of_a_reply_is_read_without_the_reply() -> None:
    reply = ReplyRecord({"usage": {"total_tokens": 7}, "content": "hi"})
    assert reply.usage == ModelUsage(None, None, 7)
    request = ModelRequest([ModelMessage.user("?")])
    assert reply.response(request).content == "hi"


@pytest.mark.parametrize(
    ("record", "used"),
    [
        (
            {"model": "gpt", "result": {"usage": {"total_tokens": 7}}},
            CallUsage("gpt", ModelUsage(None, None, 7)),
        ),
        ({"model": "gpt", "result": {}}, CallUsage("gpt", no_usage())),
        (
            FailureRecord(ModelCallError("no"), USED).encode(),
            CallUsage("gpt", ModelUsage(3, 4, 7), is_partial=True),
        ),
        (FailureRecord(ModelCallError("denied")).encode(), None),
        ({"not_kept": True}, None),
    ],
    ids=["reply", "unreported", "failed on the way", "denied", "not recorded"],
)
def test_what_a_call_used_is_read_without_its_reply(record: JsonObject, used: CallUsage | None) -> None:
    assert call_usage(record) == used


DAMAGED: list[tuple[Callable[[JsonObject], object], JsonObject, str]] = [
    (BeginRecord.decode, {}, "asked"),
    (BeginRecord.decode, {"asked": 1, "executed": 5}, "executed"),
    (decode_outcome, {}, "result"),
    (decode_outcome, {"error": 5}, "error"),
    (decode_gather, {"taken": ["0"]}, "taken"),
    (decode_gather, {"taken": 1}, "taken"),
    (ChildRecord.decode, {"output": 1}, "spent"),
    (ChildRecord.decode, {"output": 1, "spent": {"steps": 1}}, "spent.tool_calls"),
    (ChildRecord.decode, {"output": 1, "spent": json.loads(SPENT_JSON) | {"cost": "much"}}, "spent.cost"),
    (ChildRecord.decode, {"output": 1, "spent": json.loads(SPENT_JSON), "trust": {}}, "trust.label"),
    (ContextChange.decode, {"steps": [{"strategy": True}]}, "steps.strategy"),
    (ContextChange.decode, {"steps": [1]}, "steps"),
    (TakeOver.decode, {}, "claimed_by"),
    (TakeOver.decode, {"claimed_by": "a", "drift": {"was": "b"}}, "drift.is"),
    (TakeOver.decode, {"claimed_by": "a", "waits_counted_until": "2030-01-02"}, "waits_counted_until"),
    (TakeOver.decode, {"claimed_by": "a", "waits_counted_until": "noon"}, "waits_counted_until"),
    (ApprovalAnswer.decode, {"decision": "perhaps"}, "decision"),
    (ApprovalAnswer.decode, {"decision": "approve", "comment": 1}, "comment"),
    (RecoveryAnswerRecord.decode, {"request_id": "q", "action_id": "a", "answer": "Maybe"}, "answer"),
    (RecoveryAnswerRecord.decode, {"request_id": "q", "action_id": "a", "answer": "RecoveryDone"}, "result"),
    (TakenSignals.decode, {"result": [{"id": "s"}]}, "record"),
    (TakenSignals.decode, {"result": [], "at": 1, "handled": [1]}, "handled"),
    (decode_model_call, {}, "result"),
    (decode_model_call, {"error": "no", "retryable": "yes"}, "retryable"),
    (decode_model_call, {"problems": [1], "error": "no"}, "problems"),
    (decode_model_call, {"result": {}, "left": 1}, "left"),
    (records.decode_usage, {"input_tokens": "3"}, "usage"),
]


@pytest.mark.parametrize(
    ("decode", "record", "key"), DAMAGED, ids=[f"{row[2]} of {row[1]}" for row in DAMAGED]
)
def test_a_damaged_record_names_its_row_and_key(
    decode: Callable[[JsonObject], object], record: JsonObject, key: str
) -> None:
    row = a_row(an_action("run/tool:pay#1"), seq=7, record=record)
    with pytest.raises(DamagedRecordError) as caught:
        decode_row(row, decode)
    assert (caught.value.seq, caught.value.action_id, caught.value.key) == (7, "run/tool:pay#1", key)
    assert str(caught.value).startswith("row 7 (run/tool:pay#1): ")


@pytest.mark.parametrize(
    "record",
    [None, 5, "text", [1], SealedRecord("k", "c"), ErasedRecord("d")],
    ids=lambda each: type(each).__name__,
)
def test_a_record_that_is_no_object_names_its_row(record: JsonValue | SealedRecord | ErasedRecord) -> None:
    row = replace(a_row(an_action(), seq=7), record=record)
    with pytest.raises(DamagedRecordError, match=r"row 7 .*'record' is not"):
        decode_row(row, decode_outcome)


def test_a_damaged_start_names_its_row() -> None:
    with pytest.raises(DamagedRecordError, match=r"row 1 \(run\): .* of type RunStart"):
        decode_start(claim(1, {"agent": "bank"}))


@pytest.mark.parametrize("key", ["content", "tool_calls", "usage", "metadata", "finish_reason"])
def test_a_damaged_reply_names_its_key(key: str) -> None:
    with pytest.raises(DamagedRecordError) as caught:
        ReplyRecord({key: 5}).response(ModelRequest([ModelMessage.user("?")]))
    assert caught.value.key == key


@pytest.mark.parametrize("call", [5, {}, {"name": 1, "arguments": {}}, {"name": "pay", "arguments": []}])
def test_a_damaged_tool_call_of_a_reply_names_its_key(call: object) -> None:
    record: JsonObject = json.loads(json.dumps({"tool_calls": [call]}))
    with pytest.raises(DamagedRecordError) as caught:
        ReplyRecord(record).response(ModelRequest([ModelMessage.user("?")]))
    assert caught.value.key.startswith("tool_calls")


def test_only_an_open_record_is_plain() -> None:
    assert plain_record(a_row(an_action(), record={"result": 1})) == {"result": 1}


def test_the_ids_of_signals_are_read_from_the_view() -> None:
    row = a_row(an_action("run/signals#1", kind=AgentActionKind.SIGNAL))
    seen = replace(row, view={"result": [{"id": "s-1"}, {"id": "s-2"}]})
    assert list(taken_ids(seen)) == ["s-1", "s-2"]
    assert list(taken_ids(replace(seen, kind=AgentActionKind.STEP))) == []
    assert list(taken_ids(row)) == []

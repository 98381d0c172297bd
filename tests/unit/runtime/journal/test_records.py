"""Each stored record as it is on disk: its exact JSON, its value, and what is said of one that is damaged."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from tests.unit.runtime.rows import a_claim, a_row, an_action

from pilotage.agent.decisions import AgentApprovalDecisionOutcome
from pilotage.agent.model_reply import ModelUsage
from pilotage.agent.model_request import JsonSchemaConstraint, ModelToolSpec
from pilotage.agent.ports.budget import BudgetAmount
from pilotage.agent.ports.persistence import ErasedRecord, JournalRow, JournalStage, SealedRecord
from pilotage.agent.principal import Principal
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.recovery_request import (
    RecoveryAnswer,
    RecoveryCancelled,
    RecoveryDone,
    RecoveryFailed,
    RecoveryRetried,
)
from pilotage.agent.run_values import RunResult
from pilotage.agent.signals import ApprovalDecision, RejectionPolicy
from pilotage.agent.spec import AgentExecutionLimits
from pilotage.agent.state import AgentSituation, AgentState, AgentStatus
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json
from pilotage.runtime.journal.question_record import (
    decode_recovery_answer,
    encode_approval_answer,
    encode_recovery_answer,
    is_rejection,
)
from pilotage.runtime.journal.record_fields import (
    DamagedRecordError,
    count_field,
    counts_field,
    decode_row,
    objects_field,
    optional_text,
    plain_record,
    texts_field,
    value_field,
)
from pilotage.runtime.journal.records import (
    Answer,
    decode_failure,
    decode_response,
    decode_result,
    decode_usage,
    encode_result,
    optional_amount,
    replayed_misfit,
    taken_ids,
)
from pilotage.runtime.journal.start_record import (
    RunStart,
    claimed_by,
    decode_deadline,
    decode_start,
    encode_deadline,
    encode_start,
    first_trace,
    last_deadline,
    ownership_proof,
    recorded_definition,
    state_change,
    trace_position,
    waits_counted_until,
)
from pilotage.safety.trust import Confidentiality, Integrity, TrustLabel

SPENT = BudgetAmount(2, 1, 30, Decimal("0.10"))
SPENT_JSON = '{"cost":"0.10","steps":2,"tokens":30,"tool_calls":1}'
NOON = datetime(2030, 1, 2, 12, tzinfo=UTC)
LABEL = TrustLabel(Integrity.UNTRUSTED, Confidentiality.TENANT, frozenset({"mail"}))
LABEL_JSON = '{"confidentiality":"tenant","integrity":"untrusted","origins":["mail"]}'

ANSWERS: list[tuple[str, RecoveryAnswer, str | None]] = [
    (
        '{"action_id":"run/tool:pay#1","answer":"RecoveryRetried","attempt":2,"comment":null,"request_id":"q"}',
        RecoveryRetried("q", "run/tool:pay#1", 2),
        None,
    ),
    (
        '{"action_id":"run/tool:pay#1","answer":"RecoveryDone","comment":"seen","decided_by":"bob","request_id":"q",'
        '"result":{"paid":true}}',
        RecoveryDone("q", "run/tool:pay#1", {"paid": True}, "seen"),
        "bob",
    ),
    (
        '{"action_id":"a","answer":"RecoveryFailed","comment":null,"request_id":"q"}',
        RecoveryFailed("q", "a"),
        None,
    ),
    (
        '{"action_id":"a","answer":"RecoveryCancelled","comment":null,"request_id":"q"}',
        RecoveryCancelled("q", "a"),
        None,
    ),
]


@pytest.mark.parametrize(("text", "answer", "decided_by"), ANSWERS, ids=[row[0] for row in ANSWERS])
def test_an_answer_about_an_outcome_has_its_json_and_comes_back_from_it(
    text: str, answer: RecoveryAnswer, decided_by: str | None
) -> None:
    assert canonical_json(encode_recovery_answer(answer, decided_by)) == text
    assert decode_recovery_answer(json.loads(text)) == answer


def test_an_answer_to_an_approval_has_its_json() -> None:
    assert canonical_json(encode_approval_answer(decided(ApprovalDecision.APPROVE))) == (
        '{"comment":null,"decision":"approve","modified_payload":{}}'
    )
    changed = decided(ApprovalDecision.MODIFY, {"amount": 1}, "less")
    assert canonical_json(encode_approval_answer(changed, "bob")) == (
        '{"comment":"less","decided_by":"bob","decision":"modify","modified_payload":{"amount":1}}'
    )


def decided(
    decision: ApprovalDecision, payload: JsonObject | None = None, comment: str | None = None
) -> AgentApprovalDecisionOutcome:
    to = AgentSituation.RUNNING
    return AgentApprovalDecisionOutcome(
        "q", decision, to.status, to.transition, to.reason, payload or {}, comment
    )


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


def test_a_start_with_every_field_has_its_json_and_comes_back_from_it() -> None:
    tool = ModelToolSpec("pick", JsonSchemaConstraint({"type": "object"}), "Pick.")
    start = RunStart(
        "bank",
        {"amount": 5},
        Principal("ada", "acme", frozenset({"pay"})),
        conversation="talk",
        parent="p",
        generation=1,
        deadline=NOON,
        limits=AgentExecutionLimits(max_steps=3),
        capabilities=("pay",),
        history=2,
        definition="d",
        salt="s",
        trust={"integrity": "user"},
        metadata={"alias": "a"},
        given={"context": 1},
        model="small",
        deferred=(tool,),
        session="talk-1",
        branch="child:a#1",
        exits=(tool,),
        owner="worker-1",
        delegation={"id": "p1"},
        steering_input_required=True,
        resolved_model="large",
        on_rejection=RejectionPolicy.TELL_MODEL,
        rules=2,
        salt_key="k",
    )
    tool_json = '{"description":"Pick.","metadata":{},"name":"pick","parameters":{"schema":{"type":"object"},"strict":true}}'
    text = (
        '{"agent":"bank","branch":"child:a#1","capabilities":["pay"],"conversation":"talk",'
        f'"deadline":"2030-01-02T12:00:00+00:00","deferred":[{tool_json}],"definition":"d","delegation":{{"id":"p1"}},"exits":[{tool_json}],'
        '"generation":1,"given":{"context":1},"history":2,"input":{"amount":5},"limits":{"max_cost":null,"max_steps":3,'
        '"max_tokens":null,"max_tool_calls":null,"timeout_seconds":null},"metadata":{"alias":"a"},"model":"small",'
        '"on_rejection":"tell_model","owner":"worker-1","parent":"p","principal":{"id":"ada","permissions":["pay"],"tenant":"acme"},"resolved_model":"large","rules":2,"salt":"s","salt_key":"k","session":"talk-1",'
        '"steering_input_required":true,"trust":{"integrity":"user"}}'
    )
    assert set(json.loads(text)) == {each.name for each in fields(RunStart)}
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
    assert (first_trace(claims), first_trace(claims[:2])) == ("00-1", None)
    assert [claimed_by(each) for each in claims] == [None, "ada", None, None]
    assert (recorded_definition(claims[0]), recorded_definition(claims[1])) == ("d", None)


def test_a_deadline_is_stored_in_utc() -> None:
    there = NOON.astimezone(timezone(timedelta(hours=2)))
    assert (encode_deadline(there), encode_deadline(None)) == ("2030-01-02T12:00:00+00:00", None)
    assert decode_deadline({"deadline": encode_deadline(there)}) == NOON
    assert decode_deadline({"deadline": None}) is None


def test_only_a_rejection_is_one() -> None:
    assert is_rejection(encode_approval_answer(decided(ApprovalDecision.REJECT)))
    assert not is_rejection(encode_approval_answer(decided(ApprovalDecision.APPROVE)))
    assert not is_rejection(encode_recovery_answer(RecoveryFailed("q", "a")))


DAMAGED: list[tuple[Callable[[JsonObject], object], JsonObject, str]] = [
    (lambda record: value_field(record, "result"), {}, "result"),
    (lambda record: optional_text(record, "error"), {"error": 5}, "error"),
    (lambda record: counts_field(record, "taken"), {"taken": ["0"]}, "taken"),
    (lambda record: counts_field(record, "taken"), {"taken": 1}, "taken"),
    (lambda record: objects_field(record, "steps"), {"steps": [1]}, "steps"),
    (lambda record: count_field(record, "strategy"), {"strategy": True}, "strategy"),
    (lambda record: texts_field(record, "handled"), {"handled": [1]}, "handled"),
    (optional_amount, {"spent": {"steps": 1}}, "spent.tool_calls"),
    (optional_amount, {"spent": json.loads(SPENT_JSON) | {"cost": "much"}}, "spent.cost"),
    (decode_deadline, {"deadline": "2030-01-02"}, "deadline"),
    (decode_deadline, {"deadline": "noon"}, "deadline"),
    (decode_deadline, {"deadline": 5}, "deadline"),
    (decode_recovery_answer, {"request_id": "q", "action_id": "a", "answer": "Maybe"}, "answer"),
    (decode_recovery_answer, {"request_id": "q", "action_id": "a", "answer": "RecoveryDone"}, "result"),
    (decode_failure, {"error": "no", "retryable": "yes"}, "retryable"),
    (lambda record: list(replayed_misfit(record)), {"problems": [1], "error": "no"}, "problems"),
    (decode_usage, {"input_tokens": "3"}, "usage"),
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
        decode_row(row, optional_amount)


def test_a_damaged_start_names_its_row() -> None:
    with pytest.raises(DamagedRecordError, match=r"row 1 \(run\): .* of type RunStart"):
        decode_start(claim(1, {"agent": "bank"}))


@pytest.mark.parametrize("key", ["content", "tool_calls", "usage", "metadata", "finish_reason"])
def test_a_damaged_reply_names_its_key(key: str) -> None:
    with pytest.raises(DamagedRecordError) as caught:
        decode_response({key: 5}, None)
    assert caught.value.key == key


@pytest.mark.parametrize("call", [5, {}, {"name": 1, "arguments": {}}, {"name": "pay", "arguments": []}])
def test_a_damaged_tool_call_of_a_reply_names_its_key(call: object) -> None:
    record: JsonObject = json.loads(json.dumps({"tool_calls": [call]}))
    with pytest.raises(DamagedRecordError) as caught:
        decode_response(record, None)
    assert caught.value.key.startswith("tool_calls")


def test_only_an_open_record_is_plain() -> None:
    assert plain_record(a_row(an_action(), record={"result": 1})) == {"result": 1}


def test_the_ids_of_signals_are_read_from_the_view() -> None:
    row = a_row(an_action("run/signals#1", kind=AgentActionKind.SIGNAL))
    seen = replace(row, view={"result": [{"id": "s-1"}, {"id": "s-2"}]})
    assert list(taken_ids(seen)) == ["s-1", "s-2"]
    assert list(taken_ids(replace(seen, kind=AgentActionKind.STEP))) == []
    assert list(taken_ids(row)) == []

"""What is stored or digested keeps its name: runs of earlier versions have it in their rows, keys and seals."""

from __future__ import annotations

from dataclasses import fields

import pytest

from pilotage.agent.approval import AgentApprovalRequest
from pilotage.agent.delegation import (
    AgentDelegateTarget,
    DelegationBudget,
    DelegationContextSlice,
    DelegationExpectedOutput,
    DelegationPacket,
)
from pilotage.agent.ports.persistence import JournalStage
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.recovery_request import (
    AgentRecoveryRequest,
    OpenAction,
    RecoveryCancelled,
    RecoveryDone,
    RecoveryFailed,
    RecoveryRetried,
)
from pilotage.agent.signals import AgentSignal
from pilotage.agent.tools.metadata import Idempotency
from pilotage.runtime.exposure.trust import RECALL
from pilotage.runtime.journal import scope, stored_words
from pilotage.runtime.journal.start_record import RunStart

WORDS = {
    "FOLDED_TURNS": "turns:",
    "EMITTED": "emitted",
    "KEY_TAG": "tag",
    "RUN": "run",
    "RUN_PREFIX": "run/",
    "RESULT_ACTION": "run/result#1",
    "END": "run/end",
    "MORE": "run/more",
    "CONVERSATION": "conversation",
    "ORDINAL": "#",
    "SEPARATOR": "/",
    "TASK": "task:",
    "TOOL": "tool:",
    "STEP": "step:",
    "CHILD": "child:",
    "PACKET": "packet:",
    "MODEL": "model",
    "ERROR_TYPE": "error_type",
    "ERROR_ID": "error_id",
    "WORDS": "words",
    "GIVEN": "given",
    "DELEGATION": "delegation",
    "HOLD": "hold",
    "HELD": "held",
    "SETTLED_BY": "settled_by",
    "PAID": "paid",
    "PASSED_OVER": "passed_over",
    "ANSWERED_BY": "answered_by",
    "NOW": "now",
    "UID": "uid",
    "RANDOM": "random",
    "SLEEP": "sleep",
    "TIMEOUT": "timeout",
    "SECONDS": "seconds",
    "UNTIL": "until",
    "WAKE_AT": "wake_at",
    "SESSION": "session",
    "SIGNALS": "signals",
    "SIGNALS_BESIDE": "signals:",
    "ON_SIGNAL": "on_signal:",
    "SIGNAL": "signal:",
    "ANSWER_KEY": "answer:",
    "REFUSED_ANSWER": "refused:",
    "CONDENSED": "condensed",
    "PROVIDED": "provided",
    "SELECTED": "selected",
    "OPTIMIZED": "optimized",
    "SYMPTOMS": "symptoms",
    "ACTIONS": "actions",
    "DROPPED": "dropped",
    "DELEGATED": "delegated",
    "REFUSED": "refused",
    "TRY": "try",
    "TRIES": "tries",
    "POISON": "poison",
    "CLAIMS": "claims",
    "LAST_CLAIM": "last_claim",
    "PROBLEM": "problem",
    "MEMORY_REMEMBER": "step:memory.remember",
    "MEMORY_RECALL": "step:memory.recall",
    "MEMORY_FORGET": "step:memory.forget",
    "EVENTS": "told#",
    "CHANGED": "changed:",
    "CUT_SHORT": "cut_short",
    "WITHDRAWN": "withdrawn",
    "RESUME": "resume",
    "CLEANUP": "cleanup",
    "APPROVAL": "approval",
    "RECOVERY": "recovery",
    "RESULT": "result",
    "PROMPT": "prompt",
    "ASKED": "asked",
    "EXECUTED": "executed",
    "ERROR": "error",
    "TRUST": "trust",
    "SECRETS": "secrets",
    "SPENT": "spent",
    "STEPS": "steps",
    "TOOL_CALLS": "tool_calls",
    "TOKENS": "tokens",
    "COST": "cost",
    "OUTPUT": "output",
    "TAKEN": "taken",
    "STRATEGY": "strategy",
    "SUMMARY": "summary",
    "AT": "at",
    "HANDLED": "handled",
    "SCALARS": "scalars",
    "DECIMAL": "decimal",
    "DATETIME": "datetime",
    "DATE": "date",
    "UUID": "uuid",
    "BYTES": "bytes",
    "DECLARED": "declared",
    "CODE": "code",
    "ARGS": "args",
    "DATA": "data",
    "NOT_RECORDED": "not_kept",
    "REASONING": "reasoning",
    "RESTARTS": "restarts",
    "LEFT": "left",
    "USAGE": "usage",
    "USAGE_ESTIMATED": "usage_estimated",
    "INPUT_TOKENS": "input_tokens",
    "OUTPUT_TOKENS": "output_tokens",
    "TOTAL_TOKENS": "total_tokens",
    "CONTENT": "content",
    "STRUCTURED_OUTPUT": "structured_output",
    "FINISH_REASON": "finish_reason",
    "METADATA": "metadata",
    "NAME": "name",
    "ARGUMENTS": "arguments",
    "CALL_ID": "call_id",
    "RETRYABLE": "retryable",
    "FAILURE": "failure",
    "PROBLEMS": "problems",
    "TEXT": "text",
    "TURNS": "turns",
    "INTERRUPTION": "interruption",
    "LEARNED": "learned",
    "LIMIT": "limit",
    "LIMITS": "limits",
    "ID": "id",
    "REQUEST_ID": "request_id",
    "ACTION_ID": "action_id",
    "ATTEMPT": "attempt",
    "ACTION_KIND": "action_kind",
    "DECISION": "decision",
    "MODIFIED_PAYLOAD": "modified_payload",
    "COMMENT": "comment",
    "DECIDED_BY": "decided_by",
    "ANSWER": "answer",
    "END_OF_SIGNAL": "end",
    "OUTDATED": "outdated",
    "RETRIED": "RecoveryRetried",
    "DONE": "RecoveryDone",
    "FAILED": "RecoveryFailed",
    "CANCELLED": "RecoveryCancelled",
    "CLAIMED_BY": "claimed_by",
    "STILL_CLAIMED": "still_claimed",
    "STATE": "state",
    "SHARED_STATE": "shared_state",
    "READ_STATE": "read_state",
    "TRACE": "trace",
    "DEADLINE": "deadline",
    "WAITS_COUNTED_UNTIL": "waits_counted_until",
    "DRIFT": "drift",
    "WAS": "was",
    "IS": "is",
    "AGENT": "agent",
    "INPUT": "input",
    "PRINCIPAL": "principal",
    "DEFINITION": "definition",
    "INSTRUCTION": "instruction",
    "MESSAGES": "messages",
    "VIEW": "view",
    "ERASED": "erased",
    "CAPTURE": "capture",
    "MANIFEST": "manifest",
    "INSIDE": "inside",
    "RECONCILES": "reconciles",
    "SUSPENDED": "suspended",
    "OUTPUT_GUARD": "output_guard",
    "NOTED_REVISIONS": "noted_revisions",
    "INPUT_ID": "input_id",
    "REVISION": "revision",
    "ENTERED": "entered",
    "PARENT": "parent",
    "PAUSED_AT": "paused_at",
    "AWAITS": "awaits",
    "CHILD_RUN": "child",
    "ALIAS": "alias",
    "FORKED_FROM": "forked_from",
    "DIVERGENCE": "divergence",
    "OWNER": "owner",
    "RULES": "rules",
    "BEGUN": "begun",
    "SKIPPED": "skipped",
    "RESOLUTION": "resolution",
    "SKIP": "skip",
    "GIVE": "done",
    "FORK": "fork",
    "FINGERPRINT": "fingerprint",
    "IS_OPEN": "is_open",
    "KIND": "kind",
    "LABEL": "label",
    "LINE": "line",
    "NUMBER": "number",
    "RECORDED": "recorded",
    "DAMAGE": "damage",
    "ROW": "row",
    "REASON": "reason",
    "ACTION": "action",
    "DIFFERENCE": "difference",
    "SEAL_MISSING": "seal_missing",
    "CANCELLATION_REASON": "cancellation_reason",
    "CANCELLATION_REQUESTED_BY": "cancellation_requested_by",
    "CANCELLATION_SIGNAL_ID": "cancellation_signal_id",
    "LATE_SIGNALS": "late_signals",
    "PAUSED_ON_REQUEST": "paused on request",
    "SEALED": "pilotage.sealed",
    "KEY_ID": "key_id",
    "CIPHERTEXT": "ciphertext",
    "FIRST_DIGEST": "start",
    "SEALED_PAYLOAD": "sealed",
    "OPEN_PAYLOAD": "open",
    "TOKEN_OF": "token of ",
    "SALT_OF": "salt of ",
    "FINGERPRINTS_OF": "fingerprints of ",
    "CHILD_DIGEST": "child",
    "START_DIGEST": "start",
}


def test_no_stored_word_has_changed() -> None:
    names = {name: value for name, value in vars(stored_words).items() if name.isupper()}
    assert names == WORDS


def test_no_kind_or_stage_of_a_row_has_changed() -> None:
    assert [each.value for each in JournalStage] == ["claimed", "before", "after", "folded", "told"]
    assert {each.name: each.value for each in AgentActionKind} == {
        "MODEL_CALL": "model_call",
        "TOOL_CALL": "tool_call",
        "APPROVAL_WAIT": "approval_wait",
        "DELEGATION": "delegation",
        "SIGNAL": "signal",
        "STEP": "step",
        "VALUE": "value",
    }
    assert {each.name: each.value for each in Idempotency} == {
        "IDEMPOTENT": "idempotent",
        "CONDITIONALLY_IDEMPOTENT": "conditionally_idempotent",
        "NON_IDEMPOTENT": "non_idempotent",
        "UNKNOWN": "unknown",
    }


def test_the_names_of_answers_are_those_of_their_classes() -> None:
    kinds = (RecoveryRetried, RecoveryDone, RecoveryFailed, RecoveryCancelled)
    names = (stored_words.RETRIED, stored_words.DONE, stored_words.FAILED, stored_words.CANCELLED)
    assert tuple(each.__name__ for each in kinds) == names


FIELDS = {
    RunStart: "agent input principal conversation parent generation deadline limits capabilities history definition salt "
    "trust metadata given model deferred session branch exits owner delegation "
    "steering_input_required resolved_model on_rejection rules salt_key",
    AgentApprovalRequest: "id agent_state_id boundary prompt risk action_ref allowed_decisions metadata arguments "
    "argument_digest tool_digest attempt call_id expires_at requested_by approver_scope policy_version binding",
    AgentRecoveryRequest: "id agent_state_id action_id attempt reason action_kind action_name arguments late_outcomes "
    "allowed_decisions metadata inside begun",
    OpenAction: "action_id attempt action_kind action_name arguments allowed_decisions",
    DelegationPacket: "id parent_agent_state_id target task context constraints expected_output budget "
    "allowed_capabilities return_policy metadata",
    DelegationContextSlice: "summary evidence_refs manifest_ref metadata",
    DelegationExpectedOutput: "description schema metadata",
    DelegationBudget: "max_steps max_tokens timeout_seconds deadline_at metadata",
    AgentDelegateTarget: "agent_type agent_name metadata",
    AgentSignal: "id agent_state_id kind payload created_at end",
}


@pytest.mark.parametrize(("kind", "names"), FIELDS.items(), ids=lambda each: getattr(each, "__name__", ""))
def test_no_field_of_a_stored_value_has_changed(kind: type, names: str) -> None:
    assert [each.name for each in fields(kind)] == names.split()


def test_words_that_are_defined_twice_agree() -> None:
    assert stored_words.RESULT_ACTION == scope.RESULT
    assert stored_words.MEMORY_RECALL == RECALL

"""The public stream: a payload is its own yield."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass
from decimal import Decimal
from typing import Any

import pytest

from pilotage.agent.signals import ApprovalDecision
from pilotage.agent.yields import (
    AgentYield,
    AgentYieldJsonEncoder,
    AgentYieldKind,
    Approval,
    Cancel,
    Error,
    Evidence,
    Final,
    Message,
    Progress,
    State,
    StatePatch,
    TextDelta,
    Token,
    Tool,
)
from pilotage.errors import AgentDefinitionError

PAYLOADS = [
    (Token("a"), "token", {"text": "a", "metadata": {}}),
    (Progress("b", "step"), "progress", {"message": "b", "current_step": "step", "metadata": {}}),
    (
        Tool("t", call_id="c", arguments={"x": 1}, result=[2]),
        "tool",
        {"name": "t", "call_id": "c", "arguments": {"x": 1}, "result": [2], "metadata": {}},
    ),
    (Evidence(("x", Decimal("1.5"))), "evidence", {"evidence": ["x", "1.5"], "metadata": {}}),
    (
        Approval("a1", "Pay?", (ApprovalDecision.APPROVE,)),
        "approval",
        {"id": "a1", "prompt": "Pay?", "allowed_decisions": ["approve"], "metadata": {}},
    ),
    (Error("c", "m"), "error", {"code": "c", "message": "m", "retryable": False, "metadata": {}}),
    (Cancel("r"), "cancel", {"reason": "r", "requested_by": None, "metadata": {}}),
    (Final({"n": 1}), "final", {"output": {"n": 1}, "metadata": {}}),
    (State(("x", Decimal("1.5"))), "state", {"snapshot": ["x", "1.5"], "metadata": {}}),
    (
        StatePatch(({"op": "remove", "path": "/a"},)),
        "state_patch",
        {"operations": [{"op": "remove", "path": "/a"}], "metadata": {}},
    ),
]


@pytest.mark.parametrize(("payload", "kind", "encoded"), PAYLOADS)
def test_a_payload_is_its_own_yield(payload: AgentYield[object], kind: str, encoded: object) -> None:
    assert payload.kind == kind
    assert payload.payload is payload
    assert AgentYieldJsonEncoder.encode(payload) == {"kind": kind, "payload": encoded}


@pytest.mark.parametrize(("payload", "kind", "encoded"), PAYLOADS)
def test_a_wrapped_payload_is_the_same_item(payload: AgentYield[object], kind: str, encoded: object) -> None:
    item = AgentYield[object](AgentYieldKind(kind), payload.payload)
    assert item.kind == kind
    assert item.payload is payload
    assert item == payload
    assert payload == item
    assert AgentYieldJsonEncoder.encode(item) == {"kind": kind, "payload": encoded}


def test_every_kind_has_a_payload() -> None:
    assert [kind for _, kind, _ in PAYLOADS] == [
        "token", "progress", "tool", "evidence", "approval", "error", "cancel", "final",
        "state", "state_patch",
    ]  # fmt: skip
    assert {kind.value for kind in AgentYieldKind} == {kind for _, kind, _ in PAYLOADS}


def test_different_items_are_not_equal() -> None:
    assert AgentYield(AgentYieldKind.TOKEN, Token("a")) != AgentYield(AgentYieldKind.TOKEN, Token("b"))
    assert Token("a") != Progress("a")
    assert AgentYield(AgentYieldKind.TOKEN, Token("a")) != "a"


def test_items_match_by_position() -> None:
    match AgentYield(AgentYieldKind.TOKEN, Token("hello")):
        case AgentYield(AgentYieldKind.TOKEN, Token(text)):
            assert text == "hello"
        case _:
            pytest.fail("no match")


def test_items_are_immutable_and_readable() -> None:
    item = AgentYield(AgentYieldKind.TOKEN, Token("a"))
    assert (
        repr(item) == "AgentYield(kind=<AgentYieldKind.TOKEN: 'token'>, payload=Token(text='a', metadata={}))"
    )
    for broken in (item, Token("a")):
        with pytest.raises(FrozenInstanceError):
            broken.text = "b"  # type: ignore[union-attr]
    with pytest.raises(FrozenInstanceError):
        del item.kind


def test_the_other_names_are_the_same_classes() -> None:
    assert TextDelta is Token
    assert Message is Progress


@dataclass(frozen=True)
class Question:
    id: str = "a1"
    prompt: str = "Pay?"
    allowed_decisions: tuple[ApprovalDecision, ...] = (ApprovalDecision.APPROVE,)

    def to_metadata(self) -> dict[str, str]:
        return {"id": self.id}


def test_an_approval_is_made_from_a_request() -> None:
    assert Approval.from_request(Question()) == Approval(
        "a1", "Pay?", (ApprovalDecision.APPROVE,), {"id": "a1"}
    )
    assert Approval("a1", "Pay?").allowed_decisions == tuple(ApprovalDecision)


def test_evidence_without_a_json_form_is_refused() -> None:
    with pytest.raises(AgentDefinitionError, match="object has no JSON form"):
        Evidence(object())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "snapshot", [object(), {"n": float("nan")}, [{1: "a"}, b"\x00", {"n": float("inf")}]]
)
def test_a_state_without_a_json_form_is_refused(snapshot: Any) -> None:
    with pytest.raises(AgentDefinitionError, match="State.snapshot cannot be shared"):
        State(snapshot)


@pytest.mark.parametrize(
    ("operations", "problem"),
    [
        ("add", "it is str, and a list of operations is needed"),
        ({"op": "remove", "path": "/a"}, "it is dict"),
        (["remove"], "operation 1 has no 'op' of add, remove"),
        ([{"op": "remove", "path": "/a"}, {"op": "delete", "path": "/a"}], "operation 2 has no 'op'"),
        ([{"op": ["add"], "path": "/a"}], "operation 1 has no 'op'"),
        ([{"op": "add", "path": "/a"}], r"operation 1 \(add\) lacks 'value'"),
        ([{"op": "move", "path": "/a"}], r"operation 1 \(move\) lacks 'from'"),
        ([{"op": "remove", "path": "a"}], "'path' of operation 1 is no JSON Pointer"),
        ([{"op": "remove", "path": "/a~2"}], "'path' of operation 1 is no JSON Pointer"),
        ([{"op": "copy", "path": "/a", "from": 1}], "'from' of operation 1 is no JSON Pointer"),
        ([{"op": "add", "path": "/a", "value": float("nan")}], "cannot be shared"),
        ([{"op": "add", "path": "/a", "value": object()}], "object has no JSON form"),
    ],
)
def test_a_patch_that_no_client_could_apply_is_refused(operations: Any, problem: str) -> None:
    with pytest.raises(AgentDefinitionError, match=problem):
        StatePatch(operations)

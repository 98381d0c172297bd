"""What a running tool and an approving person are told."""

import asyncio

import pytest

from pilotage.agent.tools.context import AgentToolApprovalContext, AgentToolRuntimeContext, CancellationToken


def test_the_idempotency_key_is_made_from_state_and_call_when_it_is_left_out() -> None:
    context = AgentToolRuntimeContext("state", "conversation", "call", "pay")
    assert context.idempotency_key == "state/call"
    assert (context.attempt, context.epoch, context.deadline) == (1, 0, None)


def test_a_given_idempotency_key_stays() -> None:
    context = AgentToolRuntimeContext("state", "conversation", "call", "pay", "key")
    assert context.idempotency_key == "key"


def test_a_token_follows_its_probe() -> None:
    answers = [False, True]
    token = CancellationToken(lambda: answers[0])
    token.raise_if_cancelled()
    assert not token.is_cancelled
    del answers[0]
    assert token.is_cancelled
    with pytest.raises(asyncio.CancelledError):
        token.raise_if_cancelled()


def test_nobody_cancels_by_default() -> None:
    context = AgentToolRuntimeContext("state", "conversation", "call", "pay")
    assert not context.cancellation.is_cancelled


def test_an_approval_context_needs_no_details() -> None:
    assert AgentToolApprovalContext("Pay?", "shop.Payments:pay").metadata == {}

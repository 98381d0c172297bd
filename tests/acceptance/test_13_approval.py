"""Use case 13: a risky call waits for a person, who approves, rejects, modifies, defers or cancels it."""

from __future__ import annotations

from decimal import Decimal

import pytest

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentStatus,
    Application,
    ApprovalDecision,
    Idempotency,
    Pod,
    RecoveryStrategy,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import AgentApprovalRequest, AgentStateReason
from pilotage.errors import CallerError
from pilotage.models import OfflineModel
from pilotage.runtime import AgentRuns

PAID: list[Decimal] = []


@Pod
class Payments:
    @agent_tool(effects=ToolEffects.external_side_effect(), idempotency=Idempotency.NON_IDEMPOTENT)
    async def pay(self, amount: Decimal) -> str:
        """Pay an amount."""
        PAID.append(amount)
        return f"paid {amount}"


@Agent(spec=AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Teller:
    """Pay what is asked for."""

    def __init__(self, payments: Payments) -> None:
        self.payments = payments


@pytest.fixture(autouse=True)
def _nothing_paid() -> None:
    PAID.clear()


def process(ports: tuple[object, ...]) -> Application:
    return Application("bank").add(Teller, Payments, OfflineModel, *ports).load_plugins()


async def waiting(ports: tuple[object, ...]) -> tuple[str, AgentApprovalRequest]:
    """A run that waits, and its process has ended."""
    async with process(ports) as app:
        runs = app.get(AgentRuns)
        run = await runs.start(Teller, "pay amount=12.50")
        state = (await run.result()).state
        assert (state.status, state.reason) == (AgentStatus.INTERRUPTED, AgentStateReason.APPROVAL_REQUIRED)
        (request,) = await runs.questions(run.id)
    assert isinstance(request, AgentApprovalRequest)
    assert request.arguments == {"amount": "12.50"}
    assert PAID == []
    return run.id, request


@pytest.mark.parametrize(
    ("decision", "details", "status", "reason", "paid"),
    [
        ("approve", {}, "completed", None, ["12.50"]),
        ("modify", {"modified_payload": {"amount": "10"}}, "completed", None, ["10"]),
        ("reject", {"comment": "too much"}, "failed", "approval_rejected", []),
        ("defer", {}, "interrupted", "approval_deferred", []),
        ("cancel", {}, "cancelled", "cancellation_requested", []),
    ],
)
async def test_the_decision_decides(
    decision: str,
    details: dict[str, object],
    status: str,
    reason: str | None,
    paid: list[str],
    ports: tuple[object, ...],
) -> None:
    run_id, request = await waiting(ports)
    async with process(ports) as app:
        runs = app.get(AgentRuns)
        await runs.answer(run_id, request.id, ApprovalDecision(decision), **details)  # type: ignore[arg-type]
        state = (await (await runs.resume(run_id)).result()).state
        assert (state.status, state.reason) == (status, reason)
        assert [Decimal(each) for each in paid] == PAID
        await runs.verify(run_id)


async def test_an_answer_that_does_not_fit_is_refused_and_the_question_stays(
    ports: tuple[object, ...],
) -> None:
    run_id, request = await waiting(ports)
    async with process(ports) as app:
        runs = app.get(AgentRuns)
        with pytest.raises(CallerError, match="amount"):
            await runs.modify(request.id, {"amount": "a lot"})
        assert await runs.questions(run_id) == (request,)

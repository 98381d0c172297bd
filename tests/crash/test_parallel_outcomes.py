"""`crash_matrix` on parallel branches: the outcome of a branch is known although another branch's commit failed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import pytest

from pilotage import (
    Agent,
    AgentEvent,
    AgentExecutionSpec,
    Idempotency,
    ModelMessage,
    ModelRequest,
    Pod,
    RecoveryStrategy,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import AgentSession, Dependencies, ToolApprovalRequirement
from pilotage.testing import ActionLedger, ScriptedModel, calls, crash_matrix, turn
from pilotage.testing.crash_matrix import CrashReport

DURABLE = AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY)


@Pod
class Payments:
    def __init__(self, ledger: ActionLedger) -> None:
        self.ledger = ledger

    @agent_tool(
        effects=ToolEffects.external_side_effect(),
        idempotency=Idempotency.NON_IDEMPOTENT,
        approval=ToolApprovalRequirement.NOT_REQUIRED,
        reads_untrusted=False,
    )
    async def pay(self, to: str, before: int = 0, after: int = 0) -> str:
        """Pay once; `before` and `after` are turns of the event loop around the payment."""
        await _turns(before)
        self.ledger.act(to, to)
        await _turns(after)
        return f"paid {to}"

    @agent_tool(
        effects=ToolEffects.external_side_effect(),
        idempotency=Idempotency.NON_IDEMPOTENT,
        approval=ToolApprovalRequirement.NOT_REQUIRED,
        reads_untrusted=False,
    )
    def pay_in_thread(self, to: str) -> str:
        """Pay once, in a thread."""
        return self.ledger.act(to, to)

    @agent_tool(
        effects=ToolEffects.external_side_effect(),
        idempotency=Idempotency.NON_IDEMPOTENT,
        approval=ToolApprovalRequirement.NOT_REQUIRED,
        reads_untrusted=False,
    )
    async def pay_both(self, to: str) -> str:
        """Pay two shares, one after the other."""
        return f"{await self.pay(f'{to}, first', 2, 2)}, {await self.pay(f'{to}, second')}"


async def _turns(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


@Agent(spec=DURABLE)
class PaysByGather:
    def __init__(self, payments: Payments) -> None:
        self.payments = payments

    async def execute(self, plan: list[tuple[int, int]]) -> list[str]:
        return list(await asyncio.gather(*(_paid(self.payments, *each) for each in enumerate(plan))))


@Agent(spec=DURABLE)
class PaysByTaskGroup:
    def __init__(self, payments: Payments) -> None:
        self.payments = payments

    async def execute(self, plan: list[tuple[int, int]]) -> list[str]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_paid(self.payments, *each)) for each in enumerate(plan)]
        return [task.result() for task in tasks]


async def _paid(payments: Payments, number: int, turns: tuple[int, int]) -> str:
    """Pay twice: the second payment of a branch finds a dead process while other branches still pay."""
    first = await payments.pay(f"payee {number}", *turns)
    return f"{first}, {await payments.pay(f'payee {number} again')}"


def assert_paid_once(report: CrashReport, ledger: ActionLedger, payments: int) -> None:
    report.assert_same_result()
    report.assert_no_repeated_effects()
    paid = [copy.done for copy in ledger.copies if copy.done]
    assert len(paid) == report.points
    assert [dict(each) for each in paid if len(each) != payments or set(each.values()) != {1}] == []


@pytest.mark.parametrize("plan", [[(0, 0), (0, 3)], [(0, 0), (40, 0), (3, 20)]], ids=str)
@pytest.mark.parametrize("agent", [PaysByGather, PaysByTaskGroup])
async def test_every_parallel_payment_is_made_once(agent: type[object], plan: list[tuple[int, int]]) -> None:
    ledger = ActionLedger()
    report = await crash_matrix(agent, plan, add=[ledger, Payments], second_stops=(1,))
    assert report.points > 20
    assert_paid_once(report, ledger, 2 * len(plan))


class PayingBranches:
    """Branches of an architecture that pay at different times."""

    name = "paying_branches"

    async def run(self, session: AgentSession, deps: Dependencies, prompt: str) -> AsyncIterator[AgentEvent]:
        reply = await deps.model.complete(ModelRequest([ModelMessage.user(prompt)]))
        branches = [partial(deps.tools.call, call) for call in reply.tool_calls]
        session.output = len(await deps.runtime.gather("pay", branches))
        yield deps.progress("paid")


@Agent(spec=AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY, architecture=PayingBranches()))
class PaysInBranches:
    """Pay everybody."""

    def __init__(self, payments: Payments) -> None:
        self.payments = payments


TURNS = [(0, 0), (2, 2), (0, 30), (30, 0)]
BRANCHES = {
    "plain": [calls("pay", to=f"payee {n}", before=b, after=a) for n, (b, a) in enumerate(TURNS)],
    "in threads": [
        calls("pay_in_thread", to="Ada"),
        calls("pay_in_thread", to="Bob"),
        calls("pay", to="Eve"),
    ],
    "inside of tools": [calls("pay_both", to="Ada"), calls("pay", to="Bob", before=5, after=5)],
}
PAYMENTS = {"plain": 4, "in threads": 3, "inside of tools": 3}


@pytest.mark.parametrize("kind", BRANCHES)
async def test_every_branch_of_an_architecture_pays_once(kind: str) -> None:
    ledger, model = ActionLedger(), ScriptedModel([turn(*BRANCHES[kind])])
    report = await crash_matrix(PaysInBranches, "go", model=model, add=[ledger, Payments], second_stops=())
    assert report.reference.output == len(BRANCHES[kind])
    assert_paid_once(report, ledger, PAYMENTS[kind])

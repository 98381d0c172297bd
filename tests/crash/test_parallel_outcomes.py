"""`crash_matrix` on parallel branches and children: the outcome of one is known although another one's commit failed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
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
from pilotage.agent.ports.architecture import AgentRef
from pilotage.testing import ActionLedger, ScriptedModel, calls, crash_matrix, says, turn, when
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


@Agent(spec=DURABLE)
class Payer:
    """Pay whom it is told."""

    def __init__(self, payments: Payments) -> None:
        self.payments = payments


class PayingChildren:
    """An architecture that lets children pay side by side: each one is a run of one task."""

    name = "paying_children"

    def declared_workers(self) -> Mapping[str, AgentRef]:
        return {"payer": Payer}

    async def run(self, session: AgentSession, deps: Dependencies, prompt: str) -> AsyncIterator[AgentEvent]:
        tasks = ("pay Ada", "pay Bob")
        children = [partial(deps.runtime.spawn_child, task, Payer, {"task": task}) for task in tasks]
        session.output = len(await deps.runtime.gather("children", children))
        yield deps.progress("paid")


@Agent(spec=AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY, architecture=PayingChildren()))
class PaysByChildren:
    """Let others pay everybody."""

    def __init__(self, payments: Payments) -> None:
        self.payments = payments


async def test_every_child_pays_once() -> None:
    ledger = ActionLedger()
    script = [
        when("pay Ada", turn(calls("pay", to="Ada", after=40)), says("paid Ada")),
        when("pay Bob", turn(calls("pay", to="Bob", before=10, after=5)), says("paid Bob")),
    ]
    report = await crash_matrix(
        PaysByChildren, "go", model=ScriptedModel(script), add=[ledger, Payments, Payer], second_stops=()
    )
    assert report.reference.output == 2
    assert_paid_once(report, ledger, 2)


@Pod
class Slowly:
    """The payment to Ada answers when that to Eve has begun."""

    def __init__(self, ledger: ActionLedger) -> None:
        self.ledger = ledger
        self.has_paid = asyncio.Event()

    @agent_tool(
        effects=ToolEffects.external_side_effect(),
        idempotency=Idempotency.NON_IDEMPOTENT,
        approval=ToolApprovalRequirement.NOT_REQUIRED,
        reads_untrusted=False,
    )
    async def pay(self, to: str) -> str:
        """Pay once."""
        self.ledger.act(to, to)
        if to == "Ada":
            await self.has_paid.wait()
        if to == "Eve":
            self.has_paid.set()
        return f"paid {to}"


@Agent(spec=DURABLE)
class PaysTogether:
    def __init__(self, payments: Slowly) -> None:
        self.payments = payments

    async def execute(self) -> list[str]:
        pay = self.payments.pay
        async with asyncio.TaskGroup() as group:
            first = group.create_task(pay("Ada"))
            await pay("Bob")
            await pay("Eve")
        return [await first]


async def test_a_payment_that_does_not_end_is_not_said_to_have_failed() -> None:
    wanted = r"pay.* did not end within 0\.05 seconds after its process stopped"
    with pytest.raises(AssertionError, match=wanted):
        await crash_matrix(PaysTogether, add=[ActionLedger(), Slowly], second_stops=(), seconds_to_end=0.05)

"""Hooks, policies and handlers that answer wrongly: whatever they return but their own yes, no money moves."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic
from typing import Any

import pytest

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentStatus,
    Application,
    Pod,
    RecoveryStrategy,
    RunContext,
    agent_tool,
)
from pilotage.agent import Proceed, Veto
from pilotage.agent.approval import AgentApprovalRequest
from pilotage.agent.messages import ModelToolCall
from pilotage.agent.ports.budget import (
    BudgetAmount,
    BudgetGranted,
    BudgetReservation,
    BudgetVerdict,
    IAgentBudget,
)
from pilotage.agent.ports.handlers import ApprovalSubject, HookVerdict, IAgentApprovalHandler, IAgentHooks
from pilotage.agent.ports.permissions import (
    IAgentPermissions,
    IAgentSwitches,
    PermissionDecision,
    PermissionRequest,
    PermissionVerdict,
    StrictestOf,
    Switch,
    SwitchedOff,
)
from pilotage.agent.state import AgentState
from pilotage.errors import ToolError
from pilotage.runtime import AgentRuns
from pilotage.runtime.door.hooks import GateSettings
from pilotage.runtime.plugin import initialize
from pilotage.testing import MemoryStore

pytestmark = pytest.mark.attack("wrong answers")


@Pod
class Bank:
    def __init__(self) -> None:
        self.paid: list[int] = []

    @agent_tool()
    async def pay(self, amount: int) -> str:
        self.paid.append(amount)
        return "paid"


@Agent(spec=AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Payer:
    def __init__(self, bank: Bank) -> None:
        self.bank = bank

    async def execute(self) -> str:
        try:
            return await self.bank.pay(5)
        except ToolError as error:
            return str(error)


class Hook(IAgentHooks):
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def pre_tool(self, context: RunContext, call: ModelToolCall) -> HookVerdict:
        return self.answer  # type: ignore[no-any-return]


class RunHook(IAgentHooks):
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def pre_run(self, context: RunContext, state: AgentState) -> HookVerdict:
        return self.answer  # type: ignore[no-any-return]


class SyncHook(IAgentHooks):
    def pre_tool(self, context: RunContext, call: ModelToolCall) -> HookVerdict:  # type: ignore[override]
        return Proceed()


class Policy(IAgentPermissions):
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def check(self, request: PermissionRequest) -> PermissionDecision:
        return self.answer  # type: ignore[no-any-return]


class Switches(IAgentSwitches):
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def first_off(self, switches: Sequence[Switch]) -> SwitchedOff | None:
        return self.answer  # type: ignore[no-any-return]

    async def turn_off(self, switch: Switch, *, reason: str, by: str | None = None) -> SwitchedOff:
        raise NotImplementedError

    async def turn_on(self, switch: Switch) -> bool:
        raise NotImplementedError

    async def list_off(self) -> Sequence[SwitchedOff]:
        raise NotImplementedError


class Budget(IAgentBudget):
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def allows_step(self, context: RunContext, need: BudgetAmount) -> BudgetVerdict:
        return self.answer  # type: ignore[no-any-return]

    async def consume(
        self, context: RunContext, reservation: BudgetReservation, used: BudgetAmount
    ) -> None: ...


class Approval(IAgentApprovalHandler):
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def request_for(self, context: RunContext, subject: ApprovalSubject) -> AgentApprovalRequest | None:
        return self.answer  # type: ignore[no-any-return]


GARBAGE = [
    None,
    False,
    True,
    0,
    1,
    "",
    "proceed",
    "allow",
    {},
    {"allow": True},
    [],
    1.5,
    Exception("no"),
    Proceed,
    Veto,
]
NO_REASON = Veto(None)  # type: ignore[arg-type]
ALLOWED = PermissionDecision(PermissionVerdict.ALLOW)
PORTS = {
    "hook": (Hook, [*GARBAGE, ALLOWED, BudgetGranted, NO_REASON]),
    "hook of runs": (RunHook, [*GARBAGE, ALLOWED, NO_REASON]),
    "policy": (
        Policy,
        [
            *GARBAGE,
            Proceed(),
            PermissionDecision,
            PermissionVerdict.ALLOW,
            *(PermissionDecision(verdict) for verdict in (None, "", "yes", "ALLOW", True, PermissionVerdict)),  # type: ignore[arg-type]
        ],
    ),
    "switches": (Switches, [False, True, 0, "on", {}, Switch.tool("pay"), SwitchedOff, Proceed()]),
    "budget": (Budget, [*GARBAGE, BudgetGranted, BudgetReservation("all", BudgetAmount()), ALLOWED]),
    "approval handler": (Approval, [False, True, "", "no", {}, Proceed(), AgentApprovalRequest, ALLOWED]),
}


class Collapsed(BaseException):
    """No Exception: what a hook may raise as well."""


class CollapsingHook(IAgentHooks):
    async def pre_tool(self, context: RunContext, call: ModelToolCall) -> HookVerdict:
        raise Collapsed


class CollapsingEnd(IAgentHooks):
    async def post_run(self, context: RunContext, state: AgentState) -> None:
        raise Collapsed


class HookThatDoesNotStop(IAgentHooks):
    """Proceeds when its time is over."""

    async def pre_tool(self, context: RunContext, call: ModelToolCall) -> HookVerdict:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return Proceed()


class HookThatBlocks(IAgentHooks):
    """Proceeds after its time is over, which nothing could tell it."""

    async def pre_tool(self, context: RunContext, call: ModelToolCall) -> HookVerdict:
        end = monotonic() + 2 * HASTY.patience_seconds
        while monotonic() < end:
            pass
        return Proceed()


class HookOfAStoppedRun(IAgentHooks):
    """Proceeds although its run is being stopped."""

    async def pre_tool(self, context: RunContext, call: ModelToolCall) -> HookVerdict:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return Proceed()


HASTY = GateSettings(0.05)


async def pay_with(port: object, *pods: object) -> tuple[Bank, AgentStatus, object]:
    bank = Bank()
    app = Application("bank").add(Payer, bank, *MemoryStore().ports, port, *pods)
    initialize(app)
    async with app:
        result = await (await app.get(AgentRuns).start(Payer)).result()
        return bank, result.status, result.output or result.error or result.state.current_activity


@pytest.mark.parametrize(
    ("kind", "answer"),
    [(kind, answer) for kind, (_, answers) in PORTS.items() for answer in answers],
    ids=repr,
)
async def test_nothing_is_paid_when_a_port_answers_with_anything_but_its_own_yes(
    kind: str, answer: object
) -> None:
    bank, status, said = await pay_with(PORTS[kind][0](answer))
    assert bank.paid == []
    assert status is not AgentStatus.ACTIVE
    assert said is not None, "somebody who looks for the reason finds it"


@pytest.mark.parametrize("hook", [HookThatDoesNotStop, HookThatBlocks])
async def test_a_yes_that_comes_too_late_is_none(hook: type[IAgentHooks]) -> None:
    bank, _, said = await pay_with(hook(), HASTY)
    assert (bank.paid, said) == ([], f"'pay' is not allowed: the hook {hook.__name__} failed (TimeoutError)")


async def test_a_hook_cannot_keep_a_stopped_run_going() -> None:
    bank = Bank()
    app = Application("bank").add(Payer, bank, *MemoryStore().ports, HookOfAStoppedRun())
    initialize(app)
    async with app:
        with suppress(asyncio.CancelledError):
            await (await app.get(AgentRuns).start(Payer)).result()
    assert bank.paid == []


async def test_what_is_no_exception_denies_too_and_never_reaches_the_caller() -> None:
    bank, status, _ = await pay_with(CollapsingHook())
    assert (bank.paid, status) == ([], AgentStatus.COMPLETED)
    bank, status, said = await pay_with(CollapsingEnd())
    assert (bank.paid, status, said) == ([5], AgentStatus.COMPLETED, "paid")


@pytest.mark.parametrize(
    "port",
    [
        SyncHook(),
        StrictestOf(Policy(ALLOWED), Policy(None)),
        StrictestOf(Policy(ALLOWED), Policy(False)),
        StrictestOf(Policy(None), Policy(ALLOWED)),
        StrictestOf(Policy(PermissionDecision("yes"))),  # type: ignore[arg-type]
        StrictestOf(),
    ],
    ids=lambda port: type(port).__name__,
)
async def test_nothing_is_paid_when_a_port_is_written_wrongly(port: object) -> None:
    bank, _, said = await pay_with(port)
    assert bank.paid == []
    assert said


@pytest.mark.parametrize(
    "port",
    [
        Hook(Proceed()),
        RunHook(Proceed()),
        Policy(ALLOWED),
        Switches(None),
        Budget(BudgetGranted(BudgetReservation("all", BudgetAmount()))),
        Approval(None),
    ],
    ids=lambda port: type(port).__name__,
)
async def test_with_its_own_yes_the_payment_is_made(port: object) -> None:
    bank, status, _ = await pay_with(port)
    assert (bank.paid, status) == ([5], AgentStatus.COMPLETED)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "it returned None, not Proceed or Veto"),
        (False, "it returned False, not Proceed or Veto"),
        (Veto, "it returned the class Veto, not Proceed or Veto"),
        ("go on, my password is hunter2", "it returned a value of str, not Proceed or Veto"),
    ],
    ids=repr,
)
async def test_the_veto_says_what_came_and_repeats_no_text(answer: object, words: str) -> None:
    _, _, said = await pay_with(Hook(answer))
    assert said == f"'pay' is not allowed: the hook Hook failed ({words})"

"""A call that is denied costs its tenant nothing, whoever denies it: another run can have its place in the budget."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, TypeAlias

import pytest
from tests.behaviour.bureau import COMPLETED, WAITING, Bureau, Metered, asked, hired, resumed, started, triple
from tests.behaviour.office import Worker

from pilotage import ApprovalDecision, ModelRequest, Pod, RunContext, SecretField, ToolEffects, agent_tool
from pilotage.agent import (
    AgentApprovalBoundaryKind,
    AgentApprovalRequest,
    ApprovalSubject,
    BudgetAmount,
    BudgetPeriod,
    BudgetWindow,
    HookVerdict,
    IAgentApprovalHandler,
    IAgentHooks,
    IAgentPermissions,
    ModelToolCall,
    PermissionDecision,
    PermissionRequest,
    PermissionVerdict,
    Proceed,
    RejectionPolicy,
    ToolRisk,
    Veto,
)
from pilotage.errors import ModelCallError, ToolError
from pilotage.runtime import TenantBudget

HOUR = BudgetPeriod.HOUR
Program: TypeAlias = Callable[[Worker], Awaitable[object]]
DENIED_TOOL, DENIED_WORDS = "pay", "Denied?"


@dataclass(frozen=True)
class Account:
    """Secret data."""

    pin: Annotated[str, SecretField()]


@Pod
class Safe:
    """Holds a secret."""

    @agent_tool(effects=ToolEffects.read_only())
    async def account(self) -> Account:
        """Look an account up."""
        return Account("0000")


class DeniesTool(IAgentPermissions):
    """Denies one tool."""

    async def check(self, request: PermissionRequest) -> PermissionDecision:
        is_denied = request.name == DENIED_TOOL
        return PermissionDecision(PermissionVerdict.DENY if is_denied else PermissionVerdict.ALLOW)


class Vetoes(IAgentHooks):
    """Vetoes one tool and one request."""

    async def pre_tool(self, context: RunContext, call: ModelToolCall) -> HookVerdict:
        return Veto("not today") if call.name == DENIED_TOOL else Proceed()

    async def pre_model(self, context: RunContext, request: ModelRequest) -> HookVerdict:
        return Veto("not today") if request.messages[-1].text == DENIED_WORDS else Proceed()


class Asks(IAgentApprovalHandler):
    """Has a person asked once, about the first action of a kind."""

    def __init__(self, bureau: Bureau, boundary: AgentApprovalBoundaryKind, name: str) -> None:
        self._expires_at = bureau.clock.now() + timedelta(seconds=60)
        self._boundary, self._name = boundary, name
        self._has_asked = False

    async def request_for(self, context: RunContext, subject: ApprovalSubject) -> AgentApprovalRequest | None:
        if self._has_asked or (subject.boundary, subject.summary) != (self._boundary, self._name):
            return None
        self._has_asked = True
        return AgentApprovalRequest(
            "id", "run", subject.boundary, "May it?", ToolRisk(), "action", expires_at=self._expires_at
        )


def asks_about_the_tool(bureau: Bureau) -> IAgentApprovalHandler:
    return Asks(bureau, AgentApprovalBoundaryKind.TOOL_INVOCATION, DENIED_TOOL)


def asks_about_the_model(bureau: Bureau) -> IAgentApprovalHandler:
    return Asks(bureau, AgentApprovalBoundaryKind.MODEL_CALL, "model")


@dataclass(frozen=True)
class Denial:
    """Who denies a call: pods of the application, or a person with a decision; None lets the question expire."""

    name: str
    pods: Callable[[Bureau], object] | None = None
    reads_a_secret: bool = False
    decision: ApprovalDecision | None = None

    @property
    def needs_a_person(self) -> bool:
        """Whether the run waits before the call is denied."""
        return self.name in ("a person", "nobody in time")


REJECT = ApprovalDecision.REJECT
OF_TOOLS = (
    Denial("permission", lambda _: DeniesTool()),
    Denial("hook", lambda _: Vetoes()),
    Denial("trust", reads_a_secret=True),
    Denial("a person", asks_about_the_tool, decision=REJECT),
    Denial("nobody in time", asks_about_the_tool),
)
OF_MODELS = (
    Denial("hook", lambda _: Vetoes()),
    Denial("a person", asks_about_the_model, decision=REJECT),
    Denial("nobody in time", asks_about_the_model),
)


class TwoPrograms:
    """The first run meets a denial; the second one does what is allowed."""

    def __init__(self, denied: Program, allowed: Program) -> None:
        self._programs = {"denied": denied, "allowed": allowed}
        self.wanted = "denied"

    async def __call__(self, worker: Worker) -> object:
        return await self._programs[self.wanted](worker)


async def both_runs(denial: Denial, bureau: Bureau, budget: TenantBudget, programs: TwoPrograms) -> str:
    """Let one run meet the denial and end, and give the output of another run of the same tenant."""
    agent = hired(on_rejection=RejectionPolicy.TELL_MODEL)
    pods = [] if denial.pods is None else [denial.pods(bureau)]
    async with bureau.process(agent, programs, budget, *pods, model=Metered()) as runs:
        denied = await started(runs, agent)
        if denial.needs_a_person:
            assert triple(denied.state) == WAITING
            (question,) = await runs.questions(denied.state.id)
            if denial.decision is not None:
                await runs.answer(denied.state.id, question.id, denial.decision)
            bureau.clock.advance(120)
            denied = await resumed(runs, denied.state.id)
        assert (triple(denied.state), denied.output) == (COMPLETED, "denied")
        programs.wanted = "allowed"
        allowed = await started(runs, agent)
    assert triple(allowed.state) == COMPLETED, allowed.error
    return str(allowed.output)


@pytest.mark.parametrize("denial", OF_TOOLS, ids=lambda each: each.name)
async def test_a_denied_tool_call_leaves_its_place_in_the_tenants_budget(denial: Denial) -> None:
    bureau, safe = Bureau(), Safe()

    async def denied(worker: Worker) -> object:
        await (safe.account() if denial.reads_a_secret else worker.desk.look("it"))
        with pytest.raises(ToolError):
            await worker.desk.pay(Decimal(5))
        return "denied"

    budget = TenantBudget(bureau.store.spending, [BudgetWindow(HOUR, max_tool_calls=2)])
    programs = TwoPrograms(denied, lambda worker: worker.desk.note("allowed"))
    assert await both_runs(denial, bureau, budget, programs) == "allowed"
    assert "pay 5" not in bureau.world.done
    assert await bureau.store.spending.spent("default", HOUR) == BudgetAmount(tool_calls=2)


@pytest.mark.parametrize("denial", OF_MODELS, ids=lambda each: each.name)
async def test_a_denied_model_call_leaves_its_place_in_the_tenants_budget(denial: Denial) -> None:
    bureau = Bureau()

    async def denied(worker: Worker) -> object:
        with pytest.raises(ModelCallError):
            await asked(worker, DENIED_WORDS)
        return "denied"

    async def allowed(worker: Worker) -> object:
        return (await asked(worker, "Well?")).content

    budget = TenantBudget(bureau.store.spending, [BudgetWindow(HOUR, max_steps=1)])
    assert await both_runs(denial, bureau, budget, TwoPrograms(denied, allowed)) == "word 1"
    spent = await bureau.store.spending.spent("default", HOUR)
    assert (spent.steps, spent.tool_calls) == (1, 0)


async def ends_with(denial: Denial, bureau: Bureau, budget: TenantBudget, program: Program) -> str | None:
    """The limit with which a run ends that meets a denial and goes on at once; None where it completes."""
    agent = hired(on_rejection=RejectionPolicy.TELL_MODEL)
    pods = [] if denial.pods is None else [denial.pods(bureau)]
    async with bureau.process(agent, program, budget, *pods, model=Metered()) as runs:
        result = await started(runs, agent)
        if denial.needs_a_person:
            (question,) = await runs.questions(result.state.id)
            if denial.decision is not None:
                await runs.answer(result.state.id, question.id, denial.decision)
            bureau.clock.advance(120)
            result = await resumed(runs, result.state.id)
    return result.interruption_reason


EXHAUSTED = "agent_budget_exhausted"
ENDS_WITH: dict[str, str | None] = {
    **dict.fromkeys((each.name for each in OF_TOOLS), EXHAUSTED),
    **dict.fromkeys((each.name for each in OF_TOOLS if each.needs_a_person), None),
    "permission": None,
    "hook": None,
    "trust": None,
}
"""What a later stage refuses is free with the next commit, which is made while the program comes to rest after an
answer; for a call denied before the budget is asked nothing is held."""


@pytest.mark.parametrize("denial", OF_TOOLS, ids=lambda each: each.name)
async def test_the_next_call_of_the_same_run_finds_what_is_held_for_a_denied_one(denial: Denial) -> None:
    bureau, safe = Bureau(), Safe()

    async def denied_and_allowed(worker: Worker) -> object:
        await (safe.account() if denial.reads_a_secret else worker.desk.look("it"))
        with pytest.raises(ToolError):
            await worker.desk.pay(Decimal(5))
        return await worker.desk.note("allowed")

    budget = TenantBudget(bureau.store.spending, [BudgetWindow(HOUR, max_tool_calls=2)])
    assert await ends_with(denial, bureau, budget, denied_and_allowed) == ENDS_WITH[denial.name]

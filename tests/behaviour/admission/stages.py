"""The stages that admit an effect of a run, as ports that refuse on demand.

Every stage that is a port of the application records its refusals. The others are made to refuse by the state of the
run: a pause that was requested, a clock behind the deadline, a limit that is used up, a secret that was read.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

from pilotage import AgentSignalKind, RunContext, get_run_context
from pilotage.agent import (
    AgentApprovalBoundaryKind,
    AgentApprovalRequest,
    ApprovalSubject,
    BudgetAmount,
    BudgetExhausted,
    BudgetGranted,
    BudgetReservation,
    BudgetVerdict,
    ContextHealthSignal,
    ContextManifest,
    ContextOptimizationAction,
    HookVerdict,
    IAgentApprovalHandler,
    IAgentBudget,
    IAgentHooks,
    IAgentPermissions,
    IAgentSwitches,
    ModelRequest,
    ModelToolCall,
    PermissionDecision,
    PermissionRequest,
    PermissionVerdict,
    Proceed,
    Switch,
    SwitchedOff,
    ToolRisk,
    Veto,
)
from pilotage.context import KeepWithinBudget
from pilotage.runtime import AgentRuns
from pilotage.testing import VirtualClock


class Stage(StrEnum):
    """What looks at an effect before it begins, in the one order."""

    ALIVE = "alive"
    SWITCH = "switch"
    DEADLINE = "deadline"
    PERMISSION = "permission"
    TRUST = "trust"
    HOOKS = "hooks"
    LIMITS = "limits"
    BUDGET = "budget"
    APPROVAL = "approval"


ALL = tuple(Stage)


class Refusals:
    """The stages that refuse the next effect once `arm` was called; the first refusal of a port disarms all."""

    def __init__(self, stages: Collection[Stage] = ()) -> None:
        self.stages = frozenset(stages)
        self.refused: list[Stage] = []
        self.carried_out: list[str] = []
        self.runs: AgentRuns | None = None
        self._is_armed = False

    @property
    def is_late(self) -> bool:
        """Whether the clock of the run stands behind its deadline."""
        return self._is_armed and Stage.DEADLINE in self.stages

    def begin_anew(self, stages: Collection[Stage]) -> None:
        """Forget what happened in an earlier process; these stages refuse in the next one."""
        self.stages, self._is_armed = frozenset(stages), False
        self.carried_out.clear()

    async def arm(self) -> None:
        """Refuse from here on; a run that is not to be alive is asked to pause."""
        self._is_armed = True
        if Stage.ALIVE in self.stages and self.runs is not None:
            await self.runs.signal(get_run_context().run_id, AgentSignalKind.PAUSE)

    def refuses(self, stage: Stage) -> bool:
        """Whether a stage refuses now; the refusal is recorded."""
        if not self._is_armed or stage not in self.stages:
            return False
        self._is_armed = False
        self.refused.append(stage)
        return True


class LateClock(VirtualClock):
    """A clock that jumps behind the deadline and wakes nobody: only a check of the time sees it."""

    def __init__(self, refusals: Refusals) -> None:
        super().__init__()
        self._refusals = refusals

    def now(self) -> datetime:
        return super().now() + (timedelta(hours=1) if self._refusals.is_late else timedelta())


class Switches(IAgentSwitches):
    """Everything is on, until the stage refuses."""

    def __init__(self, refusals: Refusals) -> None:
        self._refusals = refusals

    async def turn_off(self, switch: Switch, *, reason: str, by: str | None = None) -> SwitchedOff:
        raise NotImplementedError

    async def turn_on(self, switch: Switch) -> bool:
        raise NotImplementedError

    async def first_off(self, switches: Sequence[Switch]) -> SwitchedOff | None:
        is_off = self._refusals.refuses(Stage.SWITCH)
        return SwitchedOff(switches[0], "an audit") if is_off else None

    async def list_off(self) -> Sequence[SwitchedOff]:
        raise NotImplementedError


class Permissions(IAgentPermissions):
    """Everything is allowed, until the stage refuses."""

    def __init__(self, refusals: Refusals) -> None:
        self._refusals = refusals

    async def check(self, request: PermissionRequest) -> PermissionDecision:
        denied = self._refusals.refuses(Stage.PERMISSION)
        return PermissionDecision(
            PermissionVerdict.DENY if denied else PermissionVerdict.ALLOW, "no permission"
        )


class Hooks(IAgentHooks):
    """Nothing is vetoed, until the stage refuses."""

    def __init__(self, refusals: Refusals) -> None:
        self._refusals = refusals

    async def pre_model(self, context: RunContext, request: ModelRequest) -> HookVerdict:
        return self._verdict()

    async def pre_tool(self, context: RunContext, call: ModelToolCall) -> HookVerdict:
        return self._verdict()

    def _verdict(self) -> HookVerdict:
        return Veto("no hook allows it") if self._refusals.refuses(Stage.HOOKS) else Proceed()


class Budget(IAgentBudget):
    """Everything is granted with a warning, until the stage refuses; `settled` has what was used of each grant."""

    def __init__(self, refusals: Refusals) -> None:
        self._refusals = refusals
        self.granted: list[BudgetReservation] = []
        self.settled: dict[str, BudgetAmount] = {}

    async def allows_step(self, context: RunContext, need: BudgetAmount) -> BudgetVerdict:
        if self._refusals.refuses(Stage.BUDGET):
            return BudgetExhausted("daily", "the budget of the day is spent")
        self.granted.append(BudgetReservation(f"grant-{len(self.granted) + 1}", need))
        return BudgetGranted(self.granted[-1], f"grant {len(self.granted)} of the day")

    async def consume(self, context: RunContext, reservation: BudgetReservation, used: BudgetAmount) -> None:
        self.settled[reservation.id] = used


class Approvals(IAgentApprovalHandler):
    """Nobody is asked, until the stage refuses: then a person is asked, and the run waits."""

    def __init__(self, refusals: Refusals, spared: AgentApprovalBoundaryKind | None = None) -> None:
        self._refusals = refusals
        self._spared = spared

    async def request_for(self, context: RunContext, subject: ApprovalSubject) -> AgentApprovalRequest | None:
        if subject.boundary is self._spared or not self._refusals.refuses(Stage.APPROVAL):
            return None
        return AgentApprovalRequest("id", "run", subject.boundary, "May it go on?", ToolRisk(), "action")


class ArmingContextHandler(KeepWithinBudget):
    """The default handler of contexts, which arms the stages when it is asked about a context."""

    def __init__(self, refusals: Refusals) -> None:
        super().__init__()
        self._refusals = refusals

    async def select_optimization_actions(
        self, signals: Sequence[ContextHealthSignal], manifest: ContextManifest
    ) -> Sequence[ContextOptimizationAction]:
        await self._refusals.arm()
        return await super().select_optimization_actions(signals, manifest)

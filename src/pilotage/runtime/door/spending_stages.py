"""The stages of the admission that count: the limits of the run, and the budget of the application."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from pilotage.agent.ports.budget import (
    BudgetAmount,
    BudgetExhausted,
    BudgetGranted,
    BudgetReservation,
    BudgetSettlement,
    IAgentBudget,
)
from pilotage.runtime.budget.holds import BudgetHold, Room, RoomWait
from pilotage.runtime.budget.limits import against_budget
from pilotage.runtime.budget.spending import budget_exhausted
from pilotage.runtime.door.hooks import NoAnswerError, PortCaller
from pilotage.runtime.door.model_effect import ModelEffect
from pilotage.runtime.door.run import Run, Stage
from pilotage.runtime.effect import NOTHING, TOOL_CALL, Effect

_VERDICTS = (BudgetGranted, BudgetExhausted)


class LimitStage(Stage):
    """The limits of the run and of its ancestors: counted before the effect begins, without an await in between."""

    def admit(self, run: Run, effect: Effect) -> Awaitable[None] | None:
        spending = run.spending
        if effect.kind is TOOL_CALL:
            if not effect.is_counted:
                spending.reserve_tool_calls()
        elif spending.is_metered and isinstance(effect, ModelEffect):
            return self._hold(run, effect)
        else:
            spending.reserve_model_call()
        if run.warnings is not None:
            run.warnings.check(spending.own)
        return None

    async def _hold(self, run: Run, effect: ModelEffect) -> None:
        """Hold the worst case of a model call; without room wait for calls under way, which may need less."""
        await effect.count()
        spending, call = run.spending, effect.estimate()
        wait = RoomWait(spending.room, effect.task)
        hold = spending.hold_model_call(call)
        while hold is None:
            hold = spending.hold_model_call(call, may_wait=not wait.is_over())
            if hold is None:
                await spending.room.changed()
                run.replay.liveness.check(effect.scope.path)
        hold.task = effect.task
        effect.held = hold
        effect.bound_reply(hold.reply_tokens)
        if run.warnings is not None:
            run.warnings.check(spending.own)

    def give_back(self, run: Run, effect: Effect) -> None:
        if isinstance(effect, ModelEffect):
            run.spending.give_back(effect.kind.counts, effect.held)
        else:
            # Also what was reserved for all calls of a reply together.
            effect.is_counted = False
            run.spending.give_back(effect.kind.counts)


class BudgetStage(Stage):
    """The application's budget: an amount is reserved before the effect begins, and settled by its real use.

    Where it bounds tokens or cost, of a model call the worst case is reserved, and the model gets the bound of its
    reply. A call that is refused while others of the tenant are under way here waits for them: they may need less.
    """

    def __init__(self, budget: IAgentBudget, caller: PortCaller) -> None:
        self._budget = budget
        self._caller = caller
        self._rooms: dict[str, Room] = {}

    async def admit(self, run: Run, effect: Effect) -> None:
        if isinstance(effect, ModelEffect):
            await self._admit_model_call(run, effect)
            return
        match await self._asked(run, effect.kind.counts):
            case BudgetExhausted() as verdict:
                raise budget_exhausted(verdict)
            case granted:
                self._grant(run, effect, granted)

    async def _admit_model_call(self, run: Run, effect: ModelEffect) -> None:
        tenant = run.context.tenant_id
        need, hold = await self._need(run, effect, tenant)
        room = self._rooms.setdefault(tenant, Room())
        wait = RoomWait(room, effect.task)
        while True:
            match await self._asked(run, effect.kind.counts + need):
                case BudgetExhausted() as verdict:
                    if hold is None or not room.holds or not await room.waited(wait):
                        raise budget_exhausted(verdict)
                    run.replay.liveness.check(effect.scope.path)
                case granted:
                    if hold is not None:
                        room.holds[hold] = None
                    self._grant(run, effect, granted, partial(room.leave, hold) if hold is not None else None)
                    return

    async def _need(
        self, run: Run, effect: ModelEffect, tenant: str
    ) -> tuple[BudgetAmount, BudgetHold | None]:
        """Return the worst case of a model call, and its hold where tokens or cost are bounded.

        Raises:
            LimitReached: the budget bounds cost, and the model has no price.
        """
        try:
            effect.bounded = frozenset(self._budget.bounded_amounts(tenant))
        except Exception as error:
            reason = f"the budget check failed ({type(error).__name__})"
            raise budget_exhausted(BudgetExhausted("budget", reason)) from error
        if effect.bounded:
            await effect.count()
        call, held = effect.estimate(), effect.held
        reply = call.reply_tokens if effect.bounded else effect.program_request.sampling.max_tokens or 0
        if held is not None:
            reply = held.reply_tokens
        worth = run.spending.worth_of(call, reply)
        unpriced = against_budget(effect.bounded, call.models, has_tokens=True, has_cost=worth is not None)
        if unpriced is not None:
            raise unpriced
        need = worth or BudgetAmount(tokens=call.usage(reply).total_tokens or 0)
        if not effect.bounded:
            return need, None
        effect.bound_reply(reply)
        hold = effect.budget_hold = BudgetHold(call, reply, need)
        hold.task = effect.task
        return need, hold

    async def _asked(self, run: Run, need: BudgetAmount) -> BudgetGranted | BudgetExhausted:
        try:
            return await self._caller.ask(_VERDICTS, self._budget.allows_step, run.context, need)
        except NoAnswerError as failure:
            return BudgetExhausted("budget", f"the budget check failed ({failure})")

    def _grant(
        self, run: Run, effect: Effect, granted: BudgetGranted, settled: Callable[[], None] | None = None
    ) -> None:
        if granted.warning is not None and run.warnings is not None:
            run.warnings.warn(granted.warning)
        effect.reservation = granted.reservation
        effect.settle_with = partial(self._settle, run, settled)

    def give_back(self, run: Run, effect: Effect) -> Awaitable[None]:
        return effect.settle(NOTHING)

    async def _settle(
        self,
        run: Run,
        settled: Callable[[], None] | None,
        reservation: BudgetReservation,
        used: BudgetAmount,
    ) -> None:
        """Report the amount really used to the budget; where the journal settles it, with the next commit."""
        try:
            if self._budget.is_settled_by_journal and run.ledger.is_durable:
                run.ledger.settle_budget(BudgetSettlement(reservation, used))
            else:
                await self._caller.notify(self._budget.consume, run.context, reservation, used)
        finally:
            if settled is not None:
                settled()

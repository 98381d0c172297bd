"""`TenantBudget`: limits per tenant for an hour, a day or a month, for all processes together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pilotage.agent.ports.budget import (
    BudgetAmount,
    BudgetGranted,
    BudgetReservation,
    BudgetSettlement,
    BudgetVerdict,
    BudgetWindow,
    IAgentBudget,
    ITenantSpending,
)
from pilotage.agent.principal import RunContext
from pilotage.checks import reject_not_positive
from pilotage.ids import IIds, SystemIds

_NO_TENANTS: Mapping[str, Sequence[BudgetWindow]] = {}


class TenantBudget(IAgentBudget):
    """Windows for every tenant, with other windows for the tenants in `tenants`; no windows means no limit.

    The worst case of a call is reserved until it ends. The reservations of a process that crashed expire after
    `hold_seconds`, which should be longer than any one call.
    """

    is_settled_by_journal = True

    def __init__(
        self,
        spending: ITenantSpending,
        windows: Sequence[BudgetWindow] = (),
        *,
        tenants: Mapping[str, Sequence[BudgetWindow]] = _NO_TENANTS,
        hold_seconds: float = 900,
        ids: IIds | None = None,
    ) -> None:
        reject_not_positive(self, hold_seconds=hold_seconds)
        self._spending = spending
        self._windows = tuple(windows)
        self._tenants = dict(tenants)
        self._hold_seconds = hold_seconds
        self._ids = ids or SystemIds()

    def bounded_amounts(self, tenant_id: str | None = None) -> frozenset[str]:
        windows = list(
            self._tenants.get(tenant_id, self._windows) if tenant_id is not None else self._windows
        )
        if tenant_id is None:
            for own in self._tenants.values():
                windows.extend(own)
        bounds = {"tokens": "max_tokens", "cost": "max_cost"}
        return frozenset(
            name
            for name, field in bounds.items()
            if any(getattr(each, field) is not None for each in windows)
        )

    async def allows_step(self, context: RunContext, need: BudgetAmount) -> BudgetVerdict:
        windows = self._tenants.get(context.tenant_id, self._windows)
        reservation = BudgetReservation(f"{context.run_id}:{self._ids.uid()}", need)
        if not windows:
            return BudgetGranted(reservation)
        return await self._spending.hold(context.tenant_id, reservation, windows, seconds=self._hold_seconds)

    async def consume(self, context: RunContext, reservation: BudgetReservation, used: BudgetAmount) -> None:
        await self._spending.settle(context.tenant_id, BudgetSettlement(reservation, used))

"""`SqlAlchemyTenantSpending`: spending and holds of tenants, for all processes on one database.

Spending is added up by the hour; a day and a month are the sums of their hours. Money is added exactly, as decimals,
under the lock of the hour's row: only there do commits of one tenant wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from functools import reduce

from sqlalchemy import Connection, Float, bindparam, delete, select, update

from pilotage.adapters.sqlalchemy.codes import RowCodes
from pilotage.adapters.sqlalchemy.columns import now, seconds_from_now
from pilotage.adapters.sqlalchemy.database import Database
from pilotage.adapters.sqlalchemy.entry_counts import (
    add_to_scopes,
    check_counted,
    counted,
    scope_text,
    weight_of,
)
from pilotage.adapters.sqlalchemy.mapping import Stored, Values
from pilotage.adapters.sqlalchemy.statements import bulk_insert, in_keys
from pilotage.adapters.sqlalchemy.stored_entries import StoredEntry
from pilotage.adapters.sqlalchemy.tables import budget_holds, spending
from pilotage.agent.ports.budget import (
    BudgetAmount,
    BudgetGranted,
    BudgetPeriod,
    BudgetReservation,
    BudgetSettlement,
    BudgetVerdict,
    BudgetWindow,
    ITenantSpending,
    verdict_for,
)
from pilotage.checks import reject_not_positive

_NOTHING = BudgetAmount()
_AMOUNT = ("steps", "tool_calls", "tokens", "cost")

_NEW_HOURS = bulk_insert(spending, ("tenant_id", "hour", *_AMOUNT, "code"), skips_known=True)
_AN_HOUR = (spending.c.tenant_id == bindparam("tenant"), spending.c.hour == bindparam("since"))
_HOUR = select(spending).where(*_AN_HOUR).with_for_update()
_ADD = update(spending).where(*_AN_HOUR)
_OF_TENANT, _IS_SINCE = spending.c.tenant_id == bindparam("tenant"), spending.c.hour >= bindparam("since")
_SINCE = select(spending).where(_OF_TENANT, _IS_SINCE)
_SINCE_COUNTED = counted(spending, (_OF_TENANT,), _IS_SINCE)
_HELD = select(budget_holds).where(
    budget_holds.c.tenant_id == bindparam("tenant"), budget_holds.c.lapses_at > now()
)
_RELEASE = delete(budget_holds).where(in_keys(budget_holds, "tenant_id", "hold_id"))
_KNOWN = select(budget_holds.c.hold_id).where(
    budget_holds.c.tenant_id == bindparam("tenant"), budget_holds.c.hold_id == bindparam("hold")
)
_HOLD = bulk_insert(
    budget_holds,
    ("tenant_id", "hold_id", *_AMOUNT),
    lambda given: {"lapses_at": seconds_from_now(given["seconds"])},
    extra={"seconds": Float(53)},
    skips_known=True,
)
_LAPSED = delete(budget_holds).where(
    budget_holds.c.tenant_id == bindparam("tenant"), budget_holds.c.lapses_at < bindparam("before")
)


class SqlAlchemyTenantSpending(ITenantSpending):
    """Spending in a database. A hold is a transaction of its own; spending is part of the commits of runs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def hold(
        self,
        tenant_id: str,
        reservation: BudgetReservation,
        windows: Sequence[BudgetWindow],
        *,
        seconds: float,
    ) -> BudgetVerdict:
        reject_not_positive("SqlAlchemyTenantSpending.hold", seconds=seconds)
        row = {"tenant_id": tenant_id, "hold_id": reservation.id, "seconds": seconds}

        codes = self._database.engines.codes

        def work(connection: Connection) -> BudgetVerdict:
            self._database.engines.take_turns(connection, "budget", tenant_id)
            at = _time(connection)
            connection.execute(_LAPSED, {"tenant": tenant_id, "before": BudgetPeriod.DAY.start(at)})
            # First the holds, then the spending: a hold that is settled in between counts twice rather than never.
            held = _sum(
                map(_HOLDS.decoded, connection.execute(_HELD, {"tenant": tenant_id}).mappings().all())
            )
            spent = {
                window.period: _spent(codes, connection, tenant_id, window.period.start(at))
                for window in windows
            }
            verdict = verdict_for(tenant_id, windows, spent, held, reservation)
            if isinstance(verdict, BudgetGranted):
                _HOLD.run(connection, [{**row, **_columns(reservation.amount)}])
            return verdict

        return await self._database.write(work)

    async def settle(self, tenant_id: str, settlement: BudgetSettlement) -> None:
        place = {"tenant": tenant_id, "hold": settlement.reservation.id}

        def work(connection: Connection) -> None:
            self._database.engines.take_turns(connection, "budget", tenant_id)
            if connection.execute(_KNOWN, place).first() is not None:
                settle_together(self._database.engines.codes, connection, [(tenant_id, settlement)])

        await self._database.write(work, may_be_repeated=True)

    async def spent(self, tenant_id: str, period: BudgetPeriod) -> BudgetAmount:
        codes = self._database.engines.codes
        return await self._database.read(
            lambda connection: _spent(codes, connection, tenant_id, period.start(_time(connection)))
        )


def settle_together(
    codes: RowCodes, connection: Connection, settled: Sequence[tuple[str, BudgetSettlement]]
) -> None:
    """Release holds and add what was used, in an open transaction.

    Every transaction locks in the same order, so that two of them never wait for each other: the hours by tenant, then
    the counts of tenants that have a new hour, then the count of all tenants.
    """
    keys = sorted((tenant, settlement.reservation.id) for tenant, settlement in settled)
    connection.execute(_RELEASE, {"keys": keys})
    hour = BudgetPeriod.HOUR.start(_time(connection))
    begun: dict[tuple[str, ...], int] = {}
    for tenant in sorted({tenant for tenant, _ in settled}):
        used = [settlement.used for whose, settlement in settled if whose == tenant]
        place = {"tenant": tenant, "since": hour}
        stored = connection.execute(_HOUR, place).mappings().first()
        if stored is None:
            begun[tenant,] = _begin_hour(codes, connection, tenant, hour)
            stored = connection.execute(_HOUR, place).mappings().one()
        total = _columns(reduce(BudgetAmount.__add__, used, _SPENDING.read(codes, stored)))
        code = codes.text(spending, {"tenant_id": tenant, "hour": hour, **total})
        connection.execute(_ADD.values({**total, "code": code}), place)
    add_to_scopes(codes, connection, spending, begun)


def _begin_hour(codes: RowCodes, connection: Connection, tenant: str, hour: datetime) -> int:
    """Add the row of an hour, and return what it counts for: 0 where another process has just added it."""
    row: Values = {"tenant_id": tenant, "hour": hour, **_columns(_NOTHING)}
    row["code"] = codes.packed(spending, row)
    return _NEW_HOURS.run(connection, [row]) * weight_of(hour)


def _time(connection: Connection) -> datetime:
    """Return the time of the store, which all processes share."""
    at: datetime = connection.execute(select(now())).scalar_one()
    return at


def _spent(codes: RowCodes, connection: Connection, tenant_id: str, since: datetime) -> BudgetAmount:
    given = {"tenant": tenant_id, "since": since}
    if not codes.is_on:
        return _sum(map(_SPENDING.decoded, connection.execute(_SINCE, given).mappings().all()))
    scope = (tenant_id,)
    rows = connection.execute(_SINCE_COUNTED, {**given, "of_scope": scope_text(scope)}).mappings().all()
    check_counted(codes, connection, spending, rows[0], scope)
    return _sum(_SPENDING.read(codes, values) for values in rows if values["hour"] is not None)


def _sum(amounts: Iterable[BudgetAmount]) -> BudgetAmount:
    return reduce(BudgetAmount.__add__, amounts, _NOTHING)


def _columns(amount: BudgetAmount) -> Values:
    return {
        "steps": amount.steps,
        "tool_calls": amount.tool_calls,
        "tokens": amount.tokens,
        "cost": str(amount.cost),
    }


def _amount(values: Stored) -> BudgetAmount:
    return BudgetAmount(values["steps"], values["tool_calls"], values["tokens"], Decimal(values["cost"]))


_SPENDING = StoredEntry(
    spending,
    lambda stored: f"the spending of tenant {stored['tenant_id']!r} in the hour {stored['hour']}",
    _amount,
)
_HOLDS = StoredEntry(
    budget_holds,
    lambda stored: f"hold {stored['hold_id']!r} of tenant {stored['tenant_id']!r}",
    _amount,
    beside=_AMOUNT,
)

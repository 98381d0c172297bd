"""`SqlAlchemyTenantSpending` and `SqlAlchemySwitches`: the limits of runs, for all processes on one database.

Spending is added up by the hour; a day and a month are the sums of their hours. Money is added exactly, as decimals,
under the lock of the hour's row: only there do commits of one tenant wait for each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from functools import partial, reduce
from typing import Any

from sqlalchemy import Connection, Executable, Float, bindparam, delete, func, select, update

from pilotage.adapters.sqlalchemy.columns import MomentColumn, now, seconds_from_now
from pilotage.adapters.sqlalchemy.database import Database
from pilotage.adapters.sqlalchemy.entry_counts import (
    WHOLE,
    add_entries,
    add_to_scopes,
    check_counted,
    counted,
    scope_text,
    weight_of,
)
from pilotage.adapters.sqlalchemy.errors import ConflictingWriteError
from pilotage.adapters.sqlalchemy.mapping import Stored, Values
from pilotage.adapters.sqlalchemy.statements import bulk_insert, in_keys
from pilotage.adapters.sqlalchemy.stored_entries import RowCodes, StoredEntry
from pilotage.adapters.sqlalchemy.tables import budget_holds, spending, switches
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
from pilotage.agent.ports.permissions import IAgentSwitches, Switch, SwitchedOff, SwitchKind
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

        codes = self._database.codes

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
                settle_together(self._database.codes, connection, [(tenant_id, settlement)])

        await self._database.write(work, may_be_repeated=True)

    async def spent(self, tenant_id: str, period: BudgetPeriod) -> BudgetAmount:
        codes = self._database.codes
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
        used = [settlement.used for owner, settlement in settled if owner == tenant]
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


_IS_SWITCH = (switches.c.kind == bindparam("what"), switches.c.name == bindparam("called"))

_TURN_OFF = bulk_insert(
    switches,
    ("kind", "name", "reason", "by", "code"),
    lambda given: {"since": func.coalesce(given["given_at"], now())},
    extra={"given_at": MomentColumn()},
    skips_known=True,
)
_TURN_ON = delete(switches).where(*_IS_SWITCH)
_ONE = select(switches).where(*_IS_SWITCH)
_SOME = select(switches).where(in_keys(switches, "kind", "name"))
_SOME_COUNTED = counted(switches, (), in_keys(switches, "kind", "name"))
_ALL = select(switches).order_by(switches.c.position)
_ALL_COUNTED = counted(switches, ()).order_by(switches.c.position)


class SqlAlchemySwitches(IAgentSwitches):
    """Switches in a database. Every action of a run reads them, so an application has them only if it adds them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def _make(self) -> Callable[[Stored], SwitchedOff]:
        return partial(_SWITCHES.read, self._database.codes)

    async def turn_off(self, switch: Switch, *, reason: str, by: str | None = None) -> SwitchedOff:
        off = SwitchedOff(switch, reason, by)
        place = {"what": switch.kind.value, "called": switch.name}
        row: Values = {"kind": switch.kind.value, "name": switch.name, "reason": off.reason, "by": off.by}
        self._database.codes.add(switches, row, time="since")

        def work(connection: Connection) -> SwitchedOff:
            number = _TURN_OFF.run(connection, [row])
            add_entries(self._database.codes, connection, switches, number)
            found = connection.execute(_ONE, place).mappings().first()
            if found is None:
                raise ConflictingWriteError(f"{switch} was switched on at the same time")
            return _SWITCHES.decoded(found)

        return await self._database.write(work, may_be_repeated=True)

    async def turn_on(self, switch: Switch) -> bool:
        place = {"what": switch.kind.value, "called": switch.name}

        def work(connection: Connection) -> bool:
            number = connection.execute(_TURN_ON, place).rowcount
            add_entries(self._database.codes, connection, switches, -number)
            return number > 0

        return await self._database.write(work)

    async def first_off(self, switches: Sequence[Switch]) -> SwitchedOff | None:
        if not switches:
            return None
        keys = [(switch.kind.value, switch.name) for switch in switches]
        off = {each.switch: each for each in await self._read(_SOME, _SOME_COUNTED, {"keys": keys})}
        return next((off[switch] for switch in switches if switch in off), None)

    async def list_off(self) -> Sequence[SwitchedOff]:
        return await self._read(_ALL, _ALL_COUNTED, {})

    async def _read(
        self, query: Executable, query_counted: Executable, given: dict[str, Any]
    ) -> list[SwitchedOff]:
        """Read switches that are off, with one query; with codes it is the one that finds a deleted switch."""
        codes = self._database.codes
        if not codes.is_on:
            return await self._database.rows(query, given, self._make)

        def look(connection: Connection) -> list[SwitchedOff]:
            found = connection.execute(query_counted, {**given, "of_scope": WHOLE}).mappings().all()
            check_counted(codes, connection, switches, found[0])
            return [self._make(values) for values in found if values["name"] is not None]

        return await self._database.read(look)


def _off(values: Stored) -> SwitchedOff:
    switch = Switch(SwitchKind(values["kind"]), values["name"])
    return SwitchedOff(switch, values["reason"], values["by"], values["since"])


_SWITCHES = StoredEntry(switches, lambda stored: f"the switch of {stored['kind']} {stored['name']!r}", _off)

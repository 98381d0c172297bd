"""`SqlAlchemyBacklog`: runs without an owner, and their claims without progress.

A claim costs what it finds. Each look reads a page of one index and checks the rule for the runs of that page; the next
one goes on where it ended, and at the beginning after the last page. Four looks lead to nearly all work at once: leases
that are over, pending answers, other pending signals, times that are up. The fifth goes round through all runs that can
go on without any of these, for what the others miss: a lease that was lost, a child of a run that has ended. Which runs
are given out is the decision of the rule alone (`claim_rule`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from types import NoneType
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    Table,
    and_,
    bindparam,
    case,
    cast,
    func,
    literal_column,
    null,
    or_,
    select,
    text,
    tuple_,
    union_all,
    update,
)

from pilotage.adapters.sqlalchemy.claim_rule import HAS_NO_OWNER, LEASE_NOW, NOW
from pilotage.adapters.sqlalchemy.columns import MomentColumn, now, seconds_from_now
from pilotage.adapters.sqlalchemy.database import Database
from pilotage.adapters.sqlalchemy.leases import IS_UNDER_WAY, acquired_leases, forget_leases
from pilotage.adapters.sqlalchemy.statements import Column, Parameters, Prepared, of_run, place_of
from pilotage.adapters.sqlalchemy.tables import (
    CAN_BE_DRIVEN,
    HAS_TIME,
    IS_ANSWER,
    IS_PENDING,
    leases,
    runs,
    signals,
)
from pilotage.agent.ports.leases import (
    NO_CLAIMS,
    POISONED_FROM,
    SUSPECT_FROM,
    BacklogEntry,
    ClaimRecord,
    IAgentBacklog,
    checked_delay,
)
from pilotage.agent.ports.persistence import RunKey
from pilotage.checks import reject_blank, reject_not_positive

PAGE = 200
"""How many entries of an index a look reads."""

_MOST_PAGES = 20
"""How many pages are read for the agents of runs without an owner."""

_LOOKS = 5

_PLACE = ("moment", "tenant", "run", "number")
_START: Parameters = {
    "moment": datetime.min.replace(tzinfo=UTC) + timedelta(days=2),  # a database may add a time zone
    "tenant": "",
    "run": "",
    "number": -1,
}
_TYPES = {
    "moment": MomentColumn(),
    "tenant": runs.c.tenant_id.type,
    "run": runs.c.run_id.type,
    "number": signals.c.number.type,
}


class Seen(NamedTuple):
    """An entry of an index, with what is known of its run; a lease may have none."""

    look: int
    moment: datetime | None
    tenant: str
    run: str
    number: int
    agent: str | None
    claims: int | None
    updated_at: datetime | None
    position: int | None
    is_under_way: bool | None
    is_free: bool | None

    @property
    def key(self) -> RunKey:
        return RunKey(self.tenant, self.run)


def _entries(
    look: int, table: Table, condition: str | ColumnElement[bool], order: Sequence[str], size: int
) -> Select[*tuple[Any, ...]]:
    """Return the statement for a page of an index; `order` names the columns of the index among those of a place."""
    columns: dict[str, Column] = {"tenant": table.c.tenant_id, "run": table.c.run_id}
    columns["moment"] = (
        table.c.expires_at if table is leases else table.c.wake_at if table is runs else null()
    )
    columns["number"] = table.c.number if table is signals else literal_column("0")
    after = [bindparam(f"{name}_{look}", type_=_TYPES[name]) for name in order]
    place = [columns[name] for name in order]
    number: ColumnElement[int] = literal_column(str(look))
    given: list[Column] = [cast(columns[name], _TYPES[name]).label(name) for name in _PLACE]
    page = (
        select(number.label("look"), *given)
        .where(text(condition) if isinstance(condition, str) else condition, tuple_(*place) > tuple_(*after))
        .order_by(*place)
        .limit(literal_column(str(size)))
        .subquery()
    )
    return select(*page.c)


@cache
def look_statement(size: int) -> Prepared:
    """Return the statement of all looks, each at one page of so many entries."""
    over, up = leases.c.expires_at <= LEASE_NOW, and_(text(HAS_TIME), runs.c.wake_at <= NOW)
    seen = union_all(
        _entries(0, leases, over, ("moment", "tenant", "run"), size),
        _entries(1, signals, IS_ANSWER, ("tenant", "run", "number"), size),
        _entries(2, signals, IS_PENDING, ("tenant", "run", "number"), size),
        _entries(3, runs, up, ("moment", "tenant", "run"), size),
        _entries(4, runs, CAN_BE_DRIVEN, ("tenant", "run"), size),
    ).subquery()
    place = [seen.c.look, *(seen.c[name] for name in _PLACE)]
    of_runs = (runs.c.agent_type, runs.c.claims, runs.c.updated_at, runs.c.position)
    is_it = and_(runs.c.tenant_id == seen.c.tenant, runs.c.run_id == seen.c.run)
    found = select(*place, *of_runs, IS_UNDER_WAY.label("is_under_way"), HAS_NO_OWNER.label("is_free"))
    return Prepared(found.select_from(seen.outerjoin(runs, is_it)).order_by(*place))


class Round:
    """The position of the searches in the backlog."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._at: list[Parameters] = [_START] * _LOOKS

    @property
    def is_over(self) -> bool:
        """Whether all looks are at their beginning."""
        return all(place is _START for place in self._at)

    def look(self, connection: Connection) -> list[Seen]:
        """Return the next page of each look."""
        given = {f"{name}_{look}": place[name] for look, place in enumerate(self._at) for name in _PLACE}
        found = [Seen(*row) for row in look_statement(self._size).rows(connection, given)]
        pages: list[list[Seen]] = [[] for _ in range(_LOOKS)]
        for each in found:
            pages[each.look].append(each)
        self._at = [_end_of(page) if len(page) == self._size else _START for page in pages]
        return found


def _end_of(page: Sequence[Seen]) -> Parameters:
    last = page[-1]
    return {"moment": last.moment, "tenant": last.tenant, "run": last.run, "number": last.number}


_CLAIMS = (runs.c.claims, runs.c.claimed_at, runs.c.claim_problem, runs.c.claim_after)
_CLAIMS_OF = select(*_CLAIMS).where(*of_run(runs))
_DELAY = bindparam("delay", type_=leases.c.granted_seconds.type)

_BEGIN = (
    update(runs)
    .where(*of_run(runs))
    .values(claims=runs.c.claims + 1, claimed_at=now(), claim_after=seconds_from_now(_DELAY))
)

_LESS_ONE = case((runs.c.claims > 0, runs.c.claims - 1), else_=0)

_SETTLE = {
    counts: update(runs)
    .where(*of_run(runs))
    .values(
        claims=runs.c.claims if counts else _LESS_ONE,
        claim_problem=func.coalesce(
            bindparam("problem", type_=runs.c.claim_problem.type), runs.c.claim_problem
        ),
        claim_after=case((_DELAY > 0, seconds_from_now(_DELAY)), else_=null()),
    )
    for counts in (True, False)
}

_FORGET = Prepared(
    update(runs)
    .where(*of_run(runs), or_(runs.c.claims > 0, runs.c.claim_after.is_not(None)))
    .values(claims=0, claimed_at=null(), claim_problem=null(), claim_after=null())
)

_DAMAGED = ClaimRecord(POISONED_FROM, problem="the stored count of its claims is damaged")

_GIVE = (
    select(runs.c.tenant_id, runs.c.run_id, *_CLAIMS)
    .where(runs.c.position.in_(bindparam("positions", expanding=True)), HAS_NO_OWNER)
    .with_for_update(of=runs, skip_locked=True)
)


class SqlAlchemyBacklog(IAgentBacklog):
    """The backlog of a database. Runs that another worker has locked are skipped without waiting."""

    def __init__(self, database: Database, page: int = PAGE) -> None:
        self._database, self._page = database, page
        self._round = Round(page)

    async def claim(
        self,
        owner: str,
        seconds: float,
        limit: int,
        *,
        agents: Collection[str],
        leaving: Collection[RunKey] = (),
        suspects: bool = False,
    ) -> Sequence[BacklogEntry]:
        reject_blank("SqlAlchemyBacklog.claim", owner=owner)
        reject_not_positive("SqlAlchemyBacklog.claim", seconds=seconds, limit=limit)
        seen = await self._database.read(self._round.look)
        free = [each for each in _free(seen) if each.agent in agents and each.key not in leaving]
        chosen = [each for each in free if not _is_suspect(each)][:limit]
        chosen += [each for each in free if suspects and _is_suspect(each)][:1]
        useless = {each.key for each in seen if each.look == 0 and not each.is_under_way}
        if not chosen and not useless:
            return []

        def work(connection: Connection) -> list[BacklogEntry]:
            if useless:
                forget_leases(connection, useless)
            return _given(connection, chosen, owner, seconds) if chosen else []

        return await self._database.hint(work)

    async def begin(self, run: RunKey, delay_seconds: float) -> None:
        delay = checked_delay("SqlAlchemyBacklog.begin", delay_seconds).total_seconds()
        # Not a hint: a hint may be done twice, and a claim is counted once.
        await self._database.write(
            lambda connection: connection.execute(_BEGIN, {**place_of(run), "delay": delay})
        )

    async def settle(
        self, run: RunKey, *, counts: bool, delay_seconds: float = 0.0, problem: str | None = None
    ) -> None:
        delay = checked_delay("SqlAlchemyBacklog.settle", delay_seconds).total_seconds()
        given = {**place_of(run), "delay": delay, "problem": problem}
        await self._database.write(lambda connection: connection.execute(_SETTLE[counts], given))

    async def forget(self, run: RunKey) -> None:
        await self._database.hint(lambda connection: _FORGET.rows(connection, place_of(run)), is_small=True)

    async def claims_of(self, run: RunKey) -> ClaimRecord:
        def look(connection: Connection) -> ClaimRecord:
            row = connection.execute(_CLAIMS_OF, place_of(run)).first()
            return NO_CLAIMS if row is None else _record(row)

        return await self._database.read(look)

    async def agents(self) -> frozenset[str]:
        round_, found = Round(self._page), set[str]()
        for _ in range(_MOST_PAGES):
            found |= {each.agent or "" for each in _free(await self._database.read(round_.look))}
            if round_.is_over:
                break
        return frozenset(found)


def _free(seen: Iterable[Seen]) -> list[Seen]:
    """Return each run without an owner once, the longest untouched first."""
    found = {each.position: each for each in seen if each.is_free}
    return sorted(found.values(), key=lambda each: (_moment_or_start(each.updated_at), each.position))


def _moment_or_start(stored: object) -> object:
    """Return a moment to sort by. One damaged row must not keep a worker from all other runs."""
    return stored if type(stored) is datetime else _START["moment"]


def _is_suspect(seen: Seen) -> bool:
    # The claims of a damaged row are read where it is given out, which leads to a quarantine.
    return type(seen.claims) is int and seen.claims >= SUSPECT_FROM


def _given(connection: Connection, chosen: Sequence[Seen], owner: str, seconds: float) -> list[BacklogEntry]:
    """Take the leases of runs, as far as they still have no owner and no other process is taking them."""
    rows = connection.execute(_GIVE, {"positions": [each.position for each in chosen]}).all()
    records = {RunKey(row.tenant_id, row.run_id): _record(row) for row in rows}
    given = acquired_leases(connection, records, owner, seconds)
    return [BacklogEntry(given[each.key], records[each.key]) for each in chosen if each.key in given]


def _record(row: Row[*tuple[Any, ...]]) -> ClaimRecord:
    """Return the claims of a run. Damaged ones count as too many: a worker asks people about that run."""
    count, problem = row.claims, row.claim_problem
    times: list[object] = [row.claimed_at, row.claim_after]
    is_sound = type(count) is int and count >= 0 and type(problem) in (str, NoneType)
    if is_sound and all(type(each) in (datetime, NoneType) for each in times):
        return ClaimRecord(count, row.claimed_at, problem, row.claim_after)
    return _DAMAGED

"""`SqlAlchemyOutbox`: the delivery of facts, claimed run by run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby

from sqlalchemy import Connection, and_, bindparam, case, exists, literal_column, null, or_, select, update
from sqlalchemy.sql.expression import ColumnElement

from pilotage.adapters.sqlalchemy.columns import now, seconds_from_now
from pilotage.adapters.sqlalchemy.database import Database
from pilotage.adapters.sqlalchemy.errors import ConflictingWriteError
from pilotage.adapters.sqlalchemy.mapping import Stored, Values, page_of, position_of
from pilotage.adapters.sqlalchemy.statements import bulk_update, in_keys, of_run, place_of
from pilotage.adapters.sqlalchemy.stored_entries import FACTS, RowCodes
from pilotage.adapters.sqlalchemy.tables import leases, outbox
from pilotage.agent.ports.outbox import IAgentOutbox, OutboxEntry, OutboxPage, OutboxStatus
from pilotage.agent.ports.persistence import RunKey
from pilotage.checks import reject_blank, reject_not_positive
from pilotage.errors import CallerError, DamagedEntryError

_PAGE = 500
_TRIES = 3
_KEY = ("tenant_id", "run_id", "number")
_SECONDS = leases.c.granted_seconds.type


def _word(status: OutboxStatus) -> ColumnElement[str]:
    """Return a status as a literal, for statements whose parameters are all given for each row."""
    return literal_column(f"'{status.value}'")


_IS_WAITING = outbox.c.status == OutboxStatus.WAITING.value
_IS_PARKED = outbox.c.status == OutboxStatus.PARKED.value
_IS_CLAIMED = and_(outbox.c.claimed_until.is_not(None), outbox.c.claimed_until > now())
_IS_DUE = or_(outbox.c.retry_at.is_(None), outbox.c.retry_at <= now())
_IS_RUN = of_run(outbox)
_IS_ENTRY = (*_IS_RUN, outbox.c.number == bindparam("entry"))
_IS_OWN = outbox.c.owner == bindparam("who")

_others = outbox.alias("others")
_IN_THE_WAY = exists().where(
    _others.c.tenant_id == outbox.c.tenant_id,
    _others.c.run_id == outbox.c.run_id,
    _others.c.status == OutboxStatus.WAITING.value,
    or_(
        _others.c.number < outbox.c.number,
        and_(_others.c.claimed_until.is_not(None), _others.c.claimed_until > now()),
    ),
)

_FIRST_OF_RUNS = (
    select(outbox.c.tenant_id, outbox.c.run_id)
    .where(_IS_WAITING, _IS_DUE, ~_IN_THE_WAY)
    .order_by(outbox.c.position)
    .limit(bindparam("most"))
    .with_for_update(of=outbox, skip_locked=True)
)

_WAITING = (
    select(
        outbox,
        case((_IS_CLAIMED, 1), else_=0).label("is_claimed"),
        case((_IS_DUE, 1), else_=0).label("is_due"),
    )
    .where(in_keys(outbox, "tenant_id", "run_id"), _IS_WAITING)
    .order_by(outbox.c.tenant_id, outbox.c.run_id, outbox.c.number)
)

_CLAIM = bulk_update(
    outbox,
    _KEY,
    lambda given: {"owner": given["who"], "claimed_until": seconds_from_now(given["seconds"])},
    {"who": outbox.c.owner.type, "seconds": _SECONDS},
    lambda _: and_(outbox.c.status == _word(OutboxStatus.WAITING), ~_IS_CLAIMED),
)

_DELIVERED = bulk_update(
    outbox,
    _KEY,
    lambda _: {"status": _word(OutboxStatus.DELIVERED), "owner": null(), "claimed_until": null()},
    {},
    lambda _: outbox.c.status != _word(OutboxStatus.DELIVERED),
)

_RELEASE = update(outbox).where(*_IS_RUN, _IS_OWN).values(owner=None, claimed_until=None)

_FAILED = (
    update(outbox)
    .where(*_IS_ENTRY, _IS_WAITING, _IS_OWN, _IS_CLAIMED)
    .values(failures=outbox.c.failures + 1, problem=bindparam("why"))
)
_PARK = _FAILED.values(status=OutboxStatus.PARKED.value, retry_at=None)
_TRY_LATER = _FAILED.values(retry_at=seconds_from_now(bindparam("seconds", type_=_SECONDS)))

_REDELIVER = (
    update(outbox)
    .where(*_IS_ENTRY, _IS_PARKED)
    .values(status=OutboxStatus.WAITING.value, failures=0, retry_at=None)
)

_ENTRY = select(outbox).where(*_IS_ENTRY)

_OF_RUN = (
    select(outbox)
    .where(*_IS_RUN, outbox.c.number > bindparam("after"))
    .order_by(outbox.c.number)
    .limit(_PAGE)
)

_PARKED = (
    select(outbox)
    .where(outbox.c.tenant_id == bindparam("tenant"), _IS_PARKED, outbox.c.position > bindparam("after"))
    .order_by(outbox.c.position)
    .limit(bindparam("most"))
)


class SqlAlchemyOutbox(IAgentOutbox):
    """The outbox in a database. A mark that is lost with the machine only means that a fact is delivered again."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim(self, owner: str, seconds: float, limit: int) -> Sequence[OutboxEntry]:
        reject_blank("SqlAlchemyOutbox.claim", owner=owner)
        reject_not_positive("SqlAlchemyOutbox.claim", seconds=seconds, limit=limit)

        def work(connection: Connection) -> list[OutboxEntry]:
            return _claim(self._database.codes, connection, owner, seconds, limit)

        for _ in range(_TRIES - 1):
            try:
                return await self._database.hint(work)
            except ConflictingWriteError:
                continue
        return await self._database.hint(work)

    @property
    def _make(self) -> Callable[[Stored], OutboxEntry]:
        return partial(FACTS.read, self._database.codes)

    async def delivered(self, owner: str, entries: Sequence[OutboxEntry]) -> None:
        keys = [_key(entry) for entry in entries]
        await self._database.hint(lambda connection: _DELIVERED.run(connection, keys))

    async def failed(self, owner: str, entry: OutboxEntry, problem: str, retry_in: float | None) -> None:
        statement = _PARK if retry_in is None else _TRY_LATER
        place = {**place_of(entry.run), "who": owner}
        later = {} if retry_in is None else {"seconds": retry_in}
        details = {"entry": entry.number, "why": problem, **later}

        def work(connection: Connection) -> None:
            if connection.execute(statement, {**place, **details}).rowcount:
                connection.execute(_RELEASE, place)

        await self._database.write(work)

    async def release(self, owner: str, run: RunKey) -> None:
        place = {**place_of(run), "who": owner}
        await self._database.hint(lambda connection: connection.execute(_RELEASE, place).rowcount)

    async def read(self, run: RunKey, after: int = 0) -> AsyncIterator[OutboxEntry]:
        page = await self._page(run, after)
        while page:
            for entry in page:
                yield entry
            page = await self._page(run, page[-1].number) if len(page) == _PAGE else []

    async def list_parked(self, tenant_id: str, *, after: str | None = None, limit: int = 50) -> OutboxPage:
        reject_not_positive("SqlAlchemyOutbox.list_parked", limit=limit)
        place = {"tenant": tenant_id, "after": position_of(after), "most": limit + 1}
        return await self._database.read(
            lambda connection: OutboxPage(
                *page_of(connection.execute(_PARKED, place).mappings().all(), limit, self._make)
            )
        )

    async def redeliver(self, run: RunKey, number: int) -> OutboxEntry:
        place = {**place_of(run), "entry": number}

        def work(connection: Connection) -> OutboxEntry:
            done = connection.execute(_REDELIVER, place).rowcount
            found = connection.execute(_ENTRY, place).mappings().first()
            if found is None or not done:
                how = f"is {found['status']}" if found else "does not exist"
                raise CallerError(
                    f"entry {number} of run {run.run_id!r} {how}. Only a parked entry can be delivered again."
                )
            return self._make(found)

        return await self._database.write(work)

    async def _page(self, run: RunKey, after: int) -> list[OutboxEntry]:
        return await self._database.rows(_OF_RUN, {**place_of(run), "after": after}, self._make)


def _claim(
    codes: RowCodes, connection: Connection, owner: str, seconds: float, limit: int
) -> list[OutboxEntry]:
    """Claim due entries. The first entry of a run is its lock: with it, those that follow are looked up again."""
    first = connection.execute(_FIRST_OF_RUNS, {"most": limit})
    keys = [(row.tenant_id, row.run_id) for row in first]
    if not keys:
        return []
    found = connection.execute(_WAITING, {"keys": keys}).mappings().all()
    by_run = {run: list(_due(codes, list(rows))) for run, rows in groupby(found, _run_of)}
    taken = [entry for key in keys for entry in by_run.get(key, [])][:limit]
    claims = [{**_key(entry), "who": owner, "seconds": seconds} for entry in taken]
    if _CLAIM.run(connection, claims) != len(claims):
        raise ConflictingWriteError("another owner claimed the run at the same time")
    return taken


def _run_of(values: Stored) -> tuple[str, str]:
    return values["tenant_id"], values["run_id"]


def _key(entry: OutboxEntry) -> Values:
    return {"tenant_id": entry.run.tenant_id, "run_id": entry.run.run_id, "number": entry.number}


def _due(codes: RowCodes, waiting: Sequence[Stored]) -> Iterator[OutboxEntry]:
    """Yield the first waiting entries of a run that are due; none while one of them is claimed.

    A damaged entry and the entries after it are not delivered; entries of other runs are.
    """
    if any(values["is_claimed"] for values in waiting):
        return
    with suppress(DamagedEntryError):
        for values in waiting:
            if not values["is_due"]:
                return
            yield FACTS.read(codes, values)

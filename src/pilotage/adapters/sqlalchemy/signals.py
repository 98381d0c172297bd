"""`SqlAlchemySignalRepository`: the queues of signals."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any, TypeAlias

from sqlalchemy import Connection, bindparam, func, literal_column, select, text, update

from pilotage.adapters.sqlalchemy.columns import MomentColumn, now
from pilotage.adapters.sqlalchemy.database import Database
from pilotage.adapters.sqlalchemy.errors import ConflictingWriteError
from pilotage.adapters.sqlalchemy.mapping import Stored, Values, refusing_unstorable, text_of
from pilotage.adapters.sqlalchemy.statements import (
    Prepared,
    bulk_insert,
    in_keys,
    of_run,
    place_of,
    prepared_insert,
)
from pilotage.adapters.sqlalchemy.states import find_one, refuse_if_journaled, run_of
from pilotage.adapters.sqlalchemy.stored_entries import SIGNALS, RowCodes
from pilotage.adapters.sqlalchemy.tables import IS_PENDING, runs, signals
from pilotage.agent.ports.commit_rules import refuse_after_end, refuse_empty
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.ports.repositories import IAgentSignalRepository
from pilotage.agent.signals import AgentSignal, AgentSignalEnd, AgentSignalKind
from pilotage.agent.state import AgentStatus
from pilotage.errors import CallerError, SignalNotFoundError
from pilotage.values import value

_MOST_PENDING = 1_000
"""So many pending signals are read whichever runs they are of; where there are more, runs are asked for by name."""

_AT_ONCE = 500
"""How many runs are asked for at once."""


def _next_number(insert: Any) -> Any:
    """Return the statement that counts a signal in the row of its run, which it locks: a run ends before or after it.

    A run may have signals before it begins.
    """
    counted = insert.values(tenant_id=bindparam("tenant"), run_id=bindparam("run"), last_signal=1)
    return counted.on_conflict_do_update(
        index_elements=["tenant_id", "run_id"], set_={"last_signal": runs.c.last_signal + 1}
    ).returning(runs.c.last_signal, runs.c.status)


_NEXT_NUMBER = prepared_insert(runs, _next_number)
_PENDING = Prepared(
    select(signals).where(*of_run(signals), signals.c.consumed_at.is_(None)).order_by(signals.c.number)
)

_NEWEST = Prepared(
    select(signals.c.tenant_id, signals.c.run_id, signals.c.number)
    .where(text(IS_PENDING))
    .order_by(signals.c.tenant_id, signals.c.run_id, signals.c.number)
    .limit(literal_column(str(_MOST_PENDING + 1)))
)
_NEWEST_OF = (
    select(signals.c.tenant_id, signals.c.run_id, func.max(signals.c.number))
    .where(in_keys(signals, "tenant_id", "run_id"), text(IS_PENDING))
    .group_by(signals.c.tenant_id, signals.c.run_id)
)


def _all_of(kind: AgentSignalKind) -> Prepared:
    """Return the statement that selects all signals of a run of one kind, pending and ended ones."""
    found = select(signals).where(*of_run(signals), signals.c.kind == kind.value)
    return Prepared(found.order_by(signals.c.number))


_ANSWERS, _STEERING = (
    _all_of(AgentSignalKind.APPROVAL_DECISION),
    _all_of(AgentSignalKind.STEERING_INSTRUCTION),
)

_COLUMNS = ("tenant_id", "run_id", "number", "signal_id", "kind", "payload", "code")
_GIVEN_AT = {"given_at": MomentColumn()}
_INSERT = bulk_insert(
    signals,
    _COLUMNS,
    lambda given: {"created_at": func.coalesce(given["given_at"], now())},
    extra=_GIVEN_AT,
)
_INSERT_REFUSED = bulk_insert(
    signals,
    (*_COLUMNS, "end", "end_code"),
    lambda given: {
        "created_at": func.coalesce(given["given_at"], now()),
        "consumed_at": func.coalesce(given["ended_at"], now()),
    },
    extra={**_GIVEN_AT, "ended_at": MomentColumn()},
)

_CONSUME = (
    update(signals)
    .where(
        signals.c.tenant_id == bindparam("tenant"),
        signals.c.signal_id == bindparam("signal"),
        signals.c.consumed_at.is_(None),
    )
    .values(
        consumed_at=func.coalesce(bindparam("at", type_=MomentColumn()), now()),
        end=AgentSignalEnd.TAKEN.value,
        end_code=bindparam("end_code", type_=signals.c.end_code.type),
    )
)


@value
class _EncodedSignal:
    """A signal and the text of its payload."""

    signal: AgentSignal
    payload: str

    @classmethod
    def of(cls, signal: AgentSignal) -> _EncodedSignal:
        return cls(signal, text_of(f"the payload of signal {signal.id!r}", signal.payload))


_Placed: TypeAlias = tuple[RunKey, _EncodedSignal]
_Write: TypeAlias = Callable[[Connection, RowCodes, RunKey, _EncodedSignal], None]


class SqlAlchemySignalRepository(IAgentSignalRepository):
    """Signals in a database. With a `tenant` it knows only that tenant's signals, without one those of all."""

    def __init__(self, database: Database, tenant: str | None = None) -> None:
        self._database, self._tenant = database, tenant

    async def append(self, signal: AgentSignal) -> AgentSignal:
        return (await self.append_all([signal]))[signal.id]

    async def append_all(self, signals: Sequence[AgentSignal]) -> Mapping[str, AgentSignal]:
        with refusing_unstorable("SqlAlchemySignalRepository.append"):
            return await self._stored([_EncodedSignal.of(each) for each in signals], _append)

    async def record_refused(self, signal: AgentSignal) -> AgentSignal:
        with refusing_unstorable("SqlAlchemySignalRepository.record_refused"):
            return (await self._stored([_EncodedSignal.of(signal)], _keep_refused))[signal.id]

    async def _stored(self, encoded: Sequence[_EncodedSignal], write: _Write) -> dict[str, AgentSignal]:
        """Write signals, or none if one of their ids is there; return those that are stored, the first ones by id."""

        def work(connection: Connection) -> dict[str, AgentSignal]:
            placed = self._placed(connection, encoded)
            present = self._present(connection, placed)
            if present:
                return present
            for run, each in placed:
                write(connection, self._database.codes, run, each)
            return self._present(connection, placed)

        try:
            return await self._database.write(work, may_be_repeated=True)
        except ConflictingWriteError:
            # An id was queued at the same time; now it is found.
            return await self._database.write(work, may_be_repeated=True)
        except CallerError:
            # A run has ended, perhaps by a signal of such an id that was queued at the same time.
            found = await self._database.read(
                lambda connection: self._present(connection, self._placed(connection, encoded))
            )
            if not found:
                raise
            return found

    def _placed(self, connection: Connection, encoded: Sequence[_EncodedSignal]) -> list[_Placed]:
        """Return signals with their runs, in the order in which every writer locks runs; those of a run keep theirs."""
        placed = [(run_of(connection, self._tenant, each.signal.agent_state_id), each) for each in encoded]
        return sorted(placed, key=lambda pair: (pair[0].tenant_id, pair[0].run_id))

    def _present(self, connection: Connection, placed: Sequence[_Placed]) -> dict[str, AgentSignal]:
        """Return the stored signals with these ids."""
        found: dict[str, AgentSignal] = {}
        for run, each in placed:
            name = each.signal.id
            values = find_one(connection, run.tenant_id, name, signals.c.signal_id)
            if values is not None:
                found[name] = SIGNALS.read(self._database.codes, values)
        return found

    async def list_pending(self, state_id: str) -> Sequence[AgentSignal]:
        def look(connection: Connection) -> list[AgentSignal]:
            run = run_of(connection, self._tenant, state_id)
            codes = self._database.codes
            return [_queued(codes, values) for values in _PENDING.named_rows(connection, place_of(run))]

        return await self._database.read(look)

    async def newest_pending(self, runs: AbstractSet[RunKey]) -> Mapping[RunKey, str]:
        found = await self._database.read(lambda connection: _NEWEST.rows(connection, {}))
        if len(found) > _MOST_PENDING:
            asked = tuple(runs)
            found = await self._database.read(lambda connection: _newest_of(connection, asked))
        # Of each run the last one counts.
        newest = {RunKey(tenant, run): str(number) for tenant, run, number in found}
        tenant = self._tenant
        return {run: mark for run, mark in newest.items() if run in runs and tenant in (None, run.tenant_id)}

    async def list_answers(self, state_id: str) -> Sequence[AgentSignal]:
        return await self._listed(state_id, _ANSWERS)

    async def list_steering(self, state_id: str) -> Sequence[AgentSignal]:
        return await self._listed(state_id, _STEERING)

    async def _listed(self, state_id: str, statement: Prepared) -> Sequence[AgentSignal]:
        def look(connection: Connection) -> list[AgentSignal]:
            run = run_of(connection, self._tenant, state_id)
            codes = self._database.codes
            stored = statement.named_rows(connection, place_of(run))
            # One that the application did not write does not count; the run refuses it with evidence of its own.
            return [SIGNALS.decoded(values) for values in stored if codes.fit(signals, values)]

        return await self._database.read(look)

    async def mark_consumed(self, signal_id: str) -> AgentSignal:
        def work(connection: Connection) -> AgentSignal:
            found = find_one(connection, self._tenant, signal_id, signals.c.signal_id)
            if found is None:
                raise SignalNotFoundError(f"there is no pending signal {signal_id!r}.")
            run = RunKey(found["tenant_id"], found["run_id"])
            refuse_if_journaled(connection, run, "SqlAlchemySignalRepository.mark_consumed")
            codes = self._database.codes
            ended = {**found, "consumed_at": codes.now(), "end": AgentSignalEnd.TAKEN.value}
            named = {"tenant": run.tenant_id, "signal": signal_id, "at": ended["consumed_at"]}
            done = connection.execute(_CONSUME, {**named, "end_code": codes.end_text(ended)})
            if done.rowcount == 0:
                raise SignalNotFoundError(f"there is no pending signal {signal_id!r}.")
            return replace(SIGNALS.decoded(found), end=AgentSignalEnd.TAKEN)

        return await self._database.write(work)


def _newest_of(connection: Connection, runs: Collection[RunKey]) -> list[tuple[Any, ...]]:
    keys = sorted((run.tenant_id, run.run_id) for run in runs)
    pages = (keys[first : first + _AT_ONCE] for first in range(0, len(keys), _AT_ONCE))
    return [tuple(row) for page in pages for row in connection.execute(_NEWEST_OF, {"keys": page})]


def _queued(codes: RowCodes, values: Stored) -> AgentSignal:
    """Return a signal of the queue; one that is not stored as the application wrote it is refused."""
    signal = SIGNALS.decoded(values)
    return signal if codes.fit(signals, values) else replace(signal, end=AgentSignalEnd.REFUSED)


def _append(connection: Connection, codes: RowCodes, run: RunKey, encoded: _EncodedSignal) -> None:
    number, status = _counted(connection, run)
    refuse_after_end(run, None if status is None else AgentStatus(status))
    refuse_empty(encoded.signal)
    row = _row(run, number, encoded)
    codes.add(signals, row)
    _INSERT.run(connection, [row])


def _keep_refused(connection: Connection, codes: RowCodes, run: RunKey, encoded: _EncodedSignal) -> None:
    number, _ = _counted(connection, run)
    row: Values = {
        **_row(run, number, encoded),
        "end": AgentSignalEnd.REFUSED.value,
        "ended_at": codes.now(),
    }
    codes.add(signals, row)
    row["end_code"] = codes.end_of_signal({**row, "consumed_at": row["ended_at"]})
    _INSERT_REFUSED.run(connection, [row])


def _counted(connection: Connection, run: RunKey) -> tuple[int, str | None]:
    # Numbers are in the order of commits: other writers wait until this number is committed.
    ((number, status),) = _NEXT_NUMBER(connection).rows(connection, place_of(run))
    return number, status


def _row(run: RunKey, number: int, encoded: _EncodedSignal) -> Values:
    return {
        "tenant_id": run.tenant_id,
        "run_id": run.run_id,
        "number": number,
        "signal_id": encoded.signal.id,
        "kind": encoded.signal.kind.value,
        "payload": encoded.payload,
        "given_at": encoded.signal.created_at,
    }

"""`SqlAlchemySignalRepository`: the queues of signals."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, func, insert, select, update

from pilotage.adapters.sqlalchemy.columns import Moment, now
from pilotage.adapters.sqlalchemy.database import Database
from pilotage.adapters.sqlalchemy.driver import Prepared
from pilotage.adapters.sqlalchemy.errors import ConflictingWriteError
from pilotage.adapters.sqlalchemy.mapping import Stored, UnstorableError, signal_of, text_of
from pilotage.adapters.sqlalchemy.tables import signals
from pilotage.adapters.sqlalchemy.whose import only_one, refuse_if_journaled, run_of
from pilotage.agent.ports.journal import RunKey
from pilotage.agent.ports.repositories import IAgentSignalRepository
from pilotage.agent.signals import AgentSignal
from pilotage.errors import AgentDefinitionError, SignalNotFoundError

_BY_ID = select(signals).where(signals.c.signal_id == bindparam("signal"))
_OWN = _BY_ID.where(signals.c.tenant_id == bindparam("tenant"))

_LAST = select(func.coalesce(func.max(signals.c.number), 0)).where(
    signals.c.tenant_id == bindparam("tenant"), signals.c.run_id == bindparam("run")
)

_PENDING = Prepared(
    select(signals)
    .where(
        signals.c.tenant_id == bindparam("tenant"),
        signals.c.run_id == bindparam("run"),
        signals.c.consumed_at.is_(None),
    )
    .order_by(signals.c.number)
)

_INSERT = insert(signals).values(
    tenant_id=bindparam("tenant"),
    run_id=bindparam("run"),
    number=bindparam("next"),
    signal_id=bindparam("signal"),
    kind=bindparam("what"),
    payload=bindparam("said"),
    created_at=func.coalesce(bindparam("given_at", type_=Moment()), now()),
)

_CONSUME = (
    update(signals)
    .where(
        signals.c.tenant_id == bindparam("tenant"),
        signals.c.signal_id == bindparam("signal"),
        signals.c.consumed_at.is_(None),
    )
    .values(consumed_at=now())
)


class SqlAlchemySignalRepository(IAgentSignalRepository):
    """Signals in a database. With a `tenant` it knows only that tenant's signals, without one those of all."""

    def __init__(self, database: Database, tenant: str | None = None) -> None:
        self._database, self._tenant = database, tenant

    async def append(self, signal: AgentSignal) -> AgentSignal:
        try:
            said = text_of(f"the payload of signal {signal.id!r}", signal.payload)
        except UnstorableError as error:
            raise AgentDefinitionError(f"SqlAlchemySignalRepository.append: {error}.") from error

        def work(connection: Connection) -> AgentSignal:
            run = run_of(connection, self._tenant, signal.agent_state_id)
            # The order is that of the commits: whoever numbers lets others wait until its number is there to be seen.
            self._database.engines.take_turns(connection, "signals", run.tenant_id, run.run_id)
            present = _find(connection, run.tenant_id, signal.id)
            if present is None:
                _append(connection, run, signal, said)
                present = _find(connection, run.tenant_id, signal.id)
            assert present is not None  # noqa: S101 - it was just written
            return signal_of(present)

        try:
            return await self._database.write(work, may_be_repeated=True)
        except ConflictingWriteError:
            # The id was queued for another run in the same moment; now it is there to be found.
            return await self._database.write(work, may_be_repeated=True)

    async def list_pending(self, state_id: str) -> Sequence[AgentSignal]:
        def look(connection: Connection) -> list[AgentSignal]:
            run = run_of(connection, self._tenant, state_id)
            found = _PENDING.named_rows(connection, {"tenant": run.tenant_id, "run": run.run_id})
            return [signal_of(values) for values in found]

        return await self._database.read(look)

    async def mark_consumed(self, signal_id: str) -> AgentSignal:
        def work(connection: Connection) -> AgentSignal:
            found = _find(connection, self._tenant, signal_id)
            if found is None:
                raise SignalNotFoundError(f"there is no pending signal {signal_id!r}.")
            run = RunKey(found["tenant_id"], found["run_id"])
            refuse_if_journaled(connection, run, "SqlAlchemySignalRepository.mark_consumed")
            done = connection.execute(_CONSUME, {"tenant": run.tenant_id, "signal": signal_id})
            if done.rowcount == 0:
                raise SignalNotFoundError(f"there is no pending signal {signal_id!r}.")
            return signal_of(found)

        return await self._database.write(work)


def _find(connection: Connection, tenant: str | None, signal_id: str) -> Stored | None:
    place = {"signal": signal_id} if tenant is None else {"signal": signal_id, "tenant": tenant}
    found = connection.execute(_BY_ID if tenant is None else _OWN, place).mappings().all()
    only_one(signal_id, [values["tenant_id"] for values in found])
    return found[0] if found else None


def _append(connection: Connection, run: RunKey, signal: AgentSignal, said: str) -> None:
    place = {"tenant": run.tenant_id, "run": run.run_id}
    last = connection.execute(_LAST, place).scalar_one()
    connection.execute(
        _INSERT,
        {
            **place,
            "next": last + 1,
            "signal": signal.id,
            "what": signal.kind.value,
            "said": said,
            "given_at": signal.created_at,
        },
    )

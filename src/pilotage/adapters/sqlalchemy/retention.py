"""`SqlAlchemyRetention`: removing runs that have ended, or erasing their payloads.

Erasing removes every payload and leaves every row, so that the chain of digests still holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import sqlalchemy as sa
from sqlalchemy import Connection, bindparam, delete, exists, select, update

from pilotage.adapters.sqlalchemy.blob_files import BlobFiles
from pilotage.adapters.sqlalchemy.blobs import files_of, prune_unused, release_runs
from pilotage.adapters.sqlalchemy.columns import Undecodable, to_packed
from pilotage.adapters.sqlalchemy.database import Database
from pilotage.adapters.sqlalchemy.entry_counts import forget_runs
from pilotage.adapters.sqlalchemy.journal import NUMBER, read_page
from pilotage.adapters.sqlalchemy.mapping import Values, state_values
from pilotage.adapters.sqlalchemy.memory import prune_memories
from pilotage.adapters.sqlalchemy.statements import bulk_update, in_keys, of_run, place_of
from pilotage.adapters.sqlalchemy.stored_entries import STATES, RowCodes, recode
from pilotage.adapters.sqlalchemy.tables import (
    PLACES,
    blobs,
    evidence,
    journal,
    late_outcomes,
    leases,
    outbox,
    runs,
    signals,
    turns,
)
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.ports.repositories import IAgentRetention
from pilotage.agent.state import AgentState
from pilotage.checks import reject_naive, reject_not_positive
from pilotage.errors import CallerError, RunNotFoundError
from pilotage.runtime.journal.chain import payload_digest

_AT_ONCE = 100
_SOON = timedelta(hours=1)
ERASED_TURN = "[erased]"
"""The content of a turn that was erased: the others keep their numbers."""

_parents = runs.alias("parents")
_HAS_LIVE_PARENT = exists().where(
    _parents.c.tenant_id == runs.c.tenant_id, _parents.c.run_id == runs.c.parent_id, ~_parents.c.ended
)

_OVER = (
    select(runs.c.position, runs.c.tenant_id, runs.c.run_id)
    .where(
        runs.c.tenant_id == bindparam("tenant"),
        runs.c.ended,
        runs.c.updated_at < bindparam("before", type_=runs.c.updated_at.type),
        ~_HAS_LIVE_PARENT,
    )
    .order_by(runs.c.position)
    .limit(bindparam("most"))
    .with_for_update(of=runs, skip_locked=True)
)

_BLOBS_OF_RUNS = select(journal.c.record_blob, journal.c.view_blob).where(
    journal.c.run.in_(bindparam("numbers", expanding=True)),
    sa.or_(journal.c.record_blob.is_not(None), journal.c.view_blob.is_not(None)),
)

_REMOVE_ROWS = delete(journal).where(journal.c.run.in_(bindparam("numbers", expanding=True)))

_REMOVALS = [
    delete(table).where(in_keys(table, "tenant_id", "run_id"))
    for table in (signals, evidence, outbox, leases, late_outcomes, runs)
]

_TURNS_OF_RUNS = select(turns).where(in_keys(turns, "tenant_id", "run_id"))
_FORGET_RUNS_OF_TURNS = update(turns).where(in_keys(turns, "tenant_id", "run_id")).values(run_id=None)

_REMOVE_BLOBS = delete(blobs).where(
    blobs.c.digest.in_(bindparam("digests", expanding=True)),
    ~exists().where(journal.c.record_blob == blobs.c.digest),
    ~exists().where(journal.c.view_blob == blobs.c.digest),
)

_RUN = (
    select(runs, sa.literal(0, sa.Integer()).label("pending"))
    .where(*of_run(runs))
    .with_for_update(key_share=True)
)

_BLOBS_OF_RUN = select(journal.c.record_blob, journal.c.view_blob).where(
    journal.c.place > NUMBER * PLACES, journal.c.place < (NUMBER + 1) * PLACES
)

_ERASE_ROWS = bulk_update(
    journal,
    ("place",),
    lambda given: {
        **{name: sa.null() for name in ("record", "record_blob", "view", "view_blob", "events", "key_id")},
        # With a salt or token, a guess of the payloads could be compared with the digest.
        "salt": given["salt"],
        "token": sa.null(),
        "erased": given["payloads"],
    },
    {"payloads": journal.c.erased.type, "salt": journal.c.salt.type},
    lambda _: journal.c.erased.is_(None),
)

_ERASURES = (
    update(signals).where(*of_run(signals)).values(payload="{}"),
    delete(evidence).where(*of_run(evidence)),
    delete(late_outcomes).where(*of_run(late_outcomes)),
    update(turns).where(*of_run(turns)).values(content=ERASED_TURN, media=sa.null()),
)

_ERASE_STATE = (
    update(runs).where(*of_run(runs)).values(state=bindparam("document"), claim_problem=sa.null(), records=0)
)


class SqlAlchemyRetention(IAgentRetention):
    """Retention in a database, a hundred runs in a transaction, so that other writers do not wait long."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._files = files_of(database)

    async def prune(self, tenant_id: str, *, ended_before: datetime, limit: int = 1000) -> int:
        reject_not_positive("SqlAlchemyRetention.prune", limit=limit)
        reject_naive("SqlAlchemyRetention.prune", ended_before=ended_before)
        removed = 0
        while removed < limit:
            most = min(_AT_ONCE, limit - removed)
            codes = self._database.codes
            found = await self._database.write(
                partial(_remove, codes, self._files, (tenant_id, ended_before), most)
            )
            removed += found
            if found < most:
                break
        await prune_memories(self._database, tenant_id)
        # What was just uploaded is for a run that begins soon.
        await prune_unused(self._database, tenant_id, min(ended_before, datetime.now(UTC)) - _SOON)
        return removed

    async def erase(self, run: RunKey) -> None:
        codes = self._database.codes
        await self._database.write(partial(_erase, codes, self._files, run), may_be_repeated=True)


def _remove(
    codes: RowCodes,
    files: BlobFiles | None,
    chosen: tuple[str, datetime],
    most: int,
    connection: Connection,
) -> int:
    """Remove runs of a tenant that ended before a moment, and return how many."""
    tenant_id, before = chosen
    found = connection.execute(_OVER, {"tenant": tenant_id, "before": before, "most": most})
    # A run whose id cannot be decoded is left to a person: only its rows would be found.
    whole = [row for row in found if not isinstance(row.run_id, Undecodable)]
    over = [(row.position, (row.tenant_id, row.run_id)) for row in whole]
    if not over:
        return 0
    rows, named = {"numbers": [number for number, _ in over]}, {"keys": [key for _, key in over]}
    digests = _digests(connection.execute(_BLOBS_OF_RUNS, rows))
    connection.execute(_REMOVE_ROWS, rows)
    for removal in _REMOVALS:
        connection.execute(removal, named)
    forget_runs(connection, late_outcomes, named["keys"])
    if codes.is_on:
        for turn in connection.execute(_TURNS_OF_RUNS, named).all():
            place = (turns.c.tenant_id == turn.tenant_id, turns.c.conversation_id == turn.conversation_id)
            forgotten = update(turns).where(*place, turns.c.number == turn.number).values(run_id=None)
            connection.execute(forgotten)
            recode(codes, connection, turns, *place, turns.c.number == turn.number)
    else:
        connection.execute(_FORGET_RUNS_OF_TURNS, named)
    _remove_blobs(connection, digests)
    release_runs(files, named["keys"], connection)
    return len(over)


def _erase(codes: RowCodes, files: BlobFiles | None, run: RunKey, connection: Connection) -> None:
    """Erase the payloads of a run.

    Raises:
        RunNotFoundError: there is no such run.
        CallerError: it, or its parent, has not ended.
    """
    place = place_of(run)
    state = _ended_state(connection, codes, run)
    digests = _digests(connection.execute(_BLOBS_OF_RUN, place))
    connection.execute(_ERASE_STATE, {**place, "document": state_values(state)["state"]})
    _ERASE_ROWS.run(connection, list(_bare_rows(connection, run)))
    for erasure in _ERASURES:
        connection.execute(erasure, place)
    forget_runs(connection, late_outcomes, [(run.tenant_id, run.run_id)])
    for table in (runs, signals, turns):
        recode(codes, connection, table, *of_run(table), **place)
    _remove_blobs(connection, digests)
    release_runs(files, [(run.tenant_id, run.run_id)], connection)


def _ended_state(connection: Connection, codes: RowCodes, run: RunKey) -> AgentState:
    """Lock a run that has ended, and return its state without payloads."""
    found = connection.execute(_RUN, place_of(run)).mappings().first()
    if found is None or found["status"] is None:
        raise RunNotFoundError(f"there is no run {run.run_id!r}.")
    if not found["ended"]:
        raise CallerError(f"run {run.run_id!r} is {found['status']} and cannot be erased. Cancel it first.")
    if found["parent_id"] is not None:
        above = place_of(RunKey(run.tenant_id, found["parent_id"]))
        parent = connection.execute(_RUN, above).mappings().first()
        if parent is not None and not parent["ended"]:
            raise CallerError(
                f"run {run.run_id!r} cannot be erased: its parent {found['parent_id']!r} is {parent['status']} and may "
                "come back to it. End that one first."
            )
    state = STATES.read(codes, found)
    lasting = {name: state.metadata[name] for name in ("parent",) if name in state.metadata}
    return replace(state, current_activity=None, metadata={**lasting, "erased": True})


def _bare_rows(connection: Connection, run: RunKey) -> Iterator[Values]:
    """Yield what is left of each row; all are to be read before one is erased, for views point to records."""
    number = connection.execute(select(NUMBER), place_of(run)).scalar_one()
    after = 0
    while page := read_page(connection, run, after):
        for row in page:
            digest = payload_digest(row.texts, row.salt, row.events)
            place = number * PLACES + row.seq
            yield {"place": place, "payloads": to_packed(digest), "salt": to_packed("")}
        after = page[-1].seq


def _digests(found: Iterable[Iterable[str | None]]) -> set[str]:
    return {digest for row in found for digest in row if digest is not None}


def _remove_blobs(connection: Connection, digests: set[str]) -> None:
    """Remove the blobs that no row refers to any more."""
    if digests:
        connection.execute(_REMOVE_BLOBS, {"digests": sorted(digests)})

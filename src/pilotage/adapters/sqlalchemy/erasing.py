"""Erasing what one run said: every payload goes, every row stays, and the chain holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlalchemy import (
    Connection,
    Integer,
    bindparam,
    delete,
    literal,
    null,
    select,
    update,
)

from pilotage.adapters.sqlalchemy.bulk import bulk_update
from pilotage.adapters.sqlalchemy.columns import to_packed
from pilotage.adapters.sqlalchemy.mapping import Values, state_of, state_values
from pilotage.adapters.sqlalchemy.reading import NUMBER, read_page
from pilotage.adapters.sqlalchemy.tables import PLACES, evidence, journal, late_outcomes, runs, signals, turns
from pilotage.agent.ports.journal import RunKey
from pilotage.errors import CallerError, RunNotFoundError
from pilotage.runtime.journal.chain import payload_digest

ERASED_TURN = "[erased]"
"""What stands for a turn that was erased: the others keep their numbers."""

_IS_RUN = (runs.c.tenant_id == bindparam("tenant"), runs.c.run_id == bindparam("run"))
_RUN = select(runs, literal(0, Integer()).label("pending")).where(*_IS_RUN).with_for_update(key_share=True)

_BLOBS = select(journal.c.record_blob, journal.c.view_blob).where(
    journal.c.place > NUMBER * PLACES, journal.c.place < (NUMBER + 1) * PLACES
)

_ERASE_ROWS = bulk_update(
    journal,
    ("place",),
    lambda given: {
        **{name: null() for name in ("record", "record_blob", "view", "view_blob", "key_id")},
        # Together with a guess, salt or token would tell what the digest stands for.
        "salt": given["salt"],
        "token": null(),
        "erased": given["payloads"],
    },
    {"payloads": journal.c.erased.type, "salt": journal.c.salt.type},
    lambda _: journal.c.erased.is_(None),
)

_ERASE_SIGNALS = (
    update(signals)
    .where(signals.c.tenant_id == bindparam("tenant"), signals.c.run_id == bindparam("run"))
    .values(payload="{}")
)

_REMOVE_EVIDENCE = delete(evidence).where(
    evidence.c.tenant_id == bindparam("tenant"), evidence.c.run_id == bindparam("run")
)

_REMOVE_LATE_OUTCOMES = delete(late_outcomes).where(
    late_outcomes.c.tenant_id == bindparam("tenant"), late_outcomes.c.run_id == bindparam("run")
)

_ERASE_TURNS = (
    update(turns)
    .where(turns.c.tenant_id == bindparam("tenant"), turns.c.run_id == bindparam("run"))
    .values(content=ERASED_TURN)
)

_ERASE_STATE = update(runs).where(*_IS_RUN).values(state=bindparam("document"))


def erase_run(connection: Connection, run: RunKey) -> set[str]:
    """Erase the payloads of a run; the digests of blobs that it referred to.

    Raises:
        RunNotFoundError: there is no such run.
        CallerError: it, or its parent, has not ended.
    """
    place = {"tenant": run.tenant_id, "run": run.run_id}
    _refuse_live(connection, run)
    digests = {digest for row in connection.execute(_BLOBS, place) for digest in row if digest is not None}
    _ERASE_ROWS.run(connection, list(_bare_rows(connection, run)))
    for statement in (_ERASE_SIGNALS, _REMOVE_EVIDENCE, _REMOVE_LATE_OUTCOMES, _ERASE_TURNS):
        connection.execute(statement, place)
    return digests


def _bare_rows(connection: Connection, run: RunKey) -> Iterator[Values]:
    """What is left of each row: all of them are read before one is erased, for views point to records."""
    number = connection.execute(select(NUMBER), {"tenant": run.tenant_id, "run": run.run_id}).scalar_one()
    after = 0
    while page := read_page(connection, run, after):
        for row in page:
            digest = payload_digest(row.texts, row.salt)
            place = number * PLACES + row.seq
            yield {"place": place, "payloads": to_packed(digest), "salt": to_packed("")}
        after = page[-1].seq


def _refuse_live(connection: Connection, run: RunKey) -> None:
    found = connection.execute(_RUN, {"tenant": run.tenant_id, "run": run.run_id}).mappings().first()
    if found is None or found["status"] is None:
        raise RunNotFoundError(f"there is no run {run.run_id!r}.")
    if not found["ended"]:
        raise CallerError(f"run {run.run_id!r} is {found['status']} and cannot be erased. Cancel it first.")
    if found["parent_id"] is not None:
        parent = (
            connection.execute(_RUN, {"tenant": run.tenant_id, "run": found["parent_id"]}).mappings().first()
        )
        if parent is not None and not parent["ended"]:
            raise CallerError(
                f"run {run.run_id!r} cannot be erased: its parent {found['parent_id']!r} is {parent['status']} and may "
                "come back to it. End that one first."
            )
    state = state_of(found)
    kept = {name: state.metadata[name] for name in ("parent",) if name in state.metadata}
    bare = replace(state, current_activity=None, metadata={**kept, "erased": True})
    document = state_values(bare)["state"]
    connection.execute(_ERASE_STATE, {"tenant": run.tenant_id, "run": run.run_id, "document": document})

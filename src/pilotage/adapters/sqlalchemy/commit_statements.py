"""The statements of a commit: what it looks at, and what it writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import BigInteger, bindparam, case, func, literal_column, select, tuple_
from sqlalchemy.sql.expression import ColumnElement

from pilotage.adapters.sqlalchemy.bulk import Given, bulk_delete, bulk_insert, bulk_update
from pilotage.adapters.sqlalchemy.columns import Moment, now, seconds_from_now
from pilotage.adapters.sqlalchemy.reading import NUMBER
from pilotage.adapters.sqlalchemy.tables import (
    PLACES,
    blobs,
    evidence,
    journal,
    leases,
    outbox,
    runs,
    signals,
)
from pilotage.agent.ports.journal import JournalStage

_LOCKED = select(
    runs.c.tenant_id,
    runs.c.run_id,
    runs.c.head,
    runs.c.epoch,
    runs.c.digest,
    runs.c.status,
    runs.c.conversation_id,
    runs.c.parent_id,
    runs.c.facts,
).with_for_update(key_share=True)

LOCKED_ONE = _LOCKED.where(runs.c.tenant_id == bindparam("tenant"), runs.c.run_id == bindparam("run"))

LOCKED_SOME = _LOCKED.where(
    tuple_(runs.c.tenant_id, runs.c.run_id).in_(bindparam("keys", expanding=True))
).order_by(runs.c.tenant_id, runs.c.run_id)

TOKEN = select(journal.c.token).where(
    journal.c.place == NUMBER * PLACES + bindparam("seq", type_=journal.c.run.type)
)

EPOCH_THEN = (
    select(journal.c.epoch)
    .where(
        journal.c.place > NUMBER * PLACES,
        journal.c.place <= NUMBER * PLACES + bindparam("seq", type_=journal.c.run.type),
        journal.c.stage == JournalStage.CLAIMED.value,
    )
    .order_by(journal.c.place.desc())
    .limit(1)
)

HOLDERS = select(runs.c.tenant_id, runs.c.conversation_id, runs.c.run_id).where(
    tuple_(runs.c.tenant_id, runs.c.conversation_id).in_(bindparam("keys", expanding=True)),
    runs.c.conversation_id.is_not(None),
    ~runs.c.ended,
)

PENDING = select(signals.c.tenant_id, signals.c.run_id, signals.c.signal_id).where(
    tuple_(signals.c.tenant_id, signals.c.signal_id).in_(bindparam("keys", expanding=True)),
    signals.c.consumed_at.is_(None),
)

ACTIONS = select(journal.c.action_id, journal.c.stage, journal.c.attempt).where(
    journal.c.run == NUMBER,
    journal.c.action_id.in_(bindparam("actions", expanding=True)),
)

EVIDENCE = select(evidence.c.tenant_id, evidence.c.evidence_id).where(
    tuple_(evidence.c.tenant_id, evidence.c.evidence_id).in_(bindparam("keys", expanding=True))
)

_STATE = ("status", "agent_type", "state")


def _created(given: Given) -> Mapping[str, ColumnElement[Any]]:
    first_kept = func.coalesce(given["given_at"], now())
    return {
        "created_at": case((given["status"].is_not(None), first_kept)),
        "updated_at": case((given["status"].is_not(None), now())),
    }


def _moved(given: Given) -> Mapping[str, ColumnElement[Any]]:
    has_state = given["status"].is_not(None)
    return {
        **{name: given[name] for name in ("head", "epoch", "digest")},
        **{
            name: func.coalesce(given[name], runs.c[name])
            for name in (*_STATE, "conversation_id", "parent_id")
        },
        "ended": given["ended"],
        "facts": given["facts"],
        "created_at": case(
            (has_state, func.coalesce(runs.c.created_at, given["given_at"], now())), else_=runs.c.created_at
        ),
        "updated_at": case((has_state, now()), else_=runs.c.updated_at),
        # A step that says nothing of the state leaves it; one that does may end a wait.
        **{name: case((has_state, given[name]), else_=runs.c[name]) for name in ("wake_at", "awaits")},
    }


_NEW_RUN = (
    "tenant_id",
    "run_id",
    "head",
    "epoch",
    "digest",
    *_STATE,
    "ended",
    "wake_at",
    "awaits",
    "facts",
    "parent_id",
    "conversation_id",
)

INSERT_RUNS = bulk_insert(runs, _NEW_RUN, _created, extra={"given_at": Moment()}, skips_known=True)

MOVE_RUNS = bulk_update(
    runs,
    ("tenant_id", "run_id"),
    _moved,
    {
        **{name: runs.c[name].type for name in _NEW_RUN if name not in ("tenant_id", "run_id")},
        "given_at": Moment(),
        "expected": BigInteger(),
    },
    lambda given: runs.c.head == given["expected"],
)

# Most commits say nothing of the state. Then no index of the table has to be looked at, which is half of the work.
_HEAD = ("head", "epoch", "digest", "facts")

ADVANCE_RUNS = bulk_update(
    runs,
    ("tenant_id", "run_id"),
    lambda given: {name: given[name] for name in _HEAD},
    {**{name: runs.c[name].type for name in _HEAD}, "expected": BigInteger()},
    lambda given: runs.c.head == given["expected"],
)

ROW = [column.name for column in journal.c if column.name not in ("place", "run", "created_at", "erased")]


def placed(given: Given, position: ColumnElement[int]) -> Mapping[str, ColumnElement[Any]]:
    """Where a row of a journal belongs, by the position of its run, and when it is written."""
    return {
        "place": position * literal_column(str(PLACES), BigInteger()) + given["seq"],
        "run": position,
        # Asked once: rows need not be inserted in their order.
        "created_at": select(now()).scalar_subquery(),
    }


INSERT_ROWS = bulk_insert(
    journal,
    ROW,
    lambda given: placed(given, runs.c.position),
    extra={"tenant_id": runs.c.tenant_id.type, "run_id": runs.c.run_id.type, "seq": journal.c.run.type},
    beside=(runs, ("tenant_id", "run_id")),
)

INSERT_BLOBS = bulk_insert(
    blobs, ("tenant_id", "digest", "content"), lambda _: {"created_at": now()}, skips_known=True
)

INSERT_EVIDENCE = bulk_insert(
    evidence,
    ("tenant_id", "run_id", "evidence_id", "kind", "manifest_ref", "document"),
    lambda given: {"created_at": func.coalesce(given["given_at"], now())},
    extra={"given_at": Moment()},
)

INSERT_EVENTS = bulk_insert(
    outbox,
    ("tenant_id", "run_id", "number", "event_type", "version", "payload"),
    lambda _: {"created_at": now()},
)

CONSUME = bulk_update(
    signals,
    ("tenant_id", "run_id", "signal_id"),
    lambda _: {"consumed_at": now()},
    {},
    lambda _: signals.c.consumed_at.is_(None),
)

GRANT_LEASES = bulk_insert(
    leases,
    ("tenant_id", "run_id", "owner", "granted_seconds"),
    lambda given: {"expires_at": seconds_from_now(given["granted_seconds"])},
    replaces=("tenant_id", "run_id"),
)

END_LEASES = bulk_delete(leases, ("tenant_id", "run_id"))

"""Rows of a journal are narrower: found by one number, without the names of tenant and run, digests as bytes.

Rows are copied in pages, so that a large journal is never in memory as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

from pilotage.adapters.sqlalchemy.columns import ExactText, HexText, MomentColumn

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_PAGE = 500
_PLACES = 2**32
_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

# What is the same before and after.
_KEPT = (
    ("action_id", ExactText()),
    ("kind", sa.String(32)),
    ("stage", sa.String(16)),
    ("attempt", sa.Integer()),
    ("epoch", sa.BigInteger()),
    ("idempotency", sa.String(32)),
    ("key_id", ExactText()),
    ("record", ExactText()),
    ("view", ExactText()),
    ("token", ExactText()),
    ("created_at", MomentColumn()),
)
_PACKED = ("fingerprint", "record_blob", "view_blob", "digest", "salt", "erased")

_runs = sa.table(
    "pilotage_runs",
    sa.column("position", _NUMBER),
    sa.column("tenant_id", ExactText()),
    sa.column("run_id", ExactText()),
)
_old_rows = sa.table(
    "pilotage_journal_0001",
    sa.column("tenant_id", ExactText()),
    sa.column("run_id", ExactText()),
    sa.column("seq", sa.BigInteger()),
    *(sa.column(name, type_) for name, type_ in _KEPT),
    *(sa.column(name, ExactText()) for name in _PACKED),
)
_rows = sa.table(
    "pilotage_journal",
    sa.column("place", _NUMBER),
    sa.column("run", sa.BigInteger()),
    *(sa.column(name, type_) for name, type_ in _KEPT),
    *(sa.column(name, HexText()) for name in _PACKED),
)
_old_blobs = sa.table(
    "pilotage_blobs_0001",
    sa.column("tenant_id", ExactText()),
    sa.column("digest", sa.String(64)),
    sa.column("content", ExactText()),
    sa.column("created_at", MomentColumn()),
)
_blobs = sa.table(
    "pilotage_blobs",
    sa.column("digest", HexText()),
    sa.column("tenant_id", ExactText()),
    sa.column("content", ExactText()),
    sa.column("created_at", MomentColumn()),
)


def upgrade() -> None:
    """Put the old tables aside, make new ones, copy everything."""
    for index in (
        "uq_pilotage_journal_action",
        "ix_pilotage_journal_record_blob",
        "ix_pilotage_journal_view_blob",
    ):
        op.drop_index(index, "pilotage_journal")
    for table in ("pilotage_journal", "pilotage_blobs"):
        op.rename_table(table, f"{table}_0001")
        if op.get_context().dialect.name == "postgresql":
            # The name of a key belongs to the schema, not to its table.
            op.execute(f"ALTER INDEX {table}_pkey RENAME TO {table}_0001_pkey")
    _make_tables()
    connection = op.get_bind()
    for blobs in _pages(connection, _old_blobs, (_old_blobs.c.tenant_id, _old_blobs.c.digest)):
        connection.execute(_blobs.insert(), blobs)
    for run in _pages(connection, _runs, (_runs.c.position,)):
        for each in run:
            _copy_rows(connection, each)
    op.drop_table("pilotage_journal_0001")
    op.drop_table("pilotage_blobs_0001")


def _copy_rows(connection: sa.Connection, run: dict[str, Any]) -> None:
    of_run = (_old_rows.c.tenant_id == run["tenant_id"], _old_rows.c.run_id == run["run_id"])
    for rows in _pages(connection, _old_rows, (_old_rows.c.seq,), *of_run):
        for row in rows:
            del row["tenant_id"], row["run_id"]
            row["run"] = run["position"]
            row["place"] = run["position"] * _PLACES + row.pop("seq")
        connection.execute(_rows.insert(), rows)


def _pages(
    connection: sa.Connection,
    table: sa.TableClause,
    key: Sequence[sa.ColumnElement[Any]],
    *conditions: sa.ColumnElement[bool],
) -> Iterator[list[dict[str, Any]]]:
    """The rows of a table in the order of their key, a page at a time; nothing is open in between."""
    page = sa.select(table).where(*conditions).order_by(*key).limit(_PAGE)
    found = [dict(row) for row in connection.execute(page).mappings()]
    while found:
        last = [found[-1][column.name] for column in key]
        yield found
        behind = page.where(
            sa.tuple_(*key)
            > sa.tuple_(*(sa.literal(at, column.type) for at, column in zip(last, key, strict=True)))
        )
        found = [dict(row) for row in connection.execute(behind).mappings()]


def _make_tables() -> None:
    op.create_table(
        "pilotage_blobs",
        sa.Column("digest", HexText(), nullable=False),
        sa.Column("tenant_id", ExactText(), nullable=False),
        sa.Column("content", ExactText(), nullable=False),
        sa.Column("created_at", MomentColumn(), nullable=False),
        sa.PrimaryKeyConstraint("digest"),
    )
    op.create_table(
        "pilotage_journal",
        sa.Column("place", _NUMBER, autoincrement=False, nullable=False),
        sa.Column("run", sa.BigInteger(), nullable=False),
        sa.Column("action_id", ExactText(), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=True),
        sa.Column("stage", sa.String(length=16), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("fingerprint", HexText(), nullable=False),
        sa.Column("idempotency", sa.String(length=32), nullable=False),
        sa.Column("key_id", ExactText(), nullable=True),
        sa.Column("record", ExactText(), nullable=True),
        sa.Column("record_blob", HexText(), nullable=True),
        sa.Column("view", ExactText(), nullable=True),
        sa.Column("view_blob", HexText(), nullable=True),
        sa.Column("digest", HexText(), nullable=False),
        sa.Column("salt", HexText(), nullable=False),
        sa.Column("erased", HexText(), nullable=True),
        sa.Column("token", ExactText(), nullable=True),
        sa.Column("created_at", MomentColumn(), nullable=False),
        sa.PrimaryKeyConstraint("place"),
        sa.ForeignKeyConstraint(["record_blob"], ["pilotage_blobs.digest"], name="fk_record_blob"),
        sa.ForeignKeyConstraint(["view_blob"], ["pilotage_blobs.digest"], name="fk_view_blob"),
    )
    _make_index(
        "uq_pilotage_journal_action",
        "run",
        "action_id",
        "stage",
        "attempt",
        where="stage NOT IN ('claimed', 'told')",
    )
    _make_index("ix_pilotage_journal_record_blob", "record_blob", where="record_blob IS NOT NULL")
    _make_index("ix_pilotage_journal_view_blob", "view_blob", where="view_blob IS NOT NULL")


def _make_index(name: str, *columns: str, where: str) -> None:
    condition = sa.text(where)
    op.create_index(
        name,
        "pilotage_journal",
        list(columns),
        unique=name.startswith("uq_"),
        sqlite_where=condition,
        postgresql_where=condition,
    )

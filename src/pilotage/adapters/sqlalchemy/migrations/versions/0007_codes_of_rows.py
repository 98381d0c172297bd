"""Rows have codes, runs count their evidence and turns, and the database knows which keys made its codes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from pilotage.adapters.sqlalchemy.columns import HexText, MomentColumn

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_CODED = (
    "runs",
    "signals",
    "evidence",
    "turns",
    "outbox",
    "late_outcomes",
    "switches",
    "audit",
    "memories",
    "spending",
)


def upgrade() -> None:
    """Add the columns and the table; codes are made when an application with a key opens the database."""
    for name in _CODED:
        op.add_column(f"pilotage_{name}", sa.Column("code", HexText(), nullable=True))
    op.add_column("pilotage_signals", sa.Column("end_code", HexText(), nullable=True))
    for name in ("records", "turns", "ended_signals"):
        op.add_column("pilotage_runs", sa.Column(name, sa.BigInteger(), server_default="0", nullable=False))
    op.add_column("pilotage_evidence", sa.Column("number", sa.BigInteger(), nullable=True))
    op.execute(
        "UPDATE pilotage_evidence SET number = (SELECT count(*) FROM pilotage_evidence AS earlier "
        "WHERE earlier.tenant_id = pilotage_evidence.tenant_id AND earlier.run_id = pilotage_evidence.run_id "
        "AND earlier.position <= pilotage_evidence.position)"
    )
    op.create_table(
        "pilotage_keys",
        sa.Column("key_id", sa.String(64), nullable=False),
        sa.Column("created_at", MomentColumn(), nullable=False),
        sa.PrimaryKeyConstraint("key_id"),
    )
    for column, table, condition in (
        ("records", "evidence", ""),
        ("turns", "turns", ""),
        ("ended_signals", "signals", " AND entries.consumed_at IS NOT NULL"),
    ):
        op.execute(
            f"UPDATE pilotage_runs SET {column} = (SELECT count(*) FROM pilotage_{table} AS entries "  # noqa: S608 - ours
            "WHERE entries.tenant_id = pilotage_runs.tenant_id AND entries.run_id = pilotage_runs.run_id"
            f"{condition})"
        )

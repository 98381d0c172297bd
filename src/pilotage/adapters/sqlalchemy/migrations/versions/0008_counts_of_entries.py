"""Entries beside the journals are counted, and the first use of a key is done in steps."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from pilotage.adapters.sqlalchemy.columns import ExactText, HexText

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table and the column; what is stored is counted when an application with a key opens the database."""
    op.create_table(
        "pilotage_counts",
        sa.Column("entries", sa.String(32), nullable=False),
        sa.Column("scope", ExactText(), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("changes", sa.BigInteger(), nullable=False),
        sa.Column("code", HexText(), nullable=True),
        sa.PrimaryKeyConstraint("entries", "scope"),
    )
    op.add_column(
        "pilotage_keys", sa.Column("progress", sa.String(16), nullable=False, server_default="done")
    )
    op.execute("UPDATE pilotage_keys SET progress = 'counting'")

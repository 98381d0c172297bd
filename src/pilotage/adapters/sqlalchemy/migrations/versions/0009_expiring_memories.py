"""Memories may expire."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from pilotage.adapters.sqlalchemy.columns import MomentColumn

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; a memory that is stored already does not expire, and keeps its code."""
    for table in ("pilotage_memories", "pilotage_memory_words"):
        op.add_column(table, sa.Column("expires_at", MomentColumn(), nullable=True))

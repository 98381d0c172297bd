"""The events that readers got by a row."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from pilotage.adapters.sqlalchemy.columns import ExactText

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; the events of rows that are there are in rows of their own."""
    op.add_column("pilotage_journal", sa.Column("events", ExactText(), nullable=True))

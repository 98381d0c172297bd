"""Turns of conversations may have media."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from pilotage.adapters.sqlalchemy.columns import ExactText

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; turns that are stored already have no media, and keep their codes."""
    op.add_column("pilotage_turns", sa.Column("media", ExactText(), nullable=True))

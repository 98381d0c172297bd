"""The position of a call in its scope, and the place of its outcome among the turns."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; rows that are there keep none, and are matched by their ids."""
    op.add_column("pilotage_journal", sa.Column("number", sa.Integer(), nullable=True))
    op.add_column("pilotage_journal", sa.Column("turn", sa.Integer(), nullable=True))

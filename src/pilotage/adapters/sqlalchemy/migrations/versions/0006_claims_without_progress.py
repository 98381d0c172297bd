"""Claims of runs that ended without progress are counted, and the time of the next one is stored."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from pilotage.adapters.sqlalchemy.columns import ExactText, MomentColumn

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; of a run that is stored already, no claim is counted yet."""
    for column in (
        sa.Column("quarantined", sa.Boolean(), nullable=True),
        sa.Column("claims", sa.Integer(), server_default="0", nullable=False),
        sa.Column("claimed_at", MomentColumn(), nullable=True),
        sa.Column("claim_problem", ExactText(), nullable=True),
        sa.Column("claim_after", MomentColumn(), nullable=True),
    ):
        op.add_column("pilotage_runs", column)

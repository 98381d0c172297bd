"""What rows were paid for, and a view that shows it in columns."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from pilotage.adapters.sqlalchemy.cost_view import cost_view
from pilotage.adapters.sqlalchemy.supported import dialect_of

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column and the view; of rows that are there it is not known what they cost."""
    op.add_column("pilotage_journal", sa.Column("costs", sa.Text(), nullable=True))
    condition = sa.text("costs IS NOT NULL")
    op.create_index(
        "ix_pilotage_journal_costs",
        "pilotage_journal",
        ["created_at"],
        sqlite_where=condition,
        postgresql_where=condition,
    )
    op.execute(cost_view(dialect_of(op.get_bind().dialect.name)))

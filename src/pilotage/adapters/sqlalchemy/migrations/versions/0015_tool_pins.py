"""The accepted definitions of tools."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from pilotage.adapters.sqlalchemy.columns import ExactText, HexText, MomentColumn

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

_POSITION = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the table; its entries are counted from when an application with a key opens the database."""
    op.create_table(
        "pilotage_tool_pins",
        sa.Column("position", _POSITION, sa.Identity(), nullable=False),
        sa.Column("source", ExactText(), nullable=False),
        sa.Column("tool", ExactText(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("definition", ExactText(), nullable=False),
        sa.Column("by", ExactText(), nullable=True),
        sa.Column("accepted_at", MomentColumn(), nullable=False),
        sa.Column("code", HexText(), nullable=True),
        sa.PrimaryKeyConstraint("position"),
        sa.UniqueConstraint("source", "tool", name="uq_pilotage_tool_pins_source_tool"),
    )
    op.execute("UPDATE pilotage_keys SET progress = 'grown' WHERE progress = 'done'")

"""The bytes of media, and the runs that hold them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from pilotage.adapters.sqlalchemy.columns import ExactText, MomentColumn

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables; runs of earlier versions go on with the bytes that their rows have."""
    op.create_table(
        "pilotage_media",
        sa.Column("tenant_id", ExactText(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=True),
        sa.Column("key_id", sa.String(length=64), nullable=True),
        sa.Column("touched_at", MomentColumn(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "digest"),
    )
    op.create_table(
        "pilotage_media_uses",
        sa.Column("tenant_id", ExactText(), nullable=False),
        sa.Column("run_id", ExactText(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "run_id", "digest"),
    )
    op.create_index("ix_pilotage_media_uses_of", "pilotage_media_uses", ["tenant_id", "digest"], unique=False)

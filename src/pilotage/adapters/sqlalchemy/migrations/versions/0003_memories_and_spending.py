"""What agents remember, and what tenants spend."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from pilotage.adapters.sqlalchemy.columns import ExactText, MomentColumn

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_POSITION = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the tables of memories and of spending."""
    _make_memories()
    _make_spending()


def _make_memories() -> None:
    op.create_table(
        "pilotage_memories",
        sa.Column("position", _POSITION, sa.Identity(always=False), nullable=False),
        sa.Column("tenant_id", ExactText(), nullable=False),
        sa.Column("user_id", ExactText(), nullable=False),
        sa.Column("agent_type", ExactText(), server_default="", nullable=False),
        sa.Column("item_id", ExactText(), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("text", ExactText(), nullable=False),
        sa.Column("label", ExactText(), nullable=False),
        sa.Column("metadata", ExactText(), nullable=False),
        sa.Column("created_at", MomentColumn(), nullable=False),
        sa.PrimaryKeyConstraint("position"),
        sa.UniqueConstraint(
            "tenant_id", "user_id", "agent_type", "item_id", name="uq_pilotage_memories_item"
        ),
    )
    op.create_index(
        "ix_pilotage_memories_user", "pilotage_memories", ["tenant_id", "user_id", "position"], unique=False
    )
    op.create_table(
        "pilotage_memory_words",
        sa.Column("tenant_id", ExactText(), nullable=False),
        sa.Column("user_id", ExactText(), nullable=False),
        sa.Column("word", ExactText(), nullable=False),
        sa.Column("memory", _POSITION, nullable=False),
        sa.Column("agent_type", ExactText(), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "user_id", "word", "memory"),
        sa.ForeignKeyConstraint(["memory"], ["pilotage_memories.position"], name="fk_word_memory"),
    )
    op.create_index("ix_pilotage_memory_words_memory", "pilotage_memory_words", ["memory"], unique=False)


def _make_spending() -> None:
    op.create_table(
        "pilotage_spending",
        sa.Column("tenant_id", ExactText(), nullable=False),
        sa.Column("hour", MomentColumn(), nullable=False),
        *_amount(),
        sa.PrimaryKeyConstraint("tenant_id", "hour"),
    )
    op.create_table(
        "pilotage_budget_holds",
        sa.Column("tenant_id", ExactText(), nullable=False),
        sa.Column("hold_id", ExactText(), nullable=False),
        *_amount(),
        sa.Column("lapses_at", MomentColumn(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "hold_id"),
    )


def _amount() -> tuple[sa.Column[object], ...]:
    return (
        sa.Column("steps", sa.BigInteger(), nullable=False),
        sa.Column("tool_calls", sa.BigInteger(), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column("cost", sa.String(length=64), nullable=False),
    )

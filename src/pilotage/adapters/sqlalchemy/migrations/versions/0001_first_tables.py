"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from pilotage.adapters.sqlalchemy.columns import ExactText, MomentColumn

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make all tables."""
    op.create_table(
        "pilotage_audit",
        sa.Column(
            "position",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            sa.Identity(always=False),
            nullable=False,
        ),
        sa.Column("tenant_id", ExactText(), nullable=False),
        sa.Column("run_id", ExactText(), nullable=False),
        sa.Column("evidence_ref", ExactText(), nullable=True),
        sa.Column("document", ExactText(), nullable=False),
        sa.Column("occurred_at", MomentColumn(), nullable=False),
        sa.PrimaryKeyConstraint("position"),
    )
    op.create_index(
        "ix_pilotage_audit_run", "pilotage_audit", ["tenant_id", "run_id", "position"], unique=False
    )
    op.create_index(
        "uq_pilotage_audit_evidence",
        "pilotage_audit",
        ["tenant_id", "run_id", "evidence_ref"],
        unique=True,
        sqlite_where=sa.text("evidence_ref IS NOT NULL"),
        postgresql_where=sa.text("evidence_ref IS NOT NULL"),
    )
    op.create_table(
        "pilotage_blobs",
        sa.Column("tenant_id", ExactText(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("content", ExactText(), nullable=False),
        sa.Column("created_at", MomentColumn(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "digest"),
    )
    op.create_table(
        "pilotage_evidence",
        sa.Column(
            "position",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            sa.Identity(always=False),
            nullable=False,
        ),
        sa.Column("tenant_id", ExactText(), nullable=False),
        sa.Column("run_id", ExactText(), nullable=False),
        sa.Column("evidence_id", ExactText(), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("manifest_ref", ExactText(), nullable=True),
        sa.Column("document", ExactText(), nullable=False),
        sa.Column("created_at", MomentColumn(), nullable=False),
        sa.PrimaryKeyConstraint("position"),
        sa.UniqueConstraint(
            "evidence_id", "tenant_id", name=op.f("uq_pilotage_evidence_evidence_id_tenant_id")
        ),
    )
    op.create_index(
        "ix_pilotage_evidence_manifest",
        "pilotage_evidence",
        ["manifest_ref", "tenant_id", "position"],
        unique=False,
        sqlite_where=sa.text("manifest_ref IS NOT NULL"),
        postgresql_where=sa.text("manifest_ref IS NOT NULL"),
    )
    op.create_index(
        "ix_pilotage_evidence_run", "pilotage_evidence", ["tenant_id", "run_id", "position"], unique=False
    )
    op.create_table(
        "pilotage_late_outcomes",
        sa.Column(
            "position",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            sa.Identity(always=False),
            nullable=False,
        ),
        sa.Column("tenant_id", ExactText(), nullable=False),
        sa.Column("run_id", ExactText(), nullable=False),
        sa.Column("action_id", ExactText(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("view", ExactText(), nullable=False),
        sa.Column("created_at", MomentColumn(), nullable=False),
        sa.PrimaryKeyConstraint("position"),
        sa.UniqueConstraint(
            "tenant_id", "run_id", "action_id", "attempt", "epoch", name="uq_pilotage_late_outcomes"
        ),
    )
    op.create_table(
        "pilotage_leases",
        sa.Column("tenant_id", ExactText(), nullable=False),
        sa.Column("run_id", ExactText(), nullable=False),
        sa.Column("owner", ExactText(), nullable=False),
        sa.Column("granted_seconds", sa.Float(precision=53), nullable=False),
        sa.Column("expires_at", MomentColumn(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "run_id"),
    )
    op.create_table(
        "pilotage_outbox",
        sa.Column(
            "position",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            sa.Identity(always=False),
            nullable=False,
        ),
        sa.Column("tenant_id", ExactText(), nullable=False),
        sa.Column("run_id", ExactText(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("event_type", ExactText(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("payload", ExactText(), nullable=False),
        sa.Column("created_at", MomentColumn(), nullable=False),
        sa.Column("status", sa.String(length=16), server_default="waiting", nullable=False),
        sa.Column("failures", sa.Integer(), server_default="0", nullable=False),
        sa.Column("problem", ExactText(), nullable=True),
        sa.Column("owner", ExactText(), nullable=True),
        sa.Column("claimed_until", MomentColumn(), nullable=True),
        sa.Column("retry_at", MomentColumn(), nullable=True),
        sa.PrimaryKeyConstraint("position"),
        sa.UniqueConstraint(
            "tenant_id", "run_id", "number", name=op.f("uq_pilotage_outbox_tenant_id_run_id_number")
        ),
    )
    op.create_index(
        "ix_pilotage_outbox_parked",
        "pilotage_outbox",
        ["tenant_id", "position"],
        unique=False,
        sqlite_where=sa.text("status = 'parked'"),
        postgresql_where=sa.text("status = 'parked'"),
    )
    op.create_index(
        "ix_pilotage_outbox_waiting",
        "pilotage_outbox",
        ["tenant_id", "run_id", "number"],
        unique=False,
        sqlite_where=sa.text("status = 'waiting'"),
        postgresql_where=sa.text("status = 'waiting'"),
    )
    op.create_table(
        "pilotage_runs",
        sa.Column(
            "position",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            sa.Identity(always=False),
            nullable=False,
        ),
        sa.Column("tenant_id", ExactText(), nullable=False),
        sa.Column("run_id", ExactText(), nullable=False),
        sa.Column("head", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("epoch", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("digest", sa.String(length=64), server_default="", nullable=False),
        sa.Column("status", sa.String(length=16), nullable=True),
        sa.Column("agent_type", ExactText(), nullable=True),
        sa.Column("state", ExactText(), nullable=True),
        sa.Column("ended", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("created_at", MomentColumn(), nullable=True),
        sa.Column("updated_at", MomentColumn(), nullable=True),
        sa.Column("wake_at", MomentColumn(), nullable=True),
        sa.Column("awaits", sa.String(length=32), nullable=True),
        sa.Column("facts", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("parent_id", ExactText(), nullable=True),
        sa.Column("conversation_id", ExactText(), nullable=True),
        sa.PrimaryKeyConstraint("position"),
        sa.UniqueConstraint("tenant_id", "run_id", name=op.f("uq_pilotage_runs_tenant_id_run_id")),
    )
    op.create_index("ix_pilotage_runs_by_id", "pilotage_runs", ["run_id", "tenant_id"], unique=False)
    op.create_index(
        "ix_pilotage_runs_in_status", "pilotage_runs", ["status", "tenant_id", "position"], unique=False
    )
    op.create_index("ix_pilotage_runs_newest", "pilotage_runs", ["tenant_id", "position"], unique=False)
    op.create_index(
        "ix_pilotage_runs_of_conversation",
        "pilotage_runs",
        ["tenant_id", "conversation_id", "position"],
        unique=False,
        sqlite_where=sa.text("conversation_id IS NOT NULL"),
        postgresql_where=sa.text("conversation_id IS NOT NULL"),
    )
    op.create_index(
        "ix_pilotage_runs_open",
        "pilotage_runs",
        ["agent_type", "tenant_id", "updated_at"],
        unique=False,
        sqlite_where=sa.text("NOT ended"),
        postgresql_where=sa.text("NOT ended"),
    )
    op.create_index(
        "uq_pilotage_runs_conversation",
        "pilotage_runs",
        ["tenant_id", "conversation_id"],
        unique=True,
        sqlite_where=sa.text("conversation_id IS NOT NULL AND NOT ended"),
        postgresql_where=sa.text("conversation_id IS NOT NULL AND NOT ended"),
    )
    op.create_table(
        "pilotage_signals",
        sa.Column("tenant_id", ExactText(), nullable=False),
        sa.Column("run_id", ExactText(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("signal_id", ExactText(), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("payload", ExactText(), nullable=False),
        sa.Column("created_at", MomentColumn(), nullable=False),
        sa.Column("consumed_at", MomentColumn(), nullable=True),
        sa.PrimaryKeyConstraint("tenant_id", "run_id", "number"),
        sa.UniqueConstraint("signal_id", "tenant_id", name=op.f("uq_pilotage_signals_signal_id_tenant_id")),
    )
    op.create_index(
        "ix_pilotage_signals_pending",
        "pilotage_signals",
        ["tenant_id", "run_id", "number"],
        unique=False,
        sqlite_where=sa.text("consumed_at IS NULL"),
        postgresql_where=sa.text("consumed_at IS NULL"),
    )
    op.create_table(
        "pilotage_switches",
        sa.Column(
            "position",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            sa.Identity(always=False),
            nullable=False,
        ),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("name", ExactText(), nullable=False),
        sa.Column("reason", ExactText(), nullable=False),
        sa.Column("by", ExactText(), nullable=True),
        sa.Column("since", MomentColumn(), nullable=False),
        sa.PrimaryKeyConstraint("position"),
        sa.UniqueConstraint("kind", "name", name=op.f("uq_pilotage_switches_kind_name")),
    )
    op.create_table(
        "pilotage_turns",
        sa.Column("tenant_id", ExactText(), nullable=False),
        sa.Column("conversation_id", ExactText(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("content", ExactText(), nullable=False),
        sa.Column("trust", ExactText(), nullable=True),
        sa.Column("run_id", ExactText(), nullable=True),
        sa.Column("created_at", MomentColumn(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "conversation_id", "number"),
    )
    op.create_index(
        "ix_pilotage_turns_run",
        "pilotage_turns",
        ["tenant_id", "run_id"],
        unique=False,
        sqlite_where=sa.text("run_id IS NOT NULL"),
        postgresql_where=sa.text("run_id IS NOT NULL"),
    )
    op.create_table(
        "pilotage_journal",
        sa.Column("tenant_id", ExactText(), nullable=False),
        sa.Column("run_id", ExactText(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("action_id", ExactText(), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=True),
        sa.Column("stage", sa.String(length=16), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("fingerprint", ExactText(), nullable=False),
        sa.Column("idempotency", sa.String(length=32), nullable=False),
        sa.Column("key_id", ExactText(), nullable=True),
        sa.Column("record", ExactText(), nullable=True),
        sa.Column("record_blob", sa.String(length=64), nullable=True),
        sa.Column("view", ExactText(), nullable=True),
        sa.Column("view_blob", sa.String(length=64), nullable=True),
        sa.Column("digest", ExactText(), nullable=False),
        sa.Column("salt", ExactText(), nullable=False),
        sa.Column("erased", sa.String(length=64), nullable=True),
        sa.Column("token", ExactText(), nullable=True),
        sa.Column("created_at", MomentColumn(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant_id", "record_blob"],
            ["pilotage_blobs.tenant_id", "pilotage_blobs.digest"],
            name="fk_record_blob",
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "view_blob"],
            ["pilotage_blobs.tenant_id", "pilotage_blobs.digest"],
            name="fk_view_blob",
        ),
        sa.PrimaryKeyConstraint("tenant_id", "run_id", "seq"),
        sqlite_with_rowid=True,
    )
    op.create_index(
        "ix_pilotage_journal_record_blob",
        "pilotage_journal",
        ["tenant_id", "record_blob"],
        unique=False,
        sqlite_where=sa.text("record_blob IS NOT NULL"),
        postgresql_where=sa.text("record_blob IS NOT NULL"),
    )
    op.create_index(
        "ix_pilotage_journal_view_blob",
        "pilotage_journal",
        ["tenant_id", "view_blob"],
        unique=False,
        sqlite_where=sa.text("view_blob IS NOT NULL"),
        postgresql_where=sa.text("view_blob IS NOT NULL"),
    )
    op.create_index(
        "uq_pilotage_journal_action",
        "pilotage_journal",
        ["tenant_id", "run_id", "action_id", "stage", "attempt"],
        unique=True,
        sqlite_where=sa.text("stage NOT IN ('claimed', 'told')"),
        postgresql_where=sa.text("stage NOT IN ('claimed', 'told')"),
    )

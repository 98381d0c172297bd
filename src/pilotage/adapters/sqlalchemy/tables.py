"""The tables. Whatever is looked up is looked up within its tenant; times are the store's, in UTC.

Rows of a journal and blobs are found by a number and by a digest that belong to one tenant each.

Whatever is JSON is canonical text. What a row is looked up by has a column; the rest of a value is one document.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    UniqueConstraint,
    false,
    text,
)

from pilotage.adapters.sqlalchemy.columns import ExactText, HexText, Moment

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    }
)

_POSITION = BigInteger().with_variant(Integer(), "sqlite")


def _position() -> Column[int]:
    """The order in which the store first saw the rows; numbers may be missing."""
    return Column("position", _POSITION, Identity(), primary_key=True)


def _index(name: str, *columns: str, unique: bool = False, where: str | None = None) -> Index:
    condition = None if where is None else text(where)
    return Index(name, *columns, unique=unique, sqlite_where=condition, postgresql_where=condition)


runs = Table(
    "pilotage_runs",
    metadata,
    _position(),
    Column("tenant_id", ExactText, nullable=False),
    Column("run_id", ExactText, nullable=False),
    # The journal: where it ends. A run that only has a state is at row 0.
    Column("head", BigInteger, nullable=False, server_default="0"),
    Column("epoch", BigInteger, nullable=False, server_default="0"),
    Column("digest", String(64), nullable=False, server_default=""),
    # The state; a run may have rows before it has one.
    Column("status", String(16)),
    Column("agent_type", ExactText),
    Column("state", ExactText),
    Column("ended", Boolean, nullable=False, server_default=false()),
    Column("created_at", Moment),
    Column("updated_at", Moment),
    Column("wake_at", Moment),
    Column("awaits", String(32)),
    # How many facts of it are in the outbox.
    Column("facts", BigInteger, nullable=False, server_default="0"),
    # What its first commit said.
    Column("parent_id", ExactText),
    Column("conversation_id", ExactText),
    UniqueConstraint("tenant_id", "run_id"),
    _index("ix_pilotage_runs_by_id", "run_id", "tenant_id"),
    _index("ix_pilotage_runs_newest", "tenant_id", "position"),
    _index("ix_pilotage_runs_open", "agent_type", "tenant_id", "updated_at", where="NOT ended"),
    _index("ix_pilotage_runs_in_status", "status", "tenant_id", "position"),
    _index(
        "uq_pilotage_runs_conversation",
        "tenant_id",
        "conversation_id",
        unique=True,
        where="conversation_id IS NOT NULL AND NOT ended",
    ),
    _index(
        "ix_pilotage_runs_of_conversation",
        "tenant_id",
        "conversation_id",
        "position",
        where="conversation_id IS NOT NULL",
    ),
)

PLACES = 2**32
"""How many rows the journal of a run has room for: row `seq` of run `n` is at place `n * PLACES + seq`."""

journal = Table(
    "pilotage_journal",
    metadata,
    # One number is the key, so that the rows of a run lie beside each other, and none of them repeats whose it is.
    Column("place", _POSITION, primary_key=True, autoincrement=False),
    # The position of its run.
    Column("run", BigInteger, nullable=False),
    Column("action_id", ExactText, nullable=False),
    Column("kind", String(32)),
    Column("stage", String(16), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("fingerprint", HexText, nullable=False),
    Column("idempotency", String(32), nullable=False),
    # A record is open text, or a ciphertext with the id of its key; a large one is a blob.
    Column("key_id", ExactText),
    Column("record", ExactText),
    Column("record_blob", HexText),
    # Neither a view nor a blob: the view is the record. How else it may be written tells `payloads`.
    Column("view", ExactText),
    Column("view_blob", HexText),
    Column("digest", HexText, nullable=False),
    Column("salt", HexText, nullable=False),
    # The digest of the payloads, where these were erased.
    Column("erased", HexText),
    # On the last row of a commit: by it a writer recognises its own rows.
    Column("token", ExactText),
    Column("created_at", Moment, nullable=False),
    ForeignKeyConstraint(["record_blob"], ["pilotage_blobs.digest"], name="fk_record_blob"),
    ForeignKeyConstraint(["view_blob"], ["pilotage_blobs.digest"], name="fk_view_blob"),
    _index(
        "uq_pilotage_journal_action",
        "run",
        "action_id",
        "stage",
        "attempt",
        unique=True,
        where="stage NOT IN ('claimed', 'told')",
    ),
    _index("ix_pilotage_journal_record_blob", "record_blob", where="record_blob IS NOT NULL"),
    _index("ix_pilotage_journal_view_blob", "view_blob", where="view_blob IS NOT NULL"),
)

blobs = Table(
    "pilotage_blobs",
    metadata,
    # The tenant is part of what the digest is made of.
    Column("digest", HexText, primary_key=True),
    Column("tenant_id", ExactText, nullable=False),
    Column("content", ExactText, nullable=False),
    Column("created_at", Moment, nullable=False),
)

signals = Table(
    "pilotage_signals",
    metadata,
    Column("tenant_id", ExactText, nullable=False),
    Column("run_id", ExactText, nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("signal_id", ExactText, nullable=False),
    Column("kind", String(32), nullable=False),
    Column("payload", ExactText, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("consumed_at", Moment),
    PrimaryKeyConstraint("tenant_id", "run_id", "number"),
    UniqueConstraint("signal_id", "tenant_id"),
    _index("ix_pilotage_signals_pending", "tenant_id", "run_id", "number", where="consumed_at IS NULL"),
)

evidence = Table(
    "pilotage_evidence",
    metadata,
    _position(),
    Column("tenant_id", ExactText, nullable=False),
    Column("run_id", ExactText, nullable=False),
    Column("evidence_id", ExactText, nullable=False),
    Column("kind", String(32), nullable=False),
    Column("manifest_ref", ExactText),
    Column("document", ExactText, nullable=False),
    Column("created_at", Moment, nullable=False),
    UniqueConstraint("evidence_id", "tenant_id"),
    _index("ix_pilotage_evidence_run", "tenant_id", "run_id", "position"),
    _index(
        "ix_pilotage_evidence_manifest",
        "manifest_ref",
        "tenant_id",
        "position",
        where="manifest_ref IS NOT NULL",
    ),
)

turns = Table(
    "pilotage_turns",
    metadata,
    Column("tenant_id", ExactText, nullable=False),
    Column("conversation_id", ExactText, nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("role", String(16), nullable=False),
    Column("content", ExactText, nullable=False),
    Column("trust", ExactText),
    Column("run_id", ExactText),
    Column("created_at", Moment, nullable=False),
    PrimaryKeyConstraint("tenant_id", "conversation_id", "number"),
    _index("ix_pilotage_turns_run", "tenant_id", "run_id", where="run_id IS NOT NULL"),
)

outbox = Table(
    "pilotage_outbox",
    metadata,
    _position(),
    Column("tenant_id", ExactText, nullable=False),
    Column("run_id", ExactText, nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("event_type", ExactText, nullable=False),
    Column("version", Integer, nullable=False),
    Column("payload", ExactText, nullable=False),
    Column("created_at", Moment, nullable=False),
    # Delivery: how it stands, with whom it is out until when, and what went wrong the last time.
    Column("status", String(16), nullable=False, server_default="waiting"),
    Column("failures", Integer, nullable=False, server_default="0"),
    Column("problem", ExactText),
    Column("owner", ExactText),
    Column("claimed_until", Moment),
    Column("retry_at", Moment),
    UniqueConstraint("tenant_id", "run_id", "number"),
    _index("ix_pilotage_outbox_waiting", "tenant_id", "run_id", "number", where="status = 'waiting'"),
    _index("ix_pilotage_outbox_parked", "tenant_id", "position", where="status = 'parked'"),
)

leases = Table(
    "pilotage_leases",
    metadata,
    Column("tenant_id", ExactText, nullable=False),
    Column("run_id", ExactText, nullable=False),
    Column("owner", ExactText, nullable=False),
    Column("granted_seconds", Float(53), nullable=False),
    Column("expires_at", Moment, nullable=False),
    PrimaryKeyConstraint("tenant_id", "run_id"),
)

late_outcomes = Table(
    "pilotage_late_outcomes",
    metadata,
    _position(),
    Column("tenant_id", ExactText, nullable=False),
    Column("run_id", ExactText, nullable=False),
    Column("action_id", ExactText, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("view", ExactText, nullable=False),
    Column("created_at", Moment, nullable=False),
    UniqueConstraint(
        "tenant_id", "run_id", "action_id", "attempt", "epoch", name="uq_pilotage_late_outcomes"
    ),
)

switches = Table(
    "pilotage_switches",
    metadata,
    _position(),
    Column("kind", String(16), nullable=False),
    Column("name", ExactText, nullable=False),
    Column("reason", ExactText, nullable=False),
    Column("by", ExactText),
    Column("since", Moment, nullable=False),
    UniqueConstraint("kind", "name"),
)

audit = Table(
    "pilotage_audit",
    metadata,
    _position(),
    Column("tenant_id", ExactText, nullable=False),
    Column("run_id", ExactText, nullable=False),
    Column("evidence_ref", ExactText),
    Column("document", ExactText, nullable=False),
    Column("occurred_at", Moment, nullable=False),
    _index("ix_pilotage_audit_run", "tenant_id", "run_id", "position"),
    _index(
        "uq_pilotage_audit_evidence",
        "tenant_id",
        "run_id",
        "evidence_ref",
        unique=True,
        where="evidence_ref IS NOT NULL",
    ),
)

memories = Table(
    "pilotage_memories",
    metadata,
    _position(),
    Column("tenant_id", ExactText, nullable=False),
    Column("user_id", ExactText, nullable=False),
    # Empty for what was remembered for no agent in particular.
    Column("agent_type", ExactText, nullable=False, server_default=""),
    Column("item_id", ExactText, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("text", ExactText, nullable=False),
    Column("label", ExactText, nullable=False),
    Column("metadata", ExactText, nullable=False),
    Column("created_at", Moment, nullable=False),
    UniqueConstraint("tenant_id", "user_id", "agent_type", "item_id", name="uq_pilotage_memories_item"),
    _index("ix_pilotage_memories_user", "tenant_id", "user_id", "position"),
)

memory_words = Table(
    "pilotage_memory_words",
    metadata,
    Column("tenant_id", ExactText, nullable=False),
    Column("user_id", ExactText, nullable=False),
    Column("word", ExactText, nullable=False),
    Column("memory", _POSITION, nullable=False),
    # As the memory has them: who is looked for is found here, without a join whose plan depends on statistics.
    Column("agent_type", ExactText, nullable=False),
    Column("kind", String(16), nullable=False),
    PrimaryKeyConstraint("tenant_id", "user_id", "word", "memory"),
    ForeignKeyConstraint(["memory"], ["pilotage_memories.position"], name="fk_word_memory"),
    _index("ix_pilotage_memory_words_memory", "memory"),
)

spending = Table(
    "pilotage_spending",
    metadata,
    Column("tenant_id", ExactText, nullable=False),
    Column("hour", Moment, nullable=False),
    Column("steps", BigInteger, nullable=False),
    Column("tool_calls", BigInteger, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    # The digits of a decimal: sums of money are exact on every database.
    Column("cost", String(64), nullable=False),
    PrimaryKeyConstraint("tenant_id", "hour"),
)

budget_holds = Table(
    "pilotage_budget_holds",
    metadata,
    Column("tenant_id", ExactText, nullable=False),
    Column("hold_id", ExactText, nullable=False),
    Column("steps", BigInteger, nullable=False),
    Column("tool_calls", BigInteger, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("cost", String(64), nullable=False),
    Column("lapses_at", Moment, nullable=False),
    PrimaryKeyConstraint("tenant_id", "hold_id"),
)

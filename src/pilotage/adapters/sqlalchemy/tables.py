"""The tables. Every look-up is within one tenant; times are those of the store, in UTC.

Rows of a journal are found by a number, blobs by a digest; each of these belongs to one tenant. JSON is canonical text.
What a row is looked up by has a column; the rest of a value is one document.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from pilotage.adapters.sqlalchemy.columns import ExactText, HexText, MomentColumn

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    }
)

_POSITION = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _position() -> sa.Column[int]:
    """Return the key that numbers rows in the order of insertion; numbers may be missing."""
    return sa.Column("position", _POSITION, sa.Identity(), primary_key=True)


def _texts(*names: str) -> list[sa.Column[str]]:
    """Return columns of texts that every row has."""
    return [sa.Column(name, ExactText, nullable=False) for name in names]


def _code() -> sa.Column[str]:
    """Return the column of a row's code, see `stored_entries`; rows of a database without a key have none."""
    return sa.Column("code", HexText)


def _amount() -> list[sa.Column[Any]]:
    """Return the columns of an amount; money is the digits of a decimal, so that sums are exact on every database."""
    counts = [sa.Column(name, sa.BigInteger, nullable=False) for name in ("steps", "tool_calls", "tokens")]
    return [*counts, sa.Column("cost", sa.String(64), nullable=False)]


def _index(name: str, *columns: str, unique: bool = False, where: str | None = None) -> sa.Index:
    condition = None if where is None else sa.text(where)
    return sa.Index(name, *columns, unique=unique, sqlite_where=condition, postgresql_where=condition)


CAN_BE_DRIVEN = "NOT ended AND (status IN ('active', 'cancelling') OR parent_id IS NOT NULL)"
"""The runs that may go on without an answer and without a time: those under way, and children of ended parents."""

HAS_TIME = "NOT ended AND wake_at IS NOT NULL"
"""The runs that go on at a time."""

IS_PENDING = "consumed_at IS NULL"
"""The signals that no run has taken in and that have no other end."""

IS_ANSWER = "consumed_at IS NULL AND kind IN ('approval_decision', 'cancel', 'resume')"
"""The pending signals that let a run go on whatever it awaits: `ports.leases.LETS_GO_ON`."""

runs = sa.Table(
    "pilotage_runs",
    metadata,
    _position(),
    *_texts("tenant_id", "run_id"),
    # The end of the journal. A run without rows is at 0.
    sa.Column("head", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("epoch", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("digest", sa.String(64), nullable=False, server_default=""),
    # The state; a run may have rows before it has one.
    sa.Column("status", sa.String(16)),
    sa.Column("agent_type", ExactText),
    sa.Column("state", ExactText),
    sa.Column("ended", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("created_at", MomentColumn),
    sa.Column("updated_at", MomentColumn),
    sa.Column("wake_at", MomentColumn),
    sa.Column("awaits", sa.String(32)),
    sa.Column("quarantined", sa.Boolean),
    # The numbers of its facts in the outbox, its pieces of evidence, the turns that it added, its signals with an end.
    sa.Column("facts", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("records", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("turns", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("ended_signals", sa.BigInteger, nullable=False, server_default="0"),
    # The number of its last signal.
    sa.Column("last_signal", sa.BigInteger, nullable=False, server_default="0"),
    # The claims without progress since the last row, the time and problem of the last one, and the back-off.
    sa.Column("claims", sa.Integer, nullable=False, server_default="0"),
    sa.Column("claimed_at", MomentColumn),
    sa.Column("claim_problem", ExactText),
    sa.Column("claim_after", MomentColumn),
    # Given by the first commit.
    sa.Column("parent_id", ExactText),
    sa.Column("conversation_id", ExactText),
    _code(),
    sa.UniqueConstraint("tenant_id", "run_id"),
    _index("ix_pilotage_runs_by_id", "run_id", "tenant_id"),
    _index("ix_pilotage_runs_newest", "tenant_id", "position"),
    # What the backlog looks at, see `backlog`: runs that can go on without an answer, and runs whose time may be up.
    _index("ix_pilotage_runs_driven", "tenant_id", "run_id", where=CAN_BE_DRIVEN),
    _index("ix_pilotage_runs_due", "wake_at", "tenant_id", "run_id", where=HAS_TIME),
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

journal = sa.Table(
    "pilotage_journal",
    metadata,
    # One number is the key: the rows of a run are adjacent, and do not repeat the names of tenant and run.
    sa.Column("place", _POSITION, primary_key=True, autoincrement=False),
    # The position of its run.
    sa.Column("run", sa.BigInteger, nullable=False),
    sa.Column("action_id", ExactText, nullable=False),
    sa.Column("kind", sa.String(32)),
    sa.Column("stage", sa.String(16), nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("fingerprint", HexText, nullable=False),
    sa.Column("idempotency", sa.String(32), nullable=False),
    # The position of its call in its scope, and the place of its outcome among those that took a turn.
    sa.Column("number", sa.Integer),
    sa.Column("turn", sa.Integer),
    # A record is open text, or a ciphertext with the id of its key; a large one is a blob.
    sa.Column("key_id", ExactText),
    sa.Column("record", ExactText),
    sa.Column("record_blob", HexText),
    # Without view and blob, the view is the record; `rows` describes the other forms.
    sa.Column("view", ExactText),
    sa.Column("view_blob", HexText),
    # The events that readers got by then.
    sa.Column("events", ExactText),
    # What the row was paid for, see `pilotage.agent.costs`; the view `pilotage_costs` shows it in columns.
    sa.Column("costs", sa.Text),
    sa.Column("digest", HexText, nullable=False),
    sa.Column("salt", HexText, nullable=False),
    # The digest of erased payloads.
    sa.Column("erased", HexText),
    # On the last row of a commit: a writer recognises its own rows by it.
    sa.Column("token", ExactText),
    sa.Column("created_at", MomentColumn, nullable=False),
    sa.ForeignKeyConstraint(["record_blob"], ["pilotage_blobs.digest"], name="fk_record_blob"),
    sa.ForeignKeyConstraint(["view_blob"], ["pilotage_blobs.digest"], name="fk_view_blob"),
    _index(
        "uq_pilotage_journal_action",
        "run",
        "action_id",
        "stage",
        "attempt",
        unique=True,
        where="stage NOT IN ('claimed', 'told')",
    ),
    # Reports about costs read a stretch of time.
    _index("ix_pilotage_journal_costs", "created_at", where="costs IS NOT NULL"),
    _index("ix_pilotage_journal_record_blob", "record_blob", where="record_blob IS NOT NULL"),
    _index("ix_pilotage_journal_view_blob", "view_blob", where="view_blob IS NOT NULL"),
)

blobs = sa.Table(
    "pilotage_blobs",
    metadata,
    # The digest covers the tenant.
    sa.Column("digest", HexText, primary_key=True),
    *_texts("tenant_id", "content"),
    sa.Column("created_at", MomentColumn, nullable=False),
)

media = sa.Table(
    "pilotage_media",
    metadata,
    *_texts("tenant_id"),
    # That of the plain bytes; it is in the rows of the runs.
    sa.Column("digest", sa.String(64), nullable=False),
    # As they are, or sealed with the key of that id; none where they are in a file.
    sa.Column("content", sa.LargeBinary),
    sa.Column("key_id", sa.String(64)),
    # When a writer last put or held them: a run that is about to begin holds nothing yet.
    sa.Column("touched_at", MomentColumn, nullable=False),
    sa.PrimaryKeyConstraint("tenant_id", "digest"),
)

media_uses = sa.Table(
    "pilotage_media_uses",
    metadata,
    *_texts("tenant_id", "run_id"),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.PrimaryKeyConstraint("tenant_id", "run_id", "digest"),
    _index("ix_pilotage_media_uses_of", "tenant_id", "digest"),
)

signals = sa.Table(
    "pilotage_signals",
    metadata,
    *_texts("tenant_id", "run_id"),
    sa.Column("number", sa.BigInteger, nullable=False),
    sa.Column("signal_id", ExactText, nullable=False),
    sa.Column("kind", sa.String(32), nullable=False),
    sa.Column("payload", ExactText, nullable=False),
    sa.Column("created_at", MomentColumn, nullable=False),
    # When it left the queue, and its end. Earlier versions stored no end: such a signal was taken.
    sa.Column("consumed_at", MomentColumn),
    sa.Column("end", sa.String(16)),
    _code(),
    # That of its end, which is written later.
    sa.Column("end_code", HexText),
    sa.PrimaryKeyConstraint("tenant_id", "run_id", "number"),
    sa.UniqueConstraint("signal_id", "tenant_id"),
    _index("ix_pilotage_signals_pending", "tenant_id", "run_id", "number", where=IS_PENDING),
    _index("ix_pilotage_signals_answers", "tenant_id", "run_id", "number", where=IS_ANSWER),
)

evidence = sa.Table(
    "pilotage_evidence",
    metadata,
    _position(),
    *_texts("tenant_id", "run_id", "evidence_id"),
    # Its place among the evidence of its run; only that of a run with a journal is numbered.
    sa.Column("number", sa.BigInteger),
    sa.Column("kind", sa.String(32), nullable=False),
    sa.Column("manifest_ref", ExactText),
    sa.Column("document", ExactText, nullable=False),
    sa.Column("created_at", MomentColumn, nullable=False),
    _code(),
    sa.UniqueConstraint("evidence_id", "tenant_id"),
    _index("ix_pilotage_evidence_run", "tenant_id", "run_id", "position"),
    _index(
        "ix_pilotage_evidence_manifest",
        "manifest_ref",
        "tenant_id",
        "position",
        where="manifest_ref IS NOT NULL",
    ),
)

turns = sa.Table(
    "pilotage_turns",
    metadata,
    *_texts("tenant_id", "conversation_id"),
    sa.Column("number", sa.BigInteger, nullable=False),
    sa.Column("role", sa.String(16), nullable=False),
    sa.Column("content", ExactText, nullable=False),
    sa.Column("trust", ExactText),
    sa.Column("run_id", ExactText),
    sa.Column("created_at", MomentColumn, nullable=False),
    _code(),
    sa.Column("media", ExactText),
    sa.PrimaryKeyConstraint("tenant_id", "conversation_id", "number"),
    _index("ix_pilotage_turns_run", "tenant_id", "run_id", where="run_id IS NOT NULL"),
)

outbox = sa.Table(
    "pilotage_outbox",
    metadata,
    _position(),
    *_texts("tenant_id", "run_id"),
    sa.Column("number", sa.BigInteger, nullable=False),
    sa.Column("event_type", ExactText, nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("payload", ExactText, nullable=False),
    sa.Column("created_at", MomentColumn, nullable=False),
    # Delivery: its state, its claim, and its last problem.
    sa.Column("status", sa.String(16), nullable=False, server_default="waiting"),
    sa.Column("failures", sa.Integer, nullable=False, server_default="0"),
    sa.Column("problem", ExactText),
    sa.Column("owner", ExactText),
    sa.Column("claimed_until", MomentColumn),
    sa.Column("retry_at", MomentColumn),
    _code(),
    sa.UniqueConstraint("tenant_id", "run_id", "number"),
    _index("ix_pilotage_outbox_waiting", "tenant_id", "run_id", "number", where="status = 'waiting'"),
    _index("ix_pilotage_outbox_parked", "tenant_id", "position", where="status = 'parked'"),
)

leases = sa.Table(
    "pilotage_leases",
    metadata,
    # A released one has no owner and no length; runs that are not under way have no row.
    *_texts("tenant_id", "run_id", "owner"),
    sa.Column("granted_seconds", sa.Float(53), nullable=False),
    sa.Column("expires_at", MomentColumn, nullable=False),
    sa.PrimaryKeyConstraint("tenant_id", "run_id"),
    _index("ix_pilotage_leases_end", "expires_at", "tenant_id", "run_id"),
    _index("ix_pilotage_leases_owner", "owner"),
)

late_outcomes = sa.Table(
    "pilotage_late_outcomes",
    metadata,
    _position(),
    *_texts("tenant_id", "run_id", "action_id"),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("view", ExactText, nullable=False),
    sa.Column("created_at", MomentColumn, nullable=False),
    _code(),
    sa.UniqueConstraint(
        "tenant_id", "run_id", "action_id", "attempt", "epoch", name="uq_pilotage_late_outcomes"
    ),
)

switches = sa.Table(
    "pilotage_switches",
    metadata,
    _position(),
    sa.Column("kind", sa.String(16), nullable=False),
    *_texts("name", "reason"),
    sa.Column("by", ExactText),
    sa.Column("since", MomentColumn, nullable=False),
    _code(),
    sa.UniqueConstraint("kind", "name"),
)

tool_pins = sa.Table(
    "pilotage_tool_pins",
    metadata,
    _position(),
    *_texts("source", "tool"),
    sa.Column("digest", sa.String(64), nullable=False),
    *_texts("definition"),
    sa.Column("by", ExactText),
    sa.Column("accepted_at", MomentColumn, nullable=False),
    _code(),
    sa.UniqueConstraint("source", "tool"),
)

audit = sa.Table(
    "pilotage_audit",
    metadata,
    _position(),
    *_texts("tenant_id", "run_id"),
    sa.Column("evidence_ref", ExactText),
    sa.Column("document", ExactText, nullable=False),
    sa.Column("occurred_at", MomentColumn, nullable=False),
    _code(),
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

memories = sa.Table(
    "pilotage_memories",
    metadata,
    _position(),
    *_texts("tenant_id", "user_id"),
    # Empty for memories of no agent in particular.
    sa.Column("agent_type", ExactText, nullable=False, server_default=""),
    sa.Column("item_id", ExactText, nullable=False),
    sa.Column("kind", sa.String(16), nullable=False),
    *_texts("text", "label", "metadata"),
    sa.Column("created_at", MomentColumn, nullable=False),
    _code(),
    sa.Column("expires_at", MomentColumn, nullable=True),
    sa.UniqueConstraint("tenant_id", "user_id", "agent_type", "item_id", name="uq_pilotage_memories_item"),
    _index("ix_pilotage_memories_user", "tenant_id", "user_id", "position"),
)

memory_words = sa.Table(
    "pilotage_memory_words",
    metadata,
    *_texts("tenant_id", "user_id", "word"),
    sa.Column("memory", _POSITION, nullable=False),
    # Copied from the memory, to search without a join whose plan depends on statistics.
    sa.Column("agent_type", ExactText, nullable=False),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("expires_at", MomentColumn, nullable=True),
    sa.PrimaryKeyConstraint("tenant_id", "user_id", "word", "memory"),
    sa.ForeignKeyConstraint(["memory"], ["pilotage_memories.position"], name="fk_word_memory"),
    _index("ix_pilotage_memory_words_memory", "memory"),
)

spending = sa.Table(
    "pilotage_spending",
    metadata,
    sa.Column("tenant_id", ExactText, nullable=False),
    sa.Column("hour", MomentColumn, nullable=False),
    *_amount(),
    _code(),
    sa.PrimaryKeyConstraint("tenant_id", "hour"),
)

budget_holds = sa.Table(
    "pilotage_budget_holds",
    metadata,
    *_texts("tenant_id", "hold_id"),
    *_amount(),
    sa.Column("lapses_at", MomentColumn, nullable=False),
    sa.PrimaryKeyConstraint("tenant_id", "hold_id"),
)

counts = sa.Table(
    "pilotage_counts",
    metadata,
    # How many entries a table has in a scope, see `entry_counts`.
    sa.Column("entries", sa.String(32), nullable=False),
    sa.Column("scope", ExactText, nullable=False),
    sa.Column("count", sa.BigInteger, nullable=False),
    # How often entries were added or removed: it only rises.
    sa.Column("changes", sa.BigInteger, nullable=False),
    _code(),
    sa.PrimaryKeyConstraint("entries", "scope"),
)

keys = sa.Table(
    "pilotage_keys",
    metadata,
    # The ids of the keys that codes were made with; a key itself is never stored.
    sa.Column("key_id", sa.String(64), primary_key=True),
    sa.Column("created_at", MomentColumn, nullable=False),
    # How far the first use of a key has come: see `known_keys`.
    sa.Column("progress", sa.String(16), nullable=False, server_default="done"),
)

"""The work that a worker looks for is found by indexes."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the indexes, and drop the one by which all open runs were read.

    A run that is under way without a lease, as processes of earlier versions leave it, is found like any other.
    """
    op.drop_index("ix_pilotage_runs_open", "pilotage_runs")
    is_driven = "NOT ended AND (status IN ('active', 'cancelling') OR parent_id IS NOT NULL)"
    _add("ix_pilotage_runs_driven", "pilotage_runs", ["tenant_id", "run_id"], is_driven)
    has_time = "NOT ended AND wake_at IS NOT NULL"
    _add("ix_pilotage_runs_due", "pilotage_runs", ["wake_at", "tenant_id", "run_id"], has_time)
    is_answer = "consumed_at IS NULL AND kind IN ('approval_decision', 'cancel', 'resume')"
    _add("ix_pilotage_signals_answers", "pilotage_signals", ["tenant_id", "run_id", "number"], is_answer)
    _add("ix_pilotage_leases_end", "pilotage_leases", ["expires_at", "tenant_id", "run_id"])
    _add("ix_pilotage_leases_owner", "pilotage_leases", ["owner"])


def _add(name: str, table: str, columns: Sequence[str], where: str | None = None) -> None:
    condition = None if where is None else sa.text(where)
    op.create_index(name, table, columns, unique=False, sqlite_where=condition, postgresql_where=condition)

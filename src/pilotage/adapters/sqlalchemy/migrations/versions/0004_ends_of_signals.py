"""A run knows the number of its last signal, and a signal its end."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from pilotage.adapters.sqlalchemy.columns import ExactText

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_KEY = ("tenant_id", "run_id")
_runs = sa.table(
    "pilotage_runs",
    *(sa.column(name, ExactText()) for name in _KEY),
    sa.column("last_signal", sa.BigInteger()),
)
_signals = sa.table(
    "pilotage_signals",
    *(sa.column(name, ExactText()) for name in _KEY),
    sa.column("number", sa.BigInteger()),
)


def upgrade() -> None:
    """Add both columns, and number on after the signals that are there; a run may have signals before it begins."""
    op.add_column(
        "pilotage_runs", sa.Column("last_signal", sa.BigInteger(), nullable=False, server_default="0")
    )
    op.add_column("pilotage_signals", sa.Column("end", sa.String(length=16), nullable=True))
    is_own = sa.and_(*(_signals.c[name] == _runs.c[name] for name in _KEY))
    last = sa.select(sa.func.max(_signals.c.number)).where(is_own).scalar_subquery()
    op.execute(_runs.update().where(sa.exists().where(is_own)).values(last_signal=last))
    keys = [_signals.c[name] for name in _KEY]
    unknown = (
        sa.select(*keys, sa.func.max(_signals.c.number)).where(~sa.exists().where(is_own)).group_by(*keys)
    )
    op.execute(_runs.insert().from_select([*_KEY, "last_signal"], unknown))

"""The rule about runs that may be claimed, as a condition of the database: `has_something_to_do` and `is_due`.

Each part is asked for one run at a time, by an index: a database that chose to read a whole table once for all of them
would take as long as the table is.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import ColumnElement, and_, case, literal_column, or_, select

from pilotage.adapters.sqlalchemy.columns import lease_now, now, seconds_after
from pilotage.adapters.sqlalchemy.leases import IS_UNDER_WAY, lease_is_over
from pilotage.adapters.sqlalchemy.tables import leases, runs, signals
from pilotage.agent.ports.leases import LETS_GO_ON, LETS_POISONED_GO_ON, LONGEST_DELAY
from pilotage.agent.signals import AgentSignalKind
from pilotage.agent.state import AgentStatus

# Asked once for a statement: what may differ from row to row is no bound of an index.
NOW, LEASE_NOW = select(now()).scalar_subquery(), select(lease_now()).scalar_subquery()


def _any(*conditions: ColumnElement[bool]) -> ColumnElement[bool]:
    """Return whether there is a row, as a question that no database answers for many runs together."""
    one: ColumnElement[int] = literal_column("1")
    found = select(one).where(*conditions).limit(one)
    return found.scalar_subquery().is_not(None)


_IS_PENDING = and_(
    signals.c.tenant_id == runs.c.tenant_id,
    signals.c.run_id == runs.c.run_id,
    signals.c.consumed_at.is_(None),
)


def _is_one_of(kinds: Collection[AgentSignalKind]) -> ColumnElement[bool]:
    return signals.c.kind.in_([literal_column(repr(name)) for name in sorted(kind.value for kind in kinds)])


_HAS_ANSWER = _any(_IS_PENDING, or_(_is_one_of(LETS_GO_ON), signals.c.kind == runs.c.awaits))
_HAS_AWAITED = _any(_IS_PENDING, signals.c.kind == runs.c.awaits)
_IS_RELEASED = _any(_IS_PENDING, _is_one_of(LETS_POISONED_GO_ON))

_IS_DRIVEN = _any(
    leases.c.tenant_id == runs.c.tenant_id, leases.c.run_id == runs.c.run_id, ~lease_is_over(LEASE_NOW)
)

_above = runs.alias("above")

_IS_LEFT_BY_PARENT = _any(
    _above.c.tenant_id == runs.c.tenant_id,
    _above.c.run_id == runs.c.parent_id,
    _above.c.status == AgentStatus.INTERRUPTED.value,
)

_IS_ORPHAN = _any(_above.c.tenant_id == runs.c.tenant_id, _above.c.run_id == runs.c.parent_id, _above.c.ended)

_IS_UP = and_(runs.c.wake_at.is_not(None), runs.c.wake_at <= NOW)

# The rule of `has_something_to_do`, as a condition of the database.
_CAN_GO_ON = or_(
    and_(runs.c.parent_id.is_not(None), _IS_ORPHAN),
    and_(
        runs.c.status == AgentStatus.CANCELLING.value,
        runs.c.awaits.is_not(None),
        or_(_IS_UP, _HAS_AWAITED),
    ),
    and_(
        IS_UNDER_WAY,
        or_(runs.c.parent_id.is_(None), _IS_LEFT_BY_PARENT),
    ),
    and_(
        runs.c.status == AgentStatus.INTERRUPTED.value,
        case(
            (runs.c.quarantined, _IS_RELEASED),
            else_=or_(_IS_UP, _HAS_ANSWER),
        ),
    ),
)

# The rule of `ClaimRecord.is_due`.
_IS_DUE = or_(
    runs.c.claim_after.is_(None),
    runs.c.claim_after <= NOW,
    runs.c.claim_after > seconds_after(NOW, literal_column(str(2 * LONGEST_DELAY.total_seconds()))),
)

HAS_NO_OWNER = and_(~runs.c.ended, runs.c.head > 0, _CAN_GO_ON, ~_IS_DRIVEN, _IS_DUE)

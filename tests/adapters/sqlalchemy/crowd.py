"""A store with very many open runs, written by a few statements, with statistics as a server collects them."""

from __future__ import annotations

from sqlalchemy import text

from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore

AGENT = "shop:Refunds"
OWNERS = 5
_SECONDS = 3600

_NUMBERS = {
    "postgresql": "generate_series(1, {count}) AS s(n)",
    "sqlite": "(WITH RECURSIVE s(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM s WHERE n < {count}) SELECT n FROM s)",
}

_MOMENTS = {
    "postgresql": {"now": "now()", "later": f"now() + interval '{_SECONDS} seconds'"},
    "sqlite": {"now": "clock_timestamp()", "later": f"boot_timestamp() + {_SECONDS} * 1000000"},
}

_RUNS = """
    INSERT INTO pilotage_runs (tenant_id, run_id, head, status, agent_type, awaits, ended, updated_at, last_signal)
    SELECT 'acme', '{name}-' || n, 3, '{status}', '{agent}', {awaits}, {ended}, {now}, {signals} FROM {numbers}
"""
_LEASES = """
    INSERT INTO pilotage_leases (tenant_id, run_id, owner, granted_seconds, expires_at)
    SELECT 'acme', 'driven-' || n, 'owner-' || (n % {owners}), {seconds}, {later} FROM {numbers}
"""
_SIGNALS = """
    INSERT INTO pilotage_signals (tenant_id, run_id, number, signal_id, kind, payload, created_at, consumed_at)
    SELECT 'acme', '{name}-' || n, 1, '{name}-' || n, '{kind}', '{{}}', {now}, {consumed} FROM {numbers}
"""


def crowd(store: SqlAlchemyStore, *, waiting: int, driven: int, ended: int = 0, unread: int = 0) -> None:
    """Add runs that wait for people, runs that other processes drive, and runs that have ended.

    So many of the runs that wait have a message that they do not wait for; the others were signalled, and it was read.
    """
    kind = store.database.dialect.name
    known = {**_MOMENTS[kind], "agent": AGENT, "owners": OWNERS, "seconds": _SECONDS}
    is_ended, is_open = ("true", "false") if kind == "postgresql" else ("1", "0")

    def numbers(count: int) -> str:
        return _NUMBERS[kind].format(count=count)

    def of(name: str, status: str, count: int, awaits: str = "NULL", ended: str = is_open) -> str:
        given = {"name": name, "status": status, "awaits": awaits, "ended": ended, "numbers": numbers(count)}
        return _RUNS.format(**given, **known, signals="1" if name == "waiting" else "0")

    def signals(name: str, kind: str, count: int, consumed: str) -> str:
        given = {"name": name, "kind": kind, "consumed": consumed, "numbers": numbers(count)}
        return _SIGNALS.format(**given, **known)

    statements = [
        of("waiting", "interrupted", waiting, awaits="'approval_decision'"),
        of("driven", "active", driven),
        of("ended", "completed", ended, ended=is_ended),
        _LEASES.format(**known, numbers=numbers(driven)),
        signals("waiting", "user_message", unread, "NULL"),
        signals("ended", "approval_decision", ended, known["now"]),
        "ANALYZE",
    ]
    with store.database.engines.writing.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))

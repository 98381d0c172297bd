"""Where an attempt at a run was in a trace: a row of its own, so that the next attempt can go on from there. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pilotage.agent.ports.journal import JournalRow, JournalStage

TRACE = "trace"
"""The key under which a row says where in a trace its attempt was."""


def last_trace(rows: Sequence[JournalRow]) -> str | None:
    """Where the last attempt was that told; None where nobody did."""
    for row in reversed(rows):
        if row.stage is JournalStage.CLAIMED and isinstance(row.record, dict):
            found = row.record.get(TRACE)
            if row.seq > 1 and isinstance(found, str):
                return found
    return None

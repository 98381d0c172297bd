"""Runs whose payloads were erased: their rows are there, and say nothing any more. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from pilotage.agent.ports.journal import ErasedRecord, JournalRow, RunKey
from pilotage.errors import RunErasedError


def is_erased(row: JournalRow) -> bool:
    """Whether the payloads of a row were erased."""
    return not row.is_plain and isinstance(row.record, ErasedRecord)


def refuse_erased(run: RunKey, rows: Iterable[JournalRow]) -> None:
    """Refuse to go on with rows that say nothing.

    Raises:
        RunErasedError: there is such a row.
    """
    if any(map(is_erased, rows)):
        raise RunErasedError(
            f"what run {run.run_id!r} said was erased. Its state, and that it took place, can still be read."
        )

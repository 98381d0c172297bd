"""The rows that a fork copies from its original run. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pilotage.agent.ports.persistence import JournalRow, JournalStage
from pilotage.agent.recovery import AgentActionKind
from pilotage.errors import CallerError
from pilotage.runtime.journal.question_record import is_rejection
from pilotage.runtime.journal.record_fields import decode_row
from pilotage.runtime.journal.stored_words import RESULT_ACTION


def fork_rows(run_id: str, rows: Sequence[JournalRow], at: int | None = None) -> list[JournalRow]:
    """Return the first rows of a fork at row `at`: the start of the run, and the rows of all actions that are done.

    Open questions and the result are left out: the fork gets its own. So is an approval of an action that was not done
    by then: it is bound to an attempt of the original run.

    Raises:
        CallerError: there is no such row, or an action is open there, so that its outcome is unknown.
    """
    last = rows[-1].seq if at is None else at
    if not 1 <= last <= rows[-1].seq:
        raise CallerError(f"run {run_id!r} has the rows 1 to {rows[-1].seq}; it cannot be forked at {last}.")
    earlier = [row for row in rows if row.seq <= last]
    closed = {row.action_id for row in earlier if row.stage in (JournalStage.AFTER, JournalStage.FOLDED)}
    rejected = {row.action_id for row in earlier if _is_rejection(row)}
    copied = [rows[0]]
    for row in earlier:
        if row.kind is None or row.action_id == RESULT_ACTION:
            continue
        if row.kind is AgentActionKind.APPROVAL_WAIT:
            if _is_settled(row.action_id, closed, rejected):
                copied.append(row)
        elif row.action_id in closed:
            copied.append(row)
        else:
            raise CallerError(
                f"run {run_id!r} cannot be forked at row {last}: {row.action_id!r} is open there, and its outcome is "
                "unknown. Fork at another row."
            )
    return copied


def _is_settled(question: str, closed: set[str], rejected: set[str]) -> bool:
    """Return whether an answered question allows nothing more: its action is done, or was rejected."""
    about = question.rpartition("/")[0]
    return about != RESULT_ACTION and question in closed and (about in closed or question in rejected)


def _is_rejection(row: JournalRow) -> bool:
    is_answer = row.kind is AgentActionKind.APPROVAL_WAIT and row.stage is JournalStage.AFTER
    return is_answer and decode_row(row, is_rejection)

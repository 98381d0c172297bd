"""Which rows a fork takes over from the run it leaves. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from pilotage.agent.ports.journal import JournalRow, JournalStage
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.signals import ApprovalDecision
from pilotage.errors import CallerError
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.journal.action import RESULT


def fork_rows(run_id: str, rows: Sequence[JournalRow], at: int | None = None) -> list[JournalRow]:
    """The rows of a new run that begins like another one: its first row, and what was done up to row `at`.

    Questions that nobody has answered stay behind, and so does the result: the new run comes to its own. So does a
    yes to something that was not done by then: it was used up by the run it was given to.

    Raises:
        CallerError: there is no such row, or an action is open there: nobody knows whether it happened.
    """
    last = rows[-1].seq if at is None else at
    if not 1 <= last <= rows[-1].seq:
        raise CallerError(f"run {run_id!r} has the rows 1 to {rows[-1].seq}; it cannot be forked at {last}.")
    taken = [row for row in rows if row.seq <= last]
    closed = {row.action_id for row in taken if row.stage in (JournalStage.AFTER, JournalStage.FOLDED)}
    refused = {row.action_id for row in taken if _is_refusal(row)}
    kept = [rows[0]]
    for row in taken:
        if row.kind is None or row.action_id == RESULT:
            continue
        if row.kind is AgentActionKind.APPROVAL_WAIT:
            if _is_spent(row.action_id, closed, refused):
                kept.append(row)
        elif row.action_id in closed:
            kept.append(row)
        else:
            raise CallerError(
                f"run {run_id!r} cannot be forked at row {last}: {row.action_id!r} is open there, and nobody knows "
                "whether it happened. Fork at another row."
            )
    return kept


def _is_spent(question: str, closed: set[str], refused: set[str]) -> bool:
    """Whether an answered question lets nothing more happen: what it was about is done, or was refused."""
    about = question.rpartition("/")[0]
    return about != RESULT and question in closed and (about in closed or question in refused)


def _is_refusal(row: JournalRow) -> bool:
    is_answer = row.kind is AgentActionKind.APPROVAL_WAIT and row.stage is JournalStage.AFTER
    return is_answer and cast(JsonObject, row.record).get("decision") == ApprovalDecision.REJECT.value

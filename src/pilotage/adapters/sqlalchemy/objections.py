"""What stands against a commit whose head is where it should be. Pure.

A commit that is refused is a mistake of its writer, or comes too late: nothing of it is written.
"""

from __future__ import annotations

from collections.abc import Sequence

from pilotage.adapters.sqlalchemy.standing import Action, Known, Standing
from pilotage.agent.ports.journal import CommitRefusal, CommitRefused, JournalCommit
from pilotage.agent.state import AgentStatus


def objection(
    commit: JournalCommit, run: Standing, actions: Sequence[Action], known: Known
) -> CommitRefused | None:
    """Why a commit is refused, whose run stands like this; `actions` are those that its rows are about."""
    reason = (
        _without_row(commit)
        or _foreign_part(commit)
        or _repeated_action(commit, actions, run.actions)
        or _unavailable_signal(commit, known)
        or _repeated_evidence(commit, known)
        or _turns_elsewhere(commit, run)
    )
    return CommitRefused(reason) if reason else _closed_parent(commit, known) or _conflict(commit, known)


def _closed_parent(commit: JournalCommit, known: Known) -> CommitRefused | None:
    if commit.parent is None:
        return None
    parent = known.runs.get(commit.parent)
    status = parent.status if parent else None
    if status is not None and not _starts_nothing(status):
        return None
    how = f"is {status.value}" if status else "does not exist"
    words = f"run {commit.run.run_id!r} cannot start: its parent {commit.parent.run_id!r} {how}"
    return CommitRefused(words, CommitRefusal.PARENT_CLOSED)


def _conflict(commit: JournalCommit, known: Known) -> CommitRefused | None:
    """One run at a time holds a conversation; one that has ended holds none any more."""
    if commit.conversation is None:
        return None
    holder = known.holders.get((commit.run.tenant_id, commit.conversation))
    if holder is None:
        return None
    words = f"conversation {commit.conversation!r} is held by run {holder!r}, which has not ended"
    return CommitRefused(words, CommitRefusal.CONVERSATION_HELD)


def _unavailable_signal(commit: JournalCommit, known: Known) -> str | None:
    taken: set[str] = set()
    for signal_id in commit.consumed_signals:
        if (commit.run, signal_id) not in known.pending or signal_id in taken:
            return f"signal {signal_id!r} is unknown to run {commit.run.run_id!r} or was consumed already"
        taken.add(signal_id)
    return None


def _repeated_evidence(commit: JournalCommit, known: Known) -> str | None:
    seen: set[str] = set()
    for each in commit.evidence:
        if each.id in seen or (commit.run.tenant_id, each.id) in known.evidence:
            return f"evidence {each.id!r} is recorded already"
        seen.add(each.id)
    return None


def _starts_nothing(status: AgentStatus) -> bool:
    return status.is_terminal or status is AgentStatus.CANCELLING


def _without_row(commit: JournalCommit) -> str | None:
    """Without a row the head would stay where it was, and nobody else would notice the change."""
    return None if commit.rows else f"the commit of run {commit.run.run_id!r} has no row"


def _foreign_part(commit: JournalCommit) -> str | None:
    """A commit is about its own run; a part that names another one is a mistake of the writer."""
    run, state = commit.run, commit.state
    if state is not None and (state.tenant_id, state.id) != (run.tenant_id, run.run_id):
        return f"state {state.id!r} of tenant {state.tenant_id!r} is not the state of run {run.run_id!r}"
    for each in commit.evidence:
        if each.agent_state_id != run.run_id:
            return f"evidence {each.id!r} belongs to run {each.agent_state_id!r}, not to {run.run_id!r}"
    return None


def _repeated_action(commit: JournalCommit, actions: Sequence[Action], present: set[Action]) -> str | None:
    """An action has one row of each stage per attempt."""
    seen = set(actions)
    if len(seen) == len(actions) and seen.isdisjoint(present):
        return None
    seen.clear()
    for row, action in zip(commit.rows, actions, strict=True):
        if row.stage.has_action and (action in present or action in seen):
            return f"row {row.seq} repeats {row.stage.value!r} of {row.action_id!r}, attempt {row.attempt}"
        seen.add(action)
    return None


def _turns_elsewhere(commit: JournalCommit, run: Standing) -> str | None:
    if commit.turns is None or commit.turns.conversation_id in (commit.conversation, run.conversation):
        return None
    named = commit.turns.conversation_id
    return f"run {commit.run.run_id!r} adds turns to conversation {named!r}, which it does not hold"

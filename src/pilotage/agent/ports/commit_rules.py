"""The rules of a commit: whether a store writes it, recognises it or refuses it. Pure: no I/O.

Every store decides with `decide`, so that all of them refuse the same commits for the same reasons. A store whose
statements compare the head, the parent or the lease again, or whose unique keys find a repetition that was not looked
up before, answers such a conflict by looking and deciding once more.

A payload without a JSON form is not found here: the store finds it when it encodes a commit that the rules accept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from pilotage.agent.ports.journal import (
    CommitOutcome,
    CommitRefusal,
    CommitRefused,
    Committed,
    HeadMoved,
    JournalCommit,
    SignalsUnread,
)
from pilotage.agent.ports.persistence import JournalStage, RunKey
from pilotage.agent.signals import (
    AgentSignal,
    AgentSignalEnd,
    AgentSignalKind,
    AgentSteeringUpdate,
    refuse_wordless,
)
from pilotage.agent.state import AgentStatus
from pilotage.errors import CallerError

_CLAIMED = JournalStage.CLAIMED
_OF_THE_RUNTIME = "pilotage."
"""The prefix of the keys that the runtime itself puts into payloads."""

ActionKey: TypeAlias = tuple[str, str, int]
"""The id of an action, the stage and the attempt: an action has one row for each."""

Receipt: TypeAlias = tuple[str, int]
"""The token of a commit and the number of its last row."""

# Made for every run: calling `dict[...]` takes seven times as long as calling `dict`.
_no_receipts: Callable[[], dict[Receipt, int]] = dict
_no_actions: Callable[[], set[ActionKey]] = set


@dataclass
class RunSnapshot:
    """The stored facts of the run that a commit belongs to; a run without rows is at head 0.

    `receipts` has the epoch at each commit that was written, `actions` the rows of actions. A store may leave out
    receipts that no commit asks for, and actions that a unique key of its own protects. `conversation` is the one
    that the first commit named, also after the run has ended. `last_signal` is the number of its last signal.
    """

    head: int = 0
    epoch: int = 0
    status: AgentStatus | None = None
    conversation: str | None = None
    last_signal: int = 0
    receipts: dict[Receipt, int] = field(default_factory=_no_receipts)
    actions: set[ActionKey] = field(default_factory=_no_actions)

    @property
    def has_ended(self) -> bool:
        """Whether the run has ended for good."""
        return self.status is not None and self.status.is_terminal

    def advance(self, commit: JournalCommit) -> None:
        """Apply a commit that is written: the epoch is that of its last claim."""
        self.head = commit.rows[-1].seq
        for row in commit.rows:
            if row.stage is _CLAIMED:
                self.epoch = row.epoch
        if commit.state is not None:
            self.status = commit.state.status
        self.conversation = self.conversation or commit.conversation
        self.receipts[commit.token, self.head] = self.epoch
        self.actions.update(_action_keys(commit))


class CommitContext(Protocol):
    """The stored facts besides those of the run itself."""

    def status_of(self, run: RunKey) -> AgentStatus | None:
        """Return the status of a run, or None where it has no state."""
        ...

    def holder_of(self, tenant_id: str, conversation_id: str) -> str | None:
        """Return the id of the run that holds a conversation and has not ended."""
        ...

    def turns_in(self, tenant_id: str, conversation_id: str) -> int:
        """Return the number of turns of a conversation; needed for a commit that has `known_turns`."""
        ...

    def is_pending(self, run: RunKey, signal_id: str) -> bool:
        """Return whether the signal belongs to the run and is not consumed."""
        ...

    def has_evidence(self, tenant_id: str, evidence_id: str) -> bool:
        """Return whether the tenant has evidence with this id."""
        ...


def decide(commit: JournalCommit, run: RunSnapshot, known: CommitContext) -> CommitOutcome | None:
    """Return the outcome of a commit that must not be written, or None for one to write.

    A commit that was written before is recognised by its token and its last row. If the run was claimed since, its
    writer has lost the run.
    """
    last = commit.rows[-1].seq if commit.rows else 0
    epoch = run.receipts.get((commit.token, last))
    if epoch is not None and epoch == run.epoch:
        return Committed(last, run.last_signal)
    if epoch is not None or commit.expected_head != run.head:
        return HeadMoved(run.head, run.epoch)
    reason = _mistake(commit, run, known)
    if reason is not None:
        return CommitRefused(reason)
    if commit.parent is not None and (closed := _closed_parent(commit.run, commit.parent, known)):
        return closed
    wanted = wanted_conversation(commit, run)
    if wanted is not None and (held := _held_conversation(commit.run, wanted, known)):
        return held
    if (moved := _moved_conversation(commit, known)) is not None:
        return moved
    return SignalsUnread(run.last_signal) if _leaves_unread(commit, run) else None


def ends_run(commit: JournalCommit, run: RunSnapshot) -> bool:
    """Return whether the commit ends a run that has not ended before."""
    return commit.state is not None and commit.state.is_terminal and not run.has_ended


def refuse_after_end(run: RunKey, status: AgentStatus | None) -> None:
    """Refuse a signal for a run that has ended: nothing would ever take it in.

    Raises:
        CallerError: the run has ended.
    """
    if status is not None and status.is_terminal:
        raise CallerError(
            f"run {run.run_id!r} is {status.value} and takes no signals any more. Start another run, in the same "
            "conversation if it has one."
        )


def refuse_empty(signal: AgentSignal) -> None:
    """Refuse a message or a steering instruction that says nothing; what the runtime sealed was checked before.

    A revision of an instruction is checked as one: a withdrawal needs no words.

    Raises:
        CallerError: it has no words, or names an input and is no revision of it.
    """
    if any(name.startswith(_OF_THE_RUNTIME) for name in signal.payload):
        return
    is_instruction = signal.kind is AgentSignalKind.STEERING_INSTRUCTION
    if not is_instruction or AgentSteeringUpdate.from_payload(signal.payload) is None:
        refuse_wordless(signal.kind, signal.payload)


def _leaves_unread(commit: JournalCommit, run: RunSnapshot) -> bool:
    """Return whether the commit ends the run, and the run has a signal that its writer does not know."""
    return run.last_signal > commit.last_signal and ends_run(commit, run)


def takes_signals(commit: JournalCommit) -> bool:
    """Return whether the commit takes signals out of the queue."""
    return bool(commit.consumed_signals or commit.closed_signals)


def signal_ends(commit: JournalCommit) -> list[tuple[str, AgentSignalEnd]]:
    """Return the signals that the commit takes out of the queue, each with its end."""
    taken = [(signal_id, AgentSignalEnd.TAKEN) for signal_id in commit.consumed_signals]
    return taken + [(closed.signal_id, closed.end) for closed in commit.closed_signals]


def makes_progress(commit: JournalCommit) -> bool:
    """Return whether a commit has a row that is no claim: then claims before it are no longer counted."""
    return any(row.stage is not _CLAIMED for row in commit.rows)


def parent_of(commit: JournalCommit) -> str | None:
    """Return the id of the parent that the commit or its state names."""
    if commit.parent is not None:
        return commit.parent.run_id
    named = commit.state.metadata.get("parent") if commit.state else None
    return named if isinstance(named, str) else None


def wanted_conversation(commit: JournalCommit, run: RunSnapshot | None) -> str | None:
    """Return the conversation that the run takes hold of: its first one, or its own where it goes on after its end."""
    state = commit.state
    if run is None or state is None or run.conversation is None:
        return commit.conversation
    return run.conversation if run.has_ended and not state.is_terminal else None


def _mistake(commit: JournalCommit, run: RunSnapshot, known: CommitContext) -> str | None:
    if not commit.rows:
        # The head would stay where it was, and another writer would not notice the change.
        return f"the commit of run {commit.run.run_id!r} has no row"
    return (
        _foreign_part(commit)
        or _repeated_action(commit, run.actions)
        or (_unavailable_signal(commit, known) if takes_signals(commit) else None)
        or (_repeated_evidence(commit, known) if commit.evidence else None)
        or (_turns_elsewhere(commit, run) if commit.turns is not None else None)
    )


def _foreign_part(commit: JournalCommit) -> str | None:
    run, state = commit.run, commit.state
    if state is not None and (state.id != run.run_id or state.tenant_id != run.tenant_id):
        return f"state {state.id!r} of tenant {state.tenant_id!r} is not the state of run {run.run_id!r}"
    for each in commit.evidence:
        if each.agent_state_id != run.run_id:
            return f"evidence {each.id!r} belongs to run {each.agent_state_id!r}, not to {run.run_id!r}"
    return None


def _repeated_action(commit: JournalCommit, present: set[ActionKey]) -> str | None:
    keys = _action_keys(commit)
    seen = set(keys)
    if len(seen) == len(keys) and seen.isdisjoint(present):
        return None
    seen.clear()
    for row, key in zip(commit.rows, keys, strict=True):
        if row.stage.has_action and (key in present or key in seen):
            return f"row {row.seq} repeats {row.stage.value!r} of {row.action_id!r}, attempt {row.attempt}"
        seen.add(key)
    return None


def _action_keys(commit: JournalCommit) -> list[ActionKey]:
    """Return the key of each row; those of stages without an action mean nothing."""
    return [(row.action_id, row.stage, row.attempt) for row in commit.rows]


def _unavailable_signal(commit: JournalCommit, known: CommitContext) -> str | None:
    taken = signal_ends(commit)
    repeated = _first_repeated(signal_id for signal_id, _ in taken)
    for signal_id, _ in taken:
        if signal_id == repeated or not known.is_pending(commit.run, signal_id):
            return f"signal {signal_id!r} is unknown to run {commit.run.run_id!r} or was consumed already"
    return None


def _repeated_evidence(commit: JournalCommit, known: CommitContext) -> str | None:
    repeated = _first_repeated(each.id for each in commit.evidence)
    for each in commit.evidence:
        if each.id == repeated or known.has_evidence(commit.run.tenant_id, each.id):
            return f"evidence {each.id!r} is recorded already"
    return None


def _turns_elsewhere(commit: JournalCommit, run: RunSnapshot) -> str | None:
    """Turns go to the conversation that the run holds: one that has ended holds none."""
    held = commit.conversation or (None if run.has_ended else run.conversation)
    if commit.turns is None or commit.turns.conversation_id == held:
        return None
    named = commit.turns.conversation_id
    return f"run {commit.run.run_id!r} adds turns to conversation {named!r}, which it does not hold"


def _closed_parent(run: RunKey, parent: RunKey, known: CommitContext) -> CommitRefused | None:
    status = known.status_of(parent)
    if status is not None and not status.is_terminal and status is not AgentStatus.CANCELLING:
        return None
    how = f"is {status.value}" if status else "does not exist"
    words = f"run {run.run_id!r} cannot start: its parent {parent.run_id!r} {how}"
    return CommitRefused(words, CommitRefusal.PARENT_CLOSED)


def _held_conversation(run: RunKey, conversation: str, known: CommitContext) -> CommitRefused | None:
    holder = known.holder_of(run.tenant_id, conversation)
    if holder is None:
        return None
    words = f"conversation {conversation!r} is held by run {holder!r}, which has not ended"
    return CommitRefused(words, CommitRefusal.CONVERSATION_HELD, holder)


def _moved_conversation(commit: JournalCommit, known: CommitContext) -> CommitRefused | None:
    """Refuse a run that would not be shown the last turns of its conversation."""
    if commit.conversation is None or commit.known_turns is None:
        return None
    stored = known.turns_in(commit.run.tenant_id, commit.conversation)
    if stored <= commit.known_turns:
        return None
    words = f"conversation {commit.conversation!r} has {stored} turns, and the run knows {commit.known_turns}"
    return CommitRefused(words, CommitRefusal.CONVERSATION_MOVED)


def _first_repeated(ids: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for each in ids:
        if each in seen:
            return each
        seen.add(each)
    return None

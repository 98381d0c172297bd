"""Facts about runs: their types, their stored form, which step makes which one true, and their publisher.

Not to be confused with `AgentEvent`, an item of a run's stream. A fact is written in the transaction of the change it
reports, and delivered at least once, in order per run. It carries ids and codes, no payloads. Type and version say how
a stored fact is read: a shape that changes gets a class of its own with the next version, and the old one stays
readable. Everything but the publisher port is pure.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import field, fields
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Any, ClassVar

from pilotage.agent.ports.journal import OutboxEvent
from pilotage.agent.ports.outbox import OutboxEntry
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.signals import AgentSignal, AgentSignalKind
from pilotage.agent.state import AgentState, AgentStateReason, AgentStatus
from pilotage.errors import PilotageError
from pilotage.filling import unchecked
from pilotage.jsonvalue import JsonObject, JsonValue, as_string
from pilotage.values import value


class UnreadableFactError(PilotageError):
    """A fact in the outbox is of a type or version that this program does not know, or lacks something."""

    message: ClassVar[str] = "The fact cannot be read."
    code: ClassVar[str] = "fact_unreadable"


class AgentQuestionKind(StrEnum):
    """The kind of a question: whether an action may happen, or what its outcome was."""

    APPROVAL = "approval"
    RECOVERY = "recovery"


class AgentActionOutcome(StrEnum):
    """The outcome of an action; an action of unknown outcome has none yet."""

    DONE = "done"
    FAILED = "failed"


@value
class AgentFact:
    """A fact about a run; a subscriber to this class gets all facts.

    `id` is the same however often a fact is delivered, so that a receiver notices; `occurred_at` is the store's
    clock. Both are known once the fact is in the outbox. `parent` is the run that this one belongs to, `alias` the id
    that the caller gave the run when it was started.
    """

    run_id: str
    tenant_id: str
    agent: str
    parent: str | None = field(default=None, kw_only=True)
    alias: str | None = field(default=None, kw_only=True)
    id: str = field(default="", kw_only=True)
    occurred_at: datetime | None = field(default=None, kw_only=True)

    version: ClassVar[int] = 1


@value
class AgentRunStarted(AgentFact):
    """A run began."""


@value
class AgentRunPaused(AgentFact):
    """A run waits, for a person or because it was paused."""

    reason: AgentStateReason


@value
class AgentApprovalRequested(AgentFact):
    """A person is asked about an action; `AgentRuns.approvals` has the question, `approve` and its like answer it."""

    request_id: str
    question: AgentQuestionKind
    action: str


@value
class AgentRunResumed(AgentFact):
    """A run that waited goes on."""


@value
class AgentRunDelegated(AgentFact):
    """A run gave work to another one, its `child`."""

    child: str
    child_agent: str


@value
class AgentActionCompleted(AgentFact):
    """A tool call or a step that may have changed something has its outcome."""

    action_id: str
    kind: AgentActionKind
    action: str
    outcome: AgentActionOutcome


@value
class AgentRunCancelling(AgentFact):
    """A run was cancelled; it is being stopped and cleaned up."""


@value
class AgentRunCompleted(AgentFact):
    """A run has its answer; `AgentRuns.result` has it."""


@value
class AgentRunFailed(AgentFact):
    """A run ended without its answer."""

    reason: AgentStateReason


@value
class AgentRunCancelled(AgentFact):
    """A run that was cancelled has ended."""


@value
class AgentSignalTooLate(AgentFact):
    """A signal was accepted and not taken in: its run ended before, or had taken in what it revises."""

    signal_id: str
    signal_kind: AgentSignalKind


FACTS: Mapping[tuple[str, int], type[AgentFact]] = {
    (fact.__name__, fact.version): fact
    for fact in (
        AgentRunStarted,
        AgentRunPaused,
        AgentApprovalRequested,
        AgentRunResumed,
        AgentRunDelegated,
        AgentActionCompleted,
        AgentRunCancelling,
        AgentRunCompleted,
        AgentRunFailed,
        AgentRunCancelled,
        AgentSignalTooLate,
    )
}
"""The class of every type and version that can be read."""

# Entries of earlier releases do not have it, nor those of runs without one.
_ADDED = frozenset({"alias"})
_NOT_STORED = frozenset({"id", "occurred_at"})
_CODES: Mapping[str, type[StrEnum]] = {
    "reason": AgentStateReason,
    "kind": AgentActionKind,
    "question": AgentQuestionKind,
    "outcome": AgentActionOutcome,
    "signal_kind": AgentSignalKind,
}


def write_fact(fact: AgentFact) -> OutboxEvent:
    """Return the fact as the outbox stores it, and as a publisher may put it on the wire: type, version, payload."""
    given = {name: _stored(getattr(fact, name)) for name in _stored_names(type(fact))}
    payload = {name: each for name, each in given.items() if each is not None or name not in _ADDED}
    return OutboxEvent(type(fact).__name__, fact.version, payload)


def read_fact(entry: OutboxEntry) -> AgentFact:
    """Return the fact of an entry of the outbox, without fields that a newer program has added to it.

    Raises:
        UnreadableFactError: its type or version is unknown here, or something is missing in it.
    """
    event = entry.event
    known = FACTS.get((event.event_type, event.version))
    if known is None:
        raise UnreadableFactError(
            f"{event.event_type!r} version {event.version} is unknown here. Deliver entry {entry.id!r} with the "
            "release of Pilotage that wrote it, or a newer one."
        )
    try:
        stored = dict.fromkeys(_ADDED) | dict(event.payload)
        given = {name: _read(name, stored[name]) for name in _stored_names(known)}
    except (KeyError, ValueError) as error:
        raise UnreadableFactError(f"entry {entry.id!r} is no {event.event_type}: {error!r}.") from error
    make: Any = known
    fact: AgentFact = make(**given, id=entry.id, occurred_at=entry.created_at)
    return fact


def _stored_names(fact: type[AgentFact]) -> tuple[str, ...]:
    return tuple(each.name for each in fields(fact) if each.name not in _NOT_STORED)


def _stored(given: Any) -> JsonValue:
    return given.value if isinstance(given, StrEnum) else given


def _read(name: str, stored: JsonValue) -> object:
    code = _CODES.get(name)
    return stored if code is None else code(as_string(stored))


class IAgentEventPublisher(ABC):
    """Passes facts on. Every pod of this type gets every fact.

    Every adapter guarantees: what `publish` returned for has reached the other side for good. It is called in order
    per run, and for several runs at once; a fact may come again, with the same `id`.
    """

    @abstractmethod
    async def publish(self, fact: AgentFact) -> None:
        """Pass a fact on; durable on the other side when this returns.

        Raises:
            Exception: whatever went wrong. The fact comes again after a while, and is parked after some tries; what
                happens to the run later waits for it.
        """


_OF_STATUS: Mapping[AgentStatus, type[AgentFact]] = {
    AgentStatus.CANCELLING: AgentRunCancelling,
    AgentStatus.COMPLETED: AgentRunCompleted,
    AgentStatus.CANCELLED: AgentRunCancelled,
}


def fact_of(before: AgentState, after: AgentState) -> OutboxEvent | None:
    """Return the fact about a run that moved from one state to another; None where the status is the same."""
    if before.status is after.status and before.reason is after.reason:
        return None
    match after.status:
        case AgentStatus.CREATED:
            return None
        case AgentStatus.ACTIVE:
            began = before.status is AgentStatus.CREATED
            return _outbox_event(AgentRunStarted if began else AgentRunResumed, after)
        case AgentStatus.INTERRUPTED:
            return _outbox_event(
                AgentRunPaused, after, reason=after.reason or AgentStateReason.USER_INTERRUPTED
            )
        case AgentStatus.FAILED:
            return _outbox_event(
                AgentRunFailed, after, reason=after.reason or AgentStateReason.EXECUTION_FAILED
            )
        case _:
            return _outbox_event(_OF_STATUS[after.status], after)


def approval_requested(state: AgentState, request: JsonObject, action: str) -> OutboxEvent:
    """Return the fact that a person was asked about an action; `request` is the question as it is recorded."""
    is_recovery = "action_kind" in request
    question = AgentQuestionKind.RECOVERY if is_recovery else AgentQuestionKind.APPROVAL
    asked = str(request["id"])
    return _outbox_event(AgentApprovalRequested, state, request_id=asked, question=question, action=action)


def action_completed(
    state: AgentState, action_id: str, kind: AgentActionKind, action: str, *, has_failed: bool
) -> OutboxEvent:
    """Return the fact that an action has an outcome."""
    outcome = AgentActionOutcome.FAILED if has_failed else AgentActionOutcome.DONE
    return _outbox_event(
        AgentActionCompleted, state, action_id=action_id, kind=kind, action=action, outcome=outcome
    )


def run_delegated(state: AgentState, child: str, child_agent: str) -> OutboxEvent:
    """Return the fact that a run delegated work to another one."""
    return _outbox_event(AgentRunDelegated, state, child=child, child_agent=child_agent)


def signal_too_late(state: AgentState, signal: AgentSignal) -> OutboxEvent:
    """Return the fact that a signal came too late: its run has ended, or has taken in another revision of it."""
    return _outbox_event(AgentSignalTooLate, state, signal_id=signal.id, signal_kind=signal.kind.value)


def _outbox_event(fact: type[AgentFact], state: AgentState, **details: str) -> OutboxEvent:
    """Return the stored form of a fact, without making the fact: most facts are never read."""
    payload: JsonObject = {
        "run_id": state.id,
        "tenant_id": state.tenant_id,
        "agent": state.agent_type,
        "parent": state.metadata.get("parent"),
        **details,
    }
    if (alias := state.metadata.get("alias")) is not None:
        payload = {**payload, "alias": alias}
    return _new_fact()(fact.__name__, fact.version, payload)


@cache
def _new_fact() -> Callable[[str, int, JsonObject], OutboxEvent]:
    """Makes facts of the types we know, whose names and versions need no look."""
    return unchecked(OutboxEvent)

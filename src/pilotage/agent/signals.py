"""Signals: what reaches a run from outside while it lives.

Two lanes. Control (cancel, approval, pause, resume) is always accepted and nothing blocks it; messages
(user messages, steering, events, wake-ups) are governed by what the agent says it accepts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from datetime import datetime
from enum import StrEnum

from pilotage.checks import reject_blank, reject_naive
from pilotage.errors import CallerError
from pilotage.jsonvalue import JsonObject, empty_object
from pilotage.values import value


class AgentSignalLane(StrEnum):
    """Signals keep their order within a lane; control never waits for messages."""

    CONTROL = "control"
    MESSAGE = "message"


class AgentSignalKind(StrEnum):
    """The kinds of signal a run understands."""

    USER_MESSAGE = "user_message"
    APPROVAL_DECISION = "approval_decision"
    CANCEL = "cancel"
    PAUSE = "pause"
    RESUME = "resume"
    STEERING_INSTRUCTION = "steering_instruction"
    EXTERNAL_EVENT = "external_event"
    SCHEDULER_WAKE_UP = "scheduler_wake_up"

    @property
    def lane(self) -> AgentSignalLane:
        """The lane this kind travels on."""
        return AgentSignalLane.CONTROL if self in _CONTROL else AgentSignalLane.MESSAGE


_CONTROL = frozenset(
    {
        AgentSignalKind.APPROVAL_DECISION,
        AgentSignalKind.CANCEL,
        AgentSignalKind.PAUSE,
        AgentSignalKind.RESUME,
    }
)


class ApprovalDecision(StrEnum):
    """What a human may answer to an approval request, in the order it is offered."""

    APPROVE = "approve"
    REJECT = "reject"
    MODIFY = "modify"
    DEFER = "defer"
    CANCEL = "cancel"


class AgentSignalEnd(StrEnum):
    """What became of a signal; every accepted signal has one of these ends.

    TAKEN: the run took it in. SUPERSEDED: another signal took its effect away, as a resume does with a pause or a newer
    revision with an earlier one. TOO_LATE: the run ended before it could be taken in, or had taken in what it revises.
    REFUSED: an answer that did not count, because its question had another one or because it did not fit, which is kept
    as evidence; or a row that was not written by the application.
    """

    TAKEN = "taken"
    SUPERSEDED = "superseded"
    TOO_LATE = "too_late"
    REFUSED = "refused"


@value
class AgentSignal:
    """One stimulus for one run. The id is a dedupe key: the same id is taken in once.

    `end` is set by the store: None for a signal that is pending. A signal that is sent again has the end of the first.
    One in the queue that the store does not recognise as the application's is REFUSED, and is never taken in.
    """

    id: str
    agent_state_id: str
    kind: AgentSignalKind
    payload: JsonObject = field(default_factory=empty_object)
    created_at: datetime | None = None
    end: AgentSignalEnd | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        reject_blank(self, id=self.id, agent_state_id=self.agent_state_id)
        reject_naive(self, created_at=self.created_at)


class AgentSignalPollPoint(StrEnum):
    """Where in a run signals were looked for; a label for the record."""

    SAFE_BOUNDARY = "safe_boundary"
    ACTION_BOUNDARY = "action_boundary"
    MODEL_STREAM_TICK = "model_stream_tick"
    TOOL_BOUNDARY = "tool_boundary"
    APPROVAL_BOUNDARY = "approval_boundary"
    CONFIGURED = "configured"


@value
class AgentSignalConsumptionBatch:
    """The signals one poll took in, in the order they apply."""

    state_id: str
    poll_point: AgentSignalPollPoint
    signals: tuple[AgentSignal, ...]

    @property
    def consumed_count(self) -> int:
        """How many signals were taken in."""
        return len(self.signals)


_SAYS = frozenset({AgentSignalKind.USER_MESSAGE, AgentSignalKind.STEERING_INSTRUCTION})


def accepts_signal(kind: AgentSignalKind, accepted: Sequence[AgentSignalKind]) -> bool:
    """Whether an agent that declares `accepted` takes a signal of this kind; control is always taken."""
    return kind.lane is AgentSignalLane.CONTROL or kind in accepted


def words_of(payload: JsonObject) -> str | None:
    """Return the words of a message or a steering instruction: its `text`, or else its `message`; None for none."""
    words = payload.get("text", payload.get("message"))
    return words if isinstance(words, str) and words.strip() else None


def refuse_wordless(kind: AgentSignalKind, payload: JsonObject) -> None:
    """Refuse a message or a steering instruction that says nothing: the model would be shown an empty one.

    Raises:
        CallerError: it has no words.
    """
    if kind in _SAYS and words_of(payload) is None:
        raise CallerError(
            f"a {kind.value!r} signal says nothing. Give its payload a 'text' that is not blank; for data without "
            f"words send an {AgentSignalKind.EXTERNAL_EVENT.value!r}."
        )


def end_of_unread(kind: AgentSignalKind, *, is_cancelled: bool) -> AgentSignalEnd:
    """Return the end of a signal that an ending run has not taken in.

    Nothing that a run could do answers it any more: it is too late. A control signal of a run that is cancelled is
    superseded by the cancellation, and a resume by the end of the run that went on anyway.
    """
    is_superseded = kind.lane is AgentSignalLane.CONTROL and (is_cancelled or kind is AgentSignalKind.RESUME)
    return AgentSignalEnd.SUPERSEDED if is_superseded else AgentSignalEnd.TOO_LATE


def select_signals(
    pending: Sequence[AgentSignal],
    *,
    accepted: Sequence[AgentSignalKind] | None = None,
    limit: int | None = None,
) -> tuple[AgentSignal, ...]:
    """Which pending signals to take in now, in which order.

    Control signals come first. Then the rest in queue order, up to the first one that is not accepted: it stays
    pending, and so does everything after it. `None` accepts all kinds, an empty sequence none.
    """
    wanted = frozenset(AgentSignalKind) if accepted is None else frozenset(accepted)
    control = [s for s in pending if s.kind in wanted and s.kind.lane is AgentSignalLane.CONTROL]
    messages: list[AgentSignal] = []
    for signal in pending:
        if signal.kind not in wanted:
            break
        if signal.kind.lane is AgentSignalLane.MESSAGE:
            messages.append(signal)
    return tuple((control + messages)[:limit])

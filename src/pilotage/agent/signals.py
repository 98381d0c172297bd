"""Signals: input that reaches a run from outside while it lives. Pure: no I/O.

Two lanes. Control (cancel, approval, pause, resume) is always accepted and nothing blocks it; messages
(user messages, steering, events, wake-ups) are governed by the kinds that the agent accepts.

A revision of a steering instruction is a `steering_instruction` signal whose payload names its input and its number. Of
an input the newest revision counts: it supersedes the earlier ones, in any order of arrival. A draft (`final=False`)
and a withdrawal supersede earlier revisions and are never shown to the model; a newer final revision is. Once the run
has taken an input in, every other revision of it is too late.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from pilotage.checks import reject_blank, reject_naive, reject_not_positive
from pilotage.errors import AgentDefinitionError, CallerError
from pilotage.jsonvalue import JsonObject, JsonValue, empty_object
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
    """The answers to an approval request, in the order they are offered."""

    APPROVE = "approve"
    REJECT = "reject"
    MODIFY = "modify"
    DEFER = "defer"
    CANCEL = "cancel"


class RejectionPolicy(StrEnum):
    """The effect of a rejected approval: the run fails, or the model reads the rejection and goes on."""

    FAIL = "fail"
    TELL_MODEL = "tell_model"


class AgentSignalEnd(StrEnum):
    """The end of a signal; every accepted signal has one.

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
    """The point of a run at which signals were polled; a label for the record."""

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
        """The number of signals that were taken in."""
        return len(self.signals)


_SAYS = frozenset({AgentSignalKind.USER_MESSAGE, AgentSignalKind.STEERING_INSTRUCTION})


def accepts_signal(kind: AgentSignalKind, accepted: Sequence[AgentSignalKind]) -> bool:
    """Return whether an agent that declares `accepted` takes a signal of this kind; control is always taken."""
    return kind.lane is AgentSignalLane.CONTROL or kind in accepted


def words_of(payload: JsonObject) -> str | None:
    """Return the words of a message or a steering instruction: its `text`, or else its `message`; None for none."""
    words = payload.get("text", payload.get("message"))
    return words if isinstance(words, str) and words.strip() else None


ATTACHMENTS = "attachments"
"""The key of the media that a user message has in the payload of its signal."""


def refuse_wordless(kind: AgentSignalKind, payload: JsonObject) -> None:
    """Refuse a message or a steering instruction that says nothing: the model would be shown an empty one.

    Raises:
        CallerError: it has no words.
    """
    if kind in _SAYS and words_of(payload) is None:
        raise CallerError(
            f"a {kind.value!r} signal has no text. Give its payload a 'text' that is not blank; for data without "
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
    """Return which pending signals to take in now, in which order.

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


INPUT_ID, REVISION, FINAL, WITHDRAWN = "input_id", "revision", "final", "withdrawn"
"""The keys that a revision has in the payload of its signal, besides the `text`."""

STEERING_ID = "steering:"
"""The prefix of the ids that `signal_id` makes for revisions."""


@value
class AgentSteeringUpdate:
    """One revision of a steering instruction.

    `input_id` names the instruction for all of its revisions. With `final=False` it is a draft: the run uses neither it
    nor an earlier revision. With `withdrawn` the instruction is taken back, and needs no text.
    """

    input_id: str
    text: str | None = None
    revision: int = 1
    final: bool = True
    withdrawn: bool = False

    def __post_init__(self) -> None:
        reject_blank(self, input_id=self.input_id)
        reject_not_positive(self, revision=self.revision)
        if not self.withdrawn and (self.text is None or not self.text.strip()):
            raise AgentDefinitionError(
                f"AgentSteeringUpdate.text of input {self.input_id!r} is blank. "
                "Give it at least one visible character, or withdrawn=True."
            )

    @property
    def is_used(self) -> bool:
        """Whether a run takes the text in: it is final, and not withdrawn."""
        return self.final and not self.withdrawn

    def to_payload(self) -> JsonObject:
        """Return the payload of the signal that carries this revision."""
        payload: dict[str, JsonValue] = {INPUT_ID: self.input_id, REVISION: self.revision}
        if self.text is not None:
            payload["text"] = self.text
        return {**payload, FINAL: self.final, WITHDRAWN: self.withdrawn}

    def signal_id(self, run_id: str) -> str:
        """Return the id of its signal: the same revision of an input, sent again to the run, is stored once."""
        return f"{STEERING_ID}{run_id}:{self.input_id}:{self.revision}"

    @classmethod
    def from_payload(cls, payload: JsonObject) -> AgentSteeringUpdate | None:
        """Return the revision in the payload of a steering instruction; None for an instruction without an input id.

        Raises:
            CallerError: it names an input, and is no revision of it.
        """
        if INPUT_ID not in payload:
            return None
        input_id, revision = payload[INPUT_ID], payload.get(REVISION, 1)
        final, withdrawn = payload.get(FINAL, True), payload.get(WITHDRAWN, False)
        is_number = isinstance(revision, int) and not isinstance(revision, bool)
        if (
            isinstance(input_id, str)
            and is_number
            and isinstance(revision, int)
            and isinstance(final, bool)
            and isinstance(withdrawn, bool)
        ):
            try:
                return cls(input_id, words_of(payload), revision, final, withdrawn)
            except AgentDefinitionError as error:
                raise CallerError(str(error)) from error
        raise CallerError(
            f"a steering instruction names the input {input_id!r} and is no revision of it. Its {REVISION!r} is a "
            f"positive number, {FINAL!r} and {WITHDRAWN!r} are true or false."
        )


@value
class InputProgress:
    """The newest revision of an input that a run has processed, and whether it took the text of one in."""

    revision: int
    is_taken: bool = False


@dataclass
class SteeringSettlement:
    """The decision about pending revisions.

    `usable` ones wait for a boundary of the run. `noted` ones have had their effect: drafts and withdrawals.
    `superseded` ones have a newer revision. `late` ones belong to an input that was taken in.
    """

    usable: list[AgentSignal] = field(default_factory=list[AgentSignal])
    noted: list[AgentSignal] = field(default_factory=list[AgentSignal])
    superseded: list[AgentSignal] = field(default_factory=list[AgentSignal])
    late: list[AgentSignal] = field(default_factory=list[AgentSignal])


def update_of(signal: AgentSignal) -> AgentSteeringUpdate | None:
    """Return the revision that a stored signal carries; None for any other signal, and for one that is none."""
    if signal.kind is not AgentSignalKind.STEERING_INSTRUCTION or INPUT_ID not in signal.payload:
        return None
    try:
        return AgentSteeringUpdate.from_payload(signal.payload)
    except CallerError:
        return None


def settle_revisions(
    pending: Sequence[AgentSignal], known: Mapping[str, InputProgress]
) -> SteeringSettlement:
    """Decide about pending signals, in queue order; signals without a revision are usable.

    `known` has the inputs of which the run has processed a revision. Of equal revisions the first one counts.
    """
    updates = {signal.id: update for signal in pending if (update := update_of(signal)) is not None}
    newest = {name: progress.revision for name, progress in known.items()}
    counts: dict[str, str] = {}
    for signal_id, update in updates.items():
        if update.revision > newest.get(update.input_id, 0):
            newest[update.input_id] = update.revision
            counts[update.input_id] = signal_id
    settled = SteeringSettlement()
    for signal in pending:
        update = updates.get(signal.id)
        if update is None:
            settled.usable.append(signal)
        elif update.input_id in known and known[update.input_id].is_taken:
            settled.late.append(signal)
        elif counts.get(update.input_id) != signal.id:
            settled.superseded.append(signal)
        else:
            (settled.usable if update.is_used else settled.noted).append(signal)
    return settled


def progress_after(signals: Collection[AgentSignal], *, is_taken: bool) -> dict[str, InputProgress]:
    """Return the progress of the inputs whose revisions a run has taken in or noted."""
    updates = [update for signal in signals if (update := update_of(signal)) is not None]
    return {update.input_id: InputProgress(update.revision, is_taken) for update in updates}

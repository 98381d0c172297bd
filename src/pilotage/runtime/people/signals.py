"""Signals sent to a run: taken in at boundaries, recorded there, replayed there.

Taking signals in is an effect: their consumption and their place in the run are one commit, so a crash can neither lose
a signal nor apply it twice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from pilotage.agent.context import ContextFreshness, ContextPack, ContextPackRole, render_context_pack
from pilotage.agent.messages import MediaPart, ModelMessage, TextPart
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.conversations import ConversationTurn
from pilotage.agent.ports.persistence import JournalRow
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.signals import (
    ATTACHMENTS,
    INPUT_ID,
    AgentSignal,
    AgentSignalKind,
    AgentSignalLane,
    words_of,
)
from pilotage.agent.spec import UNTRUSTED_SIGNALS
from pilotage.agent.tools.metadata import Idempotency
from pilotage.jsonvalue import JsonObject, JsonValue, as_object, canonical_json, to_json_value
from pilotage.runtime.effect import NO_OUTCOME, SIGNAL, Effect, Outcome
from pilotage.runtime.exposure.redactor import Redactor, secretless
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.interruptions import AWAITS, Paused, RunDiverged
from pilotage.runtime.journal.ledger import Ledger
from pilotage.runtime.journal.record_fields import (
    DamagedRecordError,
    contract_value,
    count_field,
    decode_row,
    objects_field,
    texts_field,
)
from pilotage.runtime.journal.scope import Action, StepScope, fingerprint_of
from pilotage.runtime.people.steering import SteeringInputs, signals_in
from pilotage.safety.trust import Confidentiality, Integrity, TrustLabel
from pilotage.values import value

MESSAGES = frozenset(kind for kind in AgentSignalKind if kind.lane is AgentSignalLane.MESSAGE)
"""The kinds that a run takes in at its boundaries."""

_FROM_USERS = frozenset({AgentSignalKind.USER_MESSAGE, AgentSignalKind.STEERING_INSTRUCTION})

Choose: TypeAlias = Callable[[Sequence[AgentSignal]], Sequence[AgentSignal]]


@value
class SignalPolicy:
    """The kinds of signals that an agent accepts, those that it has handlers for, and those that are untrusted."""

    accepted: frozenset[AgentSignalKind] = frozenset()
    handled: frozenset[AgentSignalKind] = frozenset()
    untrusted: frozenset[AgentSignalKind] = frozenset(UNTRUSTED_SIGNALS)


class SignalQueue:
    """The signals of one attempt: those that wait, and those that are part of the transcript by now."""

    def __init__(
        self,
        ledger: Ledger,
        pending: Sequence[AgentSignal],
        policy: SignalPolicy,
        redactor: Redactor,
        *,
        salt: str,
        has_recorded: bool = False,
        steering: Callable[[], SteeringInputs] = SteeringInputs,
    ) -> None:
        self.policy = policy
        self.redactor = redactor
        self.salt = salt
        self.trust: TrustLabel | None = None
        """The joined label of what was taken in, where that is less than what every run starts with."""
        self._ledger = ledger
        self._waiting = [signal for signal in pending if signal.kind in MESSAGES] if pending else []
        self._pauses = [
            signal.id
            for signal in pending
            if signal.kind is AgentSignalKind.PAUSE and signal.id in ledger.unread
        ]
        self._known = {signal.id for signal in pending} if pending else set[str]()
        self._make_steering = steering
        self._steering: SteeringInputs | None = None
        self._begun_with = set[str]()
        self._is_settled = not any(map(_is_revision, self._waiting))
        self.user_turns: list[ConversationTurn] = []
        """The messages of users that are part of the transcript, in order."""
        self._taken: list[tuple[int, ModelMessage]] = []
        self._shown: list[AgentSignal] = []
        self._awaited: set[AgentSignalKind] = set()
        self.listens = ledger.is_durable and bool(policy.accepted or self._waiting or has_recorded)
        """Whether there may be signals to take in."""

    @property
    def is_called(self) -> bool:
        """Whether a signal has come that a part of the run waits for."""
        return any(signal.kind in self._awaited for signal in self._waiting)

    def receive(self, signal: AgentSignal) -> bool:
        """Queue a signal for the next boundary; False for one that is known."""
        if signal.id in self._known:
            return False
        self._known.add(signal.id)
        self._ledger.add_signals([signal])
        if signal.kind in MESSAGES:
            self._waiting.append(signal)
            self._is_settled = self._is_settled and not _is_revision(signal)
        elif signal.kind is AgentSignalKind.PAUSE:
            self._pauses.append(signal.id)
        return True

    def begin_with(self, kind: AgentSignalKind) -> None:
        """Let the run begin with the waiting signals of a kind: from here on, revisions of them are too late."""
        self._begun_with = {signal.id for signal in self._waiting if signal.kind is kind}
        if self._steering is not None:
            self._steering.take_in([signal for signal in self._waiting if signal.id in self._begun_with])

    @property
    def is_waiting(self) -> bool:
        """Whether a message waits to be taken in."""
        if not self._is_settled:
            self._settle_revisions()
        return bool(self._waiting)

    @property
    def is_pause_wanted(self) -> bool:
        """Whether a pause signal has come that the run has not honoured yet."""
        return bool(self._pauses)

    def take_back_pauses(self, signal: AgentSignal) -> None:
        """Use the signal up that lets the run go on; it supersedes the pause signals."""
        for signal_id in self._pauses:
            self._ledger.supersede_signal(signal_id)
        self._pauses.clear()
        self._ledger.consume_signal(signal.id)

    def settle_pauses(self) -> None:
        """Consume the pause signals: the run pauses."""
        for signal_id in self._pauses:
            self._ledger.consume_signal(signal_id)
        self._pauses.clear()

    def all_waiting(self, scope: StepScope, boundary: str, position: int) -> SignalIntake:
        """Return the effect that takes in all signals, for the transcript at this position and for handlers."""
        return SignalIntake(self, scope, boundary, tuple, position=position)

    def for_handlers(self, scope: StepScope, boundary: str) -> SignalIntake:
        """Return the effect that takes in the signals with handlers, up to the first one that waits for a model."""
        return SignalIntake(self, scope, boundary, self._first_handled, position=0)

    def for_another_turn(self, scope: StepScope, boundary: str, *, is_possible: bool) -> SignalIntake:
        """Return the effect that takes in all messages for another turn of a loop, if a new one is possible."""

        def choose(waiting: Sequence[AgentSignal]) -> Sequence[AgentSignal]:
            return tuple(waiting) if is_possible else ()

        return SignalIntake(self, scope, boundary, choose)

    def apply_all(self, record: JsonObject) -> list[ModelMessage]:
        """Return the messages of a record, for the loop to add to its transcript."""
        self.user_turns += user_turns_in(record)
        return [message_of(signal) for signal in self._signals_in(record)]

    def one(self, scope: StepScope, boundary: str, kind: AgentSignalKind) -> SignalIntake:
        """Return the effect that takes in the first signal of a kind that the program was not given.

        One that a model was shown counts too: a program that waits for an event must not miss it because a model was
        asked in between.
        """

        def first(waiting: Sequence[AgentSignal]) -> Sequence[AgentSignal]:
            return [signal for signal in (*self._shown, *waiting) if signal.kind is kind][:1]

        return SignalIntake(self, scope, boundary, first, name=kind.value)

    def has(self, kind: AgentSignalKind) -> bool:
        """Return whether a signal of this kind waits to be taken in."""
        if not self._is_settled:
            self._settle_revisions()
        return any(signal.kind is kind for signal in self._waiting)

    def wait_for(self, kind: AgentSignalKind) -> Paused:
        """Remember that the run waits for a signal of this kind, and return its pause."""
        self._awaited.add(kind)
        return Paused(reason=f"waiting for a signal: {kind.value}", facts={AWAITS: kind.value})

    def take(self, choose: Choose, position: int | None) -> JsonObject | None:
        """Take waiting signals out of the queue and return their record; None where none is chosen."""
        if not self._is_settled:
            self._settle_revisions()
        chosen = choose(self._waiting)
        if not chosen:
            return None
        for signal in chosen:
            if signal in self._waiting:
                self._waiting.remove(signal)
                self._ledger.consume_signal(signal.id)
        if self._steering is not None:
            self._steering.take_in(chosen)
        record: dict[str, JsonValue] = {words.RESULT: [_recorded(signal) for signal in chosen]}
        if position is not None:
            record[words.AT] = position
            record[words.HANDLED] = [signal.id for signal in chosen if signal.kind in self.policy.handled]
        return secretless(record, self.redactor)

    def apply(self, boundary: str, record: JsonObject) -> Sequence[AgentSignal]:
        """Add the signals of a record to the transcript and return those for handlers.

        Raises:
            RunDiverged: a handler is gone.
        """
        for_handlers = self._read(record)
        for signal in for_handlers:
            if signal.kind not in self.policy.handled:
                gone = f"a handler took the {signal.kind.value!r} signal {signal.id!r}, and it is gone"
                raise RunDiverged(boundary, gone)
        return for_handlers

    def apply_one(self, record: JsonObject) -> AgentSignal:
        """Return the one signal of a record, which the program is given."""
        (signal,) = self._signals_in(record)
        self._shown = [each for each in self._shown if each.id != signal.id]
        return signal

    def inserted(self, request: ModelRequest) -> ModelRequest:
        """Return the request with all messages so far, each where the transcript stood when it came."""
        if not self._taken:
            return request
        messages = list(request.messages)
        for shift, (position, message) in enumerate(self._taken):
            messages.insert(min(position + shift, len(messages)), message)
        return replace(request, messages=tuple(messages))

    def recall(self, rows: Sequence[JournalRow]) -> None:
        """Add the signals that were taken in inside a part of the program that replay does not enter."""
        for row in rows:
            if row.kind is AgentActionKind.SIGNAL:
                decode_row(row, self._read)

    def _settle_revisions(self) -> None:
        """End the revisions of steering instructions that do not count; the others wait to be taken in.

        Only the run itself does this, before it looks at what waits: it may write.
        """
        self._is_settled = True
        self._steering = self._steering or self._make_steering()
        open_ones = [signal for signal in self._waiting if signal.id not in self._begun_with]
        usable = {signal.id for signal in self._steering.settle(open_ones, self._ledger)}
        self._waiting = [each for each in self._waiting if each.id in usable | self._begun_with]

    def _first_handled(self, waiting: Sequence[AgentSignal]) -> Sequence[AgentSignal]:
        others = (i for i, signal in enumerate(waiting) if signal.kind not in self.policy.handled)
        return waiting[: next(others, len(waiting))]

    def _read(self, record: JsonObject) -> Sequence[AgentSignal]:
        """Add the signals of a record to the transcript, except for those for handlers, which are returned."""
        signals = self._signals_in(record)
        if words.AT not in record:
            return ()
        position, handled = count_field(record, words.AT), texts_field(record, words.HANDLED)
        shown = [signal for signal in signals if signal.id not in handled]
        self.user_turns += user_turns_in(record)
        self._taken += [(position, message_of(signal)) for signal in shown]
        self._shown += shown
        return [signal for signal in signals if signal.id in handled]

    def _signals_in(self, record: JsonObject) -> Sequence[AgentSignal]:
        signals = signals_in(record)
        for signal in signals:
            label = label_of(signal, self.policy.untrusted)
            if label is not None:
                self.trust = label if self.trust is None else self.trust.join(label)
        return signals


class SignalIntake(Effect):
    """Taking signals in at a boundary. Its result is the record of the signals; without any it leaves no row."""

    kind = SIGNAL
    is_live = True
    """Whether everything recorded was asked for: before that, no new signal is taken in."""
    waits_for: AgentSignalKind | None = None
    """The kind that the program waits for: without such a signal the call pauses."""

    def __init__(
        self,
        queue: SignalQueue,
        scope: StepScope,
        boundary: str,
        choose: Choose,
        *,
        position: int | None = None,
        name: str = words.SIGNALS,
    ) -> None:
        kind = AgentActionKind.SIGNAL
        fingerprint = fingerprint_of(queue.salt, boundary, kind, name, None)
        action = Action(
            id=boundary,
            kind=kind,
            name=name,
            asked=None,
            view=None,
            idempotency=Idempotency.IDEMPOTENT,
            is_read_only=True,
            fingerprint=fingerprint,
        )
        super().__init__(scope, action)
        self._queue = queue
        self._choose = choose
        self._position = position

    def belongs_to(self, effect: Effect | None) -> None:
        """Take signals in beside a call: with its number, and only those that are recorded if the call is."""
        if effect is not None:
            self.number = effect.number
            self.is_live = effect.call is None or effect.call.identity is None

    async def act(self) -> object:
        record = self._queue.take(self._choose, self._position) if self.is_live else None
        if record is None and self.waits_for is not None:
            raise self._queue.wait_for(self.waits_for)
        return NO_OUTCOME if record is None else Outcome(record, self._queue.redactor.json(record), record)

    def reuse(self, record: JsonObject) -> object:
        return record


def _is_revision(signal: AgentSignal) -> bool:
    return signal.kind is AgentSignalKind.STEERING_INSTRUCTION and INPUT_ID in signal.payload


def user_turns_in(record: JsonObject) -> list[ConversationTurn]:
    """Return the messages of users that a record adds to the transcript, as turns of their conversation."""
    handled = texts_field(record, words.HANDLED) if words.HANDLED in record else ()
    messages = [
        (words_of(signal.payload), attached_to(signal))
        for signal in signals_in(record)
        if signal.kind is AgentSignalKind.USER_MESSAGE and signal.id not in handled
    ]
    return [user_turn(text or "", media) for text, media in messages if text or media]


def user_turns_in_rows(rows: Iterable[JournalRow]) -> list[ConversationTurn]:
    """Return the messages of users that a run has added to its transcript, in order."""
    found: list[ConversationTurn] = []
    for row in rows:
        if row.kind is AgentActionKind.SIGNAL and _is_for_the_transcript(row):
            found += decode_row(row, user_turns_in)
    return found


def user_turn(text: str, media: Sequence[MediaPart]) -> ConversationTurn:
    """Return what a user sent as a turn: its stored media by their digests, their names where there are no words."""
    content = text if text.strip() else ", ".join(part.name or part.media_type for part in media)
    return ConversationTurn("user", content, media=tuple(part for part in media if part.digest is not None))


def _is_for_the_transcript(row: JournalRow) -> bool:
    """Return whether a row took signals in for the transcript, and not for a program that waits for them."""
    record = row.record
    return (isinstance(record, Mapping) and words.AT in record) or row.action_id.startswith(f"{words.MORE}#")


def kinds_in(record: JsonObject) -> list[JsonValue]:
    """Return the kinds of the signals in a record."""
    return [each.get("kind") for each in objects_field(record, words.RESULT)]


def _recorded(signal: AgentSignal) -> JsonObject:
    """Return the record of a signal; its end belongs to the store."""
    recorded = as_object(to_json_value(signal))
    return {name: given for name, given in recorded.items() if name != "end"}


def message_of(signal: AgentSignal) -> ModelMessage:
    """Return the signal as an entry of the transcript.

    Messages and steering are a user's words. An external event or a wake-up is evidence, in a frame that names its
    source.
    """
    text = signal.payload.get("text", signal.payload.get("message"))
    if signal.kind in _FROM_USERS:
        content, media = "" if text is None else str(text), attached_to(signal)
        return ModelMessage.user((TextPart(content), *media) if media else content)
    is_all = isinstance(text, str) and len(signal.payload) == 1
    content = str(text) if is_all else canonical_json(signal.payload)
    pack = ContextPack(
        signal.id, content, signal.kind.value, ContextPackRole.EVIDENCE, ContextFreshness.CURRENT
    )
    return ModelMessage.evidence(render_context_pack(pack), source=signal.kind.value)


def attached_to(signal: AgentSignal) -> tuple[MediaPart, ...]:
    """Return the media that a user message was sent with; no other signal has any."""
    if signal.kind is not AgentSignalKind.USER_MESSAGE or ATTACHMENTS not in signal.payload:
        return ()
    try:
        return tuple(contract_value(MediaPart, each) for each in objects_field(signal.payload, ATTACHMENTS))
    except DamagedRecordError:
        return ()  # earlier versions took anything under this key, and showed the text alone


def label_of(signal: AgentSignal, untrusted: Collection[AgentSignalKind]) -> TrustLabel | None:
    """Return the trust label of a signal of an untrusted kind; None for the others.

    The senders of the others are users, and their words have the label that every run starts with.
    """
    if signal.kind not in untrusted:
        return None
    origin = frozenset({f"signal:{signal.kind.value}"})
    return TrustLabel(Integrity.UNTRUSTED, Confidentiality.PUBLIC, origin)

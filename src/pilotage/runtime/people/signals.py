"""What signals are to a run: the words a model is shown of them, and how far those may be trusted. Pure.

Messages and steering are a user's words. An event from outside and a wake-up are nobody's: they are shown as evidence,
in a frame that says where they come from. What comes from outside may have been written by a stranger.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

from pilotage.agent.context import ContextFreshness, ContextPack, ContextPackRole, render_context_pack
from pilotage.agent.messages import ModelMessage
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.journal import JournalRow, JournalStage
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.signals import AgentSignal, AgentSignalKind, AgentSignalLane
from pilotage.agent.structured_output import StructuredOutputSpec
from pilotage.agent.tools.metadata import Idempotency
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json, to_json_value
from pilotage.runtime.exposure.redactor import Redactor, secretless
from pilotage.runtime.journal.action import Action, fingerprint_of
from pilotage.runtime.journal.interruptions import RunDiverged
from pilotage.runtime.journal.ledger import Ledger
from pilotage.runtime.journal.recording import Recording
from pilotage.safety.trust import Confidentiality, Integrity, TrustLabel
from pilotage.values import value

MESSAGES = frozenset(kind for kind in AgentSignalKind if kind.lane is AgentSignalLane.MESSAGE)
"""The kinds that a run takes in at its boundaries."""

_A_USERS = frozenset({AgentSignalKind.USER_MESSAGE, AgentSignalKind.STEERING_INSTRUCTION})


def message_of(signal: AgentSignal) -> ModelMessage:
    """The signal as an entry of the transcript."""
    words = signal.payload.get("text", signal.payload.get("message"))
    if signal.kind in _A_USERS:
        return ModelMessage.user("" if words is None else str(words))
    is_all = isinstance(words, str) and len(signal.payload) == 1
    content = str(words) if is_all else canonical_json(signal.payload)
    pack = ContextPack(
        signal.id, content, signal.kind.value, ContextPackRole.EVIDENCE, ContextFreshness.CURRENT
    )
    return ModelMessage.evidence(render_context_pack(pack), source=signal.kind.value)


def label_of(signal: AgentSignal) -> TrustLabel:
    """How far what the signal says may be trusted; who may send a run its other signals is a user of it."""
    if signal.kind is not AgentSignalKind.EXTERNAL_EVENT:
        return TrustLabel()
    origin = frozenset({f"signal:{signal.kind.value}"})
    return TrustLabel(Integrity.UNTRUSTED, Confidentiality.PUBLIC, origin)


def signal_in(record: JsonValue) -> AgentSignal:
    """The signal that a row has taken in."""
    return cast(AgentSignal, StructuredOutputSpec.from_type(AgentSignal).decode(record))


@value
class SignalPolicy:
    """What the agent of a run hears: the kinds it accepts, and those of them it has handlers for."""

    accepted: frozenset[AgentSignalKind] = frozenset()
    handled: frozenset[AgentSignalKind] = frozenset()


class SignalQueue:
    """The signals of one attempt: those that wait, and those that are part of the transcript by now."""

    def __init__(
        self,
        ledger: Ledger,
        recording: Recording,
        pending: Sequence[AgentSignal],
        salt: str = "",
        hearing: SignalPolicy = SignalPolicy(),  # noqa: B008 - a value
        redactor: Redactor | None = None,
    ) -> None:
        self.hearing = hearing
        self.trust: TrustLabel | None = None
        """How far what was taken in may be trusted, where that is less than what every run starts with."""
        self._salt = salt or ledger.run.run_id
        self._ledger = ledger
        self._recording = recording
        self._redactor = redactor or Redactor()
        self._waiting = [signal for signal in pending if signal.kind in MESSAGES] if pending else []
        self._pauses: list[str] = []
        self._known = {signal.id for signal in pending} if pending else set[str]()
        self._taken: list[tuple[int, ModelMessage]] = []
        self._shown: list[AgentSignal] = []
        self._awaited: set[AgentSignalKind] = set()
        self.listens = ledger.is_kept and bool(
            hearing.accepted or self._waiting or recording.has_any(AgentActionKind.SIGNAL)
        )
        """Whether anything can be there to be taken in."""

    @property
    def is_called(self) -> bool:
        """Whether something has come that a part of the run stopped to wait for."""
        return any(signal.kind in self._awaited for signal in self._waiting)

    def receive(self, signal: AgentSignal) -> bool:
        """A signal arrives; it is taken in at the next boundary. False for one that is known."""
        if signal.id in self._known:
            return False
        self._known.add(signal.id)
        if signal.kind in MESSAGES:
            self._waiting.append(signal)
        elif signal.kind is AgentSignalKind.PAUSE:
            self._pauses.append(signal.id)
        return True

    def take_back_pauses(self, signal: AgentSignal) -> None:
        """Somebody wants the run to go on after all: both wishes are used up."""
        self._pauses.append(signal.id)
        self.settle_pauses()

    def settle_pauses(self) -> None:
        """The run pauses: whoever asked for that has what they wanted."""
        for signal_id in self._pauses:
            self._ledger.consume(signal_id)
        self._pauses.clear()

    def take_in(self, boundary: str, position: int) -> Sequence[AgentSignal]:
        """Take in all that waits: a part of the transcript at this position, but for those that have handlers.

        Returns:
            The signals for handlers, in the order they came.

        Raises:
            RunDiverged: something else is recorded at this place, or a handler is gone.
        """
        return self._heard(boundary, self._taken_at(boundary, position, self._all))

    def take_handled(self, boundary: str) -> Sequence[AgentSignal]:
        """Take in what has handlers, up to the first signal that has none: that one waits for a model call.

        Raises:
            RunDiverged: something else is recorded at this place, or a handler is gone.
        """
        return self._heard(boundary, self._taken_at(boundary, 0, self._first_handled))

    def take_one(self, boundary: str, kind: AgentSignalKind) -> AgentSignal | None:
        """Take in the first signal of a kind that the program was not given; None where somebody must wait for it.

        One that a model was shown counts too: who waits for an event must not miss it because a model was asked.
        """

        def first(waiting: Sequence[AgentSignal]) -> Sequence[AgentSignal]:
            return [signal for signal in (*self._shown, *waiting) if signal.kind is kind][:1]

        record = self._taken_at(boundary, None, first, kind.value)
        if record is None:
            self._awaited.add(kind)
            return None
        (signal,) = self._signals_in(record)
        self._shown = [each for each in self._shown if each.id != signal.id]
        return signal

    def inserted(self, request: ModelRequest) -> ModelRequest:
        """The request with everything said so far, each message where the transcript stood when it came."""
        if not self._taken:
            return request
        messages = list(request.messages)
        for shift, (position, message) in enumerate(self._taken):
            messages.insert(min(position + shift, len(messages)), message)
        return replace(request, messages=tuple(messages))

    def recall(self, rows: Sequence[JournalRow]) -> None:
        """Know what was taken in inside a part of the program that replay does not enter."""
        for row in rows:
            if row.kind is AgentActionKind.SIGNAL:
                self._read(cast(JsonObject, row.record))

    def _all(self, waiting: Sequence[AgentSignal]) -> Sequence[AgentSignal]:
        return tuple(waiting)

    def _first_handled(self, waiting: Sequence[AgentSignal]) -> Sequence[AgentSignal]:
        others = (i for i, signal in enumerate(waiting) if signal.kind not in self.hearing.handled)
        return waiting[: next(others, len(waiting))]

    def _heard(self, boundary: str, record: JsonObject | None) -> Sequence[AgentSignal]:
        """What of a record is for handlers; the rest of it is a part of the transcript from here on."""
        if record is None:
            return ()
        for_handlers = self._read(record)
        for signal in for_handlers:
            if signal.kind not in self.hearing.handled:
                words = f"a handler took the {signal.kind.value!r} signal {signal.id!r}, and it is gone"
                raise RunDiverged(boundary, words)
        return for_handlers

    def _taken_at(
        self,
        boundary: str,
        position: int | None,
        choose: Callable[[Sequence[AgentSignal]], Sequence[AgentSignal]],
        name: str = "signals",
    ) -> JsonObject | None:
        """The record of what is taken in at a boundary: as it was, or now; None where there is nothing."""
        action = self._action(boundary, name)
        recorded = self._recording.take(action)
        if recorded is not None:
            return cast(JsonObject, recorded.row.record)
        chosen = choose(self._waiting) if self._recording.is_used_up else ()
        if not chosen:
            return None
        for signal in chosen:
            if signal in self._waiting:
                self._waiting.remove(signal)
                self._ledger.consume(signal.id)
        return self._written(action, position, chosen)

    def _written(self, action: Action, position: int | None, chosen: Sequence[AgentSignal]) -> JsonObject:
        said: list[JsonValue] = [to_json_value(signal) for signal in chosen]
        record: dict[str, JsonValue] = {"result": said}
        if position is not None:
            record["at"] = position
            record["handled"] = [signal.id for signal in chosen if signal.kind in self.hearing.handled]
        kept = secretless(record, self._redactor)
        self._ledger.append(action, JournalStage.AFTER, 1, kept, self._redactor.json(kept))
        return kept

    def _read(self, record: JsonObject) -> Sequence[AgentSignal]:
        """Add what a record holds to the transcript, but for what is for handlers: that is given back."""
        signals = self._signals_in(record)
        if "at" not in record:
            return ()
        position, handled = cast(int, record["at"]), cast("Sequence[str]", record["handled"])
        shown = [signal for signal in signals if signal.id not in handled]
        self._taken += [(position, message_of(signal)) for signal in shown]
        self._shown += shown
        return [signal for signal in signals if signal.id in handled]

    def _signals_in(self, record: JsonObject) -> Sequence[AgentSignal]:
        signals = [signal_in(each) for each in cast("Sequence[JsonValue]", record["result"])]
        for signal in signals:
            label = label_of(signal)
            if label != TrustLabel():
                self.trust = label if self.trust is None else self.trust.join(label)
        return signals

    def _action(self, boundary: str, name: str) -> Action:
        kind = AgentActionKind.SIGNAL
        fingerprint = fingerprint_of(self._salt, boundary, kind, name, None)
        return Action(boundary, kind, name, None, None, Idempotency.IDEMPOTENT, True, fingerprint)

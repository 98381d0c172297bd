"""Messages that reach a run while it lives: taken in at model boundaries, recorded there, replayed there.

Taking one in is an action: its consumption and its place in the transcript are one commit, so a crash can
neither lose it nor apply it twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from pilotage.agent.messages import ModelMessage
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.journal import JournalStage
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.signals import AgentSignal, AgentSignalKind
from pilotage.agent.tools.metadata import Idempotency
from pilotage.jsonvalue import JsonObject, JsonValue, to_json_value
from pilotage.runtime.actions.action import Action, fingerprint_of
from pilotage.runtime.journal.ledger import Ledger
from pilotage.runtime.journal.recording import Recording

SPOKEN = frozenset({AgentSignalKind.USER_MESSAGE, AgentSignalKind.STEERING_INSTRUCTION})


class Inbox:
    """The messages of one attempt: those that wait, and those that are part of the transcript by now."""

    def __init__(
        self, ledger: Ledger, recording: Recording, pending: Sequence[AgentSignal], salt: str = ""
    ) -> None:
        self._salt = salt or ledger.run.run_id
        self._ledger = ledger
        self._recording = recording
        self._waiting = [signal for signal in pending if signal.kind in SPOKEN]
        self._pauses: list[str] = []
        self._known = {signal.id for signal in pending}
        self._taken: list[tuple[int, ModelMessage]] = []

    def receive(self, signal: AgentSignal) -> bool:
        """A message arrives; it is taken in at the next boundary. False for one that is known."""
        if signal.id in self._known:
            return False
        self._known.add(signal.id)
        if signal.kind in SPOKEN:
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

    def addressed(self, boundary: str, request: ModelRequest) -> ModelRequest:
        """The request with everything said so far, each message where the transcript stood when it came."""
        if not self._ledger.is_kept:
            return request
        self._take_in(boundary, len(request.messages))
        if not self._taken:
            return request
        messages = list(request.messages)
        for shift, (position, message) in enumerate(self._taken):
            messages.insert(min(position + shift, len(messages)), message)
        return replace(request, messages=tuple(messages))

    def _take_in(self, boundary: str, position: int) -> None:
        action = self._action(boundary)
        recorded = self._recording.take(action)
        if recorded is not None:
            self._add(position, cast("list[JsonValue]", cast(JsonObject, recorded.row.record)["result"]))
            return
        if not self._waiting or not self._recording.is_used_up:
            return
        waiting, self._waiting = self._waiting, []
        said: list[JsonValue] = [to_json_value(signal) for signal in waiting]
        for signal in waiting:
            self._ledger.consume(signal.id)
        record: JsonObject = {"result": said}
        self._ledger.append(action, JournalStage.AFTER, 1, record, record)
        self._add(position, said)

    def _add(self, position: int, said: Sequence[JsonValue]) -> None:
        for signal in said:
            payload = cast(JsonObject, cast(JsonObject, signal)["payload"])
            text = payload.get("text", payload.get("message", ""))
            self._taken.append((position, ModelMessage.user(str(text))))

    def _action(self, boundary: str) -> Action:
        kind = AgentActionKind.SIGNAL
        fingerprint = fingerprint_of(self._salt, boundary, kind, "signals", None)
        return Action(boundary, kind, "signals", None, None, Idempotency.IDEMPOTENT, True, fingerprint)

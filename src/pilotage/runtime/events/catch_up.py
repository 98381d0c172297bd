"""What the program of a resumed run has said before: replay says it again, and nobody is told twice. Pure.

A model call that is made again has another message id, and says something else: what its earlier owner told of it
is marked superseded. What is not said again for any other reason, such as a part of the program that is folded, stands.
What others told, such as a run's children, is not looked at.

A program mostly says the same in the same order, so the log is followed entry by entry. Where the two part, for
branches that are faster this time or a text that comes in other pieces, the rest of the log is sorted by what it says.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Collection, Iterator
from typing import TypeAlias

from pilotage.agent.events import (
    AgentEvent,
    AgentEventAttribution,
    AgentEventKind,
    MessageDeltaEvent,
    ReasoningDeltaEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from pilotage.jsonvalue import canonical_json
from pilotage.runtime.events.event_log import LoggedEvent
from pilotage.runtime.events.event_record import encode_event, is_kept_as
from pilotage.runtime.exposure.pieces import TextId, piece_of, with_text

SUPERSEDED = "superseded"
"""The key in the metadata of an event that says: what was told under this id does not count."""

_BY_THE_RUN = frozenset({AgentEventKind.RUN_STARTED, AgentEventKind.RUN_PAUSED, AgentEventKind.RUN_FINISHED})
_OF_MODELS = frozenset(
    {
        AgentEventKind.MESSAGE_DELTA,
        AgentEventKind.REASONING_DELTA,
        AgentEventKind.TOOL_CALL_START,
        AgentEventKind.TOOL_CALL_ARGS_DELTA,
    }
)
_AHEAD = 16
"""So many entries of the log may be passed over to find what is said."""

_TELLING = frozenset({"metadata", "by"})
_MODEL_MADE = re.compile(r"(.+)@([0-9]+)(?::[^@]*)?", re.DOTALL)

_Message: TypeAlias = tuple[str, str]
"""The run and the model call that a text or a tool call belongs to, whoever made it."""


class AlreadyLogged:
    """Texts by how far they were told, other events by how often, and which call of a model they came from."""

    def __init__(self, told: deque[LoggedEvent], by: AgentEventAttribution) -> None:
        self._by = by
        self._texts: dict[TextId, int] = {}
        self._events: Counter[str] = Counter()
        self._marks: dict[_Message, dict[TextId, AgentEvent]] = {}
        self._epochs: dict[_Message, int] = {}
        self._last_id: str | None = None
        self._told = told
        """What may come next. What was said again is taken out: a long log does not live as long as its run."""

    @property
    def is_done(self) -> bool:
        """Whether nothing of it can matter any more."""
        self._sort_the_rest()
        return not (self._texts or self._events or self._marks)

    def is_next(self, event: AgentEvent) -> bool:
        """Whether the event is what was said next the first time; if not, ask what of it is unsaid.

        Entries that are not said again, such as what a tool told while it ran, are passed over.
        """
        told, by = self._told, self._by
        if event.attribution is not by and event.attribution.run_id != by.run_id:
            return False
        if told and is_kept_as(told[0].record, event, by):
            told.popleft()
            return True
        return self._is_soon(event)

    def _is_soon(self, event: AgentEvent) -> bool:
        told = self._told
        for ahead in range(1, min(_AHEAD, len(told))):
            if is_kept_as(told[ahead].record, event, self._by):
                self._sort(ahead)
                told.popleft()
                return True
        return False

    def unsaid(self, event: AgentEvent) -> AgentEvent | None:
        """What of the event has not been told yet; None where all of it has."""
        self._sort_the_rest()
        piece = piece_of(event)
        if piece is None:
            return None if self._is_known(event) else event
        if event.metadata and self._is_known(event):
            self._count_off(*piece)
            return None
        told = self._count_off(*piece)
        if not told:
            return event
        return with_text(event, piece[1][told:]) if len(piece[1]) > told else None

    def superseded_by(self, event: AgentEvent) -> list[AgentEvent]:
        """What must be told before the event: marks on what the same call of a model said before it was repeated."""
        self._sort_the_rest()
        message_id = _message_id_of(event)
        if message_id is None or message_id is self._last_id or not self._marks:
            return []
        self._last_id = message_id
        return list(self.repeated(message_id, event.attribution.run_id))

    def repeated(self, message_id: str, run_id: str) -> Iterator[AgentEvent]:
        """The marks for a message: none where it is the one that was told."""
        self._sort_the_rest()
        message, epoch = _origin(message_id, run_id)
        marks = self._marks.pop(message, {}) if message else {}
        if message and self._epochs.pop(message, epoch) != epoch:
            yield from marks.values()

    def go_live(self, held: Collection[TextId] = ()) -> None:
        """The program has repeated itself; whatever it says from here on is new, but for texts that are held back."""
        self._sort_the_rest()
        self._events.clear()
        self._texts = {text: told for text, told in self._texts.items() if text in held}

    def _sort_the_rest(self) -> None:
        self._sort(len(self._told))

    def _sort(self, count: int) -> None:
        for _ in range(count):
            item = self._told.popleft()
            # A run with many children has mostly told what they did; what is not looked at is not decoded either.
            if item.teller in (None, self._by.run_id):
                self._remember(item)

    def _count_off(self, text: TextId, piece: str) -> int:
        told = self._texts.pop(text, 0)
        if told > len(piece):
            self._texts[text] = told - len(piece)
        return told

    def _is_known(self, event: AgentEvent) -> bool:
        key = self._key(event)
        if not self._events[key]:
            return False
        self._events[key] -= 1
        return True

    def _remember(self, item: LoggedEvent) -> None:
        if item.kind not in _OF_MODELS and item.encoded.keys().isdisjoint(_TELLING):
            # Most of a log: what is counted is its text, and nobody needs the event for that.
            if item.kind not in _BY_THE_RUN:
                self._events[canonical_json(item.encoded)] += 1
            return
        event = item.event(self._by)
        if event.metadata.get(SUPERSEDED):
            self._forget(event)
            return
        piece = piece_of(event)
        if piece is not None:
            self._texts[piece[0]] = self._texts.get(piece[0], 0) + len(piece[1])
        if event.kind not in _BY_THE_RUN and (piece is None or event.metadata):
            self._events[self._key(event)] += 1
        if (mark := _mark(event)) is not None:
            self._remember_origin(event, *mark)

    def _remember_origin(self, event: AgentEvent, about: TextId, mark: AgentEvent) -> None:
        message, epoch = _origin(_message_id_of(event) or "", event.attribution.run_id)
        if message is None:
            return
        if self._epochs.get(message) != epoch:
            self._marks[message] = {}
        self._epochs[message] = epoch
        self._marks[message][about] = mark

    def _forget(self, mark: AgentEvent) -> None:
        """Something is marked as superseded already: nobody says it again, and it is not marked twice."""
        about = _about(mark)
        if about is None:
            return
        self._texts.pop(about, None)
        for marks in self._marks.values():
            marks.pop(about, None)

    def _key(self, event: AgentEvent) -> str:
        return canonical_json(encode_event(event, self._by))


def _message_id_of(event: AgentEvent) -> str | None:
    match event:
        case MessageDeltaEvent() | ToolCallResultEvent():
            return event.message_id
        case ReasoningDeltaEvent():
            return event.reasoning_id
        case ToolCallStartEvent():
            return event.parent_message_id
        case _:
            return None


def _origin(message_id: str, run_id: str) -> tuple[_Message | None, int]:
    """The call that made the message, and in which epoch; None for one that no model made."""
    found = _MODEL_MADE.fullmatch(message_id)
    return ((run_id, found[1]), int(found[2])) if found else (None, 0)


def _about(event: AgentEvent) -> TextId | None:
    if isinstance(event, ToolCallStartEvent | ToolCallEndEvent):
        return ("arguments", event.attribution.run_id, event.call_id)
    piece = piece_of(event)
    return piece[0] if piece else None


def _mark(event: AgentEvent) -> tuple[TextId, AgentEvent] | None:
    """The event that says of a text or a call that it does not count."""
    about, mark = _about(event), {SUPERSEDED: True}
    match event:
        case MessageDeltaEvent() if about:
            return about, MessageDeltaEvent(event.attribution, event.message_id, "", mark)
        case ReasoningDeltaEvent() if about:
            return about, ReasoningDeltaEvent(event.attribution, event.reasoning_id, "", mark)
        case ToolCallStartEvent() if about:
            return about, ToolCallEndEvent(event.attribution, event.call_id, mark)
        case _:
            return None

"""Filter for events that the program of a resumed run repeats and the log has already. Pure.

A repeated model call has another message id and another text: the events of the earlier call are marked superseded.
Events that are not repeated for any other reason, such as those of a folded part of the program, stay valid. Events
of other runs, such as child runs, are ignored.

A program mostly repeats its events in order, so the log is followed entry by entry. Where the orders differ, because
branches run at another pace or a text is cut differently, the rest of the log is indexed by content.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Collection
from dataclasses import replace
from typing import TypeAlias

from pilotage.agent.events import (
    SUPERSEDED,
    AgentEvent,
    AgentEventAttribution,
    AgentEventKind,
    MessageDeltaEvent,
    ReasoningDeltaEvent,
    TextId,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    delta_of,
    text_of,
    with_text,
)
from pilotage.jsonvalue import canonical_json
from pilotage.runtime.events.event_log import LoggedEvent
from pilotage.runtime.events.event_record import encode_event, is_record_of

_FROM_MODELS = frozenset(
    {
        AgentEventKind.MESSAGE_DELTA,
        AgentEventKind.REASONING_DELTA,
        AgentEventKind.TOOL_CALL_START,
        AgentEventKind.TOOL_CALL_ARGS_DELTA,
    }
)
_LOOK_AHEAD = 16
"""The number of log entries that may be skipped to find a repeated event."""

_NEEDS_DECODING = frozenset({"metadata", "by"})
_MODEL_MESSAGE_ID = re.compile(r"(.+)@([0-9]+)(?::[^@]*)?", re.DOTALL)

_ModelCall: TypeAlias = tuple[str, str]
"""Run id and step id of a model call, the same in every epoch."""


class ReplayFilter:
    """Consumes the log while the program repeats it: texts by length, other events by count."""

    def __init__(self, logged: deque[LoggedEvent], by: AgentEventAttribution) -> None:
        self._by = by
        self._logged = logged
        """Entries not matched yet. Matched ones are removed, so that a long log does not live as long as its run."""
        self._texts: dict[TextId, int] = {}
        self._events: Counter[str] = Counter()
        self._marks: dict[_ModelCall, dict[TextId, AgentEvent]] = {}
        self._epochs: dict[_ModelCall, int] = {}
        self._last_message_id: str | None = None

    @property
    def is_exhausted(self) -> bool:
        """Whether no later event can match the log."""
        self._index_rest()
        return not (self._texts or self._events or self._marks)

    @property
    def coming(self) -> int | None:
        """The number of the next event of the log; None if there is none."""
        return self._logged[0].number if self._logged else None

    def is_next(self, event: AgentEvent) -> bool:
        """Return whether the event is one of the next in the log, and remove it there; if not, ask `new_part`.

        Entries that are not repeated, such as the progress of a tool, are skipped.
        """
        logged, by = self._logged, self._by
        if event.attribution is not by and event.attribution.run_id != by.run_id:
            return False
        if logged and is_record_of(logged[0].record, event, by):
            logged.popleft()
            return True
        for ahead in range(1, min(_LOOK_AHEAD, len(logged))):
            if is_record_of(logged[ahead].record, event, by):
                self._index(ahead)
                logged.popleft()
                return True
        return False

    def new_part(self, event: AgentEvent) -> AgentEvent | None:
        """Return the part of the event that the log does not have; None if it has all of it."""
        self._index_rest()
        delta = delta_of(event)
        if delta is None:
            return None if self._is_logged(event) else event
        is_logged = bool(event.metadata) and self._is_logged(event)
        known = self._consume(*delta)
        if is_logged:
            return None
        if not known:
            return event
        return with_text(event, delta[1][known:]) if len(delta[1]) > known else None

    def marks_before(self, event: AgentEvent) -> list[AgentEvent]:
        """Return the marks to emit before the event: on the earlier output of a model call that it repeats."""
        self._index_rest()
        message_id = _message_id_of(event)
        if message_id is None or message_id is self._last_message_id or not self._marks:
            return []
        self._last_message_id = message_id
        return self.marks_for(message_id, event.attribution.run_id)

    def marks_for(self, message_id: str, run_id: str) -> list[AgentEvent]:
        """Return the marks on the earlier output of the model call that makes a message; none if it is the same."""
        self._index_rest()
        call, epoch = _origin(message_id, run_id)
        if call is None:
            return []
        marks = self._marks.pop(call, {})
        return list(marks.values()) if self._epochs.pop(call, epoch) != epoch else []

    def supersede(self, mark: AgentEvent) -> None:
        """Remove the text or tool call that a new mark supersedes: a repeated call may have the same id."""
        self._index_rest()
        self._remove_superseded(mark)

    def go_live(self, held: Collection[TextId] = ()) -> None:
        """Treat every event from now on as new, except for the rest of texts that are held back."""
        self._index_rest()
        self._events.clear()
        self._texts = {text: length for text, length in self._texts.items() if text in held}

    def _index_rest(self) -> None:
        self._index(len(self._logged))

    def _index(self, count: int) -> None:
        for _ in range(count):
            item = self._logged.popleft()
            # Most of the log of a run with many children is theirs: it is skipped without decoding.
            if item.child_run_id in (None, self._by.run_id):
                self._add(item)

    def _consume(self, text: TextId, delta: str) -> int:
        length = self._texts.pop(text, 0)
        if length > len(delta):
            self._texts[text] = length - len(delta)
        return length

    def _is_logged(self, event: AgentEvent) -> bool:
        key = self._key(event)
        if not self._events[key]:
            return False
        self._events[key] -= 1
        return True

    def _add(self, item: LoggedEvent) -> None:
        if item.kind not in _FROM_MODELS and item.encoded.keys().isdisjoint(_NEEDS_DECODING):
            # Most of a log: only the text of the record is counted, so the event need not be decoded.
            self._events[canonical_json(item.encoded)] += 1
            return
        event = item.event(self._by)
        if event.metadata.get(SUPERSEDED):
            self._remove_superseded(event)
            return
        delta = delta_of(event)
        if delta is not None:
            self._texts[delta[0]] = self._texts.get(delta[0], 0) + len(delta[1])
        if delta is None or event.metadata:
            self._events[self._key(event)] += 1
        self._add_mark(event)

    def _add_mark(self, event: AgentEvent) -> None:
        text, mark = text_of(event), _mark_on(event)
        if text is None or mark is None:
            return
        call, epoch = _origin(_message_id_of(event) or "", event.attribution.run_id)
        if call is None:
            return
        if self._epochs.get(call) != epoch:
            self._marks[call] = {}
        self._epochs[call] = epoch
        self._marks[call][text] = mark

    def _remove_superseded(self, mark: AgentEvent) -> None:
        """Remove a text or tool call that is marked as superseded: it is not repeated, and not marked twice."""
        text = text_of(mark)
        if text is None:
            return
        self._texts.pop(text, None)
        if isinstance(mark, ToolCallEndEvent):
            self._events.pop(self._key(replace(mark, metadata={})), None)
        for marks in self._marks.values():
            marks.pop(text, None)

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


def _origin(message_id: str, run_id: str) -> tuple[_ModelCall | None, int]:
    """Return the model call that made a message, and in which epoch; None if no model made it."""
    found = _MODEL_MESSAGE_ID.fullmatch(message_id)
    return ((run_id, found[1]), int(found[2])) if found else (None, 0)


def _mark_on(event: AgentEvent) -> AgentEvent | None:
    """Return the event that marks the text or tool call of an event as superseded."""
    mark = {SUPERSEDED: True}
    match event:
        case MessageDeltaEvent():
            return MessageDeltaEvent(event.attribution, event.message_id, "", mark)
        case ReasoningDeltaEvent():
            return ReasoningDeltaEvent(event.attribution, event.reasoning_id, "", mark)
        case ToolCallStartEvent():
            return ToolCallEndEvent(event.attribution, event.call_id, mark)
        case _:
            return None

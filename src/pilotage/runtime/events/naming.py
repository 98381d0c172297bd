"""Naming the rows that events follow from, when they are written. Pure.

What an item of a log may be, and which events follow from a row, is in `following`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from pilotage.agent.events import (
    AgentEvent,
    AgentEventAttribution,
    MessageDeltaEvent,
    ReasoningDeltaEvent,
    StepFinishedEvent,
    StepStartedEvent,
    ToolCallArgsDeltaEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from pilotage.agent.ports.persistence import RowTexts
from pilotage.agent.recovery import AgentActionKind
from pilotage.jsonvalue import JsonValue, as_object, canonical_json, parsed
from pilotage.runtime.events.event_record import log_record
from pilotage.runtime.events.following import (
    ARGUMENTS,
    CALL,
    CALL_END,
    FAILED,
    HELD,
    REASONING_OF,
    TEXT,
    THOUGHT,
    ReplyPart,
    message_id_in,
    reply_parts,
    step_facts,
)

_MODEL_CALL, _TOOL_CALL = AgentActionKind.MODEL_CALL, AgentActionKind.TOOL_CALL
_LONGEST_HELD = 8192
"""After their commit, longer texts are not held in memory."""
_WITHOUT_STEP = 3
"""The length of an item without the name of a step."""
_NO_TEXTS = RowTexts.of(None, None)


class _Result:
    """A result that was recorded lately; without texts once an event has named it."""

    __slots__ = ("seq", "texts")

    def __init__(self, seq: int, texts: RowTexts) -> None:
        self.seq = seq
        self.texts = texts


class _Reply(_Result):
    """A reply that was recorded lately. Its events are made when one of them may follow from it."""

    __slots__ = ("_calls", "_parts", "message_id")

    def __init__(self, seq: int, texts: RowTexts, message_id: str) -> None:
        super().__init__(seq, texts)
        self.message_id = message_id
        self._parts: list[ReplyPart] | None = None
        self._calls: list[ReplyPart] | None = None

    @property
    def parts(self) -> list[ReplyPart]:
        """Its events; none where a policy has changed the form of its view."""
        if self._parts is None:
            try:
                self._parts = reply_parts(self.texts.view, self.message_id)
            except (LookupError, TypeError):
                self._parts = []
        return self._parts

    @property
    def calls(self) -> list[ReplyPart]:
        """The starts of its calls."""
        if self._calls is None:
            self._calls = [part for part in self.parts if part[0] is CALL]
        return self._calls


class RecentOutcomes:
    """The replies and results that an attempt recorded last: the events that follow from them need not be stored.

    Readers hold as many of each kind, so one that cannot be named any more keeps its place.
    """

    def __init__(self) -> None:
        self._replies: deque[_Reply] = deque(maxlen=HELD)
        self._results: deque[_Result] = deque(maxlen=HELD)
        self._holds_large = False

    def add(
        self, run_id: str, kind: AgentActionKind, texts: RowTexts, *, seq: int, action_id: str, epoch: int
    ) -> None:
        """Add the row of an outcome."""
        if kind is _MODEL_CALL:
            self._replies.append(_Reply(seq, texts, message_id_in(run_id, action_id, epoch, texts.view)))
        elif kind is _TOOL_CALL:
            self._results.append(_Result(seq, texts))
        else:
            return
        self._holds_large = self._holds_large or len(texts.view_json) > _LONGEST_HELD

    def drop_after(self, seq: int) -> None:
        """Drop the rows after a number: they were not committed."""
        self._replies = deque((each for each in self._replies if each.seq <= seq), HELD)
        self._results = deque((each for each in self._results if each.seq <= seq), HELD)

    def drop_large(self) -> None:
        """Drop large texts: a run does not hold in memory what it has written."""
        if not self._holds_large:
            return
        self._holds_large = False
        for place, reply in enumerate(self._replies):
            if len(reply.texts.view_json) > _LONGEST_HELD:
                self._replies[place] = _Reply(reply.seq, _NO_TEXTS, "")
        for result in self._results:
            if len(result.texts.view_json) > _LONGEST_HELD:
                result.texts = _NO_TEXTS

    def items_for(self, events: Sequence[AgentEvent], by: AgentEventAttribution) -> list[JsonValue]:
        """Return the items of a log for events of the run `by`."""
        items: list[JsonValue] = []
        place = 0
        while place < len(events):
            event = events[place]
            item: JsonValue = None
            count = 1
            # Events of child runs and of branches are stored.
            if event.attribution is by or event.attribution == by:
                if type(event) is StepStartedEvent:
                    item = None if event.metadata else event.step_name
                elif type(event) is ToolCallResultEvent:
                    item = self._result_for(event)
                elif (reply := self._reply_of(event)) is not None:
                    item, count = _named(reply, events, place, by)
            items.append(log_record(event, by) if item is None else item)
            place += count
        return items

    def _reply_of(self, event: AgentEvent) -> _Reply | None:
        """Return the reply that an event may be the first one of."""
        if type(event) is ToolCallStartEvent:
            return self._reply(event.parent_message_id)
        if type(event) is MessageDeltaEvent:
            return self._reply(event.message_id)
        if type(event) is ReasoningDeltaEvent:
            return self._reply(event.reasoning_id.removesuffix(REASONING_OF))
        return None

    def _reply(self, message_id: str | None) -> _Reply | None:
        for reply in reversed(self._replies):
            if reply.message_id == message_id:
                return reply
        return None

    def _result_for(self, event: ToolCallResultEvent) -> JsonValue:
        reply, call = self._reply(event.message_id), (CALL, event.call_id, event.tool_name)
        if reply is None or call not in reply.calls:
            return None
        for result in self._results:
            if result.texts is not _NO_TEXTS and _is_result(event, result.texts):
                result.texts = _NO_TEXTS
                return [result.seq, [reply.seq, reply.calls.index(call)]]
        return None


def _named(
    reply: _Reply, events: Sequence[AgentEvent], place: int, by: AgentEventAttribution
) -> tuple[JsonValue, int]:
    """Return the item for the events from a place on that follow from a reply, and their number; None for none."""
    parts, message_id = reply.parts, reply.message_id
    start = 0
    while start < len(parts) and not _fits(parts[start], events[place], message_id):
        start += 1
    at, end = start, place
    texts: list[JsonValue] = []
    while at < len(parts) and end < len(events) and _is_by(event := events[end], by):
        if not _fits(parts[at], event, message_id):
            break
        if type(event) is ToolCallArgsDeltaEvent:
            texts.append(None if event.args_delta == parts[at][2] else event.args_delta)
        at, end = at + 1, end + 1
    if at == start:
        return None, 1
    step = events[end] if at == len(parts) and end < len(events) else None
    item: list[JsonValue] = [reply.seq, start, end - place]
    if type(step) is StepFinishedEvent and _is_by(step, by) and _is_end_of(step, reply):
        end += 1
        item = [reply.seq, start, end - place, step.step_name]
    if texts.count(None) < len(texts):
        item += (texts,) if len(item) > _WITHOUT_STEP else (None, texts)
    return item, end - place


def _is_end_of(step: StepFinishedEvent, reply: _Reply) -> bool:
    return _is_same(step.metadata, step_facts(reply.texts.view))


def _is_by(event: AgentEvent, by: AgentEventAttribution) -> bool:
    return event.attribution is by or event.attribution == by


def _fits(part: ReplyPart, event: AgentEvent, message_id: str) -> bool:
    """Return whether an event of the run is that of a reply; the text of arguments may differ."""
    kind, ident, text = part
    if event.metadata:
        return False
    if type(event) is ToolCallStartEvent:
        is_start = kind is CALL and event.call_id == ident
        return is_start and event.tool_name == text and event.parent_message_id == message_id
    if type(event) is ToolCallArgsDeltaEvent:
        return kind is ARGUMENTS and event.call_id == ident
    if type(event) is ToolCallEndEvent:
        return kind is CALL_END and event.call_id == ident
    if type(event) is MessageDeltaEvent:
        return kind is TEXT and event.message_id == ident and event.delta == text
    if type(event) is ReasoningDeltaEvent:
        return kind is THOUGHT and event.reasoning_id == ident and event.delta == text
    return False


def _is_result(event: ToolCallResultEvent, texts: RowTexts) -> bool:
    """Return whether the result of an event is exactly the one in a view."""
    view = texts.view
    if not isinstance(view, Mapping):
        return False
    if "error" in view:
        return event.metadata == FAILED and _is_same(event.result, {"error": view["error"]})
    if event.metadata or "result" not in view:
        return False
    shown = view["result"]
    if isinstance(shown, str) or isinstance(event.result, str):
        return shown == event.result
    # By their texts: one may be true where the other is 1, and the program may have changed its result since.
    text = canonical_json(event.result)
    return texts.view_json == f'{{"result":{text}}}' or text == _result_text(texts)


def _result_text(texts: RowTexts) -> str:
    return canonical_json(as_object(parsed(texts.view_json))["result"])


def _is_same(one: JsonValue, other: JsonValue) -> bool:
    return one == other and (not one or canonical_json(one) == canonical_json(other))

"""Forwarding of child events to the parent's log: each event once, after every crash between the two logs.

A child and its parent commit their logs separately, so after a crash each may have events that the other lacks. On
resume the parent forwards the whole log of the child again, through its own redaction, and compares the result with
its own log, which holds redacted events too.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable

from pilotage.agent.events import (
    SUPERSEDED,
    AgentEvent,
    AgentEventAttribution,
    AgentEventKind,
    TextId,
    ToolCallStartEvent,
    text_of,
)
from pilotage.runtime.events.event_log import LoggedEvent
from pilotage.runtime.events.replay_filter import ReplayFilter
from pilotage.runtime.events.writer import EventWriter


class Relay:
    """Forwards the events of a child and of the runs below it, without those that the parent's log has.

    `catch_up` and `tell` take events before the parent's redaction; `new_part` compares them after it.
    """

    def __init__(self, writer: EventWriter, logged: Iterable[LoggedEvent], child: str) -> None:
        self._write = writer.write
        self._filters: dict[str, ReplayFilter] = {}
        self._marks: Counter[TextId] = Counter()
        """Marks in the parent's log that the child has not repeated yet, by the text that they supersede."""
        self._superseded: set[tuple[TextId, str | None]] = set()
        """The calls that the parent's log marks: their text, and the message of the model that made them."""
        for by, items in _by_run(logged, child):
            self._filters[by.run_id] = ReplayFilter(deque(items), by)
            self._add_marks(item.event(by) for item in items if _is_call_or_mark(item))
        writer.compare_children(self._filters, self.new_part)

    def catch_up(self, event: AgentEvent) -> None:
        """Forward an event of the child's log."""
        self._write(event)

    def forward(self, event: AgentEvent) -> None:
        """Forward a live event of the child, after the marks on the output of a model call that it repeats."""
        replay = self._filters.get(event.attribution.run_id)
        if replay is not None and not event.metadata.get(SUPERSEDED):
            for mark in replay.marks_before(event):
                self._write(mark)
        self._write(event)

    def new_part(self, event: AgentEvent) -> AgentEvent | None:
        """Return the part of an event that the parent's log does not have; None if it has all of it."""
        text, replay = text_of(event), self._filters[event.attribution.run_id]
        if text is None:
            return replay.new_part(event)
        if event.metadata.get(SUPERSEDED):
            if not self._marks[text]:
                replay.supersede(event)
                return event
            self._marks[text] -= 1
            return None
        if isinstance(event, ToolCallStartEvent) and (text, event.parent_message_id) not in self._superseded:
            del self._marks[text]  # another call has the id of the superseded one
        return None if self._marks[text] else replay.new_part(event)

    def _add_marks(self, events: Iterable[AgentEvent]) -> None:
        made_by: dict[TextId, str | None] = {}
        for event in events:
            text = text_of(event)
            if text is None:
                continue
            if isinstance(event, ToolCallStartEvent):
                made_by[text] = event.parent_message_id
            if event.metadata.get(SUPERSEDED):
                self._marks[text] += 1
                self._superseded.add((text, made_by.get(text)))


_PARENT = AgentEventAttribution("-", "-", "-")
"""Stands for the parent, whose own events are skipped."""


def _by_run(
    logged: Iterable[LoggedEvent], child: str
) -> Iterable[tuple[AgentEventAttribution, list[LoggedEvent]]]:
    """Return the logged events of a child and of the runs below it, by run."""
    found: dict[str, tuple[AgentEventAttribution, list[LoggedEvent]]] = {}
    family = {child}
    for item in logged:
        if item.child_run_id is None:
            continue
        by = item.event(_PARENT).attribution
        if by.run_id in family or by.parent_run_id in family:
            family.add(by.run_id)
            found.setdefault(by.run_id, (by, []))[1].append(item)
    return found.values()


def _is_call_or_mark(item: LoggedEvent) -> bool:
    return "metadata" in item.encoded or item.kind == AgentEventKind.TOOL_CALL_START

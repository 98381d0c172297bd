"""What a run tells of its children: everything once, whatever a crash left in the two logs.

A child and its parent write their logs in commits of their own, so after a crash each may know events that the other
does not. Coming back, the parent says everything again that the child's log has, through its own redaction, and what
comes out is compared with its own log: both are then in the parent's words.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable

from pilotage.agent.events import (
    AgentEvent,
    AgentEventAttribution,
    RunFinishedEvent,
    RunPausedEvent,
    RunStartedEvent,
    ToolCallEndEvent,
)
from pilotage.jsonvalue import canonical_json
from pilotage.runtime.events.catch_up import SUPERSEDED, AlreadyLogged
from pilotage.runtime.events.event_log import LoggedEvent
from pilotage.runtime.events.event_record import encode_event
from pilotage.runtime.events.writer import EventWriter
from pilotage.runtime.exposure.pieces import TextId, piece_of

_Turn = RunStartedEvent | RunPausedEvent | RunFinishedEvent


class Relay:
    """Passes on what a child and the runs below it tell, but for what the parent's log has of them by now.

    `catch_up` and `tell` are the way in, before the parent's redaction; `untold` is the way out, behind it.
    """

    def __init__(self, telling: EventWriter, told: Iterable[LoggedEvent], child: str) -> None:
        self._say = telling.say
        self._said: dict[str, AlreadyLogged] = {}
        self._turns: Counter[str] = Counter()
        self._superseded: set[str] = set()
        self._closed: set[TextId] = set()
        for by, items in _by_run(told, child):
            self._said[by.run_id] = AlreadyLogged(deque(items), by)
            for item in items:
                self._remember(item.event(by))
        telling.compare(self._said, self.untold)

    def catch_up(self, event: AgentEvent) -> None:
        """Tell something from the child's log."""
        self._say(event)

    def tell(self, event: AgentEvent) -> None:
        """Tell what the child says now; what a model call said before it was made again does not count any more."""
        said = self._said.get(event.attribution.run_id)
        if said is not None and not event.metadata.get(SUPERSEDED):
            for mark in said.superseded_by(event):
                self._say(mark)
        self._say(event)

    def untold(self, event: AgentEvent) -> AgentEvent | None:
        """What of an event the parent's log lacks; None where it has all of it."""
        if event.metadata.get(SUPERSEDED):
            return self._unmarked(event)
        if isinstance(event, _Turn):
            return self._untold_turn(event)
        if (piece := piece_of(event)) is not None and piece[0] in self._closed:
            return None
        return self._said[event.attribution.run_id].unsaid(event)

    def _remember(self, event: AgentEvent) -> None:
        if event.metadata.get(SUPERSEDED):
            self._superseded.add(_key(event))
            if (text := _text_of(event)) is not None:
                self._closed.add(text)
        elif isinstance(event, _Turn):
            self._turns[_key(event)] += 1

    def _unmarked(self, mark: AgentEvent) -> AgentEvent | None:
        """A text is superseded once."""
        if (key := _key(mark)) in self._superseded:
            return None
        self._superseded.add(key)
        return mark

    def _untold_turn(self, event: _Turn) -> AgentEvent | None:
        """Starts, pauses and ends are told by the run itself, and may be the same several times."""
        if not self._turns[key := _key(event)]:
            return event
        self._turns[key] -= 1
        return None


def _by_run(
    told: Iterable[LoggedEvent], child: str
) -> Iterable[tuple[AgentEventAttribution, list[LoggedEvent]]]:
    """The items of a log that a child and the runs below it told, by run."""
    found: dict[str, tuple[AgentEventAttribution, list[LoggedEvent]]] = {}
    family = {child}
    for item in told:
        by = item.event(_ITSELF).attribution
        if by.run_id in family or by.parent_run_id in family:
            family.add(by.run_id)
            found.setdefault(by.run_id, (by, []))[1].append(item)
    return found.values()


def _text_of(mark: AgentEvent) -> TextId | None:
    """The text that a mark says does not count any more."""
    if isinstance(mark, ToolCallEndEvent):
        return "arguments", mark.attribution.run_id, mark.call_id
    piece = piece_of(mark)
    return piece[0] if piece else None


_ITSELF = AgentEventAttribution("-", "-", "-")


def _key(event: AgentEvent) -> str:
    return f"{event.attribution.run_id} {canonical_json(encode_event(event, event.attribution))}"

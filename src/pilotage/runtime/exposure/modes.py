"""Streaming exposure: when each event of a run may be seen, in the four modes over one redactor. Pure: no I/O.

| mode                          | a text leaves                                                                   |
|-------------------------------|---------------------------------------------------------------------------------|
| LOW_LATENCY                   | as soon as redaction allows                                                     |
| BALANCED                      | as soon as redaction allows, in whole words                                     |
| STRICT                        | when it is complete and audited                                                 |
| NO_STREAM_UNTIL_FINAL_GUARDED | with all other events, when the final output has passed its guard               |

Events keep their order: before an event that is no delta of the same kind leaves, all earlier text leaves. Texts of
one kind, such as those of parallel branches, may be interleaved without flushing one another.
Invariant: the deltas of a text, joined, are the same however the text was cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pilotage.agent.events import (
    AgentEvent,
    ArtifactEvent,
    RunFinishedEvent,
    RunPausedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    StepFinishedEvent,
    StepStartedEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from pilotage.agent.spec import StreamingExposureMode
from pilotage.runtime.exposure.deltas import ARGUMENTS, SUPERSEDED, TextId, delta_of
from pilotage.runtime.exposure.redactor import Redactor
from pilotage.runtime.exposure.text_streams import TextStream, WholeTextStream, WordStream
from pilotage.safety.masking import REDACTED_VALUE

_LOW_LATENCY, _BALANCED = StreamingExposureMode.LOW_LATENCY, StreamingExposureMode.BALANCED
_MOST_TEXTS = 16
"""How many texts may be open at once; with one more, the text that was idle longest counts as complete."""

# Ids are made by servers and link events, so they stay; everything that people or models write is redacted.
_REDACTED_FIELDS: Mapping[type[AgentEvent], tuple[str, ...]] = {
    ToolCallStartEvent: ("tool_name",),
    ToolCallResultEvent: ("tool_name", "result"),
    RunPausedEvent: ("prompt",),
    RunFinishedEvent: ("error",),
    StepStartedEvent: ("step_name",),
    StepFinishedEvent: ("step_name",),
    StateSnapshotEvent: ("snapshot",),
    StateDeltaEvent: ("patch",),
    ArtifactEvent: ("name", "content"),
}


class Exposure:
    """Redacts the events of one run attempt and holds them back as long as its mode demands."""

    def __init__(self, mode: StreamingExposureMode, redactor: Redactor) -> None:
        self._mode = mode
        self.redactor = redactor
        self._texts: dict[TextId, TextStream] = {}
        self._latest: TextId | None = None
        self._held: list[AgentEvent] = []
        self._holds_all = mode is StreamingExposureMode.NO_STREAM_UNTIL_FINAL_GUARDED
        self.holds_nothing = mode is _BALANCED or mode is _LOW_LATENCY

    @property
    def is_transparent(self) -> bool:
        """Whether every event would leave as it is, at once. Registering a secret ends that."""
        return self.holds_nothing and self.redactor.is_idle

    @property
    def held_texts(self) -> set[TextId]:
        """The texts of which a part has not left."""
        return {text_id for text_id, text in self._texts.items() if text.is_holding}

    def push(self, event: AgentEvent) -> Sequence[AgentEvent]:
        """Add the next event; return the events that may be seen now.

        Raises:
            AgentOutputGuardError: the audit of a text found a match that was missed; the text is dropped.
        """
        if self._holds_all:
            self._held.append(event)
            return ()
        delta = delta_of(event)
        if delta is not None and delta[0] == self._latest and not event.metadata:
            # Nearly every event continues the text of the event before: skip the generators of `_process`.
            text = self._texts[delta[0]]
            if text.revision == self.redactor.revision:
                return text.push(event, delta[1])
        return list(self._process(event))

    def flush(self, *, guarded: bool = False) -> Sequence[AgentEvent]:
        """End all texts and return the remaining events. Call it before an end or a pause of the run is committed.

        `guarded` says that the final output has passed its guard; without it the last mode keeps holding everything.

        Raises:
            AgentOutputGuardError: the audit of a text found a match that was missed; all held events are dropped.
        """
        if (self._holds_all and not guarded) or not (self._held or self._texts):
            return ()
        held, self._held = self._held, []
        processed = [released for event in held for released in self._process(event)]
        texts, self._texts, self._latest = self._texts, {}, None
        return [*processed, *(released for text in texts.values() for released in text.finish())]

    def drop(self) -> None:
        """Drop all held events: the guard refused or changed the output that they led to."""
        self._held.clear()
        self._texts.clear()
        self._latest = None

    def redacted(self, event: AgentEvent) -> AgentEvent:
        """Return an event that is no delta redacted; the same object if nothing is redacted."""
        if self.redactor.is_idle:
            return event
        changes: dict[str, Any] = {}
        for name in (*_REDACTED_FIELDS.get(type(event), ()), "metadata"):
            original = getattr(event, name)
            shown = self.redactor.json(original)
            if shown is not original:
                # Some fields must not be blank, and a policy may replace by nothing.
                changes[name] = shown if not isinstance(shown, str) or shown.strip() else REDACTED_VALUE
        return replace(event, **changes) if changes else event

    def _process(self, event: AgentEvent) -> Iterator[AgentEvent]:
        delta = delta_of(event)
        if delta is None:
            yield from self._release_before(event)
            yield self.redacted(event)
            return
        text_id, added = delta
        if event.metadata.get(SUPERSEDED):
            yield from self._end(text_id)
            yield event
            return
        if text_id != self._latest:
            yield from self._switch_to(text_id)
        text = self._texts[text_id]
        if text.revision != self.redactor.revision:
            yield from text.finish()
            text = self._texts[text_id] = self._begin(text_id)
        yield from text.push(event, added)

    def _release_before(self, event: AgentEvent) -> Iterator[AgentEvent]:
        """Release all text before an event that is no delta."""
        self._latest = None
        if isinstance(event, ToolCallEndEvent):
            yield from self._end((ARGUMENTS, event.attribution.run_id, event.call_id))
        for text in self._texts.values():
            yield from text.release()

    def _end(self, text_id: TextId) -> Iterator[AgentEvent]:
        """End one text; what is left of it leaves before the event that ends it."""
        self._latest = None
        text = self._texts.pop(text_id, None)
        yield from text.finish() if text else ()

    def _switch_to(self, text_id: TextId) -> Iterator[AgentEvent]:
        """Continue another text: release the texts of other kinds; of too many texts, end the one idle longest."""
        self._latest = text_id
        for (kind, *_), text in self._texts.items():
            if kind != text_id[0]:
                yield from text.release()
        is_open = text_id in self._texts
        self._texts[text_id] = self._texts.pop(text_id) if is_open else self._begin(text_id)
        if len(self._texts) > _MOST_TEXTS:
            yield from self._texts.pop(next(iter(self._texts))).finish()

    def _begin(self, text_id: TextId) -> TextStream:
        if self._mode is StreamingExposureMode.STRICT:
            return WholeTextStream(self.redactor)
        in_words = self._mode is _BALANCED and text_id[0] != ARGUMENTS
        return (
            WordStream(self.redactor) if in_words and not self.redactor.is_idle else TextStream(self.redactor)
        )

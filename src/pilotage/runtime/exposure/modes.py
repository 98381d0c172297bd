"""Streaming exposure: when each event of a run may be seen, in the four modes over one redactor. Pure: no I/O.

| mode                          | a text leaves                                                                   |
|-------------------------------|---------------------------------------------------------------------------------|
| LOW_LATENCY                   | as soon as redaction allows                                                     |
| BALANCED                      | as soon as redaction allows, in whole words                                     |
| STRICT                        | when it is complete and audited                                                 |
| NO_STREAM_UNTIL_FINAL_GUARDED | with all other events, when the final output has passed its guard               |

Before an event that is no delta of the same kind leaves, all earlier text that redaction has decided leaves. Text that
may still become part of a match waits for the end of its text, and other events overtake it:

| a text                            | ends                                                                        |
|-----------------------------------|-----------------------------------------------------------------------------|
| words or reasoning of a loop      | with the step in which it began                                             |
| tokens of an `execute()`          | when the next message begins                                                |
| arguments of a tool call          | with the call                                                               |
| any of them                       | when it is superseded, and when its run ends                                |

Invariant: the deltas of a text, joined, are the same however the text was cut and whatever came in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from pilotage.agent.events import (
    ARGUMENTS,
    SUPERSEDED,
    AgentEvent,
    ArtifactEvent,
    RunFinishedEvent,
    RunPausedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    StepFinishedEvent,
    StepStartedEvent,
    TextId,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    delta_of,
    with_text,
)
from pilotage.agent.spec import StreamingExposureMode
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.exposure.redactor import NO_REDACTOR, Redactor
from pilotage.safety.fields import REDACTED_VALUE

_LONGEST_WORD = 64

Place: TypeAlias = tuple[str, str | None]
"""Run id and branch."""
OpenStep: TypeAlias = tuple[Place, str]
"""The place and name of a step."""


class TextStream:
    """Lets a text leave as soon as redaction allows."""

    def __init__(self, redactor: Redactor, step: OpenStep | None = None) -> None:
        self.revision = redactor.revision
        self.step = step
        """The step in which the text began."""
        self._redactor = redactor
        self._session = redactor.session()
        self._event: AgentEvent | None = None
        self._metadata: JsonObject = {}

    @property
    def is_holding(self) -> bool:
        """Whether a part of the text has not left."""
        return self._session.is_holding

    def push(self, event: AgentEvent, text: str) -> Sequence[AgentEvent]:
        """Add the text of a delta; return the deltas that may leave now, modelled on the latest one."""
        self._event = event
        if event.metadata:
            self._metadata = {**self._metadata, **event.metadata}
        chunks = self._push(text)
        if len(chunks) == 1 and chunks[0] == text and not self._metadata:
            return (event,)
        return self._deltas(chunks)

    def update(self) -> None:
        """Redact the secrets that were registered since the text began."""
        self.revision = self._redactor.revision
        self._redactor.update(self._session)

    def release(self) -> Sequence[AgentEvent]:
        """Return deltas for held text that redaction has decided; the text may go on."""
        return self._deltas(self._release())

    def finish(self) -> Sequence[AgentEvent]:
        """Return deltas for all that is held and end the text.

        Raises:
            AgentOutputGuardError: the audit found a match that was missed.
        """
        return self._deltas(self._finish())

    def _push(self, text: str) -> Sequence[str]:
        return self._session.push(text)

    def _release(self) -> Sequence[str]:
        return ()

    def _finish(self) -> Sequence[str]:
        return self._session.finish()

    def _deltas(self, chunks: Sequence[str]) -> Sequence[AgentEvent]:
        event = self._event
        if event is None or not chunks:
            return ()
        return [with_text(event, chunk, self._take_metadata()) for chunk in chunks]

    def _take_metadata(self) -> JsonObject:
        """Return the redacted metadata that has not left yet."""
        metadata = self._metadata
        if not metadata:
            return metadata
        self._metadata = {}
        return self._redactor.json(metadata)


class WordStream(TextStream):
    """Lets whole words leave: an incomplete word waits for its end, unless it gets very long."""

    def __init__(self, redactor: Redactor, step: OpenStep | None = None) -> None:
        super().__init__(redactor, step)
        self._word = ""

    @property
    def is_holding(self) -> bool:
        return bool(self._word) or super().is_holding

    def _push(self, text: str) -> Sequence[str]:
        chunks = self._session.push(text)
        if not chunks:
            return ()
        text = self._word + (chunks[0] if len(chunks) == 1 else "".join(chunks))
        if text[-1].isspace():
            self._word = ""
            return (text,)
        last = text.rsplit(None, 1)[-1]
        self._word = last if len(last) <= _LONGEST_WORD else ""
        complete = text.removesuffix(self._word)
        return (complete,) if complete else ()

    def _release(self) -> Sequence[str]:
        return self._with_word(())

    def _finish(self) -> Sequence[str]:
        return self._with_word(self._session.finish())

    def _with_word(self, chunks: Sequence[str]) -> Sequence[str]:
        word, self._word = self._word, ""
        return _joined((word, *chunks))


class WholeTextStream(TextStream):
    """Lets a text leave when it is complete and audited."""

    def __init__(self, redactor: Redactor, step: OpenStep | None = None) -> None:
        super().__init__(redactor, step)
        self._held: list[str] = []

    @property
    def is_holding(self) -> bool:
        return bool(self._held) or super().is_holding

    def _push(self, text: str) -> Sequence[str]:
        self._held.append(text)
        return ()

    def _release(self) -> Sequence[str]:
        # The session is audited at its end, but the text that leaves now must pass the audit now.
        whole = self._take_held()
        self._redactor.audit(whole)
        return _joined(self._session.push(whole))

    def _finish(self) -> Sequence[str]:
        return _joined((*self._session.push(self._take_held()), *self._session.finish()))

    def _take_held(self) -> str:
        whole, self._held = "".join(self._held), []
        return whole


def _joined(chunks: Sequence[str]) -> Sequence[str]:
    return (text,) if (text := "".join(chunks)) else ()


_LOW_LATENCY, _BALANCED = StreamingExposureMode.LOW_LATENCY, StreamingExposureMode.BALANCED
AT_ONCE = (_LOW_LATENCY, _BALANCED)
"""The modes in which an event leaves at once if there is nothing to redact."""
_MOST_TEXTS = 256
"""The number of texts that may be open at once; with one more, the text that was idle longest counts as complete."""

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
        self._steps: dict[Place, list[str]] = {}
        """The steps that have begun and not ended, the innermost last."""
        self._held: list[AgentEvent] = []
        self.holds_all = mode is StreamingExposureMode.NO_STREAM_UNTIL_FINAL_GUARDED
        self.holds_nothing = mode in AT_ONCE
        self.is_open = self.holds_nothing and redactor.is_always_idle
        """Whether every event of the whole run leaves as it is, at once."""

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
        if self.is_open:
            return (event,)
        if self.holds_all:
            self._held.append(event)
            return ()
        delta = delta_of(event)
        if delta is not None and delta[0] == self._latest and not event.metadata:
            # Nearly every event continues the text of the event before: skip the generators of `_process`.
            text = self._texts[delta[0]]
            if text.revision == self.redactor.revision:
                return text.push(event, delta[1])
        return list(self._process(event))

    def release(self) -> Sequence[AgentEvent]:
        """Return all held text that redaction has decided. Call it before a pause of the run is committed.

        The rest of a text follows when the resumed run has decided it.

        Raises:
            AgentOutputGuardError: the audit of a text found a match that was missed; the text is dropped.
        """
        return [released for text in self._texts.values() for released in text.release()]

    def flush(self, *, guarded: bool = False) -> Sequence[AgentEvent]:
        """End all texts and return the remaining events. Call it before an end of the run is committed.

        `guarded` says that the final output has passed its guard; without it the last mode keeps holding everything.

        Raises:
            AgentOutputGuardError: the audit of a text found a match that was missed; all held events are dropped.
        """
        if (self.holds_all and not guarded) or not (self._held or self._texts):
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
            yield from self._before(event)
            yield self.redacted(event)
            return
        text_id, added = delta
        if event.metadata.get(SUPERSEDED):
            yield from self.end(text_id)
            yield event
            return
        if text_id != self._latest:
            yield from self._switch_to(text_id, event)
        text = self._texts[text_id]
        if text.revision != self.redactor.revision:
            text.update()
        yield from text.push(event, added)

    def _before(self, event: AgentEvent) -> Iterator[AgentEvent]:
        """End the texts that end with an event that is no delta, and release the decided part of all others."""
        self._latest = None
        run_id = event.attribution.run_id
        match event:
            case ToolCallEndEvent():
                yield from self.end((ARGUMENTS, run_id, event.call_id))
            case StepStartedEvent():
                self._steps.setdefault(_place_of(event), []).append(event.step_name)
            case StepFinishedEvent():
                yield from self._end_step(_place_of(event), event.step_name)
            case RunFinishedEvent():
                yield from self._end_all(text_id for text_id in self._texts if text_id[1] == run_id)
            case _:
                pass
        for text in self._texts.values():
            yield from text.release()

    def end(self, text_id: TextId) -> Sequence[AgentEvent]:
        """End one text; return the rest of it, which belongs before the event that ends it.

        Raises:
            AgentOutputGuardError: the audit of the text found a match that was missed; the text is dropped.
        """
        self._latest = None
        text = self._texts.pop(text_id, None)
        return text.finish() if text else ()

    def _end_all(self, text_ids: Iterable[TextId]) -> Iterator[AgentEvent]:
        for text_id in tuple(text_ids):
            yield from self.end(text_id)

    def _end_step(self, place: Place, name: str) -> Iterator[AgentEvent]:
        """End the texts that began in a step; a step that was not begun, such as a sign of progress, has none."""
        open_steps = self._steps.get(place, [])
        if name in open_steps:
            open_steps.remove(name)
            step = (place, name)
            yield from self._end_all(text_id for text_id, text in self._texts.items() if text.step == step)
        if not open_steps:
            self._steps.pop(place, None)

    def _switch_to(self, text_id: TextId, event: AgentEvent) -> Iterator[AgentEvent]:
        """Continue another text: release the texts of other kinds; of too many texts, end the one idle longest."""
        kind, self._latest = text_id[0], text_id
        for (other, *_), text in self._texts.items():
            if other != kind:
                yield from text.release()
        is_open = text_id in self._texts
        self._texts[text_id] = self._texts.pop(text_id) if is_open else self._begin(kind, event)
        if len(self._texts) > _MOST_TEXTS:
            yield from self._texts.pop(next(iter(self._texts))).finish()

    def _begin(self, kind: str, event: AgentEvent) -> TextStream:
        place = _place_of(event)
        open_steps = self._steps.get(place)
        step = (place, open_steps[-1]) if open_steps else None
        if self._mode is StreamingExposureMode.STRICT:
            return WholeTextStream(self.redactor, step)
        in_words = self._mode is _BALANCED and kind != ARGUMENTS and not self.redactor.is_idle
        return WordStream(self.redactor, step) if in_words else TextStream(self.redactor, step)


def _place_of(event: AgentEvent) -> Place:
    return event.attribution.run_id, event.attribution.branch


OPEN_EXPOSURE = Exposure(_LOW_LATENCY, NO_REDACTOR)
"""The exposure of all runs whose events leave as they are: it holds nothing, so it has no state."""

"""How soon what a run says may be seen: the four exposure modes over one redactor. Pure: no I/O.

| mode                          | text leaves                                                                     |
|-------------------------------|---------------------------------------------------------------------------------|
| LOW_LATENCY                   | as soon as the redactor knows that it may                                       |
| BALANCED                      | likewise, in whole words                                                        |
| STRICT                        | when it is complete and its audit has passed                                    |
| NO_STREAM_UNTIL_FINAL_GUARDED | with everything else, when the final output has been guarded                    |

Events keep their order: before an event that is no text of the same kind passes, all text leaves that came
earlier. Texts of one kind may be interleaved, as those of parallel branches are, and do not disturb one another.
The law: a text, joined, is the same for every way of cutting it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

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
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.events.catch_up import SUPERSEDED
from pilotage.runtime.exposure.pieces import TextId, piece_of, with_text
from pilotage.runtime.exposure.redactor import Redactor
from pilotage.safety.masking import REDACTED_VALUE

_LOW_LATENCY, _BALANCED = StreamingExposureMode.LOW_LATENCY, StreamingExposureMode.BALANCED
_ARGUMENTS = "arguments"
_LONGEST_WORD = 64
_MOST_TEXTS = 16
"""How many texts may be open at once; beyond, the one that was silent for longest counts as complete."""

# Ids are made by servers and tie events together, so they stay; everything that people or models write is redacted.
_SAID: Mapping[type[AgentEvent], tuple[str, ...]] = {
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
    """Lets the events of one run pass, at the pace of its mode. One per attempt."""

    def __init__(self, mode: StreamingExposureMode, redactor: Redactor) -> None:
        self._mode = mode
        self.redactor = redactor
        self._texts: dict[TextId, _Text] = {}
        self._latest: TextId | None = None
        self._held: list[AgentEvent] = []
        self._holds_all = mode is StreamingExposureMode.NO_STREAM_UNTIL_FINAL_GUARDED
        self.holds_nothing = mode is _BALANCED or mode is _LOW_LATENCY

    @property
    def is_transparent(self) -> bool:
        """Whether every event would pass as it is. A secret that is registered ends that."""
        return self.holds_nothing and self.redactor.is_idle

    @property
    def held_texts(self) -> set[TextId]:
        """The texts of which something waits to be seen."""
        return {text_id for text_id, text in self._texts.items() if text.is_holding}

    def push(self, event: AgentEvent) -> Sequence[AgentEvent]:
        """Take the next event; the events that may be seen now.

        Raises:
            AgentOutputGuardError: the audit of a text found something that was missed; the text is dropped.
        """
        if self._holds_all:
            self._held.append(event)
            return ()
        piece = piece_of(event)
        if piece is not None and piece[0] == self._latest and not event.metadata:
            # Nearly every event is the next piece of the text that the last one was a piece of.
            text = self._texts[piece[0]]
            if text.revision == self.redactor.revision:
                return text.push(event, piece[1])
        return list(self._passed(event))

    def flush(self, *, guarded: bool = False) -> Sequence[AgentEvent]:
        """End all texts; the events that are left. Call it before an end or a pause of the run is committed.

        With `guarded` the final output has passed its guard: only then leaves what a run holds back for it.

        Raises:
            AgentOutputGuardError: the audit of a text found something that was missed; all that is held is dropped.
        """
        if (self._holds_all and not guarded) or not (self._held or self._texts):
            return ()
        held, self._held = self._held, []
        passed = [released for event in held for released in self._passed(event)]
        texts, self._texts, self._latest = self._texts, {}, None
        return [*passed, *(released for text in texts.values() for released in text.finish())]

    def drop(self) -> None:
        """Forget what is held: the guard refused or changed the output, so what led to it must not be seen."""
        self._held.clear()
        self._texts.clear()
        self._latest = None

    def redacted(self, event: AgentEvent) -> AgentEvent:
        """An event that is no piece of a text, redacted at once; the same object where nothing is forbidden in it."""
        if self.redactor.is_idle:
            return event
        changes: dict[str, Any] = {}
        for name in (*_SAID.get(type(event), ()), "metadata"):
            said = getattr(event, name)
            shown = self.redactor.json(said)
            if shown is not said:
                # Some fields must not be blank, and a policy may replace by nothing.
                changes[name] = shown if not isinstance(shown, str) or shown.strip() else REDACTED_VALUE
        return replace(event, **changes) if changes else event

    def _passed(self, event: AgentEvent) -> Iterator[AgentEvent]:
        piece = piece_of(event)
        if piece is None:
            yield from self._released(event)
            yield self.redacted(event)
            return
        text_id, words = piece
        if event.metadata.get(SUPERSEDED):
            yield from self._ended(text_id)
            yield event
            return
        if text_id != self._latest:
            yield from self._turned_to(text_id)
        text = self._texts[text_id]
        if text.revision != self.redactor.revision:
            yield from text.finish()
            text = self._texts[text_id] = self._begun(text_id)
        yield from text.push(event, words)

    def _released(self, event: AgentEvent) -> Iterator[AgentEvent]:
        """The texts in front of an event that is none."""
        self._latest = None
        if isinstance(event, ToolCallEndEvent):
            ended = self._texts.pop((_ARGUMENTS, event.attribution.run_id, event.call_id), None)
            yield from ended.finish() if ended else ()
        for text in self._texts.values():
            yield from text.release()

    def _ended(self, text_id: TextId) -> Iterator[AgentEvent]:
        """A text that does not count any more: what is left of it leaves before the word that says so."""
        self._latest = None
        text = self._texts.pop(text_id, None)
        yield from text.finish() if text else ()

    def _turned_to(self, text_id: TextId) -> Iterator[AgentEvent]:
        """Another text goes on: those of other kinds leave first, the one that was silent for longest is over."""
        self._latest = text_id
        for (kind, *_), text in self._texts.items():
            if kind != text_id[0]:
                yield from text.release()
        known = text_id in self._texts
        self._texts[text_id] = self._texts.pop(text_id) if known else self._begun(text_id)
        if len(self._texts) > _MOST_TEXTS:
            yield from self._texts.pop(next(iter(self._texts))).finish()

    def _begun(self, text_id: TextId) -> _Text:
        if self._mode is StreamingExposureMode.STRICT:
            return _WholeText(self.redactor)
        in_words = self._mode is _BALANCED and text_id[0] != _ARGUMENTS
        return _WordByWord(self.redactor) if in_words and not self.redactor.is_idle else _Text(self.redactor)


class _Text:
    """One text on its way out, as fast as redaction allows."""

    def __init__(self, redactor: Redactor) -> None:
        self.revision = redactor.revision
        self._redactor = redactor
        self._session = redactor.session()
        self._event: AgentEvent | None = None
        self._metadata: JsonObject = {}

    @property
    def is_holding(self) -> bool:
        """Whether something of it waits."""
        return self._session.is_holding

    def push(self, event: AgentEvent, words: str) -> Sequence[AgentEvent]:
        """The events for what may leave now; the last event is the pattern of those that follow."""
        self._event = event
        if event.metadata:
            self._metadata = {**self._metadata, **event.metadata}
        chunks = self._taken(words)
        if len(chunks) == 1 and chunks[0] == words and not self._metadata:
            return (event,)
        return self._events(chunks)

    def release(self) -> Sequence[AgentEvent]:
        """The events for all that is held; the text may go on."""
        return self._events(self._left())

    def finish(self) -> Sequence[AgentEvent]:
        """The events for all that is held; the text is over.

        Raises:
            AgentOutputGuardError: the audit found something that was missed.
        """
        return self._events(self._ended())

    def _taken(self, words: str) -> Sequence[str]:
        return self._session.push(words)

    def _left(self) -> Sequence[str]:
        return self._session.release()

    def _ended(self) -> Sequence[str]:
        return self._session.finish()

    def _events(self, chunks: Sequence[str]) -> Sequence[AgentEvent]:
        event = self._event
        if event is None or not chunks:
            return ()
        return [with_text(event, chunk, self._shown_metadata()) for chunk in chunks]

    def _shown_metadata(self) -> JsonObject:
        """What the events said besides, as far as it has not been shown."""
        said = self._metadata
        if said:
            self._metadata = {}
            said = cast(JsonObject, self._redactor.json(said))
        return said


class _WordByWord(_Text):
    """Whole words only: a word that has begun waits for its end, unless it gets very long."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__(redactor)
        self._word = ""

    @property
    def is_holding(self) -> bool:
        return bool(self._word) or super().is_holding

    def _taken(self, words: str) -> Sequence[str]:
        chunks = self._session.push(words)
        if not chunks:
            return ()
        text = self._word + (chunks[0] if len(chunks) == 1 else "".join(chunks))
        if text[-1].isspace():
            self._word = ""
            return (text,)
        last = text.rsplit(None, 1)[-1]
        self._word = last if len(last) <= _LONGEST_WORD else ""
        done = text.removesuffix(self._word)
        return (done,) if done else ()

    def _left(self) -> Sequence[str]:
        return self._with_word(super()._left())

    def _ended(self) -> Sequence[str]:
        return self._with_word(super()._ended())

    def _with_word(self, chunks: Sequence[str]) -> Sequence[str]:
        word, self._word = self._word, ""
        return (text,) if (text := word + "".join(chunks)) else ()


class _WholeText(_Text):
    """Nothing leaves before all of it has come and has been audited."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__(redactor)
        self._words: list[str] = []

    @property
    def is_holding(self) -> bool:
        return bool(self._words) or super().is_holding

    def _taken(self, words: str) -> Sequence[str]:
        self._words.append(words)
        return ()

    def _left(self) -> Sequence[str]:
        # The session goes on and is audited at its end; what leaves now must have passed now.
        whole = self._whole()
        self._redactor.audit(whole)
        return _joined(self._session.push(whole), self._session.release())

    def _ended(self) -> Sequence[str]:
        return _joined(self._session.push(self._whole()), self._session.finish())

    def _whole(self) -> str:
        whole, self._words = "".join(self._words), []
        return whole


def _joined(*parts: Sequence[str]) -> Sequence[str]:
    text = "".join(chunk for chunks in parts for chunk in chunks)
    return (text,) if text else ()

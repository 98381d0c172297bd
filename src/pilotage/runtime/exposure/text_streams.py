"""One streamed text on its way to readers: as soon as redaction allows, in whole words, or as a whole. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pilotage.agent.events import AgentEvent
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.exposure.deltas import with_text
from pilotage.runtime.exposure.redactor import Redactor

_LONGEST_WORD = 64


class TextStream:
    """Lets a text leave as soon as redaction allows."""

    def __init__(self, redactor: Redactor) -> None:
        self.revision = redactor.revision
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

    def release(self) -> Sequence[AgentEvent]:
        """Return deltas for all that is held; the text may go on."""
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
        return self._session.release()

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

    def __init__(self, redactor: Redactor) -> None:
        super().__init__(redactor)
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
        return self._with_word(self._session.release())

    def _finish(self) -> Sequence[str]:
        return self._with_word(self._session.finish())

    def _with_word(self, chunks: Sequence[str]) -> Sequence[str]:
        word, self._word = self._word, ""
        return _joined((word, *chunks))


class WholeTextStream(TextStream):
    """Lets a text leave when it is complete and audited."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__(redactor)
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
        return _joined((*self._session.push(whole), *self._session.release()))

    def _finish(self) -> Sequence[str]:
        return _joined((*self._session.push(self._take_held()), *self._session.finish()))

    def _take_held(self) -> str:
        whole, self._held = "".join(self._held), []
        return whole


def _joined(chunks: Sequence[str]) -> Sequence[str]:
    return (text,) if (text := "".join(chunks)) else ()

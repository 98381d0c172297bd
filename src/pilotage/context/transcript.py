"""A transcript with its running digest and its estimated tokens.

Pure. No message is measured twice: the cost of an extension does not depend on the length of the transcript.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pilotage.agent.compaction import BYTE_ESTIMATOR, TokenEstimator, message_tokens
from pilotage.agent.messages import MediaPart, ModelMessage
from pilotage.filling import unchecked
from pilotage.jsonvalue import JsonValue, canonical_json, text_digest
from pilotage.values import value


@value
class TranscriptDigest:
    """A digest over messages that is extended and never computed anew.

    It covers what a model is shown, so metadata is left out. The salt prevents readers of the digest from guessing
    short messages.
    """

    salt: str
    count: int = 0
    value: str = ""

    def extended(self, messages: Iterable[ModelMessage]) -> TranscriptDigest:
        """Return the digest with some more messages."""
        salt, count, digest = self.salt, self.count, self.value
        for message in messages:
            digest = text_digest(f"{salt}\n{digest}\n{canonical_json(_visible(message))}")
            count += 1
        return _new_digest(salt, count, digest)

    def of_text(self, text: str) -> str:
        """Return the digest of a text with the same salt."""
        return text_digest(f"{self.salt}\n{text}")


def _visible(message: ModelMessage) -> JsonValue:
    given = message.content
    content = given if isinstance(given, str) else [_part(p) for p in given]
    calls = [(call.call_id, call.name, call.arguments) for call in message.tool_calls]
    return (message.role, content, calls, message.tool_call_id)


def _part(part: object) -> JsonValue:
    if isinstance(part, MediaPart):
        plain = (part.media_type, part.url, part.data, part.name)
        return plain if part.digest is None else (*plain, part.digest)
    return str(getattr(part, "text", ""))


@value
class Transcript:
    """Messages with their digest and their tokens."""

    messages: tuple[ModelMessage, ...]
    digest: TranscriptDigest
    tokens: int
    estimator: TokenEstimator

    @classmethod
    def of(
        cls, messages: Sequence[ModelMessage] = (), *, salt: str, estimator: TokenEstimator = BYTE_ESTIMATOR
    ) -> Transcript:
        """Return the transcript of some messages, all of which are measured now."""
        return cls((), TranscriptDigest(salt), 0, estimator).followed_by(messages)

    def followed_by(self, messages: Sequence[ModelMessage]) -> Transcript:
        """Return the transcript with more messages; only those are measured."""
        return self._with(messages, (*self.messages, *messages)) if messages else self

    def grown_to(self, messages: Sequence[ModelMessage]) -> Transcript:
        """Return the transcript of these messages: extended if they continue it, else measured anew."""
        if messages is self.messages:
            return self
        known, everything = len(self.messages), tuple(messages)
        # Tuples are compared by identity first, so this is cheap for a transcript that only grew.
        if everything[:known] == self.messages:
            return self._with(everything[known:], everything)
        return self.of(messages, salt=self.digest.salt, estimator=self.estimator)

    def _with(self, new: Sequence[ModelMessage], everything: tuple[ModelMessage, ...]) -> Transcript:
        tokens, estimator = self.tokens, self.estimator
        for message in new:
            tokens += message_tokens(message, estimator)
        return _new_transcript(everything, self.digest.extended(new), tokens, estimator)


_new_digest, _new_transcript = unchecked(TranscriptDigest), unchecked(Transcript)

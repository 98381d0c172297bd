"""A transcript that is measured as it grows: its running digest and its estimated tokens.

Pure. Nothing in here looks twice at a message: following a transcript costs what is new, however long the
rest has become.
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

    It covers what a model can see of them, so metadata is left out. The salt keeps short messages from being
    guessed by those who may read the digest but not the messages.
    """

    salt: str
    count: int = 0
    value: str = ""

    def extended(self, messages: Iterable[ModelMessage]) -> TranscriptDigest:
        """The digest with some more messages."""
        salt, count, digest = self.salt, self.count, self.value
        for message in messages:
            digest = text_digest(f"{salt}\n{digest}\n{canonical_json(_visible(message))}")
            count += 1
        return _new_digest(salt, count, digest)

    def of_text(self, text: str) -> str:
        """The digest of a text with the same salt."""
        return text_digest(f"{self.salt}\n{text}")


def _visible(message: ModelMessage) -> JsonValue:
    said = message.content
    content = said if isinstance(said, str) else [_part(p) for p in said]
    calls = [(call.call_id, call.name, call.arguments) for call in message.tool_calls]
    return (message.role, content, calls, message.tool_call_id)


def _part(part: object) -> JsonValue:
    if isinstance(part, MediaPart):
        return (part.media_type, part.url, part.data, part.name)
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
        """The transcript of some messages, all of which are measured now."""
        return cls((), TranscriptDigest(salt), 0, estimator).followed_by(messages)

    def followed_by(self, messages: Sequence[ModelMessage]) -> Transcript:
        """The transcript with more messages; only those are measured."""
        return self._with(messages, (*self.messages, *messages)) if messages else self

    def grown_to(self, messages: Sequence[ModelMessage]) -> Transcript:
        """The transcript of these messages: continued where they go on from it, begun anew where not."""
        if messages is self.messages:
            return self
        known, everything = len(self.messages), tuple(messages)
        # Comparing tuples looks at identity first, so a transcript that only grew costs next to nothing here.
        if everything[:known] == self.messages:
            return self._with(everything[known:], everything)
        return self.of(messages, salt=self.digest.salt, estimator=self.estimator)

    def _with(self, new: Sequence[ModelMessage], everything: tuple[ModelMessage, ...]) -> Transcript:
        tokens, estimator = self.tokens, self.estimator
        for message in new:
            tokens += message_tokens(message, estimator)
        return _new_transcript(everything, self.digest.extended(new), tokens, estimator)


_new_digest, _new_transcript = unchecked(TranscriptDigest), unchecked(Transcript)

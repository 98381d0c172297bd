"""The window through which a model sees a growing transcript: condensed at its beginning, whole since then.

Pure. A program keeps its own list of messages and hands in all of it with every call. The window remembers
what its beginning was condensed to, so that a context is condensed once and not with every call after.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pilotage.agent.compaction.estimate import BYTE_ESTIMATOR, TokenEstimator
from pilotage.agent.context import ContextDigest
from pilotage.agent.messages import ModelMessage
from pilotage.agent.model_request import ModelRequest
from pilotage.context.compaction import Compaction
from pilotage.context.transcript import Transcript
from pilotage.values import value


@value
class ContextWindow:
    """`heard` is everything the program said, `shown` what the model gets of it."""

    heard: tuple[ModelMessage, ...]
    shown: Transcript
    digest: ContextDigest | None = None

    @classmethod
    def opening(cls, salt: str, estimator: TokenEstimator = BYTE_ESTIMATOR) -> ContextWindow:
        """A window on nothing yet. The salt is the run's id, or anything else that does not change."""
        return cls((), Transcript.of(salt=salt, estimator=estimator))

    def goes_on_to(self, messages: Sequence[ModelMessage]) -> bool:
        """Whether the messages are those heard so far and perhaps more."""
        return tuple(messages[: len(self.heard)]) == self.heard

    def hear(self, messages: Sequence[ModelMessage]) -> ContextWindow:
        """The window on these messages. Where they are another conversation, nothing of it is condensed."""
        heard = tuple(messages)
        if self.digest is None or not self.goes_on_to(heard):
            return ContextWindow(heard, self.shown.grown_to(heard))
        return ContextWindow(heard, self.shown.followed_by(heard[len(self.heard) :]), self.digest)

    def condensed(self, compaction: Compaction) -> ContextWindow:
        """The window that shows what came out of a compaction."""
        return ContextWindow(self.heard, compaction.shown, compaction.digest)

    def show(self, request: ModelRequest) -> ModelRequest:
        """The request with the messages as the model gets to see them."""
        if self.digest is None:
            return request
        return replace(request, messages=self.shown.messages, context_digest=self.digest)

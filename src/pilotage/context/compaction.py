"""Compaction of a context: the built-in strategies, carrying out a rewrite, the window of a run.

Pure. Nothing is lost: the run's record holds every message, a rewrite changes only what the model is shown from now
on. A strategy removes as much as it can at once: servers cache the beginning of a request, and a beginning that
changes with every call is paid for every time. A program passes all of its messages with every call; the window
holds the condensed form of their beginning, so that a context is condensed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from pilotage.agent.compaction import (
    CompactionPlan,
    NothingToDo,
    Rewrite,
    SummaryNeeded,
    TokenEstimator,
    is_summary,
    message_tokens,
    older_than,
    spoken,
    units_of,
    untouchable,
)
from pilotage.agent.context import (
    ContextDigest,
    ContextHealthSignal,
    ContextManifest,
    ContextOptimizationAction,
    ContextOptimizationEvidenceStage,
)
from pilotage.agent.evidence import AgentEvidenceCandidate
from pilotage.agent.messages import MediaPart, ModelMessage, ModelMessageRole, TextPart
from pilotage.agent.model_request import ModelRequest
from pilotage.checks import reject_negative, reject_not_positive
from pilotage.context.transcript import Transcript, TranscriptDigest
from pilotage.errors import AgentDefinitionError
from pilotage.filling import unchecked
from pilotage.jsonvalue import JsonObject
from pilotage.values import value


@value
class Compaction:
    """Result of a rewrite, and its evidence."""

    shown: Transcript
    digest: ContextDigest
    before: AgentEvidenceCandidate
    after: AgentEvidenceCandidate
    tokens_saved: int

    @property
    def messages(self) -> tuple[ModelMessage, ...]:
        """The messages as they are shown from now on."""
        return self.shown.messages


def carry_out(
    rewrite: Rewrite,
    shown: Transcript,
    *,
    action: ContextOptimizationAction,
    manifest: ContextManifest,
    context_identity: str,
    signals: Sequence[ContextHealthSignal] = (),
    created_at: datetime | None = None,
) -> Compaction:
    """Carry out a rewrite of a transcript.

    `action` is the context handler's decision about `signals`, `manifest` describes the transcript
    before, `context_identity` names the run or conversation. The id of the digest comes from the action's.
    """
    condensed = Transcript.of(rewrite.after, salt=shown.digest.salt, estimator=shown.estimator)
    digest = ContextDigest(
        id=f"{action.id}/{rewrite.algorithm}",
        context_identity=context_identity,
        source_manifest_ref=manifest.id,
        digest=_digest_of_touched(rewrite, shown.digest.salt),
        derived_from_pack_ids=_ranges(rewrite.touched),
        algorithm=rewrite.algorithm,
        summary=rewrite.summary.text if rewrite.summary else None,
        created_at=created_at,
    )
    begun = replace(action, manifest_ref=manifest.id)
    facts = _facts(shown, condensed)
    ended = replace(begun, digest_ref=digest.id, metadata={**action.metadata, **facts})
    stages = ContextOptimizationEvidenceStage
    evidence = AgentEvidenceCandidate.context_optimization
    return Compaction(
        condensed,
        digest,
        before=evidence(action=begun, stage=stages.BEFORE, signals=signals),
        after=evidence(action=ended, stage=stages.AFTER, signals=signals),
        tokens_saved=shown.tokens - condensed.tokens,
    )


def _facts(before: Transcript, after: Transcript) -> JsonObject:
    return {
        "tokens_before": before.tokens,
        "tokens_after": after.tokens,
        "messages_before": len(before.messages),
        "messages_after": len(after.messages),
    }


def _digest_of_touched(rewrite: Rewrite, salt: str) -> str:
    return TranscriptDigest(salt).extended(rewrite.before[index] for index in rewrite.touched).value


def _ranges(indices: Sequence[int]) -> tuple[str, ...]:
    """Return positions in the transcript, counted from one, as ranges."""
    spans: list[tuple[int, int]] = []
    for place in (index + 1 for index in indices):
        if spans and spans[-1][1] == place - 1:
            spans[-1] = (spans[-1][0], place)
        else:
            spans.append((place, place))
    return tuple(f"transcript:{first}-{last}" for first, last in spans)


@value
class ContextWindow:
    """The `messages` of a program, and what the model is shown of them (`shown`)."""

    messages: tuple[ModelMessage, ...]
    shown: Transcript
    digest: ContextDigest | None = None

    @classmethod
    def opening(cls, salt: str) -> ContextWindow:
        """Return an empty window. The salt is the run's id, or any other text that does not change."""
        return cls((), Transcript.of(salt=salt))

    def goes_on_to(self, messages: Sequence[ModelMessage]) -> bool:
        """Return whether the messages begin with those of the window."""
        return tuple(messages[: len(self.messages)]) == self.messages

    def moved_to(self, messages: Sequence[ModelMessage]) -> ContextWindow:
        """Return the window on these messages; those of another conversation are not condensed."""
        whole = tuple(messages)
        if self.digest is None or not self.goes_on_to(whole):
            return _new_window(whole, self.shown.grown_to(whole))
        return ContextWindow(whole, self.shown.followed_by(whole[len(self.messages) :]), self.digest)

    def condensed(self, compaction: Compaction) -> ContextWindow:
        """Return the window that shows the result of a compaction."""
        return ContextWindow(self.messages, compaction.shown, compaction.digest)

    def show(self, request: ModelRequest) -> ModelRequest:
        """Return the request with the messages that the model is shown."""
        if self.digest is None:
            return request
        return replace(request, messages=self.shown.messages, context_digest=self.digest)


_new_window = unchecked(ContextWindow)

_SHORTEST_TRIM = 100
"""The note about what is missing must fit."""


@value
class KeepRecent:
    """Strategy that leaves out all turns but the last ones."""

    turns: int = 8

    def __post_init__(self) -> None:
        reject_not_positive(self, turns=self.turns)

    def plan(
        self, messages: Sequence[ModelMessage], *, excess: int, estimator: TokenEstimator
    ) -> CompactionPlan:
        del estimator
        old = _old(messages, self.turns) if excess > 0 else ()
        dropped = frozenset(index for index in old if not is_summary(messages[index]))
        return Rewrite("keep_recent", tuple(messages), dropped) if dropped else NothingToDo()


@value
class TrimToolResults:
    """Strategy that shortens long tool results, except those of the last turns."""

    max_chars: int = 2_000
    keep_last: int = 2

    def __post_init__(self) -> None:
        reject_negative(self, keep_last=self.keep_last)
        if self.max_chars < _SHORTEST_TRIM:
            raise AgentDefinitionError(
                f"TrimToolResults.max_chars is {self.max_chars!r}. Use at least {_SHORTEST_TRIM}: a note "
                "replaces the rest, and it must fit."
            )

    def plan(
        self, messages: Sequence[ModelMessage], *, excess: int, estimator: TokenEstimator
    ) -> CompactionPlan:
        units = older_than(units_of(messages), self.keep_last) if excess > 0 else ()
        old = sorted(index for unit in units for index in unit.members)
        trimmed = {
            index: _trimmed(messages[index], self.max_chars) for index in old if _is_result(messages[index])
        }
        shorter = {
            index: message
            for index, message in trimmed.items()
            if message_tokens(message, estimator) < message_tokens(messages[index], estimator)
        }
        return Rewrite("trim_tool_results", tuple(messages), replaced=shorter) if shorter else NothingToDo()


@value
class SummariseOldTurns:
    """Strategy that replaces all turns but the last ones by a summary, which includes an earlier summary.

    Nothing is done if the old turns are hardly longer than a summary may be.
    """

    keep_recent: int = 4
    max_summary_chars: int = 4_000

    def __post_init__(self) -> None:
        reject_not_positive(self, keep_recent=self.keep_recent, max_summary_chars=self.max_summary_chars)

    def plan(
        self, messages: Sequence[ModelMessage], *, excess: int, estimator: TokenEstimator
    ) -> CompactionPlan:
        del estimator
        old = _old(messages, self.keep_recent) if excess > 0 else ()
        length = sum(len(spoken(messages[index])) for index in old if not is_summary(messages[index]))
        if length <= self.max_summary_chars:
            return NothingToDo()
        return SummaryNeeded("summarise_old_turns", tuple(messages), frozenset(old), self.max_summary_chars)


def _old(messages: Sequence[ModelMessage], turns: int) -> tuple[int, ...]:
    """Return the messages before the last turns that may be replaced."""
    staying = untouchable(messages)
    old = (index for unit in older_than(units_of(messages), turns) for index in unit.members)
    return tuple(index for index in old if index not in staying)


def _is_result(message: ModelMessage) -> bool:
    return message.role is ModelMessageRole.TOOL


def _trimmed(message: ModelMessage, max_chars: int) -> ModelMessage:
    text = message.text
    if len(text) <= max_chars:
        return message
    note = f"\n[{len(text):,} characters in all; the rest was left out to save room]"
    short = text[: max_chars - len(note)] + note
    if isinstance(message.content, str):
        return replace(message, content=short)
    media = [part for part in message.content if isinstance(part, MediaPart)]
    return replace(message, content=(TextPart(short), *media))

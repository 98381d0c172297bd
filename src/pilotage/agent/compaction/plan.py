"""What is to be done to a context that is too large, before anything is done.

Pure. A strategy answers with one of three plans: nothing, a rewrite, or a rewrite that lacks a summary which
only a model can write. A rewrite that breaks the rules of `pilotage.agent.compaction.rules` cannot be made, so
an application's own strategy keeps them too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Protocol, TypeAlias

from pilotage.agent.compaction.estimate import TokenEstimator
from pilotage.agent.compaction.rules import broken_rules
from pilotage.agent.compaction.summary import LEAST_TRUSTED, Summary, summary_request, trust_of_summaries
from pilotage.agent.messages import ModelMessage
from pilotage.agent.model_request import ModelRequest
from pilotage.errors import AgentDefinitionError, ModelCallError
from pilotage.safety.trust import TrustLabel
from pilotage.values import value


@value
class NothingToDo:
    """The context fits, or this strategy finds nothing that it may leave out."""


def _unchanged() -> Mapping[int, ModelMessage]:
    return {}


@value
class Rewrite:
    """The messages as they will be shown: some left out, some shorter, perhaps a summary instead of some.

    Messages are named by their index in `before`. A summary stands where the first dropped message stood.
    """

    algorithm: str
    before: tuple[ModelMessage, ...]
    dropped: frozenset[int] = frozenset()
    replaced: Mapping[int, ModelMessage] = field(default_factory=_unchanged)
    summary: Summary | None = None

    def __post_init__(self) -> None:
        has_summary = self.summary is not None
        broken = broken_rules(self.before, self.dropped, self.replaced, has_summary=has_summary)
        if broken:
            raise AgentDefinitionError(
                f"The compaction {self.algorithm!r} cannot be: {'; '.join(broken)}. Leave out whole units, see "
                "pilotage.context.units_of, and none of pilotage.context.untouchable."
            )

    @property
    def touched(self) -> tuple[int, ...]:
        """The indices of the messages that are not shown as they were."""
        return tuple(sorted(self.dropped | self.replaced.keys()))

    @property
    def after(self) -> tuple[ModelMessage, ...]:
        """The messages as they will be shown."""
        place = min(self.dropped, default=None) if self.summary else None
        shown: list[ModelMessage] = []
        for index, message in enumerate(self.before):
            if self.summary and index == place:
                shown.append(self.summary.as_message())
            if index not in self.dropped:
                shown.append(self.replaced.get(index, message))
        return tuple(shown)


@value
class SummaryNeeded:
    """A rewrite that needs words: ask a model with `request()`, then complete it with `with_summary`."""

    algorithm: str
    before: tuple[ModelMessage, ...]
    dropped: frozenset[int]
    max_summary_chars: int

    @property
    def to_summarise(self) -> tuple[ModelMessage, ...]:
        """The messages whose place the summary takes."""
        return tuple(self.before[index] for index in sorted(self.dropped))

    def request(self, max_chars: int = 200_000) -> ModelRequest:
        """The request for the summary; `max_chars` bounds what the model is shown of the messages."""
        return summary_request(
            self.to_summarise, max_summary_chars=self.max_summary_chars, max_chars=max_chars
        )

    def with_summary(self, text: str, *, trust: TrustLabel = LEAST_TRUSTED) -> Rewrite:
        """The rewrite with its summary, which is cut to its limit.

        `trust` is the join of the labels of what is summarised; the labels of earlier summaries are joined
        in by themselves.

        Raises:
            ModelCallError: there is no text; leave the context as it is, or ask again.
        """
        if not text.strip():
            raise ModelCallError("the model wrote an empty summary of the earlier turns", retryable=True)
        label = trust.join(trust_of_summaries(self.to_summarise))
        summary = Summary(text.strip()[: self.max_summary_chars], label)
        return Rewrite(self.algorithm, self.before, self.dropped, summary=summary)


CompactionPlan: TypeAlias = NothingToDo | Rewrite | SummaryNeeded


class CompactionStrategy(Protocol):
    """One way to make a context smaller: a value that says what to leave out, and does nothing itself.

    Equal messages must give equal plans, on every machine: replay asks again and must hear the same.
    """

    def plan(
        self, messages: Sequence[ModelMessage], *, excess: int, estimator: TokenEstimator
    ) -> CompactionPlan:
        """What to do about so many tokens too much; `NothingToDo` where `excess` is zero."""
        ...

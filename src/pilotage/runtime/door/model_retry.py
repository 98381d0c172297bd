"""Model failures that may pass: the discarded try is a row, and the run waits until the model is asked again.

Before the first event of a reply the model's adapter tries again by itself, as its settings say. After it the runtime
does. A reply that broke off is asked for again in the same attempt first, where its program got nothing of it (a whole
reply, a summary) or can take back what it got (`StreamingOptions.restarts`, as the library's loops). What any other
program got of a stream cannot be taken back: the run pauses, and its next attempt asks again.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from pilotage.agent.model_reply import ModelUsage
from pilotage.checks import reject_negative, reject_not_positive
from pilotage.errors import AgentDefinitionError, ModelCallError
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.effect import DISCARDED_TRY, NOTHING, Effect, Outcome
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.interruptions import ModelUnavailable
from pilotage.runtime.journal.record_fields import optional_object
from pilotage.runtime.journal.records import decode_usage, optional_amount
from pilotage.runtime.journal.scope import Action, StepScope
from pilotage.values import value

_GROWTH = 4.0
_LONGEST_ASKED = timedelta(hours=1)


@value
class ModelRetrySettings:
    """How a durable run retries a model after a transient failure.

    `tries_in_process` more tries follow in the same attempt if a reply broke off that can begin anew. Then the run
    pauses, for `first_seconds` and four times as long each time, up to `longest_seconds`; a server that asks for more
    gets it, up to an hour. All tries of a call count, those of earlier attempts too.
    """

    tries_in_process: int = 2
    first_seconds: float = 1.0
    longest_seconds: float = 300.0

    def __post_init__(self) -> None:
        reject_negative(self, tries_in_process=self.tries_in_process)
        reject_not_positive(self, first_seconds=self.first_seconds, longest_seconds=self.longest_seconds)
        if self.longest_seconds < self.first_seconds:
            raise AgentDefinitionError(
                f"ModelRetrySettings.longest_seconds is {self.longest_seconds:g}, less than the first pause of "
                f"{self.first_seconds:g}. Give at least as much."
            )


MODEL_RETRY_DEFAULTS = ModelRetrySettings()


def retry_pause(tries: int, error: ModelCallError, settings: ModelRetrySettings) -> timedelta:
    """Return how long a run waits after so many tries of a call. Pure."""
    grown = settings.first_seconds * _GROWTH ** min(tries - 1, 16)
    pause = timedelta(seconds=min(grown, settings.longest_seconds))
    asked = getattr(error, "retry_after", None)
    if isinstance(asked, int | float) and asked > 0:
        return max(pause, min(timedelta(seconds=asked), _LONGEST_ASKED))
    return pause


def model_unavailable(model: str, error: ModelCallError, tries: int, wake_at: datetime) -> ModelUnavailable:
    """Return the pause of a run whose model failed in a way that may pass."""
    reason = f"model {model!r} cannot be used now: {error}"
    return ModelUnavailable(reason=reason, facts={words.TRIES: tries, words.WAKE_AT: wake_at.isoformat()})


class DiscardedTry(Effect):
    """The row of a try that is not the reply: its error, and the tokens it took. Its result is the spent amount."""

    kind = DISCARDED_TRY

    def __init__(self, scope: StepScope, action: Action, record: JsonObject, view: JsonObject) -> None:
        super().__init__(scope, action)
        self._record, self._view = record, view

    async def act(self) -> object:
        return Outcome(self._record, self._view, (NOTHING, ModelUsage()))

    def reuse(self, record: JsonObject) -> object:
        usage = decode_usage(optional_object(record, words.USAGE))
        return optional_amount(record) or NOTHING, usage

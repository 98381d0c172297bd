"""The context that an application provides for a model call, recorded below that call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pilotage.agent.run_values import AgentContext
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.effect import CONTEXT_INPUT, Effect, Outcome
from pilotage.runtime.exposure.given_context import encode_context, label_of_packs
from pilotage.runtime.exposure.redactor import Redactor, secretless
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.action import Action
from pilotage.runtime.journal.record_fields import contract_value, optional_object
from pilotage.runtime.journal.scope import StepScope


class ContextUnavailableError(Exception):
    """The context provider raised, did not answer in time, or returned a value of another type."""


class ContextFetch(Effect):
    """Fetching the context of one model call from the application's provider. The result is an `AgentContext`."""

    kind = CONTEXT_INPUT

    def __init__(
        self,
        scope: StepScope,
        action: Action,
        fetch: Callable[[], Awaitable[AgentContext]],
        redactor: Redactor,
    ) -> None:
        super().__init__(scope, action)
        self._fetch = fetch
        self._redactor = redactor

    async def act(self) -> object:
        record = encode_provided(await self._fetch(), self._redactor)
        provided = self.reuse(record)
        self.learned = label_of_packs(provided.packs)
        return Outcome(record, self._redactor.json(record), provided)

    def reuse(self, record: JsonObject) -> AgentContext:
        """Return the context as it was provided when the call was made."""
        return decode_provided(record)


def encode_provided(provided: AgentContext, redactor: Redactor) -> JsonObject:
    """Return the record of a context: guarded, and without secrets.

    Raises:
        AgentDefinitionError: a pack gives instructions and is untrusted.
    """
    return {words.GIVEN: secretless(encode_context(provided), redactor)}


def decode_provided(record: JsonObject) -> AgentContext:
    """Return the context in a record; an empty one where there is none.

    Raises:
        DamagedRecordError: the record is no context.
    """
    return contract_value(AgentContext, optional_object(record, words.GIVEN) or {})

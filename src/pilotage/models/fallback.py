"""A model made of several: if one does not answer, the next one is asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import TypeAlias

from pilotage.agent.compaction import request_tokens
from pilotage.agent.media import is_one_of
from pilotage.agent.model_reply import (
    ModelFinishReason,
    ModelResponse,
    ModelStreamEvent,
    ModelStreamEventKind,
    ModelUsage,
)
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.model_stream import whole_replies
from pilotage.agent.ports.model import IAgentModel, ModelCapability
from pilotage.checks import reject_empty
from pilotage.errors import AgentDefinitionError, ModelCallError
from pilotage.jsonvalue import JsonObject, JsonValue, object_or_empty
from pilotage.runtime.budget.limits import believable
from pilotage.runtime.door.model import plain_model
from pilotage.runtime.events.feed import close
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.records import encode_usage
from pilotage.values import value


class FallbackCondition(StrEnum):
    """Conditions under which the next model is asked."""

    RETRYABLE = "retryable"
    """The call failed with a retryable error: overload, a timeout, a lost connection."""
    FAILED = "failed"
    """The call failed for any reason."""
    UNSUPPORTED = "unsupported"
    """The request needs a capability that the model lacks, or is longer than its context."""
    REFUSED = "refused"
    """The model refused."""
    FILTERED = "filtered"
    """The server's content filter stopped the reply."""


Condition: TypeAlias = FallbackCondition | type[ModelCallError]

_PROGRESS = ModelStreamEventKind.PROGRESS
DEFAULT_CONDITIONS = (FallbackCondition.RETRYABLE, FallbackCondition.UNSUPPORTED)
_DECLINED: Mapping[ModelFinishReason | None, FallbackCondition] = {
    ModelFinishReason.REFUSAL: FallbackCondition.REFUSED,
    ModelFinishReason.CONTENT_FILTER: FallbackCondition.FILTERED,
}


@value
class PassedOver:
    """A model that did not answer, and the reason.

    The reply of a model that declined is paid for; its `usage` is here. `paid` holds models that it asked itself.
    """

    model: str
    reason: str
    message: str
    is_retryable: bool = False
    usage: ModelUsage | None = None
    paid: tuple[JsonObject, ...] = ()

    def to_payload(self) -> JsonObject:
        """Return the entry of the reply's metadata."""
        entry: JsonObject = {words.MODEL: self.model, words.REASON: self.reason}
        return entry if self.usage is None else {**entry, words.USAGE: encode_usage(self.usage)}


class FallbackModel(IAgentModel):
    """Several models, asked in order until one answers: `FallbackModel([primary, OfflineModel()])`.

    Once part of a reply has reached the caller, no other model is asked, and a failure is raised. The response
    names the model that answered in `answered_by`, the others in `passed_over` of its metadata. The name is that of
    the first model. The capability is that of any model if unsupported requests go to the next one, else that of all.
    """

    def __init__(
        self, models: Sequence[IAgentModel], *, on: Collection[Condition] = DEFAULT_CONDITIONS
    ) -> None:
        """Combine models.

        Args:
            models: in the order in which they are asked.
            on: the conditions under which the next one is asked, or subclasses of `ModelCallError`.
        """
        reject_empty(self, models=models)
        self._models = tuple(map(plain_model, models))
        self._conditions = frozenset(each for each in on if isinstance(each, FallbackCondition))
        self._errors = tuple(each for each in on if not isinstance(each, FallbackCondition))

    @property
    def capability(self) -> ModelCapability:
        of_any = FallbackCondition.UNSUPPORTED in self._conditions
        each = [model.capability for model in self._models]
        return replace(
            joint_capability(each, of_any=of_any),
            stands_for=tuple(name for one in each for name in one.stands_for or (one.model,)),
            pays_each=any(one.pays_each for one in each)
            or not self._conditions.isdisjoint(_DECLINED.values()),
        )

    async def complete(self, request: ModelRequest) -> ModelResponse:
        passed: list[PassedOver] = []
        for model in self._models:
            if self._skips(model, request, passed):
                continue
            try:
                response = await model.complete(request)
            except ModelCallError as error:
                passed.append(self._passed_by(error, model))
                continue
            if not self._declines(response, model, passed):
                return _signed(response, model, passed)
        raise _no_answer(passed)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        passed: list[PassedOver] = []
        for model in self._models:
            if self._skips(model, request, passed):
                continue
            events, progress = whole_replies(model.stream(request), request), list[ModelStreamEvent]()
            try:
                first = await self._first(events, progress, model, passed)
                while progress:
                    yield progress.pop(0)
                if first is None:
                    if passed[-1].usage is not None:
                        # The tokens of this reply are paid for even if the next model fails.
                        yield ModelStreamEvent(
                            _PROGRESS, metadata={words.PASSED_OVER: [passed[-1].to_payload()]}
                        )
                    continue
                yield _signed_event(first, model, passed)
                async for event in events:
                    yield _signed_event(event, model, passed)
            except ModelCallError:
                for event in progress:  # its error may report tokens that were paid for
                    yield event
                raise
            finally:
                await close(events)
            return
        raise _no_answer(passed)

    async def _first(
        self,
        events: AsyncIterator[ModelStreamEvent],
        progress: list[ModelStreamEvent],
        model: IAgentModel,
        passed: list[PassedOver],
    ) -> ModelStreamEvent | None:
        """Return the first event of a stream, which commits to its model; None if the next one is to be asked.

        Events of progress before it are added to `progress`.
        """
        try:
            while (event := await anext(events)).kind is _PROGRESS:
                progress.append(event)
        except StopAsyncIteration:
            broken = ModelCallError("the model's stream ended without a reply", retryable=True)
            passed.append(self._passed_by(broken, model))
            return None
        except ModelCallError as error:
            passed.append(self._passed_by(error, model))
            return None
        response = event.response
        return None if response is not None and self._declines(response, model, passed) else event

    def _skips(self, model: IAgentModel, request: ModelRequest, passed: list[PassedOver]) -> bool:
        """Return whether the model is skipped because it does not support the request."""
        if FallbackCondition.UNSUPPORTED not in self._conditions:
            return False
        why = unsupported_by(model, request)
        if why is not None:
            passed.append(PassedOver(model.capability.model, FallbackCondition.UNSUPPORTED.value, why))
        return why is not None

    def _passed_by(self, error: ModelCallError, model: IAgentModel) -> PassedOver:
        """Return the model as passed over for its error; raise that error if no condition covers it."""
        is_reason = (
            FallbackCondition.FAILED in self._conditions
            or (error.retryable and FallbackCondition.RETRYABLE in self._conditions)
            or isinstance(error, self._errors)
        )
        if not is_reason or len(self._models) == 1:
            raise error
        return PassedOver(model.capability.model, error.code, str(error), error.retryable)

    def _declines(self, response: ModelResponse, model: IAgentModel, passed: list[PassedOver]) -> bool:
        """Return whether the next model is asked because of this reply; never for the last model."""
        condition = _DECLINED.get(response.finish_reason)
        is_last = len(passed) == len(self._models) - 1
        if condition is None or condition not in self._conditions or is_last:
            return False
        name = response.answered_by or model.capability.model
        passed.append(
            PassedOver(
                name,
                condition.value,
                "it declined to answer",
                usage=believable(response.usage),
                paid=_passed_before(response),
            )
        )
        return True


def joint_capability(capabilities: Sequence[ModelCapability], *, of_any: bool) -> ModelCapability:
    """Return the capability of several models under the name of the first: that of any of them, or of all."""
    some, least = (any, max) if of_any else (all, min)
    lengths = [each.context_tokens for each in capabilities if each.context_tokens is not None]
    is_bounded = lengths and (len(lengths) == len(capabilities) or not of_any)
    replies = [each.max_output_tokens for each in capabilities if each.max_output_tokens is not None]
    return ModelCapability(
        model=capabilities[0].model,
        context_tokens=least(lengths) if is_bounded else None,
        tools=some(each.tools for each in capabilities),
        parallel_tool_calls=some(each.parallel_tool_calls for each in capabilities),
        structured_output=some(each.structured_output for each in capabilities),
        reasoning=any(each.reasoning for each in capabilities),
        max_output_tokens=max(replies) if len(replies) == len(capabilities) else None,
        media_types=_joint_media([each.media_types for each in capabilities], of_any=of_any),
    )


def _joint_media(declared: Sequence[frozenset[str] | None], *, of_any: bool) -> frozenset[str] | None:
    """What any of several models takes, or what all take; a model that declares nothing may take everything."""
    known = [types for types in declared if types is not None]
    if not known or (of_any and len(known) < len(declared)):
        return None
    every = frozenset[str]().union(*known)
    return (
        every
        if of_any
        else frozenset(each for each in every if all(is_one_of(each, types) for types in known))
    )


def unsupported_by(model: IAgentModel, request: ModelRequest) -> str | None:
    """Return why a model cannot serve a request; None where it can."""
    try:
        model.validate_request(request)
    except AgentDefinitionError as error:
        return str(error)
    most = model.capability.context_tokens
    if most is None:
        return None
    asked = request_tokens(request)
    return f"the request takes about {asked} tokens, and it takes {most}" if asked > most else None


def _signed(response: ModelResponse, model: IAgentModel, passed: Sequence[PassedOver]) -> ModelResponse:
    facts: dict[str, JsonValue] = {words.ANSWERED_BY: model.capability.model, **response.metadata}
    if passed:
        before = [entry for each in passed for entry in (*each.paid, each.to_payload())]
        facts[words.PASSED_OVER] = [*before, *_passed_before(response)]
    return replace(response, metadata=facts)


def _passed_before(response: ModelResponse) -> tuple[JsonObject, ...]:
    """Return the models that were passed over inside a reply's model, if it is a fallback model itself."""
    entries = response.metadata.get(words.PASSED_OVER)
    return tuple(map(object_or_empty, entries)) if isinstance(entries, list | tuple) else ()


def _signed_event(
    event: ModelStreamEvent, model: IAgentModel, passed: Sequence[PassedOver]
) -> ModelStreamEvent:
    if event.response is None:
        return event
    return replace(event, response=_signed(event.response, model, passed))


def _no_answer(passed: Sequence[PassedOver]) -> ModelCallError:
    reasons = "; ".join(f"{each.model!r}: {each.message}" for each in passed)
    return ModelCallError(
        f"no model answered. {reasons}", retryable=any(each.is_retryable for each in passed)
    )

"""A model that is several: where one cannot answer, the next one is asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import TypeAlias

from pilotage.agent.compaction import fixed_tokens, message_tokens
from pilotage.agent.model_reply import ModelFinishReason, ModelResponse, ModelStreamEvent
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.model import IAgentModel, ModelCapability
from pilotage.checks import reject_empty
from pilotage.errors import AgentDefinitionError, ModelCallError
from pilotage.jsonvalue import JsonValue
from pilotage.runtime.door.model import plain_model
from pilotage.runtime.events.feed import close
from pilotage.values import value


class FallbackCondition(StrEnum):
    """What makes the next model the one to ask."""

    RETRYABLE = "retryable"
    """The call failed, and its error says that trying again may help: overload, a timeout, a lost connection."""
    FAILED = "failed"
    """The call failed, whatever the reason."""
    UNSUPPORTED = "unsupported"
    """The request asks for what the model cannot do, or is longer than its context."""
    REFUSED = "refused"
    """The model refused."""
    FILTERED = "filtered"
    """The server's content filter stopped the reply."""


Condition: TypeAlias = FallbackCondition | type[ModelCallError]

DEFAULT_CONDITIONS = (FallbackCondition.RETRYABLE, FallbackCondition.UNSUPPORTED)
_DECLINED: Mapping[ModelFinishReason | None, FallbackCondition] = {
    ModelFinishReason.REFUSAL: FallbackCondition.REFUSED,
    ModelFinishReason.CONTENT_FILTER: FallbackCondition.FILTERED,
}


@value
class PassedOver:
    """A model that did not answer, and why."""

    model: str
    reason: str
    message: str
    is_retryable: bool = False


class FallbackModel(IAgentModel):
    """Asks models in order until one answers: `FallbackModel([primary, OfflineModel()])`.

    Once anything of a reply has reached the caller, it is that model's reply, and its failure is the caller's. The
    response says who answered: `answered_by`, and in its metadata `passed_over`. It bears the name of the first model,
    and can do what any of them can where an unsupported request goes to the next one, else what all of them can.
    """

    def __init__(
        self, models: Sequence[IAgentModel], *, on: Collection[Condition] = DEFAULT_CONDITIONS
    ) -> None:
        """Several models as one.

        Args:
            models: in the order in which they are asked.
            on: what makes the next one the one to ask: conditions, or kinds of `ModelCallError`.
        """
        reject_empty(self, models=models)
        self._models = tuple(map(plain_model, models))
        self._conditions = frozenset(each for each in on if isinstance(each, FallbackCondition))
        self._errors = tuple(each for each in on if not isinstance(each, FallbackCondition))

    @property
    def capability(self) -> ModelCapability:
        of_any = FallbackCondition.UNSUPPORTED in self._conditions
        return joint_capability([model.capability for model in self._models], of_any=of_any)

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
        raise _nobody_answered(passed)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        passed: list[PassedOver] = []
        for model in self._models:
            if self._skips(model, request, passed):
                continue
            events = model.stream(request)
            try:
                first = await self._first(events, model, passed)
                if first is None:
                    continue
                yield _signed_event(first, model, passed)
                async for event in events:
                    yield _signed_event(event, model, passed)
            finally:
                await close(events)
            return
        raise _nobody_answered(passed)

    async def _first(
        self, events: AsyncIterator[ModelStreamEvent], model: IAgentModel, passed: list[PassedOver]
    ) -> ModelStreamEvent | None:
        """The first event of a stream, with which its model has the word; None where the next one is asked."""
        try:
            event = await anext(events)
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
        """Whether the model need not be asked, because it could not do it."""
        if FallbackCondition.UNSUPPORTED not in self._conditions:
            return False
        why = unsupported_by(model, request)
        if why is not None:
            passed.append(PassedOver(model.capability.model, FallbackCondition.UNSUPPORTED.value, why))
        return why is not None

    def _passed_by(self, error: ModelCallError, model: IAgentModel) -> PassedOver:
        """Return the model as passed over for its error; raise that error if it is no reason to ask another model."""
        is_reason = (
            FallbackCondition.FAILED in self._conditions
            or (error.retryable and FallbackCondition.RETRYABLE in self._conditions)
            or isinstance(error, self._errors)
        )
        if not is_reason or len(self._models) == 1:
            raise error
        return PassedOver(model.capability.model, error.code, str(error), error.retryable)

    def _declines(self, response: ModelResponse, model: IAgentModel, passed: list[PassedOver]) -> bool:
        """Whether a reply is none, so that the next model is asked; what the last one says stands."""
        condition = _DECLINED.get(response.finish_reason)
        is_last = len(passed) == len(self._models) - 1
        if condition is None or condition not in self._conditions or is_last:
            return False
        passed.append(PassedOver(model.capability.model, condition.value, "it declined to answer"))
        return True


def joint_capability(capabilities: Sequence[ModelCapability], *, of_any: bool) -> ModelCapability:
    """What several models can do together, under the name of the first: what any of them can, or what all can."""
    some, least = (any, max) if of_any else (all, min)
    lengths = [each.context_tokens for each in capabilities if each.context_tokens is not None]
    is_bounded = lengths and (len(lengths) == len(capabilities) or not of_any)
    media = {kind for each in capabilities for kind in each.media_types}
    return ModelCapability(
        model=capabilities[0].model,
        context_tokens=least(lengths) if is_bounded else None,
        tools=some(each.tools for each in capabilities),
        parallel_tool_calls=some(each.parallel_tool_calls for each in capabilities),
        structured_output=some(each.structured_output for each in capabilities),
        reasoning=any(each.reasoning for each in capabilities),
        media_types=frozenset(
            kind for kind in media if some(kind in each.media_types for each in capabilities)
        ),
    )


def unsupported_by(model: IAgentModel, request: ModelRequest) -> str | None:
    """Why a model cannot serve a request; None where it can."""
    try:
        model.validate_request(request)
    except AgentDefinitionError as error:
        return str(error)
    most = model.capability.context_tokens
    if most is None:
        return None
    asked = sum(map(message_tokens, request.assemble_messages())) + fixed_tokens(request)
    return f"the request takes about {asked} tokens, and it takes {most}" if asked > most else None


def _signed(response: ModelResponse, model: IAgentModel, passed: Sequence[PassedOver]) -> ModelResponse:
    facts: dict[str, JsonValue] = {"answered_by": model.capability.model, **response.metadata}
    if passed:
        facts["passed_over"] = [{"model": each.model, "reason": each.reason} for each in passed]
    return replace(response, metadata=facts)


def _signed_event(
    event: ModelStreamEvent, model: IAgentModel, passed: Sequence[PassedOver]
) -> ModelStreamEvent:
    if event.response is None:
        return event
    return replace(event, response=_signed(event.response, model, passed))


def _nobody_answered(passed: Sequence[PassedOver]) -> ModelCallError:
    said = "; ".join(f"{each.model!r}: {each.message}" for each in passed)
    return ModelCallError(f"no model answered. {said}", retryable=any(each.is_retryable for each in passed))

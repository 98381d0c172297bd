"""A model that needs no server: rules over the tools of a request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

from pilotage.agent.compaction import fixed_tokens, message_tokens
from pilotage.agent.model_reply import ModelFinishReason, ModelResponse, ModelStreamEvent
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.model import IAgentModel, ModelCapability
from pilotage.checks import reject_not_positive
from pilotage.errors import AgentDefinitionError, ModelCallError
from pilotage.ids import IClock, SystemClock
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json, to_json_value
from pilotage.models.offline.replying import OfflineReply, reply_to
from pilotage.models.offline.transcript import situation_of
from pilotage.models.streaming import deltas_of, estimated_usage, final_events

OFFLINE = ModelCapability("offline", reasoning=True, media_types=frozenset())


class OfflineModel(IAgentModel):
    """A model that follows commands over the tools of an agent: `run_sync(Agent, "read a.txt and read b.txt")`.

    It is no language model, and its replies state that. Equal requests get equal replies; it has no other input.
    """

    def __init__(
        self,
        answers: Mapping[str, object] | None = None,
        *,
        tokens_per_second: float | None = None,
        clock: IClock | None = None,
        capability: ModelCapability = OFFLINE,
    ) -> None:
        """Make an offline model.

        Args:
            answers: fixed answers by question, used instead of the rules: a text, or a value of the output type.
            tokens_per_second: the speed of streaming; None for no delay.
            clock: the clock for that delay.
            capability: the declared capability, which it also observes: a way to test an agent with less.
        """
        reject_not_positive(self, tokens_per_second=tokens_per_second)
        self._answers = {
            _spoken(question): to_json_value(answer) for question, answer in (answers or {}).items()
        }
        self._pause = 1 / tokens_per_second if tokens_per_second else None
        self._clock = clock or SystemClock()
        self._capability = capability

    @property
    def capability(self) -> ModelCapability:
        return self._capability

    async def complete(self, request: ModelRequest) -> ModelResponse:
        return _response(self._reply(request), request)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        reply = self._reply(request)
        response = _response(reply, request)
        for event in deltas_of(response.content, reply.calls, reply.reasoning, request):
            await self._breathe()
            yield event
        await self._breathe()
        for event in final_events(response, request):
            yield event

    def _reply(self, request: ModelRequest) -> OfflineReply:
        """Return the reply; raise `ModelCallError` if the request is longer than the context."""
        self._check(request)
        situation = situation_of(request)
        taught = None if situation.turns else self._answers.get(_spoken(situation.question))
        reply = reply_to(request) if taught is None else _taught(taught, request)
        calls = reply.calls if self._capability.parallel_tool_calls else reply.calls[:1]
        whole = OfflineReply(
            reply.text,
            reply.reasoning if self._capability.reasoning else "",
            calls,
            reply.answer,
            reply.made_up,
        )
        bounds = [request.sampling.max_tokens, self._capability.max_output_tokens]
        most = min((each for each in bounds if each is not None), default=None)
        return whole if most is None else whole.within(most)

    def _check(self, request: ModelRequest) -> None:
        try:
            self.validate_request(request)
        except AgentDefinitionError as error:
            raise ModelCallError(str(error)) from error
        most = self._capability.context_tokens
        asked = sum(map(message_tokens, request.assemble_messages())) + fixed_tokens(request)
        if most is not None and asked > most:
            raise ModelCallError(
                f"the request takes about {asked} tokens, and {self._capability.model!r} takes {most}. "
                "Give the agent a context budget: AgentExecutionSpec(context_budget=ContextTokenBudget())."
            )

    async def _breathe(self) -> None:
        """Give other tasks a turn, or stream slowly; raise `ModelCallError` if the clock failed."""
        if self._pause is None:
            await asyncio.sleep(0)
            return
        try:
            await self._clock.sleep(self._pause)
        except OSError as error:
            raise ModelCallError(f"the clock of the offline model failed: {error}", retryable=True) from error


def _spoken(text: str) -> str:
    """Return a question in the form for comparison: case, spaces and final punctuation do not matter."""
    return " ".join(text.lower().split()).rstrip(".?! ")


def _taught(answer: JsonValue, request: ModelRequest) -> OfflineReply:
    why = "This question has an answer that was given to me in advance."
    if request.structured_output is not None:
        return OfflineReply(reasoning=why, answer=answer)
    return OfflineReply(answer if isinstance(answer, str) else canonical_json(answer), why)


def _response(reply: OfflineReply, request: ModelRequest) -> ModelResponse:
    """Return the complete response; raise `AgentStructuredOutputError` if it does not have the requested type."""
    spec = request.structured_output
    is_answer = spec is not None and not reply.calls and not reply.is_cut
    text = canonical_json(reply.answer) if is_answer else reply.text
    facts: JsonObject = {"made_up": list(reply.made_up)} if reply.made_up else {}
    return ModelResponse(
        content=text,
        structured_output=reply.answer if is_answer else None,
        tool_calls=reply.calls,
        usage=estimated_usage(request.assemble_messages(), text, reply.calls, reply.reasoning),
        metadata=facts,
        finish_reason=_finish_of(reply),
        output=spec.decode(reply.answer) if spec is not None and is_answer else None,
    )


def _finish_of(reply: OfflineReply) -> ModelFinishReason:
    if reply.is_cut:
        return ModelFinishReason.LENGTH
    return ModelFinishReason.TOOL_CALLS if reply.calls else ModelFinishReason.STOP

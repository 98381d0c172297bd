"""One turn of a loop: a call of the model, its events, and what it leaves in the session."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import replace
from types import AsyncGeneratorType
from typing import cast

from pilotage.agent.events import AgentEvent, StepFinishedEvent, StepStartedEvent, ToolCallResultEvent
from pilotage.agent.messages import ModelMessage
from pilotage.agent.model_events import ModelEventProjector, call_id_at
from pilotage.agent.model_reply import ModelResponse, ModelStreamEvent, ModelUsage
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.architecture import AgentSession, Dependencies, ToolCallOutcome
from pilotage.agent.tool_calling import hidden_arguments
from pilotage.architectures.moves import CallTools, Move, Patience, RefuseTools, next_move, repair
from pilotage.errors import AgentStructuredOutputError, ModelCallError
from pilotage.jsonvalue import JsonValue, canonical_json

_NO_REPLY = ModelResponse("")
_WITH_CALLS = (CallTools, RefuseTools)


class ModelTurn:
    """Asks the model once, with all that the session holds behind the lead.

    Show every event of `stream`, `finish`, then ask for the `move`. The loop iterates the stream itself: a generator
    around another one costs every event a step more.
    """

    def __init__(self, session: AgentSession, deps: Dependencies, lead: Sequence[ModelMessage]) -> None:
        self._session = session
        self._deps = deps
        self._by = deps.attribution
        self._step = f"model-{session.turns + 1}"
        self._message_id = message_id = deps.next_message_id()
        self._misfit: AgentStructuredOutputError | None = None
        self._said: list[str] | None = [] if deps.output is not None else None
        self._heard: ModelResponse | None = None
        calling, messages = deps.tools.calling, (*lead, *session.messages)
        self._projector = ModelEventProjector(
            self._by, message_id, f"{message_id}:reasoning", hidden_arguments(calling)
        )
        self.reply: ModelResponse = _NO_REPLY
        self.stream = deps.model.stream(
            ModelRequest(messages, tool_calling=calling, structured_output=deps.output)
        )

    @property
    def started(self) -> StepStartedEvent:
        """The start of the step."""
        return StepStartedEvent(self._by, self._step)

    def shown(self, event: ModelStreamEvent) -> Sequence[AgentEvent]:
        """What others are shown of an event of the model."""
        if event.response is not None:
            self._heard = event.response
        elif self._said is not None and event.is_text_delta:
            self._said.append(event.text)
        return self._projector.project(event)

    def misfit(self, error: AgentStructuredOutputError) -> None:
        """The stream ended with an answer of the wrong type: the model needs its words to repair them."""
        self._misfit, self._heard = error, ModelResponse("".join(self._said or ()))

    def finish(self) -> StepFinishedEvent:
        """Take the reply, with the end of the step.

        Raises:
            ModelCallError: the stream ended without a reply.
        """
        reply, session = self._heard, self._session
        if reply is None:
            raise ModelCallError("the model's stream ended without a reply", retryable=True)
        session.turns += 1
        session.cumulative_usage = added(session.cumulative_usage, reply.usage)
        self.reply = with_call_ids(reply, self._message_id) if reply.tool_calls else reply
        return StepFinishedEvent(self._by, self._step, self._facts())

    def move(self, patience: Patience) -> Move:
        """What to do next; the reply is part of the transcript from here on.

        Raises:
            AgentStructuredOutputError: the answer is not of the type asked for, and no repair is left.
        """
        if self._misfit is not None:
            move: Move = repair(self._misfit, patience)
        else:
            move = next_move(self.reply, self._deps.output, patience)
        # A transcript in which a call is never answered is refused by most servers.
        calls = self.reply.tool_calls if isinstance(move, _WITH_CALLS) else ()
        text = self.reply.content or _as_text(self.reply.structured_output)
        if calls or text.strip():
            self._session.messages.append(ModelMessage.assistant(text, calls))
        return move

    def told(self, outcome: ToolCallOutcome) -> ToolCallResultEvent:
        """The model is told what came of a call; the event tells everybody else."""
        self._session.messages.append(outcome.message)
        call = outcome.call
        call_id, by = call.call_id or call.name, self._by
        if outcome.error is None:
            return ToolCallResultEvent(by, call_id, call.name, self._message_id, outcome.result)
        failure: JsonValue = {"error": outcome.error}
        return ToolCallResultEvent(by, call_id, call.name, self._message_id, failure, {"is_error": True})

    def _facts(self) -> dict[str, JsonValue]:
        """What is known of the reply besides its words; a model that counts no tokens says nothing about them."""
        facts: dict[str, JsonValue] = {}
        if used := _known(self.reply.usage):
            facts["usage"] = used
        if self.reply.finish_reason is not None:
            facts["finish_reason"] = self.reply.finish_reason.value
        if self._misfit is not None:
            facts["problems"] = list(self._misfit.problems)
        return facts


def _known(usage: ModelUsage) -> dict[str, JsonValue]:
    if usage is _NO_REPLY.usage:
        return {}
    counts: dict[str, JsonValue] = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
    }
    return {name: tokens for name, tokens in counts.items() if tokens is not None}


def lead_of(session: AgentSession) -> tuple[ModelMessage, ...]:
    """What stands in front of every request of a session: its instructions, where it has any."""
    return (ModelMessage.system(session.instructions),) if session.instructions.strip() else ()


def with_call_ids(reply: ModelResponse, message_id: str) -> ModelResponse:
    """The reply with an id of its own for each call: one that is missing or was given before is replaced.

    The projector of the stream names them in the same way, so that results find their calls.
    """
    if len(reply.tool_calls) == 1 and reply.tool_calls[0].call_id:
        return reply
    ids: list[str] = []
    for position, call in enumerate(reply.tool_calls, start=1):
        own = call.call_id
        ids.append(own if own and own not in ids else call_id_at(message_id, position))
    if all(call.call_id == call_id for call, call_id in zip(reply.tool_calls, ids, strict=True)):
        return reply
    named = [replace(call, call_id=call_id) for call, call_id in zip(reply.tool_calls, ids, strict=True)]
    return replace(reply, tool_calls=named)


def added(so_far: ModelUsage, more: ModelUsage) -> ModelUsage:
    """The sum of two usages; what neither knows stays unknown."""
    if more is _NO_REPLY.usage:
        return so_far
    return ModelUsage(
        _sum(so_far.input_tokens, more.input_tokens),
        _sum(so_far.output_tokens, more.output_tokens),
        _sum(so_far.total_tokens, more.total_tokens),
    )


def _sum(so_far: int | None, more: int | None) -> int | None:
    return so_far if more is None else more + (so_far or 0)


def _as_text(structured: JsonValue) -> str:
    return "" if structured is None else canonical_json(structured)


async def close_stream(stream: AsyncIterator[object]) -> None:
    """Whoever leaves the loop early ends the generation with it."""
    # Nearly all are plain generators, and asking an abstract class takes longer than closing one.
    if type(stream) is AsyncGeneratorType or isinstance(stream, AsyncGenerator):
        await cast("AsyncGenerator[object, None]", stream).aclose()

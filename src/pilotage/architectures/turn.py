"""One turn of a loop: a model call, its events, and its entries in the session."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TypeAlias

from pilotage.agent.events import AgentEvent, StepFinishedEvent, StepStartedEvent, ToolCallResultEvent
from pilotage.agent.messages import ModelMessage, ModelMessageRole, new_message
from pilotage.agent.model_reply import ModelResponse, ModelStreamEvent, ModelUsage, no_usage
from pilotage.agent.model_request import ModelRequest, StreamingOptions, hidden_arguments
from pilotage.agent.model_stream import ModelEventProjector, call_id_at
from pilotage.agent.ports.architecture import AgentSession, Dependencies, FoldedTurn, ToolCallOutcome
from pilotage.architectures.moves import WITH_CALLS, GoOn, Move, RetriesLeft, has_media, next_move, repair
from pilotage.errors import AgentStructuredOutputError, ModelCallError
from pilotage.filling import unchecked
from pilotage.jsonvalue import JsonValue, canonical_json

Events: TypeAlias = AsyncGenerator[AgentEvent, None]
"""The events of a loop."""
Project: TypeAlias = Callable[[ModelStreamEvent], Sequence[AgentEvent]]

_NO_REPLY = ModelResponse("")
_NO_USAGE = no_usage()
_RESTARTING = StreamingOptions(restarts=True)

_request, _result = unchecked(ModelRequest), unchecked(ToolCallResultEvent)
_ASSISTANT = ModelMessageRole.ASSISTANT
_step_started, _step_finished = unchecked(StepStartedEvent), unchecked(StepFinishedEvent)


class ModelTurn:
    """One model call with the messages of the session.

    A loop reads `stream()` between `begin()` and `end()`, yields the projected events, sets `reply`, then calls
    `move()`. The loop iterates the stream itself: a generator around another one costs a step for every event.
    """

    project: Project
    """Return the events of the run for one event of the model."""
    reply: ModelResponse = _NO_REPLY
    _projector: ModelEventProjector

    def __init__(self, session: AgentSession, deps: Dependencies, lead: Sequence[ModelMessage]) -> None:
        self._session = session
        self._deps = deps
        self._lead = lead
        self._step = f"model-{session.turns + 1}"
        self._misfit: AgentStructuredOutputError | None = None
        self._texts: list[str] = []

    def begin(self) -> StepStartedEvent:
        """Return the event that begins the step."""
        return _step_started(self._deps.attribution, self._step)

    def stream(self) -> AsyncIterator[ModelStreamEvent]:
        """Return the stream of the model; a caller that leaves it early must close it."""
        messages, deps = (*self._lead, *self._session.messages), self._deps
        calling = deps.tools.calling
        message_id, stream = deps.ask(
            _request(messages, structured_output=deps.output, tool_calling=calling, streaming=_RESTARTING)
        )
        hidden = hidden_arguments(calling)
        self._projector = projector = ModelEventProjector(deps.attribution, message_id, None, hidden)
        self.project = (
            projector.project if deps.output is None else _recording(self._texts, projector.project)
        )
        return stream

    def miss(self, misfit: AgentStructuredOutputError) -> None:
        """Record that the reply does not have the declared type; its text is needed for the repair."""
        self._misfit, self.reply = misfit, ModelResponse("".join(self._texts))

    def recall(self, folded: FoldedTurn) -> None:
        """Take the reply of a folded turn: the step has no events."""
        self._take(folded.reply, folded.message_id)

    def end(self) -> StepFinishedEvent:
        """End the step with its reply; raise `ModelCallError` if there is none."""
        if self.reply is _NO_REPLY:
            raise ModelCallError("the model's stream ended without a reply", retryable=True)
        reply = self.reply
        # Facts about the reply besides its text; not all models report token counts.
        facts: dict[str, JsonValue] = {}
        if self._take(reply, self._projector.message_id):
            facts["usage"] = _known(reply.usage)
        if reply.finish_reason is not None:
            facts["finish_reason"] = reply.finish_reason.value
        if self._misfit is not None:
            facts["problems"] = list(self._misfit.problems)
        return _step_finished(self._deps.attribution, self._step, facts)

    def _take(self, reply: ModelResponse, message_id: str) -> bool:
        """Count the reply of the step, and return whether its tokens are known."""
        session = self._session
        session.turns += 1
        self.reply = with_call_ids(reply, message_id) if reply.tool_calls else reply
        if reply.usage is _NO_USAGE or reply.usage == _NO_USAGE:
            return False
        session.cumulative_usage = session.cumulative_usage.plus(reply.usage)
        return True

    def move(self, retries: RetriesLeft) -> Move:
        """Append the reply to the transcript and return the next move of the loop.

        Raises:
            AgentStructuredOutputError: the answer is not of the type asked for, and no repair is left.
        """
        if self._misfit is not None:
            move: Move = repair(self._misfit, retries)
        else:
            move = next_move(self.reply, self._deps.output, retries)
        # Most servers refuse a transcript with a call that has no result.
        reply = self.reply
        calls = reply.tool_calls if isinstance(move, WITH_CALLS) else ()
        text = reply.content
        if not text and reply.structured_output is not None:
            text = canonical_json(reply.structured_output)
        if reply.ordered is not None and (
            calls or text.strip() or isinstance(move, GoOn) or has_media(reply)
        ):
            self._session.messages.append(reply.message_of(text, calls))
        elif calls or text.strip():
            self._session.messages.append(new_message(_ASSISTANT, text, {}, calls))
        return move

    def add(self, outcome: ToolCallOutcome) -> None:
        """Append the outcome of a call to the transcript."""
        self._session.messages.append(outcome.message)

    def add_result(self, outcome: ToolCallOutcome) -> ToolCallResultEvent:
        """Append the outcome of a call to the transcript, and return the event with it."""
        self._session.messages.append(outcome.message)
        call = outcome.call
        call_id, by = call.call_id or call.name, self._deps.attribution
        if outcome.error is None:
            return _result(by, call_id, call.name, self._projector.message_id, outcome.result)
        failure: JsonValue = {"error": outcome.error}
        return ToolCallResultEvent(
            attribution=by,
            call_id=call_id,
            tool_name=call.name,
            message_id=self._projector.message_id,
            result=failure,
            metadata={"is_error": True},
        )


def _recording(texts: list[str], project: Project) -> Project:
    """Return the projection with a record of the text deltas, which a repair of the reply needs."""

    def project_and_record(event: ModelStreamEvent) -> Sequence[AgentEvent]:
        if event.is_restart:
            texts.clear()
        elif event.is_text_delta:
            texts.append(event.text)
        return project(event)

    return project_and_record


def _known(usage: ModelUsage) -> dict[str, JsonValue]:
    counts: dict[str, JsonValue] = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
    }
    return {name: tokens for name, tokens in counts.items() if tokens is not None}


def lead_of(session: AgentSession) -> tuple[ModelMessage, ...]:
    """Return the messages in front of every request of a session: its instructions, if any."""
    return _instructing(session.instructions)


@lru_cache(maxsize=256)
def _instructing(instructions: str) -> tuple[ModelMessage, ...]:
    """Return the system message with the instructions, cached: all runs of an agent share them."""
    return (ModelMessage.system(instructions),) if instructions.strip() else ()


def with_call_ids(reply: ModelResponse, message_id: str) -> ModelResponse:
    """Return the reply with a unique id for each call: missing and repeated ids are replaced.

    The projector of the stream replaces them in the same way.
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


def close_stream(stream: AsyncIterator[object]) -> Awaitable[None]:
    """Close the stream, which ends the generation of the model."""
    aclose: Callable[[], Awaitable[None]] = getattr(stream, "aclose", _nothing_to_close)
    return aclose()


async def _nothing_to_close() -> None:
    return

"""The reply that the events of a model's stream add up to.

Pure, but for `whole_replies`, which reads a stream. The end of a stream, DONE, may carry the whole response; where it
carries none, the reply is what the events said. A stream without an end has no reply.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

from pilotage.agent.messages import ModelToolCall
from pilotage.agent.model_reply import ModelResponse, ModelStreamEvent, ModelStreamEventKind, ModelUsage
from pilotage.agent.model_request import ModelRequest, StructuredOutputSpec
from pilotage.errors import ModelCallError
from pilotage.jsonvalue import JsonValue

# Looking a member up costs as much as the rest of what a delta needs.
_TOKEN, _MESSAGE, _START, _CALL, _STRUCTURED, _ERROR, _DONE = (
    ModelStreamEventKind.TOKEN_DELTA,
    ModelStreamEventKind.MESSAGE_DELTA,
    ModelStreamEventKind.TOOL_CALL_START,
    ModelStreamEventKind.TOOL_CALL_CANDIDATE,
    ModelStreamEventKind.STRUCTURED_OUTPUT,
    ModelStreamEventKind.ERROR,
    ModelStreamEventKind.DONE,
)


class ReplyAssembly:
    """The parts of one reply, in the order in which its stream gave them."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.reasoning: list[str] = []
        self._announced: list[ModelToolCall] = []
        self._calls: list[ModelToolCall] = []
        self._structured: JsonValue = None
        self._usage: ModelUsage | None = None

    @property
    def has_calls(self) -> bool:
        """Return whether a tool call has begun."""
        return bool(self._announced or self._calls)

    def add(self, event: ModelStreamEvent) -> None:
        """Add what an event says of the reply.

        Raises:
            ModelCallError: the event is the model's own word that the call failed.
        """
        kind = event.kind
        if kind is _TOKEN or kind is _MESSAGE:
            self.text.append(event.token_delta or event.message_delta or "")
        elif event.reasoning_delta is not None:
            self.reasoning.append(event.reasoning_delta)
        elif kind is _START and event.tool_call is not None:
            self._announced.append(event.tool_call)
        elif kind is _CALL and event.tool_call is not None:
            self._calls.append(event.tool_call)
        elif kind is _STRUCTURED:
            self._structured = event.structured_output
        elif kind is _ERROR:
            raise _reported(event)
        if event.usage is not None:
            self._usage = event.usage

    def reply(self, end: ModelStreamEvent, spec: StructuredOutputSpec | None) -> ModelResponse:
        """Return the whole reply: the response that the end carries, or the sum of the events.

        Raises:
            ModelCallError: a call was announced and never came whole.
            AgentStructuredOutputError: its structured output is not of the type that was asked for.
        """
        return with_output(end.response or self._sum(end), spec)

    def _sum(self, end: ModelStreamEvent) -> ModelResponse:
        if len(self._announced) > len(self._calls):
            names = ", ".join(repr(call.name) for call in self._announced)
            raise ModelCallError(
                f"the model announced calls of {names}, and {len(self._calls)} of them came whole. "
                "Each call needs a TOOL_CALL_CANDIDATE event with all of its arguments before DONE."
            )
        structured = self._structured if end.structured_output is None else end.structured_output
        usage = self._usage or ModelUsage()
        return ModelResponse("".join(self.text), structured, tuple(self._calls), usage, end.metadata)


def with_output(response: ModelResponse, spec: StructuredOutputSpec | None) -> ModelResponse:
    """Return a response with its structured output as a value of the type that was asked for.

    Raises:
        AgentStructuredOutputError: it is not of that type.
    """
    if spec is None or response.output is not None or response.structured_output is None:
        return response
    return replace(response, output=spec.decode(response.structured_output))


async def whole_replies(
    events: AsyncIterator[ModelStreamEvent], request: ModelRequest
) -> AsyncIterator[ModelStreamEvent]:
    """Yield the events of a stream, its end with the whole reply to the request. Closes the stream.

    Raises:
        ModelCallError: the model reports an error, or announced a call that never came whole.
        AgentStructuredOutputError: the structured output is not of the type that was asked for.
    """
    assembly = ReplyAssembly()
    try:
        async for event in events:
            assembly.add(event)
            if event.kind is _DONE:
                yield replace(event, response=assembly.reply(event, request.structured_output))
            else:
                yield event
    finally:
        close = getattr(events, "aclose", None)
        if close is not None:
            await close()


def _reported(event: ModelStreamEvent) -> ModelCallError:
    """Return the error that the model reports in its stream."""
    error = event.error
    if error is None:
        return ModelCallError("the model reports an error without saying which", retryable=False)
    return ModelCallError(error.message, retryable=error.retryable, failure=error.code)

"""A scripted reply as the response to a request. Pure."""

from __future__ import annotations

from pilotage.agent.model_reply import ModelFinishReason, ModelResponse
from pilotage.agent.model_request import ModelRequest
from pilotage.errors import AgentStructuredOutputError
from pilotage.jsonvalue import JsonValue, parsed
from pilotage.models.streaming import estimated_usage
from pilotage.testing.script import ScriptedReply


def response_of(reply: ScriptedReply, request: ModelRequest) -> ModelResponse:
    """The whole response, with the answer decoded into the type the request asks for.

    Raises:
        AgentStructuredOutputError: the answer is not of that type.
    """
    reason = reply.finish_reason or (ModelFinishReason.TOOL_CALLS if reply.calls else ModelFinishReason.STOP)
    is_answer = reason is ModelFinishReason.STOP
    structured = _structured(reply, request) if is_answer else None
    spec = request.structured_output
    return ModelResponse(
        reply.text,
        structured,
        reply.calls,
        estimated_usage(request.assemble_messages(), reply.text, reply.calls, reply.reasoning),
        finish_reason=reason,
        output=spec.decode(structured) if spec and is_answer else None,
    )


def _structured(reply: ScriptedReply, request: ModelRequest) -> JsonValue:
    """What a server that was asked for JSON gives: the declared output, or the text read as JSON."""
    if request.structured_output is None or reply.output is not None:
        return reply.output
    try:
        return parsed(reply.text)
    except ValueError as error:
        problem = f"the answer is no JSON: {reply.text!r}."
        raise AgentStructuredOutputError(problem, problems=[problem]) from error

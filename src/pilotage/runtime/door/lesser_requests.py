"""A request for a model that can do less: the same question, asked in a way that it understands. Pure.

Without structured output the form of the answer is asked for in words, and found in what the model says. Without
parallel calls no message of the transcript shows several calls at once: many servers refuse to read such a one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import cast

from pilotage.agent.messages import ModelMessage, ModelMessageRole
from pilotage.agent.model_reply import ModelFinishReason, ModelResponse
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.model import ModelCapability
from pilotage.agent.structured_output import StructuredOutputSpec
from pilotage.errors import AgentStructuredOutputError
from pilotage.jsonvalue import JsonValue, canonical_json

_FENCED = re.compile(r"```(?:json)?\s*\n(?P<body>.*?)```", re.DOTALL)
_BEGINNING = re.compile(r"[{\[]")
_MOST_BEGINNINGS = 20
"""A text that is full of brackets is no answer, and trying each of them would take for ever."""


def is_lesser(capability: ModelCapability) -> bool:
    """Whether requests to the model may have to be put in another way."""
    return not (capability.structured_output and capability.parallel_tool_calls)


def put_for(request: ModelRequest, capability: ModelCapability) -> ModelRequest:
    """The request as the model can read it."""
    if request.structured_output is not None and not capability.structured_output:
        request = _asked_in_words(request, request.structured_output)
    if not capability.parallel_tool_calls and any(len(each.tool_calls) > 1 for each in request.messages):
        request = replace(request, messages=tuple(_one_call_each(request.messages)))
    return request


def answer_of(response: ModelResponse, spec: StructuredOutputSpec) -> ModelResponse:
    """The response with the answer that stands in its text; one that is no answer stays as it is.

    Raises:
        AgentStructuredOutputError: there is no JSON in the text, or it does not have the form asked for.
    """
    is_answer = response.finish_reason in (None, ModelFinishReason.STOP)
    if response.tool_calls or not is_answer or not response.content.strip():
        return response
    found = found_in(response.content)
    return replace(response, structured_output=found, output=spec.decode(found))


def found_in(text: str) -> JsonValue:
    """The JSON in a text: all of it, in a fence, or from its first bracket on.

    Raises:
        AgentStructuredOutputError: there is none.
    """
    for candidate in (text.strip(), *(fence["body"] for fence in _FENCED.finditer(text))):
        try:
            return cast(JsonValue, json.loads(candidate))
        except (ValueError, RecursionError):
            continue
    for beginning in islice(_BEGINNING.finditer(text), _MOST_BEGINNINGS):
        try:
            return cast(JsonValue, json.JSONDecoder().raw_decode(text, beginning.start())[0])
        except (ValueError, RecursionError):
            continue
    problem = "there is no JSON in the answer."
    raise AgentStructuredOutputError(f"the answer has no structured output: {problem}", problems=[problem])


def _asked_in_words(request: ModelRequest, spec: StructuredOutputSpec) -> ModelRequest:
    when = "When you call no tool, answer" if request.tool_calling is not None else "Answer"
    schema = canonical_json(spec.constraint.schema)
    note = ModelMessage.system(
        f"{when} with JSON only, without any other word, that fits this JSON schema:\n{schema}"
    )
    others = (i for i, each in enumerate(request.messages) if each.role is not ModelMessageRole.SYSTEM)
    lead = next(others, len(request.messages))
    messages = (*request.messages[:lead], note, *request.messages[lead:])
    return replace(request, messages=messages, structured_output=None)


def _one_call_each(messages: Sequence[ModelMessage]) -> Iterator[ModelMessage]:
    """Each call in a message of its own, with its result behind it."""
    results = {each.tool_call_id: each for each in messages if each.role is ModelMessageRole.TOOL}
    split = {call.call_id for each in messages if len(each.tool_calls) > 1 for call in each.tool_calls}
    for message in messages:
        if message.role is ModelMessageRole.TOOL and message.tool_call_id in split:
            continue
        if len(message.tool_calls) < 2:
            yield message
            continue
        for position, call in enumerate(message.tool_calls):
            yield replace(message, content=message.content if position == 0 else "", tool_calls=(call,))
            if call.call_id in results:
                yield results[call.call_id]

"""Differences between servers of the same protocol, as data. Pure.

The default dialect is that of OpenAI: strict schemas must be closed, and a format may be combined with tools. That of
vLLM depends on the version of the server.
"""

from __future__ import annotations

import re
from dataclasses import field
from enum import StrEnum

from pilotage.adapters.openai.settings import VllmOptions
from pilotage.jsonvalue import JsonObject, JsonValue, empty_object
from pilotage.values import value

_VERSION = re.compile(r"\d+")


class AnswerFormat(StrEnum):
    """The parameter that binds an answer to a schema."""

    RESPONSE_FORMAT = "response_format"
    STRUCTURED_OUTPUTS = "structured_outputs"
    GUIDED_JSON = "guided_json"


@value
class Dialect:
    """Request options of one kind of server.

    `needs_closed_schemas`: strict only where every object is closed and all its fields are required.
    `format_hides_tools`: a format beside tools that are not strict keeps the model from calling them.
    `reasoning_budget`, `reasoning_shown`: the parameters for the most tokens of reasoning, and for showing it.
    `says_parallel`: the default of `parallel_tool_calls` differs between versions, so it is always sent.
    """

    answer_format: AnswerFormat = AnswerFormat.RESPONSE_FORMAT
    needs_closed_schemas: bool = True
    format_hides_tools: bool = False
    sends_parallel: bool = False
    reasoning_is_answer: bool = False
    reasoning_budget: str | None = None
    reasoning_shown: str | None = None
    parameters: JsonObject = field(default_factory=empty_object)


COMMON = Dialect()


def vllm_dialect(version: str | None, options: VllmOptions) -> Dialect:
    """Return the dialect of a vLLM server; without a version, the one that all versions understand."""
    parameters: dict[str, JsonValue] = {
        "chat_template_kwargs": options.chat_template_kwargs or None,
        "reasoning_effort": options.reasoning_effort,
        "thinking_token_budget": options.thinking_token_budget,
        "include_reasoning": options.include_reasoning,
    }
    return Dialect(
        answer_format=_format_of(version),
        needs_closed_schemas=False,
        format_hides_tools=True,
        sends_parallel=True,
        reasoning_is_answer=options.reasoning_is_answer,
        reasoning_budget="thinking_token_budget",
        reasoning_shown="include_reasoning",
        parameters={name: each for name, each in parameters.items() if each is not None},
    )


def _format_of(version: str | None) -> AnswerFormat:
    """Return the parameter for a schema: vLLM silently ignores an unknown name."""
    numbers = [int(number) for number in _VERSION.findall(version or "")[:2]]
    if len(numbers) < 2:
        return AnswerFormat.RESPONSE_FORMAT
    return AnswerFormat.STRUCTURED_OUTPUTS if numbers >= [0, 11] else AnswerFormat.GUIDED_JSON

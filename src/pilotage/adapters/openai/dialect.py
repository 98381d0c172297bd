"""What servers of the same protocol do differently, as data. Pure.

The common dialect is that of the protocol's inventor: strict schemas must be closed, and a format may stand beside
tools. vLLM's depends on its version, which the server is asked for.
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
    """Which parameter binds an answer to a schema."""

    RESPONSE_FORMAT = "response_format"
    STRUCTURED_OUTPUTS = "structured_outputs"
    GUIDED_JSON = "guided_json"


@value
class Dialect:
    """How to ask one kind of server.

    `needs_closed_schemas`: strict only where every object is closed and all its fields are required.
    `format_hides_tools`: a format beside tools that are not strict keeps the model from calling them.
    `says_parallel`: the default of `parallel_tool_calls` differs between versions, so it is always sent.
    """

    answer_format: AnswerFormat = AnswerFormat.RESPONSE_FORMAT
    needs_closed_schemas: bool = True
    format_hides_tools: bool = False
    says_parallel: bool = False
    reasoning_is_answer: bool = False
    parameters: JsonObject = field(default_factory=empty_object)


COMMON = Dialect()


def vllm_dialect(version: str | None, options: VllmOptions) -> Dialect:
    """Return the dialect of a vLLM server; of one that does not tell its version, what all of them understand."""
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
        says_parallel=True,
        reasoning_is_answer=options.reasoning_is_answer,
        parameters={name: each for name, each in parameters.items() if each is not None},
    )


def _format_of(version: str | None) -> AnswerFormat:
    """vLLM ignores what it does not know without a word, so the old name would mean no schema at all."""
    numbers = [int(number) for number in _VERSION.findall(version or "")[:2]]
    if len(numbers) < 2:
        return AnswerFormat.RESPONSE_FORMAT
    return AnswerFormat.STRUCTURED_OUTPUTS if numbers >= [0, 11] else AnswerFormat.GUIDED_JSON

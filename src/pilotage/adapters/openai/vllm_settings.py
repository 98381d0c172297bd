"""What a vLLM server understands beyond the common protocol."""

from __future__ import annotations

from dataclasses import field

from pilotage.adapters.openai.settings import OpenAICompatibleSettings
from pilotage.checks import reject_blank, reject_not_positive
from pilotage.jsonvalue import JsonObject, empty_object
from pilotage.values import shared, value


@value
class VllmOptions:
    """Parameters of every request; None leaves one to the server.

    `chat_template_kwargs` go to the model's chat template, for example `{"enable_thinking": false}`. A reasoning
    parser takes the whole answer of a model that did not think for reasoning; with `reasoning_is_answer` it
    becomes the answer where there is no other.
    """

    chat_template_kwargs: JsonObject = field(default_factory=empty_object)
    reasoning_effort: str | None = None
    thinking_token_budget: int | None = None
    include_reasoning: bool | None = None
    reasoning_is_answer: bool = False

    def __post_init__(self) -> None:
        reject_blank(self, reasoning_effort=self.reasoning_effort)
        reject_not_positive(self, thinking_token_budget=self.thinking_token_budget)


@value
class VllmSettings:
    """A model of a vLLM server."""

    server: OpenAICompatibleSettings
    options: VllmOptions = field(default_factory=shared(VllmOptions))

"""Why a reply ended, in the words of many servers. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from pilotage.adapters.openai.errors import ModelFailure, failed
from pilotage.agent.model_reply import ModelFinishReason

# Whether there are calls is seen from the calls: vLLM says `stop` where a named tool is called.
REASONS: Mapping[str, ModelFinishReason] = {
    "stop": ModelFinishReason.STOP,
    "eos": ModelFinishReason.STOP,
    "eos_token": ModelFinishReason.STOP,
    "end_turn": ModelFinishReason.STOP,
    "stop_sequence": ModelFinishReason.STOP,
    "tool_calls": ModelFinishReason.STOP,
    "function_call": ModelFinishReason.STOP,
    "length": ModelFinishReason.LENGTH,
    "max_tokens": ModelFinishReason.LENGTH,
    "model_length": ModelFinishReason.LENGTH,
    "content_filter": ModelFinishReason.CONTENT_FILTER,
    "refusal": ModelFinishReason.REFUSAL,
}
GIVEN_UP = frozenset({"abort", "cancelled", "error", "insufficient_system_resource"})


def read_reason(word: str | None) -> ModelFinishReason:
    """The reason behind a server's word.

    Raises:
        ModelServerError: there is none, it is none of success, or nobody knows it.
    """
    if word is None:
        raise failed(ModelFailure.BROKEN_STREAM, "it ended without a reason to finish")
    if word in GIVEN_UP:
        raise failed(ModelFailure.ABORTED, f"it finished with {word!r}")
    if word not in REASONS:
        raise failed(ModelFailure.UNREADABLE, f"it finished with {word!r}, which nobody knows")
    return REASONS[word]

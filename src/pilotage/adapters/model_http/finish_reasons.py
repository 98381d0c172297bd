"""The words with which servers end a reply. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from pilotage.adapters.model_http.errors import failed
from pilotage.agent.model_failure import ModelFailure
from pilotage.agent.model_reply import ModelFinishReason

CALLS = frozenset({"tool_calls", "tool_call", "tool_use", "function_call"})
"""The words of a reply that calls tools: without a call it is a broken one."""

# Whether there are calls is decided by the calls: vLLM sends `stop` for the call of a named tool.
REASONS: Mapping[str, ModelFinishReason] = {
    "stop": ModelFinishReason.STOP,
    "eos": ModelFinishReason.STOP,
    "eos_token": ModelFinishReason.STOP,
    "end_turn": ModelFinishReason.STOP,
    "stop_sequence": ModelFinishReason.STOP,
    "complete": ModelFinishReason.STOP,
    "completed": ModelFinishReason.STOP,
    "tool_calls": ModelFinishReason.STOP,
    "tool_call": ModelFinishReason.STOP,
    "tool_use": ModelFinishReason.STOP,
    "function_call": ModelFinishReason.STOP,
    "length": ModelFinishReason.LENGTH,
    "max_tokens": ModelFinishReason.LENGTH,
    "max_output_tokens": ModelFinishReason.LENGTH,
    "model_length": ModelFinishReason.CONTEXT_EXCEEDED,
    "context_length_exceeded": ModelFinishReason.CONTEXT_EXCEEDED,
    "model_context_window_exceeded": ModelFinishReason.CONTEXT_EXCEEDED,
    "content_filter": ModelFinishReason.CONTENT_FILTER,
    "safety": ModelFinishReason.CONTENT_FILTER,
    "recitation": ModelFinishReason.CONTENT_FILTER,
    "blocklist": ModelFinishReason.CONTENT_FILTER,
    "prohibited_content": ModelFinishReason.CONTENT_FILTER,
    "spii": ModelFinishReason.CONTENT_FILTER,
    "sensitive": ModelFinishReason.CONTENT_FILTER,
    "refusal": ModelFinishReason.REFUSAL,
    "pause_turn": ModelFinishReason.PAUSED,
    "malformed_function_call": ModelFinishReason.MALFORMED_CALL,
    "malformed_tool_call": ModelFinishReason.MALFORMED_CALL,
}
"""By the word in lower case: servers in front of other wires hand their words through."""
GIVEN_UP = frozenset(
    {"abort", "aborted", "cancelled", "canceled", "error", "network_error", "insufficient_system_resource"}
)


def read_reason(word: str | None) -> ModelFinishReason:
    """Return the finish reason of a server's word; OTHER for a word that is unknown, or empty.

    Raises:
        ModelServerError: there is no word, or one of a reply that was given up.
    """
    if word is None:
        raise failed(ModelFailure.BROKEN_STREAM, "it ended without a reason to finish")
    known = word.strip().lower()
    if known in GIVEN_UP:
        raise failed(ModelFailure.ABORTED, f"it finished with {word!r}")
    return REASONS.get(known, ModelFinishReason.OTHER)

"""The counts of a usage by the names that genai-prices has for them. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from pilotage.agent.model_reply import ModelUsage

_OTHERS = {
    "cache_written_1h_tokens": "cache_write_1h_tokens",
    "input_audio_tokens": "input_audio_tokens",
    "output_audio_tokens": "output_audio_tokens",
    "web_search_requests": "web_searches",
}


def counts_of(usage: ModelUsage) -> Mapping[str, int] | None:
    """Return the counts; None where the usage does not say how much was read and written."""
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    counts = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cached_tokens,
        "cache_write_tokens": usage.cache_written_tokens,
        "output_reasoning_tokens": usage.reasoning_tokens,
    }
    others = usage.other_tokens or {}
    counts |= {theirs: others[ours] for ours, theirs in _OTHERS.items() if ours in others}
    return {name: count for name, count in counts.items() if count is not None}

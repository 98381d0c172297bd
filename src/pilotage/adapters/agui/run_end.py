"""The end of a run as a client gets it: its error as message and code, and the tokens it used. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ag_ui.core import TokenUsage

from pilotage.jsonvalue import JsonObject, canonical_json

_COUNTED = ("input_tokens", "output_tokens", "total_tokens")


def message_of(error: JsonObject) -> str:
    """Return the message of an error, else its reason, else all of it."""
    for name in ("message", "reason"):
        if isinstance(words := error.get(name), str):
            return words
    return canonical_json(error)


def code_of(error: JsonObject) -> str | None:
    """Return the code of an error."""
    code = error.get("code")
    return code if isinstance(code, str) else None


class TokensUsed:
    """The sum of the tokens that steps report; None where no step reports any."""

    def __init__(self) -> None:
        self._sums: Counter[str] = Counter()

    def add(self, metadata: JsonObject) -> None:
        """Add the tokens that a finished step reports."""
        usage = metadata.get("usage")
        counts: JsonObject = usage if isinstance(usage, Mapping) else {}
        for name in _COUNTED:
            tokens = counts.get(name)
            if isinstance(tokens, int) and tokens >= 0:
                self._sums[name] += tokens

    def told(self) -> list[TokenUsage] | None:
        """The sums as the protocol wants them."""
        return [TokenUsage.model_validate(self._sums)] if self._sums else None

"""The end of a run as a client gets it: its error as message and code, and the tokens it used. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ag_ui.core import TokenUsage

from pilotage.jsonvalue import JsonObject, canonical_json

_COUNTED = ("input_tokens", "output_tokens", "total_tokens")


def message_of(error: JsonObject) -> str:
    """What went wrong, for a person: the message, else the reason, else everything there is."""
    for name in ("message", "reason"):
        if isinstance(words := error.get(name), str):
            return words
    return canonical_json(error)


def code_of(error: JsonObject) -> str | None:
    """What went wrong, for a program."""
    code = error.get("code")
    return code if isinstance(code, str) else None


class TokensUsed:
    """Adds up what steps say; where none says anything there is nothing to tell."""

    def __init__(self) -> None:
        self._sums: Counter[str] = Counter()

    def add(self, metadata: JsonObject) -> None:
        """Take in what a finished step says of its model call."""
        usage = metadata.get("usage")
        counts: JsonObject = usage if isinstance(usage, Mapping) else {}
        for name in _COUNTED:
            tokens = counts.get(name)
            if isinstance(tokens, int) and tokens >= 0:
                self._sums[name] += tokens

    def told(self) -> list[TokenUsage] | None:
        """The sums as the protocol wants them."""
        return [TokenUsage.model_validate(self._sums)] if self._sums else None

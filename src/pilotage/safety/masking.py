"""Masks: what is shown in the place of a text that must not be shown.

Pure: no I/O. A mask never shows more than half of a value, and whatever cannot be masked as asked
is hidden entirely.
"""

from __future__ import annotations

import re
from dataclasses import field
from enum import StrEnum
from typing import assert_never

from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import to_bytes
from pilotage.values import value

REDACTED_VALUE = "[REDACTED]"

_KEY_ID = re.compile(r"[A-Za-z0-9._-]+")
_SHORTEST_SECRET = 16
_SHORTEST_FOR_LAST_FOUR = 8
_SHORTEST_FOR_FIRST_LAST = 4


class MaskingPolicy(StrEnum):
    """How much of a sensitive text stays visible."""

    REDACT = "redact"
    LAST_FOUR = "last_four"
    FIRST_LAST = "first_last"
    HASH = "hash"


@value
class MaskingKey:
    """The key of the HASH mask.

    Equal values get equal hashes under one key, so that a reader can join records without seeing the
    value; without the secret nobody can find the value by trying. The id is shown in every hash, so
    that keys can be rotated.
    """

    id: str
    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if not _KEY_ID.fullmatch(self.id):
            raise AgentDefinitionError(
                f"MaskingKey.id is {self.id!r}. Use letters, digits, '.', '_' and '-' only, e.g. '2026-11'."
            )
        if len(self.secret) < _SHORTEST_SECRET:
            raise AgentDefinitionError(
                f"MaskingKey.secret has {len(self.secret)} bytes. Use at least {_SHORTEST_SECRET} random "
                "bytes, e.g. secrets.token_bytes(32)."
            )


def mask_text(text: str, policy: MaskingPolicy, *, category: str, key: MaskingKey | None = None) -> str:
    """What may be shown of a text under a policy; HASH without a key hides everything."""
    match policy:
        case MaskingPolicy.REDACT:
            return REDACTED_VALUE
        case MaskingPolicy.LAST_FOUR:
            return f"***{text[-4:]}" if len(text) >= _SHORTEST_FOR_LAST_FOUR else REDACTED_VALUE
        case MaskingPolicy.FIRST_LAST:
            return f"{text[0]}***{text[-1]}" if len(text) >= _SHORTEST_FOR_FIRST_LAST else REDACTED_VALUE
        case MaskingPolicy.HASH:
            return REDACTED_VALUE if key is None else _hashed(text, category, key)
        case _:
            assert_never(policy)


def _hashed(text: str, category: str, key: MaskingKey) -> str:
    import hmac  # noqa: PLC0415 - loading OpenSSL costs more than importing this package

    digest = hmac.new(key.secret, to_bytes(text), "sha256").hexdigest()
    return f"[HASHED:{category}:{key.id}:{digest[:12]}]"

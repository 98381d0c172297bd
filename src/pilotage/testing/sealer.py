"""`MemorySealer`: sealing with the standard library, for tests.

It encrypts, then authenticates: the text is combined with a stream of HMAC-SHA256 blocks, and another HMAC covers
place, nonce and ciphertext. That is sound but slow; `pilotage[sealing]` has the one for production.
"""

from __future__ import annotations

import hmac
import secrets
from base64 import b64decode, b64encode
from collections.abc import Mapping

from pilotage.agent.ports.persistence import SealedRecord
from pilotage.agent.ports.sealing import IRecordSealer, RecordSealError, SealContext
from pilotage.jsonvalue import to_bytes

_NONCE, _TAG, _BLOCK = 16, 32, 32


class MemorySealer(IRecordSealer):
    """A sealer whose key lives as long as it does. Give a key to have the same one in another process."""

    def __init__(self, key: bytes | None = None) -> None:
        secret = secrets.token_bytes(32) if key is None else key
        self.key_id = _hmac(secret, b"id").hex()[:16]
        self._encryption = _hmac(secret, b"encryption")
        self._authentication = _hmac(secret, b"authentication")
        self._records = _hmac(secret, b"records")

    def record_keys(self) -> Mapping[str, bytes]:
        return {self.key_id: self._records}

    def seal(self, context: SealContext, plaintext: str) -> SealedRecord:
        nonce = secrets.token_bytes(_NONCE)
        body = nonce + self._combined(nonce, to_bytes(plaintext))
        return SealedRecord(self.key_id, b64encode(body + self._tag(context, body)).decode("ascii"))

    def open(self, context: SealContext, sealed: SealedRecord) -> str:
        if sealed.key_id != self.key_id:
            way_out = "Give the sealer the key of the one that sealed it: MemorySealer(key)."
            raise RecordSealError.unknown_key(context, sealed.key_id, way_out)
        body, tag = _parts(sealed.ciphertext)
        if not hmac.compare_digest(tag, self._tag(context, body)):
            raise RecordSealError.does_not_open(context, sealed.key_id)
        return self._combined(body[:_NONCE], body[_NONCE:]).decode(errors="surrogatepass")

    def _combined(self, nonce: bytes, text: bytes) -> bytes:
        """Return the text combined with the key stream of a nonce; twice gives the text again."""
        blocks = range(-(-len(text) // _BLOCK))
        stream = b"".join(_hmac(self._encryption, nonce + block.to_bytes(8)) for block in blocks)
        both = int.from_bytes(text) ^ int.from_bytes(stream[: len(text)])
        return both.to_bytes(len(text))

    def _tag(self, context: SealContext, body: bytes) -> bytes:
        binding = context.binding
        return _hmac(self._authentication, len(binding).to_bytes(8) + binding + body)


def _parts(ciphertext: str) -> tuple[bytes, bytes]:
    """Return body and tag of a ciphertext; of any other text, a tag that fits nothing."""
    try:
        sealed = b64decode(ciphertext, validate=True)
    except ValueError:
        return b"", b""
    # Base64 has several spellings of some bytes; only the written one is accepted.
    is_as_written = b64encode(sealed).decode("ascii") == ciphertext
    return (sealed[:-_TAG], sealed[-_TAG:]) if is_as_written else (b"", b"")


def _hmac(key: bytes, text: bytes) -> bytes:
    return hmac.digest(key, text, "sha256")

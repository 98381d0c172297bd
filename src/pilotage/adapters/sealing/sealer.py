"""`AesGcmSealer`: sealing with AES-256-GCM from the `cryptography` package."""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from typing import Protocol

from pilotage.adapters.sealing.key_file import OLD_KEY_FILES, SealingKey
from pilotage.agent.ports.persistence import SealedRecord
from pilotage.agent.ports.sealing import IRecordSealer, RecordSealError, SealContext
from pilotage.container.plugins import is_installed
from pilotage.jsonvalue import to_bytes

_NONCE = 12


class AesGcmSealer(IRecordSealer):
    """Sealer that seals with one key and opens with that and older ones. The nonce of each seal is random."""

    def __init__(self, key: SealingKey, old_keys: Iterable[SealingKey] = ()) -> None:
        if not is_installed("cryptography"):
            raise ImportError('sealing needs an extra: pip install "pilotage[sealing]"')
        self.key_id = key.id
        self._keys = {each.id: each for each in (key, *old_keys)}
        self._ciphers: dict[str, _Cipher] = {}
        self._record_keys = {name: each.of_records for name, each in self._keys.items()}

    def record_keys(self) -> Mapping[str, bytes]:
        return self._record_keys

    def seal(self, context: SealContext, plaintext: str) -> SealedRecord:
        nonce = os.urandom(_NONCE)
        body = self._cipher(self.key_id).encrypt(nonce, to_bytes(plaintext), context.binding)
        return SealedRecord(self.key_id, b64encode(nonce + body).decode("ascii"))

    def open(self, context: SealContext, sealed: SealedRecord) -> str:
        if sealed.key_id not in self._keys:
            way_out = f"Name the file of that key in {OLD_KEY_FILES} or SealingSettings.old_key_files."
            raise RecordSealError.unknown_key(context, sealed.key_id, way_out)
        plaintext = _decrypted(self._cipher(sealed.key_id), sealed.ciphertext, context.binding)
        if plaintext is None:
            raise RecordSealError.does_not_open(context, sealed.key_id)
        return plaintext.decode(errors="surrogatepass")

    def _cipher(self, key_id: str) -> _Cipher:
        """Return the cipher of a key, made when something is first sealed or opened: most runs seal nothing."""
        if key_id not in self._ciphers:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - loaded when needed

            self._ciphers[key_id] = AESGCM(self._keys[key_id].secret)
        return self._ciphers[key_id]


class _Cipher(Protocol):
    """The part of the vendor's class that we use."""

    def encrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None, /) -> bytes: ...
    def decrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None, /) -> bytes: ...


def _decrypted(cipher: _Cipher, ciphertext: str, binding: bytes) -> bytes | None:
    """Return the decrypted bytes; None if it is no ciphertext of this cipher for this place."""
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - there is a cipher, so it is loaded

    try:
        sealed = b64decode(ciphertext, validate=True)
        # Base64 has several spellings of some bytes; only the written one is accepted.
        if b64encode(sealed).decode("ascii") != ciphertext:
            return None
        return cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], binding)
    except (InvalidTag, ValueError):
        return None

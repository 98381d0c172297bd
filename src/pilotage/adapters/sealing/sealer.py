"""`AesGcmSealer`: sealing with AES-256-GCM from the `cryptography` package."""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from typing import Protocol

from pilotage.adapters.sealing.key_file import OLD_KEY_FILES, SealingKey
from pilotage.agent.ports.persistence import SealedRecord
from pilotage.agent.ports.sealing import IRecordSealer, RecordSealError, SealContext
from pilotage.jsonvalue import to_bytes

_NONCE = 12


class AesGcmSealer(IRecordSealer):
    """Sealer that seals with one key and opens with that and older ones. The nonce of each seal is random."""

    def __init__(self, key: SealingKey, old_keys: Iterable[SealingKey] = ()) -> None:
        self.key_id = key.id
        keys = (key, *old_keys)
        self._ciphers = {each.id: _aes_gcm(each) for each in keys}
        self._record_keys = {each.id: each.of_records for each in keys}

    def record_keys(self) -> Mapping[str, bytes]:
        return self._record_keys

    def seal(self, context: SealContext, plaintext: str) -> SealedRecord:
        nonce = os.urandom(_NONCE)
        body = self._ciphers[self.key_id].encrypt(nonce, to_bytes(plaintext), context.binding)
        return SealedRecord(self.key_id, b64encode(nonce + body).decode("ascii"))

    def open(self, context: SealContext, sealed: SealedRecord) -> str:
        cipher = self._ciphers.get(sealed.key_id)
        if cipher is None:
            way_out = f"Name the file of that key in {OLD_KEY_FILES} or SealingSettings.old_key_files."
            raise RecordSealError.unknown_key(context, sealed.key_id, way_out)
        plaintext = _decrypted(cipher, sealed.ciphertext, context.binding)
        if plaintext is None:
            raise RecordSealError.does_not_open(context, sealed.key_id)
        return plaintext.decode(errors="surrogatepass")


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


def _aes_gcm(key: SealingKey) -> _Cipher:
    # Imported here, so that applications without the extra can load the plugin.
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415
    except ImportError as error:
        raise ImportError('sealing needs an extra: pip install "pilotage[sealing]"') from error
    return AESGCM(key.secret)

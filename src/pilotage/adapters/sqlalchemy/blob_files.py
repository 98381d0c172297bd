"""Files with the bytes of media: one for each tenant and digest, written whole or not at all."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from pilotage.agent.ports.blobs import StoredBlob
from pilotage.ids import SystemIds

_PLAIN = b"\n"
_UNFINISHED = ".part"
_LONG_AGO = 3600.0
"""The age in seconds from which a file without a row was left by a crash, and is not being stored."""


class BlobFiles:
    """The files of a folder. The first line of each is the id of the key that seals it, empty for plain bytes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def has(self, tenant: str, digest: str) -> bool:
        """Return whether there is a file."""
        return self._path(tenant, digest).exists()

    def write(self, tenant: str, digest: str, blob: StoredBlob) -> None:
        """Write a file, durable on return."""
        path = self._path(tenant, digest)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished = path.with_name(f"{digest}.{SystemIds().uid()}{_UNFINISHED}")
        with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write((blob.key_id or "").encode() + _PLAIN + blob.content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
        _sync(path.parent)

    def read(self, tenant: str, digest: str) -> StoredBlob | None:
        """Return the bytes of a file; None where there is none."""
        try:
            key_id, _, content = self._path(tenant, digest).read_bytes().partition(_PLAIN)
        except FileNotFoundError:
            return None
        return StoredBlob(content, key_id.decode(errors="replace") or None)

    def remove(self, tenant: str, digest: str) -> None:
        """Remove a file, durable on return; one that is gone already stays so."""
        path = self._path(tenant, digest)
        with suppress(FileNotFoundError):
            path.unlink()
            _sync(path.parent)

    def sweep(self, tenant: str, known: set[str]) -> None:
        """Remove the old files of a tenant that are not known."""
        before = time.time() - _LONG_AGO
        for path in self._folder_of(tenant).glob("*"):
            with suppress(FileNotFoundError):
                if path.name not in known and path.stat().st_mtime < before:
                    path.unlink()

    def _path(self, tenant: str, digest: str) -> Path:
        return self._folder_of(tenant) / digest

    def _folder_of(self, tenant: str) -> Path:
        # The name of a tenant is any text, and no path.
        return self._folder / sha256(tenant.encode(errors="surrogatepass")).hexdigest()[:32]


def _sync(folder: Path) -> None:
    """Make the names in a folder durable, where the system can."""
    if hasattr(os, "O_DIRECTORY"):
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)

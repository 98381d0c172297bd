"""Key files, and the settings that name them: one key each, readable by its owner only.

A file is created atomically and never overwritten, so two processes that start at once both get the key of the first.
"""

from __future__ import annotations

import hmac
import os
import secrets
import stat
from base64 import b64decode, b64encode
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import ClassVar

from pilotage.errors import StartupError
from pilotage.values import value

KEY_FILE = "PILOTAGE_SEALING_KEY_FILE"
OLD_KEY_FILES = "PILOTAGE_SEALING_OLD_KEY_FILES"
KEY_BYTES = 32
_HEADER = "pilotage-key-1 "
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


@value
class SealingSettings:
    """The key that seals, and older ones that still open.

    `creates_key` makes the key file at the first start. Leave it off if a missing file means that it was not
    mounted: records sealed with a new key cannot be opened with the old one, and vice versa.
    """

    key_file: Path
    old_key_files: tuple[Path, ...] = ()
    creates_key: bool = False

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> SealingSettings | None:
        """Return the settings in PILOTAGE_SEALING_KEY_FILE and PILOTAGE_SEALING_OLD_KEY_FILES (separated like PATH).

        None where no key file is named.
        """
        key_file = environ.get(KEY_FILE)
        if not key_file:
            return None
        old = filter(None, environ.get(OLD_KEY_FILES, "").split(os.pathsep))
        return cls(Path(key_file), tuple(map(Path, old)))


class KeyFileError(StartupError):
    """A key file is missing, damaged, or open to others; `path` says which."""

    message: ClassVar[str] = "The key file cannot be used."
    code: ClassVar[str] = "key_file_error"

    def __init__(self, path: Path, what: str, way_out: str) -> None:
        super().__init__(f"key file {str(path)!r} {what}. {way_out}")
        self.path = path


@value
class SealingKey:
    """A key of 256 bits. Its id is derived from it and reveals nothing about it."""

    secret: bytes = field(repr=False)

    @property
    def id(self) -> str:
        """The id of the key in sealed records."""
        return hmac.digest(self.secret, b"pilotage key id", "sha256").hex()[:16]

    @property
    def of_records(self) -> bytes:
        """The key that authenticates rows: derived from this one, which it does not reveal."""
        return hmac.digest(self.secret, b"pilotage records", "sha256")


def read_key_file(path: Path) -> SealingKey:
    """Return the key in a file.

    Raises:
        KeyFileError: there is no such file, others may read it, or it holds no key.
    """
    try:
        with path.open(encoding="ascii", errors="replace") as file:
            _refuse_open_to_others(path, os.fstat(file.fileno()).st_mode)
            text = file.read()
    except FileNotFoundError as error:
        raise KeyFileError(
            path,
            "does not exist",
            f"Put it there from where you keep it. A new key opens nothing that is sealed already; to make one: "
            f"pilotage.adapters.sealing.create_key_file({str(path)!r}).",
        ) from error
    except OSError as error:
        raise KeyFileError(
            path, f"cannot be read: {error.strerror}", "Let the application's user own it."
        ) from error
    return _parsed(path, text)


def create_key_file(path: str | Path) -> SealingKey:
    """Make a new key and write it to a new file.

    Raises:
        KeyFileError: there is a file already, or it cannot be written.
    """
    path, key = Path(path), SealingKey(secrets.token_bytes(KEY_BYTES))
    try:
        _write(path, f"{_HEADER}{b64encode(key.secret).decode('ascii')}\n")
    except FileExistsError as error:
        raise KeyFileError(
            path, "exists, and a key is never overwritten", "Choose another file for the new key."
        ) from error
    except OSError as error:
        raise KeyFileError(
            path,
            f"cannot be written: {error.strerror}",
            "Choose a directory that the application may write to.",
        ) from error
    return key


def read_or_create_key_file(path: Path) -> SealingKey:
    """Return the key in a file, which is created if it is missing; of two creators the first one counts.

    Raises:
        KeyFileError: the file can be neither read nor made.
    """
    if not path.exists():
        try:
            return create_key_file(path)
        except KeyFileError as error:
            if not isinstance(error.__cause__, FileExistsError):
                raise
    return read_key_file(path)


def _refuse_open_to_others(path: Path, mode: int) -> None:
    # Windows has no such bits: there the directory's access list decides.
    if os.name == "posix" and mode & _OTHERS:
        raise KeyFileError(
            path,
            f"is open to others than its owner (mode {stat.S_IMODE(mode):04o})",
            f"Run: chmod 600 {path}. Other users may have read it and can open sealed records: consider a new key.",
        )


def _parsed(path: Path, text: str) -> SealingKey:
    try:
        secret = b64decode(text.removeprefix(_HEADER).strip(), validate=True)
    except ValueError:
        secret = b""
    if not text.startswith(_HEADER) or len(secret) != KEY_BYTES:
        raise KeyFileError(path, "holds no key", "Restore it from a backup.")
    return SealingKey(secret)


def _write(path: Path, text: str) -> None:
    """Write a file under another name, then link it to its own, which fails if that is taken."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)
    finally:
        with suppress(FileNotFoundError):
            draft.unlink()
    _make_durable(path.parent)


def _make_durable(directory: Path) -> None:
    """Write the name of the file to the disk too: sealed records must not outlive their key."""
    if os.name == "posix":
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

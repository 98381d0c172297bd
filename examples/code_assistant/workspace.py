"""The folder that tools may work in: nothing outside of it is opened, whatever a path says.

A path is resolved first, links included, and must lead into the folder. It is then opened part by part without
following links: a link that somebody puts there in between is met as a link, and refused. A file with a second name
(a hard link) is refused as well: the other name may be outside, or closed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from examples.code_assistant.closed_names import CLOSED, ClosedNames
from pilotage.errors import ToolError

# What other programs have put there; it may be read, but nobody wants to see all of it.
_NOT_SHOWN = frozenset({"__pycache__", "node_modules", "venv"})
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


@dataclass(frozen=True)
class WorkspaceLimits:
    """How much one call may read, write, list or find."""

    read_bytes: int = 256_000
    write_bytes: int = 256_000
    entries: int = 500
    matches: int = 100
    searched_bytes: int = 50_000_000


class Workspace:
    """A folder, and the only way to the files in it. Files and folders whose names are `closed` are not for tools."""

    def __init__(
        self, root: Path, limits: WorkspaceLimits | None = None, *, closed: Iterable[str] = CLOSED
    ) -> None:
        self.root = root.resolve(strict=True)
        self.limits = limits or WorkspaceLimits()
        self._closed = ClosedNames(closed)

    def read(self, path: str) -> str:
        """The text of a file.

        Raises:
            ToolError: there is no such file here, it is no text, or there is too much of it.
        """
        return self._read(self._inside(path), path)

    def write(self, path: str, text: str) -> bool:
        """Make a text the content of a file, all at once or not at all; True where the file is new.

        Raises:
            ToolError: the path leads elsewhere or to something that is no file, or the text is too long.
        """
        content = text.encode()
        if len(content) > self.limits.write_bytes:
            raise ToolError(
                f"{len(content)} bytes are too many: at most {self.limits.write_bytes} are written"
            )
        parts = self._inside(path)
        if not parts:
            raise ToolError(f"{path!r} is the workspace itself, not a file")
        with _explained(path), self._folder(parts[:-1], makes=True) as folder:
            return _replace(folder, parts[-1], content)

    def files(self, below: str = ".") -> Iterator[str]:
        """The paths of all files below a folder in order.

        Links, what is closed, folders that are hidden or made by programs, and names that are no text are left out.

        Raises:
            ToolError: there is no such folder here.
        """
        parts = self._inside(below)
        with _explained(below), self._folder(parts):
            pass
        for folder, names, files in os.walk(self.root.joinpath(*parts)):
            names[:] = sorted(name for name in names if self._is_shown(name) and not _is_made(name))
            for name in sorted(files):
                found = Path(folder, name)
                if self._is_shown(name) and not found.is_symlink() and found.is_file():
                    yield found.relative_to(self.root).as_posix()

    def is_open(self, path: str) -> bool:
        """Return whether no part of a path is closed."""
        return not any(map(self._closed.close, Path(path).parts))

    def _is_shown(self, name: str) -> bool:
        """Return whether a name may be shown; one that is no Unicode has no place in a record."""
        return self.is_open(name) and not any("\ud800" <= character <= "\udfff" for character in name)

    def _inside(self, path: str) -> tuple[str, ...]:
        """The parts of a path below the root, with every link resolved.

        Raises:
            ToolError: the path leads out of the workspace, or to what is closed.
        """
        try:
            found = (self.root / path).resolve()
        except (OSError, RuntimeError, ValueError) as error:
            raise ToolError(f"{path!r} is not a path that can be followed") from error
        if not found.is_relative_to(self.root):
            raise ToolError(f"{path!r} leads out of the workspace")
        parts = found.relative_to(self.root).parts
        if any(map(self._closed.close, parts)):
            raise ToolError(f"{path!r} is closed: names like this are not for tools")
        return parts

    def _read(self, parts: tuple[str, ...], path: str) -> str:
        with _explained(path), self._folder(parts[:-1]) as folder:
            file = os.open(parts[-1] if parts else ".", os.O_RDONLY | _FILE, dir_fd=folder)
            with os.fdopen(file, "rb") as opened:
                _require_file(os.fstat(opened.fileno()), path)
                content = opened.read(self.limits.read_bytes + 1)
        if len(content) > self.limits.read_bytes:
            raise ToolError(f"{path!r} has more than {self.limits.read_bytes} bytes: search in it instead")
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            raise ToolError(f"{path!r} is not a text") from error

    @contextmanager
    def _folder(self, parts: tuple[str, ...], *, makes: bool = False) -> Generator[int, None, None]:
        """The folder at the end of these parts, opened one after the other."""
        folder = os.open(self.root, _FOLDER)
        try:
            for part in parts:
                if makes:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=folder)
                inner = os.open(part, _FOLDER, dir_fd=folder)
                os.close(folder)
                folder = inner
            yield folder
        finally:
            os.close(folder)


def _is_made(name: str) -> bool:
    return name.startswith(".") or name in _NOT_SHOWN


def _require_file(status: os.stat_result, path: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise ToolError(f"{path!r} is not a file")
    if status.st_nlink > 1:
        raise ToolError(
            f"{path!r} has {status.st_nlink} names (hard links), and another one may be outside of the workspace: "
            "copy it to a new file first"
        )


def _replace(folder: int, name: str, content: bytes) -> bool:
    """Write beside the file and move into its place; what was there stays whole until then."""
    before = _status_of(folder, name)
    if before is not None:
        _require_file(before, name)
    mode = stat.S_IMODE(before.st_mode) if before is not None else 0o644
    beside = f".{name[:100]}.{uuid4().hex[:12]}"
    file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, mode, dir_fd=folder)
    try:
        with os.fdopen(file, "wb") as opened:
            opened.write(content)
            opened.flush()
            os.fchmod(opened.fileno(), mode)
            os.fsync(opened.fileno())
        os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with suppress(FileNotFoundError):
            os.unlink(beside, dir_fd=folder)
        raise
    return before is None


def _status_of(folder: int, name: str) -> os.stat_result | None:
    with suppress(FileNotFoundError):
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    return None


@contextmanager
def _explained(path: str) -> Generator[None, None, None]:
    """What the system says about a path, in words for a model."""
    try:
        yield
    except FileNotFoundError as error:
        raise ToolError(f"there is no {path!r}") from error
    except OSError as error:
        raise ToolError(f"{path!r}: {error.strerror or error}") from error

"""Checks after the demo, from outside of the run: files, git, processes, and the bytes of the store."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from examples.code_assistant.demo.repository import COMMITTED, KEY, git
from examples.code_assistant.processes import clean_environment


@dataclass(frozen=True)
class Check:
    """A statement that must hold, and whether it does."""

    what: str
    is_so: bool


def checks(root: Path, output: str, secret: str) -> Iterator[Check]:
    """Return all checks in the order in which they are shown."""
    hook = _hook(root)
    log = git(root, "log", "--format=%s").splitlines()
    yield Check("the interrupted commit was made once, not twice", len(log) == 2)
    yield Check("nothing is left uncommitted", git(root, "status", "--porcelain") == "")
    yield Check("the test that failed passes", _test_passes(root))
    yield Check("the commit hook died with the killed process", bool(hook) and not _is_alive(hook))
    stored = b"".join(file.read_bytes() for file in sorted((root / ".pilotage").glob("*.db*")))
    yield Check("the token is in no output and in no byte of the store", not _is_in(secret, output, stored))
    yield Check("nor is the key in settings.ini", not _is_in(KEY, output, stored))


def _is_in(secret: str, output: str, stored: bytes) -> bool:
    return secret in output or secret.encode() in stored


def _test_passes(root: Path) -> bool:
    command = [sys.executable, "-m", "unittest", "-q"]
    done = subprocess.run(command, cwd=root, env=clean_environment(root), capture_output=True, check=False)  # noqa: S603
    return done.returncode == 0


def _hook(root: Path) -> int:
    """The process of the hook; none where it never began."""
    mark = root / ".git" / COMMITTED
    return int(mark.read_text()) if mark.exists() else 0


def _is_alive(pid: int) -> bool:
    """Whether a process runs; one that is dead and not fetched yet does not."""
    with suppress(OSError):
        os.kill(pid, 0)
        status = Path(f"/proc/{pid}/stat")
        return not status.exists() or status.read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False

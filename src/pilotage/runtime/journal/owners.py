"""Names of processes as owners of leases, and the proof that such a process is dead.

On Linux a name has the place and the start of the process: a digest of host, boot, process and time namespace, and the
start time by the clock of that boot. Another process of the same place proves a death by the process table: the process
id is free, or belongs to a process that started at another time, or to one that has exited. Anything else is no proof:
another machine, boot or container, a system without `/proc`, a name of another form.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path
from socket import gethostname

from pilotage.jsonvalue import text_digest
from pilotage.values import value

_PROC = Path("/proc")
_NAME = re.compile(r"[^:]*:([1-9][0-9]{0,9}):.*:([0-9a-f]{16})-([0-9]{1,20})", re.DOTALL)
_EXITED = ("Z", "X")


@value
class OwnerProcess:
    """A process: its id, the place in which the id is valid, and its start in clock ticks after the boot."""

    pid: int
    place: str
    started: int


def owner_name(unique: str, pid: int | None = None) -> str:
    """Return the name of a process, by default this one: host, process id, a unique part, and place and start."""
    pid = pid or os.getpid()
    known = _process(pid)
    end = f":{known.place}-{known.started}" if known is not None else ""
    return f"{gethostname()}:{pid}:{unique}{end}"


def process_of(owner: str) -> OwnerProcess | None:
    """Return the process that a name is of; None where it names none that could be proven dead."""
    found = _NAME.fullmatch(owner)
    return None if found is None else OwnerProcess(int(found[1]), found[2], int(found[3]))


def is_provably_dead(owner: str) -> bool:
    """Return whether the process of a name certainly does nothing any more."""
    process = process_of(owner)
    if process is None or process.place != _place():
        return False
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        # It exists and is another user's, or its id is none.
        return False
    return _has_ended(process)


def _has_ended(process: OwnerProcess) -> bool:
    """Return whether an id belongs to another process by now, or to one that has exited and was not collected."""
    found = _stat(process.pid)
    if found is None:
        return False
    state, threads, started = found
    # While other threads run, the first one of a process may have exited.
    return started != process.started or (state in _EXITED and threads <= 1)


def _process(pid: int) -> OwnerProcess | None:
    place, found = _place(), _stat(pid)
    return None if place is None or found is None else OwnerProcess(pid, place, found[2])


@lru_cache(maxsize=1)
def _place() -> str | None:
    """Return the place of this process; None where there is no `/proc` of Linux."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text()
        spaces = [_namespace(name) for name in ("pid", "time")]
    except OSError:
        return None
    return text_digest("\n".join([gethostname(), boot, *spaces]))[:16]


def _namespace(name: str) -> str:
    try:
        return str((_PROC / "self/ns" / name).readlink())
    except FileNotFoundError:
        # A kernel without such namespaces has one.
        return ""


def _stat(pid: int) -> tuple[str, int, int] | None:
    """Return the state of a process, its number of threads and its start; None where they cannot be read."""
    try:
        # The name in parentheses may contain anything.
        fields = (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
        return fields[0], int(fields[17]), int(fields[19])
    except (OSError, ValueError, IndexError):
        return None

"""The process between us and a stdio server: it ends the server's process group when we are gone, however we went.

It is run as a script and imports nothing of the project. `guard.py FD GRACE COMMAND...`: FD is a socket whose other end
is held by our process alone, so its end is ours. The guard reports the server's process id there, or why there is none.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import sys
import time

_ENDS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main() -> int:
    """Start the server and return its exit code once it and its group are gone."""
    line, grace, command = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
    os.set_inheritable(line, False)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for each in (*_ENDS, signal.SIGCHLD):
        signal.signal(each, _note)
    try:
        server = os.posix_spawnp(
            command[0],
            command,
            os.environ,
            setpgroup=0,
            setsigdef=[*_ENDS, signal.SIGCHLD, signal.SIGPIPE],
        )
    except OSError as error:
        os.write(line, f"!{errno.errorcode.get(error.errno or 0, '?')} {error.strerror}\n".encode())
        return 127
    os.write(line, f"{server}\n".encode())
    _let_go_of_pipes()
    watched = select.poll()
    watched.register(line, select.POLLIN | select.POLLHUP)
    watched.register(woken, select.POLLIN)
    while not _has_ended(server):
        ready = {fd for fd, _ in watched.poll()}
        asked = os.read(woken, 512) if woken in ready else b""
        if line in ready or any(number in asked for number in map(int, _ENDS)):
            _end(server, grace, woken)
            break
    _kill(server, signal.SIGKILL)
    _, status = os.waitpid(server, 0)
    return os.waitstatus_to_exitcode(status) & 0xFF


def _note(number: int, frame: object) -> None:
    """Do nothing: the wake-up descriptor has the number of the signal."""


def _let_go_of_pipes() -> None:
    """Leave standard input and output to the server alone, so that they end with it."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.close(nothing)


def _has_ended(server: int) -> bool:
    """Return whether the server has ended; its id stays taken until it is reaped."""
    return os.waitid(os.P_PID, server, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end(server: int, grace: float, woken: int) -> None:
    """Ask the group to end, and return when the server has or its time is over."""
    _kill(server, signal.SIGTERM)
    until = time.monotonic() + grace
    while not _has_ended(server) and (left := until - time.monotonic()) > 0:
        if select.select([woken], [], [], left)[0]:
            os.read(woken, 512)


def _kill(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return


if __name__ == "__main__":
    sys.exit(main())

"""A PostgreSQL server of our own, which a test may stop and start as it likes: the one of the machine is for everybody."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Literal

import psycopg
import pytest

_PROGRAMS = Path("/usr/lib/postgresql")
_SECONDS = "60"

Mode = Literal["fast", "immediate"]
"""How a server stops: it ends its sessions and writes everything down, or it drops everything and recovers later."""


@cache
def why_none() -> str | None:
    """Why no server can be started; None where one can."""
    if not any(_PROGRAMS.glob("*/bin/pg_ctl")):
        return f"no PostgreSQL server is installed under {_PROGRAMS}"
    if os.getuid() == 0 and _account() is None:
        return "PostgreSQL refuses to run as root, and there is no account named postgres or nobody"
    return None


def need_private_server() -> None:
    """Skip the test where no server can be started."""
    if (reason := why_none()) is not None:
        pytest.skip(reason)


class PrivateServer:
    """A server on a free port of the loopback device."""

    def __init__(self, folder: Path) -> None:
        self._data = folder / "data"
        self._log = folder / "server.log"
        self.port = free_port()
        self.url = self.url_at(self.port)
        self._program("initdb", "--username=postgres", "--auth=trust", "--no-sync", "--encoding=UTF8")
        self.start()

    @staticmethod
    def url_at(port: int) -> str:
        """The address of its database, through whatever listens on a port."""
        return f"postgresql://postgres@127.0.0.1:{port}/postgres"

    def start(self) -> None:
        """Return when it takes connections."""
        words = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories=''"
        self._control("start", "-l", str(self._log), "-o", words)

    def stop(self, mode: Mode = "fast") -> None:
        """Return when it is gone."""
        self._control("stop", "-m", mode)

    def restart(self, mode: Mode) -> None:
        """Stop it in the midst of whatever is going on, and start it again."""
        self.stop(mode)
        self.start()

    def cut_connections(self) -> int:
        """End all sessions but the one that says so; how many there were."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            found = connection.execute(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
            ).fetchone()
        return 0 if found is None else int(found[0])

    def _control(self, *words: str) -> None:
        self._program("pg_ctl", *words, "-w", "-t", _SECONDS)

    def _program(self, name: str, *words: str) -> None:
        program = max(_PROGRAMS.glob(f"*/bin/{name}"))
        subprocess.run(  # noqa: S603 - our own command
            [str(program), "-D", str(self._data), *words],
            check=True,
            cwd="/",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            **_unprivileged(),
        )


@contextmanager
def private_server() -> Iterator[PrivateServer]:
    """A server for the length of the block; nothing of it is left."""
    folder = Path(tempfile.mkdtemp(prefix="pilotage-server-"))
    account = _account()
    if os.getuid() == 0 and account is not None:
        os.chown(folder, account.pw_uid, account.pw_gid)
    server: PrivateServer | None = None
    try:
        server = PrivateServer(folder)
        yield server
    finally:
        if server is not None:
            server.stop("immediate")
        shutil.rmtree(folder)


def free_port() -> int:
    """A port of the loopback device that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@cache
def _account() -> pwd.struct_passwd | None:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    return None


def _unprivileged() -> dict[str, Any]:
    """Who runs the server: it does not let itself be run by root."""
    account = _account()
    if os.getuid() != 0 or account is None:
        return {}
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}

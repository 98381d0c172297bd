"""A client generated from the OpenAPI description by a generator from elsewhere works against the server."""

from __future__ import annotations

import asyncio
import fcntl
import json
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fastapi import FastAPI
from tests.adapters.fastapi.harbour import PEOPLE
from tests.adapters.fastapi.test_openapi import library

from pilotage.adapters.agui import agui_extension
from pilotage.adapters.fastapi import HttpSettings, asgi_application
from pilotage.adapters.fastapi.server import GracefulServer

# It needs other versions of our own dependencies, so it has an environment of its own.
GENERATOR = "openapi-python-client==0.29.1"
SCENARIO = Path(__file__).with_name("generated_scenario.py")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def generator(pytestconfig: pytest.Config) -> Path:
    """The folder with the programs of the generator's environment; a test is skipped where it cannot be had."""
    cache = pytestconfig.rootpath / ".pytest_cache" / "d" / "openapi-client"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = cache / "installed"
        if not stamp.exists() or stamp.read_text() != GENERATOR:
            shutil.rmtree(cache / "environment", ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", str(cache / "environment")], check=True)  # noqa: S603
            pip = [
                str(cache / "environment" / "bin" / "python"),
                "-m",
                "pip",
                "install",
                "--quiet",
                GENERATOR,
            ]
            done = subprocess.run(pip, capture_output=True, check=False)  # noqa: S603
            if done.returncode:
                pytest.skip(f"{GENERATOR} cannot be installed: pip gave {done.returncode}")
            stamp.write_text(GENERATOR)
    return cache / "environment" / "bin"


@contextmanager
def listening(api: FastAPI, server: GracefulServer) -> Iterator[str]:
    """The address of a server in a thread of its own."""
    with socket.create_server(("127.0.0.1", 0)) as sockets:
        server.config.log_config = None
        thread = threading.Thread(target=asyncio.run, args=(server.serve([sockets]),))
        thread.start()
        try:
            yield f"http://127.0.0.1:{sockets.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@pytest.mark.slow
def test_a_generated_client_starts_streams_answers_and_cancels(generator: Path, tmp_path: Path) -> None:
    app = library()
    limits = HttpSettings(shutdown_seconds=1)
    extensions = [agui_extension(app, principal=PEOPLE)]
    api = asgi_application(app, principal=PEOPLE, settings=limits, extensions=extensions)
    (tmp_path / "openapi.json").write_text(json.dumps(api.openapi()))
    command = [
        str(generator / "openapi-python-client"),
        "generate",
        "--path",
        "openapi.json",
        "--meta",
        "none",
    ]
    made = subprocess.run(  # noqa: S603 - a program of the environment
        [*command, "--output-path", "generated"],
        cwd=tmp_path,
        env={"PATH": f"{generator}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    assert "duplicate" not in made.stdout + made.stderr
    shutil.copy(SCENARIO, tmp_path / "scenario.py")
    with listening(api, GracefulServer.over(app, api, "127.0.0.1", 0, limits)) as address:
        done = subprocess.run(  # noqa: S603 - a program of the environment
            [str(generator / "python"), "scenario.py", address, "token-of-ada-0123456789"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    assert (done.stdout, done.returncode) == ("done", 0), done.stderr

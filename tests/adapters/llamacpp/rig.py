"""Starts, kills and stops llama.cpp's own HTTP server, which comes from PyPI (`xllamacpp`)."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import httpx

READY_WITHIN = 240.0
_SERVER = """
import sys, time
import xllamacpp
given = xllamacpp.CommonParams()
given.model.path, given.model_alias, given.port = sys.argv[1], {"tiny"}, int(sys.argv[2])
given.hostnames = ["127.0.0.1"]
given.n_ctx, given.n_parallel, given.use_jinja, given.warmup, given.n_gpu_layers = 4096, 2, True, False, 0
given.cpuparams.n_threads = given.cpuparams_batch.n_threads = 1
given.api_keys = sys.argv[3:]
server = xllamacpp.Server(given)
while True:
    time.sleep(60)
"""


class LlamaServer:
    """One server on one port of the loopback, on one core."""

    def __init__(self, model: Path, *keys: str) -> None:
        self._model = model
        self._keys = keys
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            self.port = int(listening.getsockname()[1])
        self.root_url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it has loaded its model."""
        command = [sys.executable, "-c", _SERVER, str(self._model), str(self.port), *self._keys]
        self._process = subprocess.Popen(  # noqa: S603 - our own command
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until = time.monotonic() + READY_WITHIN
        while time.monotonic() < until and self._process.poll() is None:
            with suppress(httpx.HTTPError):
                if httpx.get(f"{self.root_url}/health", timeout=2).status_code == 200:
                    return
            time.sleep(0.02)
        self.kill()
        raise RuntimeError("llama.cpp's server did not start")

    def is_busy(self) -> bool:
        """Whether it generates."""
        slots = httpx.get(f"{self.root_url}/slots", timeout=5).json()
        return any(slot["is_processing"] for slot in slots)

    def kill(self) -> None:
        """End it at once, whatever it does."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

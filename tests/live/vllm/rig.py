"""Starts and stops a real vLLM server, and looks at it from outside."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import httpx

HOME = Path(__file__).parents[3] / ".vllm"
READY_WITHIN = 300.0
GONE_WITHIN = 30.0
RUNNING = re.compile(r"^vllm:num_requests_(?:running|waiting)\{[^}]*\} ([0-9.e+]+)$", re.MULTILINE)


class VllmServer:
    """One server on one port of the loopback. It has one core, so that whoever asks has the other."""

    def __init__(self, *flags: str) -> None:
        self.flags = flags
        self.port = _free_port()
        self.root_url = f"http://127.0.0.1:{self.port}"
        self.log = HOME / "server.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        caches = {
            name: str(HOME / "cache" / name.lower())
            for name in ("VLLM_CACHE_ROOT", "VLLM_CONFIG_ROOT", "TORCHINDUCTOR_CACHE_DIR")
        }
        offline = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                [*_on_one_core(), *self._command()],
                env={**os.environ, **caches, **offline},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._wait_until_ready(self._process)

    def stop(self) -> None:
        """End it and everything it started."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(GONE_WITHIN)
        # Its workers are in its session; those that outlive it would live for good.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def requests(self) -> float:
        """How many requests run or wait in it."""
        page = httpx.get(f"{self.root_url}/metrics", timeout=30).text
        return sum(map(float, RUNNING.findall(page)))

    def becomes_idle(self, within: float = 10.0) -> bool:
        """Whether all requests are gone before long."""
        until = time.monotonic() + within
        while time.monotonic() < until:
            if self.requests() == 0:
                return True
            time.sleep(0.02)
        return False

    def _command(self) -> list[str]:
        command = [str(HOME / "venv" / "bin" / "vllm"), "serve", str(HOME / "model")]
        command += ["--served-model-name", "tiny", "--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--dtype", "float32", "--max-model-len", "2048", "--enforce-eager"]
        command += ["--enable-auto-tool-choice", "--tool-call-parser", "hermes"]
        return [*command, *self.flags]

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        until = time.monotonic() + READY_WITHIN
        while time.monotonic() < until and process.poll() is None:
            with suppress(httpx.HTTPError):
                if httpx.get(f"{self.root_url}/health", timeout=2).status_code == 200:
                    return
            time.sleep(0.5)
        self.stop()
        tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-30:])
        raise RuntimeError(f"the vLLM server did not start; the end of its log:\n{tail}")


def _on_one_core() -> list[str]:
    return ["taskset", "-c", str(min(os.sched_getaffinity(0)))] if sys.platform == "linux" else []


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])

"""The page of `examples/copilotkit`, built with vite, behind a server of files; and a bank in a process of its own.

`python -m tests.pages.rig` prepares what the tests of pages need, before any test has a time limit: Chromium, where
this user may install it, the packages of npm, the versions of the official client and the conformance suite of MCP. Packages and page are kept in the user's cache.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.agui import official_client
from tests.adapters.mcp_server import conformance_suite

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "copilotkit"
BUILD_SECONDS = 600
START_SECONDS = 120
_SOURCES = ("index.html", "vite.config.js", "src/main.jsx")
_PACKAGES = ("package.json", "package-lock.json", ".npmrc")
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pilotage" / "copilotkit"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
NPM = shutil.which("npm")


def needs_browser() -> None:
    """Skip a test where the page cannot be built or shown."""
    if NPM is None:
        pytest.skip("the page of CopilotKit is built with npm, which is not installed")
    if CHROMIUM is None:
        pytest.skip("the page of CopilotKit is shown in Chromium, which is not installed")


def _digest(names: tuple[str, ...]) -> str:
    found = hashlib.sha256()
    for name in names:
        found.update((EXAMPLE / name).read_bytes())
    return found.hexdigest()[:16]


def built_page(cache: Path = CACHE) -> Path:
    """The folder with the built page: packages are installed once for a lock file, a page once for its sources."""
    needs_browser()
    with _lock(cache):
        packages = _installed(cache)
        page = cache / f"page-{_digest((*_PACKAGES, *_SOURCES))}"
        if not (page / "index.html").exists():
            for name in _SOURCES:
                (packages / name).parent.mkdir(exist_ok=True)
                shutil.copyfile(EXAMPLE / name, packages / name)
            _npm(packages, "exec", "--", "vite", "build", "--outDir", str(page), "--emptyOutDir")
    return page


def install_packages(cache: Path) -> None:
    """Install the packages of the page, which takes minutes the first time."""
    with _lock(cache):
        _installed(cache)


@contextmanager
def _lock(cache: Path) -> Iterator[None]:
    """Hold the cache alone: several processes may run tests at once."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _installed(cache: Path) -> Path:
    packages = cache / f"packages-{_digest(_PACKAGES)}"
    if not (packages / "installed").exists():
        shutil.rmtree(packages, ignore_errors=True)
        packages.mkdir()
        for name in _PACKAGES:
            shutil.copyfile(EXAMPLE / name, packages / name)
        _npm(packages, "install", "--loglevel=error", "--ignore-scripts")
        (packages / "installed").touch()
    return packages


def _npm(folder: Path, *words: str) -> None:
    done = subprocess.run(  # noqa: S603 - our own commands
        [str(NPM), *words], cwd=folder, capture_output=True, text=True, check=False, timeout=BUILD_SECONDS
    )
    if done.returncode and words[0] == "install":
        pytest.skip(f"the packages of the page cannot be installed: npm gave {done.returncode}")
    assert done.returncode == 0, done.stderr


class QuietFiles(SimpleHTTPRequestHandler):
    """Files without a line for each request."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        pass


@contextmanager
def files_of(folder: Path) -> Iterator[str]:
    """The origin at which the files of a folder are served."""
    handler = functools.partial(QuietFiles, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


class BankServer:
    """`pilotage serve` with the bank, which can be killed and started again at the same address."""

    def __init__(
        self, folder: Path, *words: str, app: str = "examples.copilotkit.application:app", **environ: str
    ) -> None:
        self._folder = folder
        self._words = (app, *words)
        self._environ = environ
        self._port = 0
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._said: list[str] = []

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def paid(self) -> list[str]:
        """What was paid, line by line."""
        ledger = self._folder / "ledger.txt"
        return ledger.read_text().splitlines() if ledger.exists() else []

    def start(self) -> None:
        """Start it, and return when it listens."""
        command = [sys.executable, "-m", "pilotage.cli.main", "serve"]
        self._process = process = subprocess.Popen(  # noqa: S603 - our own command
            [*command, *self._words, "--port", str(self._port)],
            cwd=self._folder,
            env={
                **{name: text for name, text in os.environ.items() if not name.startswith("PILOTAGE_")},
                "PYTHONPATH": str(ROOT),
                "PILOTAGE_DATABASE_URL": f"sqlite:///{self._folder / 'bank.db'}",
                **self._environ,
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        while not (
            found := re.search(r"running on http://127\.0\.0\.1:(\d+)", (line := process.stderr.readline()))
        ):
            assert line, "".join(self._said)
            self._said.append(line)
        self._port = int(found[1])
        self._reader = threading.Thread(target=self._said.extend, args=(process.stderr,), daemon=True)
        self._reader.start()

    def kill(self) -> None:
        """Kill it as `kill -9` does."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        if self._reader is not None:
            self._reader.join()
        if self._process.stderr is not None:
            self._process.stderr.close()

    def stop(self) -> None:
        """End it, however it is."""
        if self._process is not None and self._process.poll() is None:
            self.kill()


def install_chromium() -> None:
    """Install Chromium on Debian where this user may; the tests of pages are skipped without it."""
    if CHROMIUM is not None or os.geteuid() or not shutil.which("apt-get"):
        return
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update"], ["install", "--yes", "--no-install-recommends", "chromium"]):
        command = ["apt-get", "--quiet", "--quiet", *words]
        subprocess.run(  # noqa: S603 - our own commands
            command, env=environ, stdout=subprocess.DEVNULL, check=False, timeout=BUILD_SECONDS
        )


def prepare() -> None:
    """Make what the tests of pages need; a part that cannot be had here is named, and its tests are skipped."""
    install_chromium()
    if NPM is None:
        return
    for installs in (partial(install_packages, CACHE), official_client.install, conformance_suite.installed):
        try:
            installs()
        except (pytest.skip.Exception, subprocess.TimeoutExpired) as missing:
            print(f"tests of pages: {missing}")


if __name__ == "__main__":
    prepare()

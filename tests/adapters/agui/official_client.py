"""The official AG-UI client of JavaScript: installed when a test needs it, and run against a server."""

from __future__ import annotations

import asyncio
import fcntl
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

SOURCES = Path(__file__).parent / "javascript"
ROOT = Path(__file__).parents[3]
_FOLDER = Path(".pytest_cache", "d", "agui-javascript")
_FILES = ("package.json", ".npmrc", "client.mjs", "tabs.mjs")
Step = dict[str, Any]
Report = dict[str, Any]


NEWEST = "1.0.0"


def package_of(version: str) -> str:
    """Return the name under which a version is installed."""
    return "@ag-ui/client" if version == NEWEST else f"client-{version}"


def cache_folder(config: pytest.Config) -> Path:
    """Return a folder in pytest's cache, or one of the same kind where the cache is off (`-p no:cacheprovider`)."""
    cache: pytest.Cache | None = getattr(config, "cache", None)
    return cache.mkdir(_FOLDER.name) if cache is not None else config.rootpath / _FOLDER


def install(cache: Path = ROOT / _FOLDER) -> Path:
    """The folder with all versions of the client and what they need; a test is skipped where they cannot be had."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("the official AG-UI client needs node and npm, which are not installed")
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        # Several processes may run tests at once.
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp, wanted = cache / "installed", (SOURCES / "package.json").read_text()
        for name in _FILES:
            shutil.copyfile(SOURCES / name, cache / name)
        if not stamp.exists() or stamp.read_text() != wanted:
            done = subprocess.run(  # noqa: S603
                [npm, "install", "--loglevel=error"], cwd=cache, capture_output=True, text=True, check=False
            )
            if done.returncode:
                pytest.skip(f"the official AG-UI client cannot be installed: npm gave {done.returncode}")
            stamp.write_text(wanted)
    return cache


class OfficialClient:
    """Talks to a server as a page would."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def talk(self, url: str, *steps: Step, state: Any = None, **headers: str) -> list[Report]:
        """What the client has after each step of a conversation."""
        given = {"url": url, "threadId": "thread-1", "headers": headers, "steps": steps, "state": state or {}}
        process = await asyncio.create_subprocess_exec(
            "node",
            "client.mjs",
            cwd=self._folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        out, err = await process.communicate(json.dumps(given).encode())
        assert process.returncode == 0, err.decode()
        return list(json.loads(out))


class Tabs:
    """The tabs of a page in one process of a version of the client."""

    def __init__(self, folder: Path, version: str) -> None:
        self._process = subprocess.Popen(  # noqa: S603
            [str(shutil.which("node")), "tabs.mjs", package_of(version)],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def tell(self, tab: str, **command: Any) -> Report:
        """What came of a command to a tab."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"tab": tab, **command}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the client has ended"
        return dict(json.loads(line))

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()

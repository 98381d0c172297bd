"""The official conformance suite of the protocol, installed once into the user's cache, and its verdict on a server."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "how-to" / "serve-agents-over-mcp.md"
PACKAGES = ("node@22.23.3", "@modelcontextprotocol/conformance@0.2.0-alpha.12")
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pilotage" / "mcp-conformance"
NPM = shutil.which("npm")
REVISIONS = ("2025-11-25", "2026-07-28")
_SECONDS = 240
_ROW = re.compile(r"^\| `(?P<scenario>[a-z0-9:-]+)` \| (?P<revisions>[0-9, -]+) \| .+ \|$", re.MULTILINE)


def installed() -> Path:
    """The folder with the suite, installed once for its versions; skips the test where that cannot be done."""
    if NPM is None:
        pytest.skip("the conformance suite is installed with npm, which is not there")
    folder = CACHE / "-".join(each.rpartition("@")[2] for each in PACKAGES)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "installed").exists():
            words = [NPM, "install", "--loglevel=error", "--no-audit", "--no-fund", "--no-save", *PACKAGES]
            done = subprocess.run(words, cwd=folder, capture_output=True, check=False, timeout=_SECONDS)  # noqa: S603
            if done.returncode:
                pytest.skip(f"the conformance suite cannot be installed: npm gave {done.returncode}")
            (folder / "installed").touch()
    return folder


def not_applicable(revision: str) -> list[str]:
    """The scenarios, and single checks, that the page lists as not applicable in a revision."""
    rows = _ROW.finditer(PAGE.read_text())
    return [each["scenario"] for each in rows if revision in each["revisions"].replace(" ", "").split(",")]


@contextmanager
def served() -> Iterator[str]:
    """The address of the application of the suite, in a process of its own."""
    words = [sys.executable, "-m", "tests.adapters.mcp_server.conformance_app"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(words, cwd=ROOT, env=environ, stdout=subprocess.PIPE, text=True)  # noqa: S603
    assert process.stdout is not None
    try:
        yield f"{process.stdout.readline().strip()}/mcp"
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


def verdict(folder: Path, url: str, revision: str, results: Path) -> tuple[int, str]:
    """The exit code and the report of the suite: a failure that is not listed and a listed one that passes count."""
    baseline = results / "expected.yml"
    baseline.write_text("server:\n" + "".join(f"  - {each}\n" for each in not_applicable(revision)))
    suite = folder / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    words = [folder / "node_modules" / "node" / "bin" / "node", suite, "server", "--url", url]
    words += ["--requirements", revision, "--expected-failures", baseline, "-o", results]
    done = subprocess.run(  # noqa: S603
        [str(each) for each in words],
        cwd=results,
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS,
    )
    return done.returncode, done.stdout + done.stderr

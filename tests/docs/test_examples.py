"""Every example runs by itself and checks itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*/main.py"))


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.parent.name)
def test_an_example_runs_and_finds_itself_right(example: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(example), "--check"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)  # noqa: S603
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("demo: ok\n")

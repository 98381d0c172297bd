"""Importing the container is cheap."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[3] / "src"


def test_importing_the_container_pulls_in_nothing_heavy() -> None:
    program = (
        f"import sys; sys.path.insert(0, {str(SOURCE)!r}); import pilotage.container; "
        "print({'asyncio', 'importlib.metadata', 'pydantic', 'regex'} & {*sys.modules})"
    )
    command = [sys.executable, "-I", "-S", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - our own program
    assert done.stdout == "set()\n"

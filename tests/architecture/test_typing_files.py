"""The files of tests/typing are checked by the type checker in `make check`; here, that they are real programs."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

FILES = sorted((Path(__file__).parents[1] / "typing").glob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_typing_file_runs_and_proves_wrong_uses_too(file: Path) -> None:
    runpy.run_path(str(file))
    assert "# pyright: ignore[" in file.read_text()

"""Every use case has a folder of its own, in which an application keeps its runs."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("PILOTAGE_MODEL_BASE_URL", "PILOTAGE_DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path

"""The durable program, in the SQLite file that an application gets by default."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest

HERE = Path(__file__).parent


async def test_the_durable_program_pauses_is_approved_and_completes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(HERE / "program_04"))
    try:
        program = import_module("tests.programs.program_04_durable")
        await program.main()
    finally:
        for name in [each for each in sys.modules if each == "shop" or each.startswith("shop.")]:
            del sys.modules[name]
    out = capsys.readouterr().out
    assert out.startswith("One moment. [pay]\n")
    assert "pay" in out.splitlines()[1]
    assert "12.50" in out
    assert (tmp_path / ".pilotage" / "pilotage.db").stat().st_size > 0

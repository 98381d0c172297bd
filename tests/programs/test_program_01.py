"""The smallest program runs as it is written: no key, no server."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("program_01_smallest.py")


def test_the_smallest_program_greets(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "__smallest__", sys.modules[__name__])
    exec(compile(PROGRAM.read_text(), str(PROGRAM), "exec"), {"__name__": "__smallest__"})  # noqa: S102
    greeting, signature = capsys.readouterr().out.splitlines()
    assert greeting == "Good day, Countess."
    assert "not a language model" in signature

"""The smallest program runs as it is written; it is told here which model to use."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import pytest

import pilotage
from pilotage.testing import ScriptedModel, calls, says

PROGRAM = Path(__file__).with_name("program_01_smallest.py")


def test_the_smallest_program_greets(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ScriptedModel([calls("nickname", name="Ada"), says("Good day, Countess.")])
    monkeypatch.setattr(pilotage, "run_sync", partial(pilotage.run_sync, model=model))
    monkeypatch.setitem(sys.modules, "__smallest__", sys.modules[__name__])
    exec(compile(PROGRAM.read_text(), str(PROGRAM), "exec"), {"__name__": "__smallest__"})  # noqa: S102
    assert capsys.readouterr().out == "Good day, Countess.\n"
    model.assert_complete()
    system, question = model.requests[0].messages
    assert (system.text, question.text) == ("Greet people by name, warmly and briefly.", "greet Ada")

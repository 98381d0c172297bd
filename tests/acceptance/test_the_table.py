"""The page about the use cases names every test, in order."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "explanation" / "use-cases.md"


def test_every_use_case_has_a_row_and_every_row_a_test() -> None:
    rows = re.findall(r"^\| (\d+) \| [^|]+ \| `(test_\w+)`", PAGE.read_text(), re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, 24))
    assert [name for _, name in rows] == sorted(path.stem for path in HERE.glob("test_[0-9]*.py"))

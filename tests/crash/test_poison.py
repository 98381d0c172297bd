"""Poison beside healthy runs, in real workers; `make torture` has more of both, also on PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torture.run import database_of
from tests.torture.shop import DATABASE
from tests.torture.ward import BLOCKS, DIES, poisoned


@pytest.mark.slow
async def test_beside_poison_all_healthy_runs_end_and_none_is_quarantined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DATABASE, "")
    with database_of("sqlite", tmp_path) as database:
        findings = await poisoned(
            tmp_path, database, 10, (DIES, BLOCKS), workers=4, seconds=240, earlier_claims=1
        )
    assert findings.is_clean, findings
    assert findings.kills >= 2 * 3

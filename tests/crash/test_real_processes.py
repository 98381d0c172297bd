"""Real processes over real databases, killed from inside at some of their moments; `make torture` does all of them."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from tests.adapters.sqlalchemy.databases import need_server
from tests.torture.rig import Rig, served
from tests.torture.run import database_of
from tests.torture.shop import HURRIES

MOMENTS = {"sqlite": [6, 18], "sqlite in place": [10, 27], "postgresql": [5, 21]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "moment"), [(kind, moment) for kind, moments in MOMENTS.items() for moment in moments]
)
async def test_an_order_is_brought_to_its_end_by_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, moment: int
) -> None:
    if kind == "sqlite in place":
        monkeypatch.setenv(HURRIES, "1")
    if kind == "postgresql":
        need_server()
    with database_of(kind.partition(" ")[0], tmp_path) as database:
        rig = Rig(tmp_path, database, [f"o{uuid4().hex[:8]}-{4 * moment}"])
        try:
            mortal = rig.start_worker(last_moment=moment)
            findings = await served(rig, 240, heir_of=mortal)
        finally:
            rig.close()
    assert findings.kills == 1
    assert findings.is_clean, findings

"""Random changes of every table: one that changes any answer is found, and no answer is a raw exception."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from pilotage.runtime import AgentRuns
from pilotage.runtime.heads import heads_of
from tests.adapters.sqlalchemy.databases import BACKENDS, SCHEMA, need_server
from tests.attack.mutations import UNSEEN, Attacker, Watch
from tests.golden.place import Place
from tests.golden.stored import Golden

SHARES, ALL, SOME = 10, 10_000, 60


@pytest.fixture(params=BACKENDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "postgresql":
        need_server()
    with Golden("0.1.1", request.param).copy(tmp_path, f"{SCHEMA}_mutated") as found:
        yield found


@pytest.mark.attack("record mutations")
@pytest.mark.parametrize("share", range(SHARES))
async def test_every_change_of_an_answer_is_found(place: Place, share: int, *, exhaustive: bool) -> None:
    if share and not exhaustive:
        pytest.skip("make attack tries all of them")
    count = ALL // SHARES if exhaustive else SOME
    broken, outcomes = list[str](), Counter[str]()
    async with place.process() as app:
        watch = Watch(app)
        heads = await heads_of(app.get(AgentRuns).services)
        before = await watch.answers([head.run.run_id for head in heads])
        assert not watch.raw
        with closing(Attacker(place, Random(share))) as attacker:  # noqa: S311 - a repeatable draw
            for _ in range(count):
                with attacker.mutated() as mutation:
                    outcome = await _outcome(watch, before, attacker.runs_of(mutation), heads)
                outcomes[outcome.partition(":")[0]] += 1
                if outcome.startswith("broken"):
                    broken.append(f"{outcome}\n    {str(mutation)[:600]}")
        assert await watch.answers([head.run.run_id for head in heads]) == before
    assert not broken, f"{len(broken)} of {count}, {dict(outcomes)}\n" + "\n".join(broken[:12])


async def _outcome(watch: Watch, before: dict[str, str], run_ids: set[str], heads: list) -> str:  # type: ignore[type-arg]
    watch.raw.clear()
    known = sorted(run_id for run_id in run_ids if f"get {run_id}" in before)
    unknown = sorted(run_ids - set(known))
    after = await watch.answers([*known, *unknown])
    problem = await watch.problem([*known, *unknown], heads)
    if watch.raw:
        return f"broken: {watch.raw[0]}"
    changed = [name for name, answer in after.items() if before.get(name, "error RunNotFoundError") != answer]
    changed = [
        name for name in changed if not (name not in before and after[name].startswith("error RunNotFound"))
    ]
    if not changed:
        return "harmless"
    is_named = any(after[name].startswith("error ") for name in changed)
    return "found" if is_named or problem is not None else f"broken: changed {changed}, and nothing is found"


async def test_the_tables_that_no_answer_is_made_of_are_named(place: Place) -> None:
    async with place.process():
        with closing(Attacker(place, Random(0))) as attacker:  # noqa: S311 - a repeatable draw
            assert {"pilotage_runs", "pilotage_journal", "pilotage_signals"} <= attacker.tables
            assert not {"pilotage_runs", "pilotage_journal"} & UNSEEN.keys()

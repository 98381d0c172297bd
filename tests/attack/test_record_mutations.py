"""Random changes of every table: one that changes any answer is found, and no answer is a raw exception."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from pilotage.runtime import AgentRuns
from pilotage.runtime.heads import RunHead, heads_of
from tests.adapters.sqlalchemy.databases import BACKENDS, SCHEMA, need_server
from tests.attack.mutations import UNSEEN, Attacker, Watch
from tests.attack.outsiders import is_raw, printed, reader
from tests.attack.tally import BROKEN, TRIED
from tests.golden.place import Place
from tests.golden.stored import Golden

SHARES, ALL, SOME, COMMANDED = 50, 10_000, 60, 100
"""A share ends long before the time limit of a test, on a busy machine too."""


@pytest.fixture(params=BACKENDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "postgresql":
        need_server()
    with Golden("0.1.1", request.param).copy(tmp_path, f"{SCHEMA}_mutated") as found:
        yield found


@pytest.mark.slow
@pytest.mark.attack("record mutations")
@pytest.mark.parametrize(
    "share", [0, *(pytest.param(n, marks=pytest.mark.exhaustive) for n in range(1, SHARES))]
)
async def test_every_change_of_an_answer_is_found(
    place: Place, share: int, record_property: Callable[[str, object], None], *, exhaustive: bool
) -> None:
    count = ALL // SHARES if exhaustive else SOME
    broken, outcomes = list[str](), Counter[str]()
    async with place.process() as app, reader(app) as http:
        heads = await heads_of(app.get(AgentRuns).services)
        ids = [head.run.run_id for head in heads]
        watch = Watch(app, http, known=frozenset(ids))
        before = await watch.answers(ids)
        assert not watch.raw
        with closing(Attacker(place, Random(share))) as attacker:  # noqa: S311 - a repeatable draw
            for _ in range(count):
                with attacker.mutated() as mutation:
                    outcome = await _outcome(watch, before, attacker.runs_of(mutation), heads)
                outcomes[outcome.partition(":")[0]] += 1
                if outcome.startswith("broken"):
                    broken.append(f"{outcome}\n    {str(mutation)[:600]}")
        record_property(TRIED, count)
        record_property(BROKEN, len(broken))
        assert await watch.answers(ids) == before
    assert not broken, f"{len(broken)} of {count}, {dict(outcomes)}\n" + "\n".join(broken[:12])


@pytest.mark.attack("record mutations")
async def test_every_change_of_what_a_command_prints_is_found(
    place: Place, record_property: Callable[[str, object], None], *, exhaustive: bool
) -> None:
    """Commands are slow, so that fewer changes are tried: they ask the same service as HTTP does."""
    count = COMMANDED if exhaustive else 4
    broken, before = list[str](), dict[str, str]()
    async with place.process() as app, reader(app) as http:
        heads = await heads_of(app.get(AgentRuns).services)
        known = frozenset(head.run.run_id for head in heads)
        watch = Watch(app, http, known=known)
        with closing(Attacker(place, Random(99))) as attacker:  # noqa: S311 - a repeatable draw
            for _ in range(count):
                mutation = attacker.draw()
                ids = sorted(attacker.runs_of(mutation) & known)[:1]
                before |= await printed(
                    place, [run_id for run_id in ids if f"runs verify {run_id} --json" not in before]
                )
                with attacker.applied(mutation):
                    after = await printed(place, ids)
                    problem = await watch.problem(ids, heads)
                changed = [name for name, said in after.items() if said != before[name]]
                is_named = any(after[name].startswith("error ") for name in changed)
                raw = [said for said in after.values() if is_raw(said)]
                if raw or (changed and not is_named and problem is None):
                    broken.append(f"{raw or changed}\n    {str(mutation)[:600]}")
    record_property(TRIED, count)
    record_property(BROKEN, len(broken))
    assert not broken, "\n".join(broken)


async def _outcome(watch: Watch, before: dict[str, str], run_ids: set[str], heads: list[RunHead]) -> str:
    watch.raw.clear()
    known = sorted(run_ids & watch.known)
    unknown = sorted(run_ids - watch.known)
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

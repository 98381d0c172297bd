"""Databases of stored versions: every run verifies, reads as it did, and goes on to its written end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pilotage.agent import AgentActionKind, IAgentJournal, JournalStage, RunKey
from pilotage.runtime import AgentRuns
from tests.adapters.sqlalchemy.databases import need_server
from tests.golden.cases import BY_NAME
from tests.golden.make import ended, make, standing, words_of
from tests.golden.place import Place
from tests.golden.reading import all_runs
from tests.golden.stored import KINDS, Golden, empty, stored_versions, stored_words

BEFORE, AFTER = JournalStage.BEFORE, JournalStage.AFTER
PAIRS = {
    (None, JournalStage.CLAIMED),
    (None, JournalStage.TOLD),
    (AgentActionKind.APPROVAL_WAIT, BEFORE),
    (AgentActionKind.APPROVAL_WAIT, AFTER),
    (AgentActionKind.DELEGATION, BEFORE),
    (AgentActionKind.DELEGATION, AFTER),
    (AgentActionKind.MODEL_CALL, AFTER),
    (AgentActionKind.SIGNAL, AFTER),
    (AgentActionKind.STEP, BEFORE),
    (AgentActionKind.STEP, AFTER),
    (AgentActionKind.STEP, JournalStage.FOLDED),
    (AgentActionKind.TOOL_CALL, BEFORE),
    (AgentActionKind.TOOL_CALL, AFTER),
    (AgentActionKind.VALUE, AFTER),
}
"""Every kind with the stages that it is written with; what only reads has no BEFORE."""
GOLDEN = [Golden(version, kind) for version in stored_versions() for kind in KINDS]


@dataclass(frozen=True)
class Copy:
    """A copy of a golden database."""

    golden: Golden
    place: Place


@pytest.fixture(params=GOLDEN, ids=str, scope="module")
def golden(request: pytest.FixtureRequest) -> Golden:
    found: Golden = request.param
    if found.kind == "postgresql":
        need_server()
    return found


@pytest.fixture(scope="module")
def read_only(golden: Golden, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copy]:
    """A copy in which no run goes on."""
    with golden.copy(tmp_path_factory.mktemp("golden"), f"pilotage_golden_{os.getpid()}_a") as place:
        yield Copy(golden, place)


@pytest.fixture(scope="module")
def going_on(golden: Golden, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copy]:
    """A copy in which each run goes on in a test of its own."""
    with golden.copy(tmp_path_factory.mktemp("golden"), f"pilotage_golden_{os.getpid()}_b") as place:
        yield Copy(golden, place)


def test_the_first_version_is_stored_with_all_of_its_runs() -> None:
    assert "0.1.0" in stored_versions()
    for golden in GOLDEN:
        assert golden.runs().keys() <= BY_NAME.keys(), golden


READS_NOW: dict[str, dict[str, object]] = {name: {"questions": []} for name in ("answered", "diverged")}
"""What is read differently by now: an answered question, and that of a run that diverged, is no longer open."""


async def test_every_run_verifies_and_reads_as_it_did(read_only: Copy) -> None:
    stored = read_only.golden.runs()
    found = await standing(read_only.place, {name: str(run["id"]) for name, run in stored.items()})
    for name, run in stored.items():
        assert found[name] == {**run["stands"], **READS_NOW.get(name, {})}, name


async def test_every_kind_and_stage_of_row_is_stored(read_only: Copy) -> None:
    found: set[tuple[AgentActionKind | None, JournalStage]] = set()
    async with read_only.place.process() as app:
        async for state in all_runs(app.get(AgentRuns)):
            async for row in app.get(IAgentJournal).read(RunKey(state.tenant_id, state.id)):
                found.add((row.kind, row.stage))
    assert found == PAIRS


async def test_children_and_sources_of_forks_verify_too(read_only: Copy) -> None:
    async with read_only.place.process() as app:
        runs = app.get(AgentRuns)
        verified = [await runs.verify(state.id) async for state in all_runs(runs)]
    assert len(verified) > len(read_only.golden.runs())


@pytest.mark.parametrize("name", BY_NAME)
async def test_a_run_goes_on_to_its_end_and_repeats_no_effect(going_on: Copy, name: str) -> None:
    run = going_on.golden.runs().get(name)
    if run is None:
        pytest.skip("this version was stored without such a run")
    case = BY_NAME[name]
    async with going_on.place.process(*case.pods) as app:
        assert await ended(going_on.place, app.get(AgentRuns), case, str(run["id"])) == run["ends"]


async def test_new_runs_are_stored_in_the_words_of_the_stored_ones(tmp_path: Path) -> None:
    with empty("sqlite", tmp_path, "") as place:
        found = await words_of(place, await make(place))
    stored = stored_words()
    assert found.keys() == stored.keys()
    for where, words in stored.items():
        assert found[where] == words, where

"""Tables of every version that was released, with runs in them, are brought up to date; then the runs go on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pilotage import AgentStatus, ApprovalDecision, Principal
from pilotage.adapters.sqlalchemy.store import VERSION, SqlAlchemyStore, current_version
from pilotage.agent import (
    AgentRecoveryRequest,
    BudgetPeriod,
    MemoryItem,
    MemoryKind,
    MemoryScope,
    RecoveryDecision,
    Switch,
)
from pilotage.agent.ports.persistence import RunKey, SealedRecord
from pilotage.agent.principal import LOCAL
from pilotage.runtime import AgentRuns
from pilotage.runtime.journal.chain import first_broken
from pilotage.safety.trust import TrustLabel
from tests.adapters.sqlalchemy.databases import (
    BACKENDS,
    SCHEMA,
    need_server,
    opened,
    postgresql_settings,
    schema_named,
    sqlite_settings,
)
from tests.adapters.sqlalchemy.released.dump import load_postgresql, load_sqlite, released_versions
from tests.adapters.sqlalchemy.released.stories import (
    ASKING,
    DONE,
    LONG,
    TALKING,
    TORN,
    WAITING,
    id_of,
    office,
)
from tests.crash.shop import RECEIPTS, World

STORIES = (DONE, ASKING, TORN, WAITING, TALKING)


@pytest.fixture(params=BACKENDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=released_versions())
def upgraded(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqlAlchemyStore]:
    """A database of a released version with the stories in it, as this version opens it."""
    if kind == "sqlite":
        load_sqlite(request.param, tmp_path / "pilotage.db")
        with opened(sqlite_settings(tmp_path)) as store:
            yield store
        return
    need_server()
    schema = f"{SCHEMA}_released"
    with schema_named(schema):
        load_postgresql(request.param, schema)
        with opened(postgresql_settings(schema)) as store:
            yield store


def test_the_first_version_is_among_those_that_are_tried() -> None:
    assert released_versions()[0] == "0001"
    assert released_versions()[-1] <= VERSION


async def test_the_journals_of_all_runs_are_unbroken(upgraded: SqlAlchemyStore) -> None:
    with upgraded.database.engines.reading.connect() as connection:
        assert current_version(connection) == VERSION
    async with office(upgraded, World()) as app:
        for story in STORIES:
            rows = [row async for row in upgraded.journal.read(RunKey("default", id_of(story)))]
            assert first_broken(rows) is None
            head = await upgraded.journal.head(RunKey("default", id_of(story)))
            assert head is not None
            assert (head.seq, head.digest) == (rows[-1].seq, rows[-1].digest)
            await app.get(AgentRuns).verify(id_of(story))


async def test_what_was_finished_can_still_be_read(upgraded: SqlAlchemyStore) -> None:
    async with office(upgraded, World()) as app:
        runs = app.get(AgentRuns)
        assert (await runs.result(id_of(DONE))).output == RECEIPTS
        assert [event async for event in runs.events(id_of(DONE))]
        assert await upgraded.evidence.list_by_state(id_of(DONE)) is not None
    turns = await upgraded.conversations.load_history("talk")
    assert [turn.content for turn in turns] == ["Shall we?", "Yes."]
    off = await upgraded.switches.first_off((Switch.tool("dangerous"),))
    assert off is not None
    (entry,) = await upgraded.audit_log.list_by_run(LOCAL, id_of(DONE))
    assert entry.act == "looked at it"
    waiting = await upgraded.deliveries.claim("relay", 30, 100)
    assert {entry.run.run_id for entry in waiting} == {id_of(story) for story in STORIES}


async def test_a_run_that_asked_a_person_goes_on_and_repeats_nothing(upgraded: SqlAlchemyStore) -> None:
    world = World()
    world.done.update({"mark": 1, "pay": 1, "ship": 1})
    async with office(upgraded, world) as app:
        runs = app.get(AgentRuns)
        (question,) = await runs.questions(id_of(ASKING))
        await runs.answer(id_of(ASKING), question.id, ApprovalDecision.APPROVE)
        result = await (await runs.resume(id_of(ASKING))).result()
        await runs.verify(id_of(ASKING))
    assert (result.status, result.output) == (AgentStatus.COMPLETED, RECEIPTS)
    assert world.done == {"mark": 1, "pay": 1, "ship": 1, "refund": 1}


async def test_what_was_unknown_is_still_asked_of_a_person(upgraded: SqlAlchemyStore) -> None:
    world = World()
    world.done.update({"mark": 1, "pay": 1})
    async with office(upgraded, world) as app:
        runs = app.get(AgentRuns)
        assert (await (await runs.resume(id_of(TORN))).result()).status is AgentStatus.INTERRUPTED
        (question,) = await runs.questions(id_of(TORN))
        assert isinstance(question, AgentRecoveryRequest)
        await runs.answer(id_of(TORN), question.id, RecoveryDecision.DONE, result="pay-1")
        await (await runs.resume(id_of(TORN))).result()
        (question,) = await runs.questions(id_of(TORN))
        await runs.answer(id_of(TORN), question.id, ApprovalDecision.APPROVE)
        result = await (await runs.resume(id_of(TORN))).result()
    assert (result.status, result.output) == (AgentStatus.COMPLETED, RECEIPTS)
    assert world.done == {"mark": 1, "pay": 1, "ship": 1, "refund": 1}


async def test_a_signal_that_waited_reaches_its_run_with_what_was_sealed_and_large(
    upgraded: SqlAlchemyStore,
) -> None:
    run = RunKey("default", id_of(WAITING))
    assert any(isinstance(row.record, SealedRecord) for row in [r async for r in upgraded.journal.read(run)])
    async with office(upgraded, World()) as app:
        result = await (await app.get(AgentRuns).resume(run.run_id)).result()
    assert result.output == f"{len(LONG)} DE-ada blue \x00 ~"


async def test_an_upgraded_run_can_be_erased_and_its_chain_holds(upgraded: SqlAlchemyStore) -> None:
    run = RunKey("default", id_of(DONE))
    await upgraded.retention.erase(run)
    rows = [row async for row in upgraded.journal.read(run)]
    assert first_broken(rows) is None
    assert RECEIPTS[-1] not in str(rows)


async def test_a_new_run_lives_beside_the_old_ones(upgraded: SqlAlchemyStore) -> None:
    async with office(upgraded, World()) as app:
        runs = app.get(AgentRuns)
        handle = await runs.start(app.get(AgentRuns).services.definition_of("talker").target, "And now?")
        assert (await handle.result()).output == "Yes."
        assert len((await runs.list(principal=Principal("ada"))).runs) == len(STORIES) + 1


async def test_tables_that_came_later_are_there(upgraded: SqlAlchemyStore) -> None:
    ada = MemoryScope("acme", "ada")
    await upgraded.memory.remember(ada, MemoryItem("tea", MemoryKind.FACT, "prefers tea", TrustLabel()))
    assert [item.id for item in await upgraded.memory.recall(ada, "tea")] == ["tea"]
    assert (await upgraded.spending.spent("acme", BudgetPeriod.DAY)).steps == 0

"""Damaged rows of a database are read as damaged ones: the run is interrupted, looked at, mended and resumed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from pilotage import AgentStatus, Application, RunPausedEvent
from pilotage.adapters.sqlalchemy.rows import BLOB_LENGTH
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.principal import LOCAL
from pilotage.agent.state import AgentStateReason
from pilotage.errors import CallerError
from pilotage.runtime.journal.record_fields import DamagedRecordError
from pilotage.runtime.plugin import initialize
from pilotage.runtime.runs import AgentRuns
from pilotage.testing import ScriptedModel
from tests.adapters.sqlalchemy.databases import sqlite_settings
from tests.behaviour.bureau import WAITING, hired, resumed, started, triple
from tests.behaviour.office import Desk, Program, Worker, World

CLERK = hired("clerk")
LONG = "x" * BLOB_LENGTH


async def program(worker: Worker) -> object:
    """Note something long down, pay, then wait for a person."""
    await worker.desk.note(LONG)
    await worker.desk.pay(Decimal(1))
    return (await worker.desk.refund(Decimal(1))).number


class Filed:
    """Runs in an SQLite file; SQL damages them between two processes."""

    def __init__(self, folder: Path) -> None:
        self.settings, self.world = sqlite_settings(folder), World()
        self.file = create_engine(f"sqlite:///{folder / 'pilotage.db'}")
        self.store: SqlAlchemyStore | None = None

    def process(self) -> Application:
        """A process with a store of its own: it remembers nothing of the rows."""
        self.close()
        self.store = SqlAlchemyStore.open(self.settings)
        app = Application("files").add(CLERK, Desk, self.world, Program(program), ScriptedModel([]))
        app.add(*self.store.ports)
        initialize(app)
        return app

    def close(self) -> None:
        if self.store is not None:
            self.store.close()

    def tables(self) -> dict[str, list[tuple[object, ...]]]:
        """Everything that a damage may concern."""
        with self.file.connect() as connection:
            return {
                name: [tuple(row) for row in connection.execute(text(f"SELECT * FROM {name}"))]  # noqa: S608
                for name in ("pilotage_journal", "pilotage_blobs")
            }

    def damage(self, statement: str) -> None:
        with self.file.begin() as connection:
            connection.execute(text(statement))

    def mend(self, tables: dict[str, list[tuple[object, ...]]]) -> None:
        """Put the original rows back."""
        with self.file.begin() as connection:
            for name, rows in tables.items():
                marks = ", ".join("?" * len(rows[0]))
                connection.exec_driver_sql(f"INSERT OR REPLACE INTO {name} VALUES ({marks})", rows)  # noqa: S608


@pytest.fixture
def filed(tmp_path: Path) -> Iterator[Filed]:
    made = Filed(tmp_path)
    yield made
    made.close()
    made.file.dispose()


async def waiting_run(filed: Filed) -> str:
    async with filed.process() as app:
        return (await started(app.get(AgentRuns), CLERK)).state.id


def changed(column: str, word: str, action: str = "run/tool:pay#1", stage: str = "after") -> str:
    where = f"action_id = '{action}' AND stage = '{stage}'"
    return f"UPDATE pilotage_journal SET {column} = {word} WHERE {where}"  # noqa: S608


DECODED = "it cannot be decoded: "
CHANGED = "it was changed, or does not follow from the row before it"
DAMAGES = {
    "kind": (changed("kind", "'magic'"), f"{DECODED}'magic' is no kind"),
    "stage": (changed("stage", "'later'"), f"{DECODED}'later' is no kind"),
    "idempotency": (changed("idempotency", "'maybe'"), f"{DECODED}'maybe' is no kind"),
    "cut record": (changed("record", "substr(record, 1, 9)"), DECODED),
    "cut record before": (changed("record", "substr(record, 1, 9)", stage="before"), CHANGED),
    "view": (changed("view", "'{}'"), CHANGED),
    "view that points nowhere": (changed("view", "'=99.0.5.1;{}'"), DECODED),
    "cut events": (
        "UPDATE pilotage_journal SET events = substr(events, 1, 20) WHERE events IS NOT NULL",
        CHANGED,
    ),
    "digest": (changed("digest", "x'78ffff'"), CHANGED),
    "fingerprint": (changed("fingerprint", "x'78ffff'"), CHANGED),
    "row gone": (
        "DELETE FROM pilotage_journal WHERE action_id = 'run/tool:pay#1' AND stage = 'after'",
        "it is missing",
    ),
    "blob gone": ("DELETE FROM pilotage_blobs", f"{DECODED}its blob "),
    "blob changed": ("UPDATE pilotage_blobs SET content = replace(content, 'xxx', 'yyy')", CHANGED),
}


@pytest.mark.parametrize("kind", DAMAGES)
async def test_a_damaged_row_interrupts_the_run_and_the_mended_run_goes_on(filed: Filed, kind: str) -> None:
    run_id = await waiting_run(filed)
    tables, done = filed.tables(), list(filed.world.done)
    statement, reason = DAMAGES[kind]
    filed.damage(statement)
    assert filed.tables() != tables
    async with filed.process() as app:
        runs = app.get(AgentRuns)
        state = (await resumed(runs, run_id)).state
        assert state.reason is AgentStateReason.RECOVERY_REQUIRES_HITL
        assert "the record of the run is damaged at row" in str(state.current_activity)
        assert reason in str(state.current_activity)
        await runs.questions(run_id)
        await runs.evidence(run_id)
        assert (await runs.result(run_id)).status == AgentStatus.INTERRUPTED
        events = [event async for event in runs.events(run_id)]
        assert isinstance(events[-1], RunPausedEvent)
        assert events[-1].prompt == state.current_activity
        with pytest.raises(CallerError, match="row"):
            await runs.verify(run_id)
    assert filed.world.done == done
    filed.mend(tables)
    async with filed.process() as app:
        runs = app.get(AgentRuns)
        assert triple((await resumed(runs, run_id)).state) == WAITING
        assert await runs.verify(run_id)


async def test_a_head_with_another_digest_interrupts_the_run(filed: Filed) -> None:
    run_id = await waiting_run(filed)
    filed.damage(f"UPDATE pilotage_runs SET digest = '{'0' * 64}'")  # noqa: S608
    async with filed.process() as app:
        state = (await resumed(app.get(AgentRuns), run_id)).state
        assert "its digest is not that of the journal's head" in str(state.current_activity)


@pytest.mark.parametrize("head", ["0", "head - 1"])
async def test_a_head_before_the_last_row_is_an_error_for_the_caller(filed: Filed, head: str) -> None:
    run_id = await waiting_run(filed)
    filed.damage(f"UPDATE pilotage_runs SET head = {head}")  # noqa: S608
    async with filed.process() as app:
        runs = app.get(AgentRuns)
        with pytest.raises(
            CallerError, match="can be neither resumed nor interrupted: its record is damaged at"
        ):
            await runs.resume(run_id)
        assert triple(await runs.get(run_id)) == WAITING
        assert await runs.questions(run_id)
    filed.damage("UPDATE pilotage_runs SET head = (SELECT count(*) FROM pilotage_journal)")
    async with filed.process() as app:
        assert triple((await resumed(app.get(AgentRuns), run_id)).state) == WAITING


async def test_a_head_beyond_the_last_row_interrupts_the_run(filed: Filed) -> None:
    run_id = await waiting_run(filed)
    filed.damage("UPDATE pilotage_runs SET head = head + 1")
    async with filed.process() as app:
        state = (await resumed(app.get(AgentRuns), run_id)).state
        assert ": it is missing" in str(state.current_activity)


async def ended_run(filed: Filed) -> str:
    run_id = await waiting_run(filed)
    async with filed.process() as app:
        runs = app.get(AgentRuns)
        (question,) = await runs.questions(run_id)
        await runs.approve(question.id, resume=False)
        assert (await resumed(runs, run_id)).status is AgentStatus.COMPLETED
    return run_id


OUT_OF_RANGE = {
    "attempt": changed("attempt", "0", "run/result#1"),
    "row of a later run, and unreadable": changed("run", "run + 1000, kind = 'magic'", "run/result#1"),
    "event without its name": (
        'UPDATE pilotage_journal SET events = replace(events, \'"kind":"run_started"\', \'"kimd":"run_started"\')'
    ),
}


@pytest.mark.parametrize("damage", OUT_OF_RANGE)
async def test_what_no_row_can_hold_is_named_to_readers(filed: Filed, damage: str) -> None:
    run_id = await ended_run(filed)
    filed.damage(OUT_OF_RANGE[damage])
    async with filed.process() as app:
        runs = app.get(AgentRuns)
        for read in (runs.result(run_id, principal=LOCAL), told(runs, run_id)):
            with suppress(CallerError, DamagedRecordError):
                await read
        with pytest.raises((CallerError, DamagedRecordError)):
            await runs.verify(run_id)


async def test_a_damaged_fact_holds_up_the_facts_of_its_run_alone(filed: Filed) -> None:
    damaged, whole = await ended_run(filed), await ended_run(filed)
    filed.damage(f"UPDATE pilotage_outbox SET payload = '[' WHERE run_id = '{damaged}' AND number = 2")  # noqa: S608
    with SqlAlchemyStore.open(filed.settings) as store:
        claimed = await store.deliveries.claim("relay", 60, 100)
        assert [entry.number for entry in claimed if entry.run.run_id == damaged] == [1]
        assert len([entry for entry in claimed if entry.run.run_id == whole]) > 2
        with pytest.raises(CallerError, match=f"fact 2 of run '{damaged}' cannot be decoded"):
            _ = [entry async for entry in store.deliveries.read(RunKey("default", damaged))]


async def test_pruning_leaves_a_run_whose_id_cannot_be_decoded(filed: Filed) -> None:
    await ended_run(filed)
    await ended_run(filed)
    filed.damage("UPDATE pilotage_runs SET run_id = '~\\uZZ' WHERE position = 1")
    rows = len(filed.tables()["pilotage_journal"])
    with SqlAlchemyStore.open(filed.settings) as store:
        later = datetime.now(UTC) + timedelta(days=1)
        assert await store.retention.prune("default", ended_before=later) == 1
        assert await store.retention.prune("default", ended_before=later) == 0
    assert len(filed.tables()["pilotage_journal"]) == rows / 2


async def told(runs: AgentRuns, run_id: str) -> list[object]:
    return [event async for event in runs.events(run_id, follow=False)]

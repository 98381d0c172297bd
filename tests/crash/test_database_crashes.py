"""The same crashes with a real database: what it said is durable is there for the next process."""

from __future__ import annotations

from decimal import Decimal

import pytest

from pilotage.adapters.sqlalchemy.settings import DatabaseSettings
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.run_values import RunResult
from pilotage.runtime.journal.chain import Chain, first_broken
from pilotage.testing import (
    FailWrite,
    Fault,
    LoseReply,
    ScriptedModel,
    StopAfter,
    StopBefore,
    calls,
    crash_matrix,
    says,
)
from tests.adapters.sqlalchemy.databases import empty, opened
from tests.crash.process import Processes, assert_done_right
from tests.crash.test_crash_matrix_for_users import Ledger, Refunds
from tests.crash.test_declarative_crashes import EVERYTHING, Bank, Counterdesk, Teller, proven

COMMITS = range(1, 9)


class ReopenedProcesses(Processes):
    """Each process opens the database for itself, and knows only what is in it."""

    def __init__(self, settings: DatabaseSettings) -> None:
        super().__init__()
        self._settings = settings

    async def _one_process(self, fault: Fault | None) -> RunResult | None:
        with opened(self._settings) as self.store:
            return await super()._one_process(fault)


async def assert_unbroken(settings: DatabaseSettings, run_id: str) -> None:
    """The rows that all processes have left are one chain."""
    with opened(settings) as store:
        run = RunKey("default", run_id)
        rows = [row async for row in store.journal.read(run)]
        chain = Chain.of(run, (await store.states.get(run_id)).agent_type)
        assert first_broken(rows, chain) is None
        assert len(rows) > 10


@pytest.mark.sample(8)
@pytest.mark.parametrize("fault", [StopBefore, StopAfter, LoseReply, FailWrite])
async def test_a_fault_at_any_commit_changes_nothing(
    fault: type[Fault], database_settings: DatabaseSettings
) -> None:
    for number in COMMITS:
        with opened(database_settings) as store:
            empty(store)
        processes = ReopenedProcesses(database_settings)
        result = await processes.carry_through(fault(number))
        assert_done_right(processes, result)
        await assert_unbroken(database_settings, result.state.id)


@pytest.mark.parametrize("moment", ["dies_before", "dies_after"])
async def test_a_death_around_any_effect_repeats_nothing_that_may_not_be_repeated(
    moment: str, database_settings: DatabaseSettings
) -> None:
    for number in range(1, 5):
        with opened(database_settings) as store:
            empty(store)
        processes = ReopenedProcesses(database_settings)
        setattr(processes.world, moment, number)
        assert_done_right(processes, await processes.carry_through())


async def test_a_use_case_survives_every_crash(store: SqlAlchemyStore, second_stops: tuple[int, ...]) -> None:
    def emptied() -> SqlAlchemyStore:
        empty(store)
        return store

    bank = Ledger()
    model = ScriptedModel([says("DE-1")])
    report = await crash_matrix(
        Refunds, "A-17", model=model, add=[bank], store=emptied, second_stops=second_stops
    )
    assert report.reference.output == f"paid {Decimal('12.50')} to DE-1"
    assert bank.payments_per_key() == {report.key("payments.pay"): 1}
    proven(report, 10)


@pytest.mark.slow
@pytest.mark.parametrize("database_settings", ["sqlite"], indirect=True)
async def test_a_declarative_agent_survives_every_crash(
    store: SqlAlchemyStore, second_stops: tuple[int, ...]
) -> None:
    def emptied() -> SqlAlchemyStore:
        empty(store)
        return store

    bank = Bank()
    report = await crash_matrix(
        Teller,
        "serve Ada",
        model=ScriptedModel(EVERYTHING),
        add=[bank, Counterdesk],
        store=emptied,
        second_stops=second_stops,
    )
    assert (report.reference.output, len(bank.done)) == ("All done.", 2)
    proven(report, 50)


@pytest.mark.slow
@pytest.mark.parametrize("database_settings", ["postgresql"], indirect=True)
async def test_a_refund_survives_every_crash_on_a_server(
    store: SqlAlchemyStore, second_stops: tuple[int, ...]
) -> None:
    def emptied() -> SqlAlchemyStore:
        empty(store)
        return store

    bank = Bank()
    model = ScriptedModel([calls("refund", amount="3"), says("Done.")])
    report = await crash_matrix(
        Teller, "serve Ada", model=model, add=[bank, Counterdesk], store=emptied, second_stops=second_stops
    )
    assert (report.reference.output, len(bank.done)) == ("Done.", 1)
    proven(report, 20)

"""Named steps and values from outside are done once and given back as they were."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import partial

import pytest

from pilotage import Agent, AgentExecutionSpec, AgentStatus, Application, Idempotency, RecoveryStrategy
from pilotage.agent import RecoveryDecision
from pilotage.errors import AgentDefinitionError
from pilotage.runtime.door.step import now, random, step, uid
from pilotage.runtime.plugin import initialize
from pilotage.runtime.runs import AgentRuns
from pilotage.testing import FaultyJournal, MemoryStore, ProcessStopped, StopBefore


@dataclass(frozen=True)
class Receipt:
    amount: Decimal


class Bank:
    """An outside system that counts."""

    def __init__(self) -> None:
        self.payments = 0
        self.fails = 0

    async def pay(self, amount: Decimal) -> Receipt:
        self.payments += 1
        if self.fails:
            self.fails -= 1
            raise ConnectionError("the line is dead")
        return Receipt(amount)


@Agent(spec=AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Payer:
    def __init__(self, bank: Bank) -> None:
        self.bank = bank

    async def execute(self, amount: Decimal) -> list[str]:
        started, order, luck = await now(), await uid(), await random()
        assert isinstance(started, datetime)
        receipt = await step("pay", partial(self.bank.pay, amount))
        assert isinstance(receipt, Receipt)
        again = await step("note", lambda: order, idempotency=Idempotency.IDEMPOTENT)
        return [started.isoformat(), order, str(luck), str(receipt.amount), again]


def application(store: MemoryStore, bank: Bank, fault: StopBefore | None = None) -> Application:
    journal = FaultyJournal(store.journal, fault)
    app = Application("bank").add(Payer, bank, journal, store.states, store.signals, store.evidence)
    initialize(app)
    return app


@pytest.mark.parametrize("act", [5, "coroutine"])
async def test_the_result_of_a_call_is_no_step(act: object) -> None:
    result = Bank().pay(Decimal(1)) if act == "coroutine" else act
    with pytest.raises(
        AgentDefinitionError, match=r"step\('pay'\): \w+ is no function. Give the function, not"
    ):
        await step("pay", result)  # type: ignore[call-overload]


async def test_values_and_steps_come_back_in_replay_as_they_were() -> None:
    store, bank = MemoryStore(), Bank()
    async with application(store, bank, StopBefore(3)) as app:
        with contextlib.suppress(ProcessStopped):
            await (await app.get(AgentRuns).start(Payer, Decimal("12.50"))).result()
    (state,) = await store.states.list_resume_candidates()
    async with application(store, bank) as app:
        runs = app.get(AgentRuns)
        paused = await (await runs.resume(state.id)).result()
        assert paused.status is AgentStatus.INTERRUPTED
        (request,) = await runs.questions(state.id)
        await runs.answer(state.id, request.id, RecoveryDecision.DONE, result={"amount": "12.50"})
        result = await (await runs.resume(state.id)).result()
    assert result.status is AgentStatus.COMPLETED
    assert result.output[3] == "12.50"
    assert result.output[1] == result.output[4]
    assert bank.payments == 1


async def test_an_unknown_outcome_is_left_to_a_person_and_not_tried_again() -> None:
    store, bank = MemoryStore(), Bank()
    bank.fails = 1
    async with application(store, bank) as app:
        runs = app.get(AgentRuns)
        run = await runs.start(Payer, Decimal(1))
        assert (await run.result()).status is AgentStatus.INTERRUPTED
        assert bank.payments == 1
        (request,) = await runs.questions(run.id)
        await runs.answer(run.id, request.id, RecoveryDecision.RETRY)
        result = await (await runs.resume(run.id)).result()
    assert result.status is AgentStatus.COMPLETED
    assert bank.payments == 2


async def test_outside_a_run_they_are_plain_calls() -> None:
    output = await Payer(Bank()).execute(Decimal(3))
    assert output[3] == "3"
    assert datetime.fromisoformat(output[0])

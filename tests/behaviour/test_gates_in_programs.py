"""`changed()`: a gate in a changed program. It is shut in runs whose record goes on, and open in new ones."""

from __future__ import annotations

from decimal import Decimal

import pytest
from tests.behaviour.office import Office, Worker, resume, start

from pilotage import AgentStatus
from pilotage.errors import AgentDefinitionError
from pilotage.runtime import changed


async def before(worker: Worker) -> object:
    paid = await worker.desk.pay(Decimal(5))
    await worker.desk.refund(Decimal(1))
    return paid.number


async def behind(worker: Worker) -> object:
    is_new = await changed("fraud-check")
    if is_new:
        await worker.desk.note("checked")
    paid = await worker.desk.pay(Decimal(5))
    await worker.desk.refund(Decimal(1))
    return is_new, paid.number


async def without_a_gate(worker: Worker) -> object:
    await worker.desk.note("checked")
    return await before(worker)


async def test_a_gate_is_shut_in_a_run_whose_record_goes_on() -> None:
    office = Office()
    async with office.process(before) as runs:
        paused = await start(runs)
        (question,) = await runs.questions(paused.state.id)
        await runs.approve(question.id)
    async with office.process(behind) as runs:
        result = await resume(runs, paused.state.id)
    assert result.status is AgentStatus.COMPLETED
    assert result.output == (False, 1)
    assert "note checked" not in office.world.done


async def test_a_gate_is_open_in_a_new_run_and_stays_so_in_replay() -> None:
    office = Office()
    async with office.process(behind) as runs:
        paused = await start(runs)
        (question,) = await runs.questions(paused.state.id)
        await runs.approve(question.id)
    async with office.process(behind) as runs:
        result = await resume(runs, paused.state.id)
    assert result.output == (True, 2)
    assert office.world.done.count("note checked") == 1


async def test_without_a_gate_a_call_in_front_of_the_record_diverges_before_it_begins() -> None:
    office = Office()
    async with office.process(before) as runs:
        paused = await start(runs)
        (question,) = await runs.questions(paused.state.id)
        await runs.approve(question.id)
    done = list(office.world.done)
    async with office.process(without_a_gate) as runs:
        result = await resume(runs, paused.state.id)
    assert result.status is AgentStatus.INTERRUPTED
    assert office.world.done == done


@pytest.mark.parametrize("name", ["", " ", "a/b", "a#1"])
async def test_a_gate_has_a_plain_name(name: str) -> None:
    with pytest.raises(AgentDefinitionError, match="give the change a name"):
        await changed(name)

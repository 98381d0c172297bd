"""What people answer is sealed where it waits for its run, as it is sealed in the journal."""

from __future__ import annotations

import asyncio

import pytest
from tests.behaviour.bureau import COMPLETED, RECOVERY, WAITING, Bureau, hired, resumed, started, triple
from tests.behaviour.office import Worker
from tests.behaviour.test_sealed_runs import BACK, MINE, Bank

from pilotage import AgentSignalKind
from pilotage.agent import RecoveryDecision
from pilotage.agent.ports.sealing import RecordSealError
from pilotage.errors import CallerError
from pilotage.runtime import next_signal
from pilotage.runtime.journal.seals import SEALED
from pilotage.safety import StreamingRedactionPolicy, StreamingSensitivePattern
from pilotage.testing import Fault, MemorySealer, StopAfter, StopBefore

OTHER = "DE1122SENSITIVE"


def stored(bureau: Bureau) -> str:
    """Everything that stands in the queues of the store."""
    return str(bureau.store.tables.queues)


async def test_what_a_person_changes_is_sealed_in_the_queue_and_used_all_the_same() -> None:
    bureau, agent, bank = Bureau(), hired(), Bank()

    async def program(worker: Worker) -> object:
        return await bank.close(MINE)

    async with bureau.process(agent, program, bank) as runs:
        waiting = await started(runs, agent)
        assert triple(waiting.state) == WAITING
        (question,) = await runs.questions(waiting.state.id)
        await runs.modify(question.id, {"iban": OTHER}, comment="the other one")
        (signal,) = await bureau.store.signals.list_pending(waiting.state.id)
        assert set(signal.payload) == {"request_id", "decision", SEALED}
        assert OTHER not in stored(bureau)
        assert "the other one" not in stored(bureau)
    async with bureau.process(agent, program, bank) as runs:
        result = await resumed(runs, waiting.state.id)
        await runs.verify(waiting.state.id)
    assert (triple(result.state), result.output) == (COMPLETED, len(OTHER))
    assert await bureau.store.signals.list_pending(waiting.state.id) == []
    assert OTHER not in str(await bureau.rows(waiting.state.id))


async def test_what_a_person_reports_is_sealed_in_the_queue_too() -> None:
    bureau, agent, bank = Bureau(), hired(), Bank()

    async def program(worker: Worker) -> object:
        return await bank.pay(MINE) == BACK

    run_id = await bureau.dead_process(agent, program, bank, fault=StopBefore(3))
    bureau.clock.advance(60)
    async with bureau.process(agent, program, bank) as runs:
        waiting = await resumed(runs, run_id)
        assert triple(waiting.state) == RECOVERY
        (question,) = await runs.questions(run_id)
        await runs.answer(run_id, question.id, RecoveryDecision.DONE, result=BACK)
        assert BACK not in stored(bureau)
        result = await resumed(runs, run_id)
    assert (triple(result.state), result.output) == (COMPLETED, True)


async def test_the_sender_gets_back_what_was_sent() -> None:
    bureau, agent, bank = Bureau(), hired(), Bank()

    async def program(worker: Worker) -> object:
        await bank.close(MINE)
        return "closed"

    async with bureau.process(agent, program, bank) as runs:
        waiting = await started(runs, agent)
        (question,) = await runs.questions(waiting.state.id)
        payload = {"request_id": question.id, "decision": "approve", "comment": "fine"}
        kind = AgentSignalKind.APPROVAL_DECISION
        sent = await runs.signal(waiting.state.id, kind, payload, id="a1")
        again = await runs.signal(waiting.state.id, kind, {**payload, "comment": "again"}, id="a1")
    # Who answers is the application's to say.
    assert sent.payload == again.payload == {**payload, "decided_by": "local"}


async def test_messages_are_sealed_where_the_agent_redacts() -> None:
    pattern = StreamingSensitivePattern("card", r"4111-\d{4}", replacement="[card]")
    policy, kind = StreamingRedactionPolicy((pattern,)), AgentSignalKind.USER_MESSAGE
    bureau = Bureau()

    async def program(worker: Worker) -> object:
        return len(str((await next_signal(kind)).payload["text"]))

    for redaction, is_readable in ((policy, False), (None, True)):
        agent = hired(f"worker {is_readable}", accepted_signals=[kind], redaction=redaction)
        async with bureau.process(agent, program) as runs:
            waiting = await started(runs, agent)
            await runs.signal(waiting.state.id, kind, {"text": "4111-2222"})
            assert ("4111-2222" in stored(bureau)) is is_readable
            assert (await resumed(runs, waiting.state.id)).output == len("4111-2222")


async def test_a_message_to_a_run_that_is_live_is_opened_before_it_is_taken_in() -> None:
    pattern = StreamingSensitivePattern("card", r"4111-\d{4}", replacement="[card]")
    kind, bureau = AgentSignalKind.USER_MESSAGE, Bureau()
    agent = hired(accepted_signals=[kind], redaction=StreamingRedactionPolicy((pattern,)))
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def program(worker: Worker) -> object:
        begun.set()
        await may_end.wait()
        return len(str((await next_signal(kind)).payload["text"]))

    async with bureau.process(agent, program) as runs:
        run = await runs.start(agent, "A-17")
        await begun.wait()
        await runs.signal(run.id, kind, {"text": "4111-2222"})
        may_end.set()
        assert (await run.result()).output == len("4111-2222")


async def test_without_the_key_the_run_stays_as_it_is_until_the_key_is_there() -> None:
    bureau, agent, bank = Bureau(), hired(), Bank()

    async def program(worker: Worker) -> object:
        await bank.close(MINE)
        return "closed"

    async with bureau.process(agent, program, bank) as runs:
        waiting = await started(runs, agent)
        (question,) = await runs.questions(waiting.state.id)
        await runs.approve(question.id, comment="fine")
    mine, bureau.store.sealer = bureau.store.sealer, MemorySealer()
    async with bureau.process(agent, program, bank) as runs:
        with pytest.raises(RecordSealError):
            await runs.resume(waiting.state.id)
        assert triple(await runs.get(waiting.state.id)) == WAITING
    bureau.store.sealer = mine
    async with bureau.process(agent, program, bank) as runs:
        assert triple((await resumed(runs, waiting.state.id)).state) == COMPLETED


async def test_no_sender_may_pretend_to_be_sealed() -> None:
    bureau, agent = Bureau(), hired(accepted_signals=[AgentSignalKind.EXTERNAL_EVENT])

    async def program(worker: Worker) -> object:
        return (await next_signal(AgentSignalKind.EXTERNAL_EVENT)).payload

    async with bureau.process(agent, program) as runs:
        waiting = await started(runs, agent)
        with pytest.raises(CallerError, match=SEALED):
            await runs.signal(waiting.state.id, AgentSignalKind.EXTERNAL_EVENT, {SEALED: {"key_id": "x"}})
        assert await bureau.store.signals.list_pending(waiting.state.id) == []
        await runs.signal(waiting.state.id, AgentSignalKind.EXTERNAL_EVENT, {"text": "x"})
        assert (await resumed(runs, waiting.state.id)).output == {"text": "x"}


@pytest.mark.parametrize("fault", [StopBefore, StopAfter])
@pytest.mark.parametrize("number", range(1, 6))
async def test_a_sealed_answer_survives_every_crash(fault: type[Fault], number: int) -> None:
    bureau, agent, bank = Bureau(), hired(), Bank()

    async def program(worker: Worker) -> object:
        return await bank.close(MINE)

    async with bureau.process(agent, program, bank) as runs:
        waiting = await started(runs, agent)
        (question,) = await runs.questions(waiting.state.id)
        await runs.modify(question.id, {"iban": OTHER})
    async with bureau.process(agent, program, bank, fault=fault(number)) as runs:
        await asyncio.gather(resumed(runs, waiting.state.id), return_exceptions=True)
    bureau.clock.advance(60)
    async with bureau.process(agent, program, bank) as runs:
        state = await runs.get(waiting.state.id)
        if not state.is_terminal:
            state = (await resumed(runs, waiting.state.id)).state
        for question in await runs.questions(waiting.state.id):
            await runs.answer(waiting.state.id, question.id, RecoveryDecision.RETRY)
            state = (await resumed(runs, waiting.state.id)).state
    assert triple(state) == COMPLETED
    assert OTHER not in str(await bureau.rows(waiting.state.id)) + stored(bureau)

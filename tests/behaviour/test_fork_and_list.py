"""Runs as records: a new run from the beginning of another one, lists by page, and a check of what is written."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from decimal import Decimal

import pytest
from tests.behaviour.bureau import (
    COMPLETED,
    DURABLE,
    REJECTED,
    TIMED_OUT,
    WAITING,
    Bureau,
    Metered,
    asked,
    hired,
    resumed,
    started,
    triple,
)
from tests.behaviour.office import Worker

from pilotage import (
    Agent,
    AgentExecutionLimits,
    AgentExecutionSpec,
    AgentSignalKind,
    AgentState,
    AgentStatus,
    Principal,
)
from pilotage.agent import RejectionPolicy
from pilotage.agent.ports.persistence import JournalStage
from pilotage.errors import CallerError, RunNotFoundError, ToolError
from pilotage.jsonvalue import canonical_json
from pilotage.testing import ScriptedModel, StopAfter, says
from pilotage.testing.encoded import EncodedState

ELSEWHERE = Principal("ada", tenant="elsewhere")


async def notes_and_pays(worker: Worker) -> object:
    await worker.desk.note("one")
    number = (await worker.desk.pay(Decimal(1))).number
    await worker.desk.note("two")
    return number


async def row_after(
    bureau: Bureau, run_id: str, ending: str, stage: JournalStage = JournalStage.AFTER
) -> int:
    rows = await bureau.rows(run_id)
    return next(row.seq for row in rows if row.action_id.endswith(ending) and row.stage is stage)


async def test_a_fork_goes_its_own_way_and_repeats_nothing() -> None:
    bureau, agent = Bureau(), hired()
    async with bureau.process(agent, notes_and_pays) as runs:
        first = await started(runs, agent)
        before = await bureau.rows(first.state.id)
        fork = await runs.fork(first.state.id)
        result = await resumed(runs, fork.id)
        assert await runs.verify(fork.id) > 0
    assert fork.id != first.state.id
    assert (triple(result.state), result.output) == (COMPLETED, first.output)
    assert bureau.world.done == ["note one", "pay 1", "note two"]
    assert await bureau.rows(first.state.id) == before


async def test_a_fork_at_a_row_does_the_rest_again_with_keys_of_its_own() -> None:
    bureau, agent = Bureau(), hired()
    async with bureau.process(agent, notes_and_pays) as runs:
        first = await started(runs, agent)
        at = await row_after(bureau, first.state.id, "tool:note#1")
        result = await resumed(runs, (await runs.fork(first.state.id, at=at)).id)
    assert triple(result.state) == COMPLETED
    assert bureau.world.done == ["note one", "pay 1", "note two", "pay 1", "note two"]
    keys = [key for what, key, _ in bureau.world.knocks if what == "pay 1"]
    assert len(set(keys)) == 2


async def test_a_fork_is_refused_where_an_action_is_open() -> None:
    bureau, agent = Bureau(), hired()
    run_id = await bureau.dead_process(agent, notes_and_pays, fault=StopAfter(3))
    async with bureau.process(agent, notes_and_pays) as runs:
        with pytest.raises(CallerError, match=r"'run/tool:pay#1' is open there"):
            await runs.fork(run_id)
        at = await row_after(bureau, run_id, "tool:note#1")
        assert (await runs.fork(run_id, at=at)).status is AgentStatus.ACTIVE
        for nowhere in (0, -1, 99):
            with pytest.raises(CallerError, match="has the rows 1 to"):
                await runs.fork(run_id, at=nowhere)


async def refunds(worker: Worker) -> object:
    number = (await worker.desk.refund(Decimal(1))).number
    await worker.desk.note("refunded")
    return number


async def test_a_question_does_not_come_along_and_is_asked_anew() -> None:
    bureau, agent = Bureau(), hired()
    async with bureau.process(agent, refunds) as runs:
        waiting = await started(runs, agent)
        (question,) = await runs.questions(waiting.state.id)
        await runs.approve(question.id, resume=False)
        fork = await runs.fork(waiting.state.id)
        again = await resumed(runs, fork.id)
        assert triple(again.state) == WAITING
        (other,) = await runs.questions(fork.id)
        assert other.id != question.id
    assert bureau.world.done == []


async def test_an_approval_is_used_up_by_the_run_it_was_given_to() -> None:
    bureau, agent = Bureau(), hired()
    async with bureau.process(agent, refunds) as runs:
        waiting = await started(runs, agent)
        (question,) = await runs.questions(waiting.state.id)
        await runs.approve(question.id)
        await resumed(runs, waiting.state.id)
        at = await row_after(bureau, waiting.state.id, "refund#1/approval")
        fork = await runs.fork(waiting.state.id, at=at)
        assert triple((await resumed(runs, fork.id)).state) == WAITING
    assert bureau.world.done == ["refund 1", "note refunded"]


async def test_a_call_that_was_allowed_and_done_comes_along_with_its_approval() -> None:
    bureau, agent = Bureau(), hired()
    async with bureau.process(agent, refunds) as runs:
        waiting = await started(runs, agent)
        (question,) = await runs.questions(waiting.state.id)
        await runs.approve(question.id)
        await resumed(runs, waiting.state.id)
        at = await row_after(bureau, waiting.state.id, "tool:refund#1")
        result = await resumed(runs, (await runs.fork(waiting.state.id, at=at)).id)
    assert triple(result.state) == COMPLETED
    assert bureau.world.done == ["refund 1", "note refunded", "note refunded"]


async def test_a_no_that_the_agent_has_heard_is_heard_by_its_fork() -> None:
    bureau, agent = Bureau(), hired(on_rejection=RejectionPolicy.TELL_MODEL)

    async def persistent(worker: Worker) -> object:
        try:
            await worker.desk.refund(Decimal(1))
        except ToolError:
            await worker.desk.note("refused")
        return "done"

    async with bureau.process(agent, persistent) as runs:
        waiting = await started(runs, agent)
        (question,) = await runs.questions(waiting.state.id)
        await runs.reject(question.id)
        await resumed(runs, waiting.state.id)
        result = await resumed(runs, (await runs.fork(waiting.state.id)).id)
    assert triple(result.state) == COMPLETED
    assert bureau.world.done == ["note refused"]


async def test_a_fork_has_time_of_its_own() -> None:
    bureau, agent = Bureau(), hired(limits=AgentExecutionLimits(timeout_seconds=60))
    async with bureau.process(agent, notes_and_pays) as runs:
        first = await started(runs, agent)
        bureau.clock.advance(1000)
        at = await row_after(bureau, first.state.id, "tool:note#1")
        fork = await runs.fork(first.state.id, at=at)
        assert triple((await resumed(runs, fork.id)).state) == COMPLETED
        late = await runs.fork(first.state.id, at=at)
        bureau.clock.advance(61)
        assert triple((await resumed(runs, late.id)).state) == TIMED_OUT


async def test_a_fork_of_a_named_run_does_not_take_its_name() -> None:
    bureau, agent = Bureau(), hired()
    async with bureau.process(agent, notes_and_pays) as runs:
        handle = await runs.start(agent, "A-17", id="mine")
        await handle.result()
        fork = await runs.fork(handle.id)
        assert (await runs.start(agent, "A-17", id="mine")).id == handle.id
    (first,) = [row for row in await bureau.rows(fork.id) if row.seq == 1]
    assert isinstance(first.view, dict)
    assert first.view["metadata"] == {"forked_from": handle.id}


@Agent(spec=AgentExecutionSpec(name="friend", recovery=DURABLE))
class Friend:
    """Be kind."""


async def test_a_fork_remembers_what_was_said_before_its_origin_began() -> None:
    bureau = Bureau()
    async with bureau.process(Friend, model=ScriptedModel([says("Hello, Ada.")])) as runs:
        await (await runs.start(Friend, "I am Ada.", conversation_id="talk")).result()
    async with bureau.process(Friend, model=ScriptedModel([says("Ada.")])) as runs:
        handle = await runs.start(Friend, "Who am I?", conversation_id="talk")
        await handle.result()
    model = ScriptedModel([says("Ada, again.")])
    async with bureau.process(Friend, model=model) as runs:
        fork = await runs.fork(handle.id, at=1)
        assert (await resumed(runs, fork.id)).output == "Ada, again."
    said = [message.text for message in model.requests[0].messages]
    assert said[-3:] == ["I am Ada.", "Hello, Ada.", "Who am I?"]
    turns = await bureau.store.conversations.load_history("talk")
    assert len(turns) == 4


async def test_a_fork_of_another_tenants_run_is_not_found() -> None:
    bureau, agent = Bureau(), hired()
    async with bureau.process(agent, notes_and_pays) as runs:
        first = await started(runs, agent)
        with pytest.raises(RunNotFoundError):
            await runs.fork(first.state.id, principal=ELSEWHERE)


async def test_runs_are_listed_newest_first_page_by_page() -> None:
    bureau, agent = Bureau(), hired()

    async def program(worker: Worker) -> object:
        return "done"

    async with bureau.process(agent, program) as runs:
        made: list[str] = []
        for _ in range(7):
            bureau.clock.advance(1)
            made.append((await started(runs, agent)).state.id)
        seen: list[str] = []
        cursor: str | None = None
        sizes: list[int] = []
        while True:
            page = await runs.list(limit=3, after=cursor)
            sizes.append(len(page.runs))
            seen += [state.id for state in page.runs]
            cursor = page.cursor
            if cursor is None:
                break
    assert seen == list(reversed(made))
    assert sizes == [3, 3, 1]


async def test_a_list_shows_the_statuses_the_agent_and_the_tenant_that_were_asked_for() -> None:
    bureau, agent = Bureau(), hired()

    async def program(worker: Worker) -> object:
        if bureau.world.done:
            return "done"
        return (await worker.desk.refund(Decimal(1))).number

    async with bureau.process(agent, program, Friend, model=ScriptedModel([says("Hello.")])) as runs:
        waiting = (await started(runs, agent)).state.id
        bureau.world.act("note")
        done = (await started(runs, agent)).state.id
        foreign = await runs.start(agent, "A-17", principal=ELSEWHERE)
        await foreign.result()
        friendly = (await started(runs, Friend, "hello")).state.id

        async def ids(**wanted: object) -> set[str]:
            return {state.id for state in (await runs.list(**wanted)).runs}  # type: ignore[arg-type]

        local = Principal("local")
        assert await ids(statuses=[AgentStatus.INTERRUPTED]) == {waiting}
        assert await ids(agent=Friend) == {friendly}
        assert await ids(agent="one that is no part of this application") == set()
        assert await ids(agent="worker", statuses=[AgentStatus.COMPLETED], principal=local) == {done}
        assert await ids(principal=local) == {waiting, done, friendly}
        assert await ids(principal=ELSEWHERE) == {foreign.id}
        assert await ids(statuses=[AgentStatus.CANCELLED]) == set()


async def completed(bureau: Bureau) -> str:
    agent = hired()
    async with bureau.process(agent, notes_and_pays) as runs:
        return (await started(runs, agent)).state.id


@pytest.mark.parametrize("part", ["record_text", "view_text"])
async def test_a_row_that_was_changed_is_found_out_and_named(part: str) -> None:
    bureau = Bureau()
    run_id = await completed(bureau)
    journal = bureau.store.tables.journals.find("default", run_id)
    assert journal is not None
    seq = await row_after(bureau, run_id, "tool:pay#1")
    changed = canonical_json({"result": {"number": 9, "amount": "1"}})
    journal.rows[seq - 1] = replace(journal.rows[seq - 1], **{part: changed})  # type: ignore[arg-type]
    async with bureau.process(hired(), notes_and_pays) as runs:
        with pytest.raises(CallerError, match=rf"row {seq} \(run/tool:pay#1\): it was changed"):
            await runs.verify(run_id)


async def test_a_row_that_is_gone_is_found_out() -> None:
    bureau = Bureau()
    run_id = await completed(bureau)
    journal = bureau.store.tables.journals.find("default", run_id)
    assert journal is not None
    del journal.rows[2]
    async with bureau.process(hired(), notes_and_pays) as runs:
        with pytest.raises(CallerError, match="row 3: it is missing"):
            await runs.verify(run_id)


def put(bureau: Bureau, state: AgentState) -> None:
    """Change the state of a run behind the journal's back."""
    bureau.store.tables.states.put("default", state.id, EncodedState.of(state))


@pytest.mark.parametrize(
    ("status", "reason", "words"),
    [
        (AgentStatus.ACTIVE, None, "has a result in its journal, and its state is active"),
        (AgentStatus.FAILED, "execution_failed", "its journal ends with an answer, and its state is failed"),
        (AgentStatus.INTERRUPTED, "approval_required", "has a result in its journal"),
    ],
)
async def test_a_state_that_its_rows_do_not_bear_out_is_found_out(
    status: AgentStatus, reason: str | None, words: str
) -> None:
    bureau = Bureau()
    run_id = await completed(bureau)
    async with bureau.process(hired(), notes_and_pays) as runs:
        state = await runs.get(run_id)
        put(bureau, replace(state, status=status, reason=reason))  # type: ignore[arg-type]
        with pytest.raises(CallerError, match=words):
            await runs.verify(run_id)
        put(bureau, state)
        assert await runs.verify(run_id) == len(await bureau.rows(run_id))


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (AgentStatus.COMPLETED, "there is no result in its journal"),
        (AgentStatus.CANCELLED, "'run/tool:pay#1' has no outcome, and its state is cancelled"),
        (AgentStatus.INTERRUPTED, "no question is open"),
    ],
)
async def test_a_run_that_is_not_where_its_state_says_is_found_out(status: AgentStatus, words: str) -> None:
    bureau, agent = Bureau(), hired()
    run_id = await bureau.dead_process(agent, notes_and_pays, fault=StopAfter(3))
    async with bureau.process(agent, notes_and_pays) as runs:
        assert await runs.verify(run_id) == len(await bureau.rows(run_id))
        state = await runs.get(run_id)
        reason = "approval_required" if status is AgentStatus.INTERRUPTED else None
        put(bureau, replace(state, status=status, reason=reason))  # type: ignore[arg-type]
        with pytest.raises(CallerError, match=words):
            await runs.verify(run_id)


async def test_a_signal_that_was_taken_in_and_is_still_in_the_queue_is_found_out() -> None:
    bureau, agent = Bureau(), hired(accepted_signals=[AgentSignalKind.USER_MESSAGE])
    reached, opened = asyncio.Event(), asyncio.Event()

    async def program(worker: Worker) -> object:
        reached.set()
        await opened.wait()
        return (await asked(worker)).content

    async with bureau.process(agent, program, model=Metered()) as runs:
        handle = await runs.start(agent, "A-17")
        await reached.wait()
        signal = await runs.signal(handle.id, AgentSignalKind.USER_MESSAGE, {"text": "hurry"})
        opened.set()
        assert triple((await handle.result()).state) == COMPLETED
        assert await runs.verify(handle.id) > 0
        tables = bureau.store.tables
        kept = tables.signals.find("default", signal.id)
        assert kept is not None
        next(iter(tables.queues.values()))[signal.id] = kept
        with pytest.raises(CallerError, match="was taken in, and is still in the queue"):
            await runs.verify(handle.id)


async def test_every_way_to_end_is_one_that_verification_knows() -> None:
    bureau, agent = Bureau(), hired()
    async with bureau.process(agent, refunds) as runs:
        for decide in (runs.approve, runs.reject):
            waiting = await started(runs, agent)
            assert await runs.verify(waiting.state.id) > 0
            (question,) = await runs.questions(waiting.state.id)
            await decide(question.id)
            result = await resumed(runs, waiting.state.id)
            assert triple(result.state) in (COMPLETED, REJECTED)
            assert await runs.verify(waiting.state.id) > 0
        waiting = await started(runs, agent)
        await runs.cancel(waiting.state.id)
        assert await runs.verify(waiting.state.id) > 0

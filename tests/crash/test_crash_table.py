"""The table "what a crash leads to", cell by cell, on the store in memory.

Rows are the moments at which a process dies, columns the idempotency of the action under way. Every cell is one run:
it dies, is taken up by another process, and the outside world is asked what has happened.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

import pytest

from pilotage import AgentSignalKind, RunContext
from pilotage.agent import (
    AgentApprovalBoundaryKind,
    AgentApprovalRequest,
    AgentCancellationCleanupResult,
    AgentCancellationRequest,
    AgentRecoveryRequest,
    AgentStatus,
    ApprovalSubject,
    IAgentApprovalHandler,
    IAgentCancellationCleanup,
    JsonValue,
    RecoveryDecision,
    ToolRisk,
)
from pilotage.runtime import next_signal
from pilotage.testing import Fault, ProcessStopped, StopAfter, StopBefore
from tests.behaviour.bureau import (
    CANCELLED,
    COMPLETED,
    FAILED,
    NOT_CLEANED_UP,
    RECOVERY,
    WAITING,
    Bureau,
    hired,
    resumed,
    triple,
)
from tests.behaviour.office import Worker
from tests.crash.kinds import Ending, Kind, Outside, actions_over


class Moment(StrEnum):
    """When the process dies."""

    BEFORE_BEFORE = "before BEFORE is committed"
    BEFORE_EFFECT = "after BEFORE is committed, before the effect"
    AFTER_EFFECT = "after the effect, before AFTER is committed"
    AFTER_AFTER = "after AFTER is committed"


class Cell(StrEnum):
    """What a crash leads to."""

    RUNS = "runs"
    RUNS_AGAIN = "runs again"
    FOUND = "reconcile finds the result"
    NOT_FOUND = "reconcile finds nothing, and it runs"
    ASKS = "asks a person"
    RECORDED = "recorded outcome"


_SIMPLE = {Moment.BEFORE_BEFORE: Cell.RUNS, Moment.AFTER_AFTER: Cell.RECORDED}
_REPEATS = {**_SIMPLE, Moment.BEFORE_EFFECT: Cell.RUNS_AGAIN, Moment.AFTER_EFFECT: Cell.RUNS_AGAIN}
_ASKS = {**_SIMPLE, Moment.BEFORE_EFFECT: Cell.ASKS, Moment.AFTER_EFFECT: Cell.ASKS}
_RECONCILES = {**_SIMPLE, Moment.BEFORE_EFFECT: Cell.NOT_FOUND, Moment.AFTER_EFFECT: Cell.FOUND}

TABLE: dict[Kind, dict[Moment, Cell]] = {
    # Nothing is written before an action that only reads: it is new to the next process.
    Kind.READ_ONLY: _REPEATS,
    Kind.IDEMPOTENT: _REPEATS,
    Kind.KEYED: _REPEATS,
    Kind.RECONCILED: _RECONCILES,
    Kind.UNBACKED: _ASKS,
    Kind.UNREPEATABLE: _ASKS,
    Kind.RECONCILED_UNREPEATABLE: _RECONCILES,
    Kind.STEP: _ASKS,
    Kind.IDEMPOTENT_STEP: _REPEATS,
}
CELLS = [(kind, moment, cell) for kind, row in TABLE.items() for moment, cell in row.items()]

AGENT = hired()


def death_at(moment: Moment, kind: Kind) -> tuple[Fault | None, Ending]:
    """The commit or the ending of an attempt with which the process dies."""
    match moment:
        case Moment.BEFORE_BEFORE:
            # There is no BEFORE row of what is only read: the process dies before it reads.
            return (None, Ending.DIES_BEFORE) if kind is Kind.READ_ONLY else (StopBefore(2), Ending.RESULT)
        case Moment.BEFORE_EFFECT:
            return None, Ending.DIES_BEFORE
        case Moment.AFTER_EFFECT:
            return None, Ending.DIES_AFTER
        case Moment.AFTER_AFTER:
            # What was only read is committed with the BEFORE row of the next action.
            return StopAfter(2 if kind is Kind.READ_ONLY else 3), Ending.RESULT


def acting(outside: Outside, kind: Kind) -> Callable[[Worker], Awaitable[object]]:
    """A program that does the action, and something else with what came of it."""

    async def program(worker: Worker) -> object:
        outcome = await actions_over(outside)[kind]()
        await worker.desk.note(str(outcome))
        return outcome

    return program


async def died(bureau: Bureau, program: Callable[[Worker], Awaitable[object]], fault: Fault | None) -> str:
    """A run whose process has died."""
    async with bureau.process(AGENT, program, fault=fault) as runs:
        handle = await runs.start(AGENT, "A-17")
        with pytest.raises(ProcessStopped):
            await handle.result()
    bureau.clock.advance(60)
    return handle.id


@dataclass(frozen=True)
class Seen:
    """What the outside and the caller see in the end."""

    state: tuple[str, str | None, str | None]
    output: JsonValue
    effects: int
    reconciled: int


def expected(cell: Cell, moment: Moment) -> Seen:
    """What a cell means for the outside and the caller."""
    before = 1 if moment is Moment.AFTER_EFFECT else 0
    match cell:
        case Cell.RUNS | Cell.RECORDED:
            return Seen(COMPLETED, "effect 1", 1, 0)
        case Cell.RUNS_AGAIN:
            return Seen(COMPLETED, f"effect {before + 1}", before + 1, 0)
        case Cell.FOUND:
            return Seen(COMPLETED, "found", 1, 1)
        case Cell.NOT_FOUND:
            return Seen(COMPLETED, "effect 1", 1, 1)
        case Cell.ASKS:
            return Seen(RECOVERY, None, before, 0)


@pytest.mark.parametrize(("kind", "moment", "cell"), CELLS)
async def test_a_crash_leads_to_what_the_table_says(kind: Kind, moment: Moment, cell: Cell) -> None:
    fault, ending = death_at(moment, kind)
    bureau, outside = Bureau(), Outside(ending)
    program = acting(outside, kind)
    run_id = await died(bureau, program, fault)
    async with bureau.process(AGENT, program) as runs:
        result = await resumed(runs, run_id)
        questions = await runs.questions(run_id)
        assert await runs.verify(run_id) > 0
    seen = Seen(triple(result.state), result.output, outside.effects, outside.reconciled)
    assert seen == expected(cell, moment)
    assert [type(each) for each in questions] == ([AgentRecoveryRequest] if cell is Cell.ASKS else [])
    assert len(set(outside.keys)) == 1


async def asked_about_a_lost_payment() -> tuple[Bureau, Outside, Callable[[Worker], Awaitable[object]], str]:
    """A run that waits for a person to say what became of a payment."""
    bureau, outside = Bureau(), Outside(Ending.DIES_AFTER)
    program = acting(outside, Kind.UNREPEATABLE)
    run_id = await died(bureau, program, None)
    async with bureau.process(AGENT, program) as runs:
        assert triple((await resumed(runs, run_id)).state) == RECOVERY
    return bureau, outside, program, run_id


ANSWERS = [
    (RecoveryDecision.RETRY, {}, COMPLETED, "effect 2", 2),
    (RecoveryDecision.DONE, {"result": "paid"}, COMPLETED, "paid", 1),
    (RecoveryDecision.FAIL, {}, FAILED, None, 1),
    (RecoveryDecision.CANCEL, {}, CANCELLED, None, 1),
]


@pytest.mark.parametrize(("decision", "details", "state", "output", "effects"), ANSWERS)
async def test_a_person_says_what_became_of_an_unrepeatable_action(
    decision: RecoveryDecision,
    details: dict[str, JsonValue],
    state: tuple[str, str | None, str | None],
    output: JsonValue,
    effects: int,
) -> None:
    bureau, outside, program, run_id = await asked_about_a_lost_payment()
    async with bureau.process(AGENT, program) as runs:
        (question,) = await runs.questions(run_id)
        await runs.answer(run_id, question.id, decision, **details, resume=False)
        result = await resumed(runs, run_id)
        assert await runs.verify(run_id) > 0
    assert (triple(result.state), result.output, outside.effects) == (state, output, effects)


ACTIONS = [Kind.IDEMPOTENT, Kind.UNREPEATABLE]


class AsksAboutTools(IAgentApprovalHandler):
    """Wants a person to allow the action under test."""

    async def request_for(self, context: RunContext, subject: ApprovalSubject) -> AgentApprovalRequest | None:
        if subject.boundary is not AgentApprovalBoundaryKind.TOOL_INVOCATION or subject.summary == "note":
            return None
        return AgentApprovalRequest("id", "run", subject.boundary, "May it?", ToolRisk(), "action")


@pytest.mark.parametrize("kind", ACTIONS)
@pytest.mark.parametrize("fault", [StopBefore(2), StopAfter(2)], ids=["question lost", "question kept"])
async def test_a_run_that_dies_in_an_approval_wait_still_waits_with_the_same_request(
    kind: Kind, fault: Fault
) -> None:
    bureau, outside, handler = Bureau(), Outside(), AsksAboutTools()
    program, seen = acting(outside, kind), []
    async with bureau.process(AGENT, program, handler, fault=fault) as runs:
        handle = await runs.start(AGENT, "A-17")
        with pytest.raises(ProcessStopped):
            await handle.result()
    bureau.clock.advance(60)
    for _ in range(3):
        async with bureau.process(AGENT, program, handler) as runs:
            assert triple((await resumed(runs, handle.id)).state) == WAITING
            seen.append([each.id for each in await runs.questions(handle.id)])
    assert seen[0] == seen[1] == seen[2]
    assert (len(seen[0]), outside.attempts) == (1, 0)
    async with bureau.process(AGENT, program, handler) as runs:
        await runs.approve(seen[0][0], resume=False)
        assert triple((await resumed(runs, handle.id)).state) == COMPLETED
    assert outside.effects == 1


WAKE_UP = AgentSignalKind.SCHEDULER_WAKE_UP


@pytest.mark.parametrize("has_more_to_do", [True, False], ids=["goes on", "ends"])
@pytest.mark.parametrize("fault", [StopBefore(2), StopAfter(2)], ids=["before its use", "after its use"])
async def test_a_signal_that_has_come_is_pending_until_its_use_is_committed(
    fault: Fault, has_more_to_do: bool
) -> None:
    bureau, agent = Bureau(), hired(accepted_signals=[WAKE_UP], untrusted_signals=[])

    async def program(worker: Worker) -> object:
        signal = await next_signal(WAKE_UP)
        if has_more_to_do:
            await worker.desk.note("x")
        return signal.id

    async def pending() -> list[str]:
        return [signal.id for signal in await bureau.store.signals.list_pending(run_id)]

    async with bureau.process(agent, program) as runs:
        run_id = (await (await runs.start(agent, "A-17")).result()).state.id
        await runs.signal(run_id, WAKE_UP, {"text": "come"}, id="e1")
    async with bureau.process(agent, program, fault=fault) as runs:
        with pytest.raises(ProcessStopped):
            await resumed(runs, run_id)
    assert await pending() == (["e1"] if isinstance(fault, StopBefore) else [])
    bureau.clock.advance(60)
    async with bureau.process(agent, program) as runs:
        if not (await runs.get(run_id)).is_terminal:
            await resumed(runs, run_id)
        result = await runs.result(run_id)
    assert (result.status, result.output) == (AgentStatus.COMPLETED, "e1")
    assert await pending() == []


class Cleans(IAgentCancellationCleanup):
    """Cleans up, or fails to."""

    def __init__(self, *, fails: bool) -> None:
        self.asked: list[str] = []
        self._fails = fails

    async def clean_up(
        self, context: RunContext, request: AgentCancellationRequest
    ) -> AgentCancellationCleanupResult | None:
        self.asked.append(str(request.target_ref))
        if self._fails:
            raise ConnectionError("nobody is there")
        return None


@pytest.mark.parametrize("kind", ACTIONS)
@pytest.mark.parametrize("fails", [False, True], ids=["cleaned up", "cleanup fails"])
async def test_a_run_that_dies_while_cancelling_continues_its_cleanup(kind: Kind, fails: bool) -> None:
    bureau, outside, cleanup = Bureau(), Outside(Ending.HANGS), Cleans(fails=fails)
    program = acting(outside, kind)
    async with bureau.process(AGENT, program, Cleans(fails=False), fault=StopAfter(3)) as runs:
        handle = await runs.start(AGENT, "A-17")
        await outside.begun.wait()
        with suppress(ProcessStopped):
            await runs.cancel(handle.id)
    assert (await bureau.store.states.get(handle.id)).status is AgentStatus.CANCELLING
    bureau.clock.advance(60)
    async with bureau.process(AGENT, program, cleanup) as runs:
        ended = await resumed(runs, handle.id)
        assert await runs.verify(handle.id) > 0
    assert triple(ended.state) == (NOT_CLEANED_UP if fails else CANCELLED)
    assert len(cleanup.asked) == 1
    assert outside.attempts == 1

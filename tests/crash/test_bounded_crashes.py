"""Runs within bounds, crashed at every write: limits, deadlines, cancellation and sealing hold whatever happens.

One story each. It goes through undisturbed first; then, for every commit of every process and every kind of fault, it
is told anew in a fresh world, with a process that dies there and others that carry on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated

import pytest

from pilotage import (
    PII,
    Agent,
    AgentExecutionLimits,
    AgentExecutionSpec,
    AgentToolRuntimeContext,
    Application,
    IAgentModel,
    Idempotency,
    ModelMessage,
    ModelRequest,
    Pod,
    RecoveryStrategy,
    RunContext,
    SensitiveField,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import (
    AgentCancellationCleanupResult,
    AgentCancellationRequest,
    AgentEvent,
    AgentRecoveryRequest,
    AgentState,
    AgentStateReason,
    IAgentCancellationCleanup,
    RecoveryDecision,
    RunFinishedEvent,
    RunPausedEvent,
    ToolApprovalRequirement,
)
from pilotage.agent.ports.persistence import JournalStage, RunKey
from pilotage.agent.run_values import RunResult
from pilotage.runtime.journal.interruptions import RunInterruption
from pilotage.runtime.journal.scope import idempotency_key
from pilotage.runtime.plugin import initialize
from pilotage.runtime.runs import AgentRuns
from pilotage.testing import (
    FailWrite,
    Fault,
    FaultyJournal,
    LoseReply,
    MemoryStore,
    ProcessStopped,
    SeededIds,
    StopAfter,
    StopBefore,
    VirtualClock,
)
from tests.behaviour.bureau import Metered
from tests.behaviour.test_sealed_runs import stored

FREE = ToolApprovalRequirement.NOT_REQUIRED
DURABLE = RecoveryStrategy.ACTION_BOUNDARY
FAULTS: tuple[Callable[[int], Fault], ...] = (StopBefore, StopAfter, LoseReply, FailWrite)
Iban = Annotated[str, SensitiveField(PII.ACCOUNT_ID)]
SECRETIVE = "DE00SENSITIVE"
MOST_PROCESSES = 12


class Ledger:
    """The outside: what was done under which key, and in which attempt."""

    def __init__(self) -> None:
        self.done: dict[str, list[int]] = {}
        self.is_stuck = asyncio.Event()
        self.cleaned: list[str] = []

    def book(self, context: AgentToolRuntimeContext) -> int:
        self.done.setdefault(context.idempotency_key, []).append(context.attempt)
        return len(self.done)


@Pod
class Till:
    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    @agent_tool(effects=ToolEffects.write_state(), idempotency=Idempotency.IDEMPOTENT, approval=FREE)
    async def note(self, text: str, runtime_context: AgentToolRuntimeContext) -> int:
        """Note something; doing it again changes nothing."""
        return self.ledger.book(runtime_context)

    @agent_tool(idempotency=Idempotency.NON_IDEMPOTENT, approval=FREE)
    async def pay(self, iban: Iban, runtime_context: AgentToolRuntimeContext) -> int:
        """Pay; nobody can take it back."""
        return self.ledger.book(runtime_context)

    @agent_tool(idempotency=Idempotency.NON_IDEMPOTENT, approval=ToolApprovalRequirement.REQUIRED)
    async def refund(self, iban: Iban, runtime_context: AgentToolRuntimeContext) -> Iban:
        """Give back, if a person allows it."""
        self.ledger.book(runtime_context)
        return iban[::-1]

    @agent_tool(idempotency=Idempotency.NON_IDEMPOTENT, approval=FREE)
    async def stuck(self, runtime_context: AgentToolRuntimeContext) -> int:
        """Begin, and never come back."""
        self.ledger.book(runtime_context)
        self.ledger.is_stuck.set()
        never: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        return await never


LIMITS = AgentExecutionLimits(max_steps=2, max_tool_calls=3, max_tokens=100_000)


@Agent(spec=AgentExecutionSpec(name="spender", recovery=DURABLE, limits=LIMITS))
class Spender:
    """Wants more than it may have: the fourth call is not made."""

    def __init__(self, till: Till, model: IAgentModel) -> None:
        self.till, self.model = till, model

    async def execute(self, iban: str) -> int:
        ask = ModelRequest([ModelMessage.user("Well?")])
        for number in range(9):
            if number < LIMITS.max_steps:  # type: ignore[operator]
                await self.model.complete(ask)
            await (self.till.pay(iban) if number % 2 else self.till.note(str(number)))  # type: ignore[call-arg]
        return 0


@Agent(
    spec=AgentExecutionSpec(name="sealed", recovery=DURABLE, limits=AgentExecutionLimits(max_tool_calls=9))
)
class Sealed:
    """Handles what others must not read, from its input to its output."""

    def __init__(self, till: Till) -> None:
        self.till = till

    async def execute(self, iban: Iban) -> Iban:
        await self.till.note("begun")  # type: ignore[call-arg]
        await self.till.pay(iban)  # type: ignore[call-arg]
        back = await self.till.refund(iban)  # type: ignore[call-arg]
        return back[::-1]


@Agent(
    spec=AgentExecutionSpec(name="sticky", recovery=DURABLE, limits=AgentExecutionLimits(timeout_seconds=60))
)
class Sticky:
    """Gets stuck in a call that cannot be taken back."""

    def __init__(self, till: Till) -> None:
        self.till = till

    async def execute(self, iban: str) -> int:
        await self.till.note("begun")  # type: ignore[call-arg]
        return await self.till.stuck()  # type: ignore[call-arg]


class Broom(IAgentCancellationCleanup):
    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    async def clean_up(
        self, context: RunContext, request: AgentCancellationRequest
    ) -> AgentCancellationCleanupResult | None:
        self.ledger.cleaned.append(request.target_ref)
        return None


@dataclass
class Story:
    """One run of an agent, carried on by as many processes as it takes, with at most one fault each."""

    agent: type[object]
    faults: tuple[Fault | None, ...] = ()
    commits: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(self.clock)
        self.ids = SeededIds(0)
        self.ledger = Ledger()
        self.run_id = ""

    async def told(self) -> RunResult:
        """Bring the run to its end."""
        for number in range(MOST_PROCESSES):
            fault = self.faults[number] if number < len(self.faults) else None
            with suppress(ProcessStopped, RunInterruption):
                result = await self._one_process(fault)
                if has_stopped(result.state):
                    return result
            # The lease of the dead runs out; the deadline of a run is a minute.
            self.clock.advance(31)
        raise AssertionError(f"{self.agent.__name__} does not come to an end")

    async def _one_process(self, fault: Fault | None) -> RunResult:
        journal = FaultyJournal(self.store.journal, fault)
        store = self.store
        app = Application("bounded").add(self.agent, Till, self.ledger, Broom, Metered(), journal, self.ids)
        app.add(store.states, store.signals, store.evidence, store.leases, store.sealer, self.clock)
        initialize(app)
        try:
            async with app:
                return await self._carry_on(app.get(AgentRuns))
        finally:
            self.commits.append(journal.commits)

    async def _carry_on(self, runs: AgentRuns) -> RunResult:
        known = await self._state()
        if known is None:
            handle = await runs.start(self.agent, SECRETIVE)
            self.run_id = handle.id
            return await self._watched(runs, handle.result())
        self.run_id = known.id
        if has_stopped(known):
            return await runs.result(known.id)
        await self._answer(runs)
        return await self._watched(runs, (await runs.resume(known.id)).result())

    async def _watched(self, runs: AgentRuns, result: object) -> RunResult:
        return await result  # type: ignore[misc, no-any-return]

    async def _state(self) -> AgentState | None:
        page = await self.store.states.list_runs("default")
        return page.runs[0] if page.runs else None

    async def _answer(self, runs: AgentRuns) -> None:
        if await self.store.signals.list_pending(self.run_id):
            return
        for question in await runs.questions(self.run_id):
            if isinstance(question, AgentRecoveryRequest):
                await self._tell_the_truth(runs, question)
            else:
                await runs.approve(question.id, resume=False)

    async def _tell_the_truth(self, runs: AgentRuns, question: AgentRecoveryRequest) -> None:
        key = idempotency_key(RunKey("default", self.run_id), question.action_id)
        if question.attempt in self.ledger.done.get(key, []):
            result = SECRETIVE[::-1] if "refund" in question.action_id else 1
            await runs.answer(self.run_id, question.id, RecoveryDecision.DONE, result=result, resume=False)
        else:
            await runs.answer(self.run_id, question.id, RecoveryDecision.RETRY, resume=False)


@dataclass
class Stuck(Story):
    """A run that gets stuck, and what happens then: somebody cancels it, or its time is up."""

    is_cancelled: bool = False

    async def _watched(self, runs: AgentRuns, result: object) -> RunResult:
        waiting = asyncio.ensure_future(result)  # type: ignore[call-overload]
        stuck = asyncio.ensure_future(self.ledger.is_stuck.wait())
        await asyncio.wait([waiting, stuck], return_when=asyncio.FIRST_COMPLETED)
        stuck.cancel()
        if not waiting.done():
            self.ledger.is_stuck.clear()
            if self.is_cancelled:
                await runs.cancel(self.run_id)
            else:
                self.clock.advance(61)
        return await waiting  # type: ignore[no-any-return]

    async def _carry_on(self, runs: AgentRuns) -> RunResult:
        known = await self._state()
        if known is not None and not known.is_terminal and self.is_cancelled:
            self.run_id = known.id
            await runs.cancel(known.id)
            return await runs.result(known.id)
        return await super()._carry_on(runs)


async def checked(story: Story) -> None:
    """What holds for every run whatever happened to it."""
    rows = [row async for row in story.store.journal.read(RunKey("default", story.run_id))]
    begun = {
        row.action_id for row in rows if row.stage is JournalStage.BEFORE and row.kind != "approval_wait"
    }
    closed = {row.action_id for row in rows if row.stage is not JournalStage.BEFORE}
    assert begun <= closed, begun - closed
    for key, attempts in story.ledger.done.items():
        assert len(attempts) == len(set(attempts)) or len(set(attempts)) == 1, (key, attempts)
    app = Application("reader").add(
        story.agent, Till, story.ledger, Metered(), *story.store.ports, story.clock
    )
    initialize(app)
    async with app:
        runs = app.get(AgentRuns)
        assert await runs.verify(story.run_id) == len(rows)
        events = [event async for event in runs.events(story.run_id)]
        assert [is_end(event) for event in events].count(True) == 1


def has_stopped(state: AgentState) -> bool:
    """Whether a run has ended, or waits at a limit."""
    return state.is_terminal or state.reason is AgentStateReason.LIMIT_REACHED


def is_end(event: AgentEvent) -> bool:
    is_limit = isinstance(event, RunPausedEvent) and event.reason is AgentStateReason.LIMIT_REACHED
    return is_limit or isinstance(event, RunFinishedEvent)


def points(story: Story) -> list[tuple[Fault | None, ...]]:
    return [
        (*(None,) * process, make(number))
        for process, count in enumerate(story.commits)
        for number in range(1, count + 1)
        for make in FAULTS
    ]


async def test_no_crash_takes_a_run_beyond_its_limits_or_ends_it_short_of_them() -> None:
    reference = Story(Spender)
    expected = await reference.told()
    assert expected.interruption_reason == "agent_max_tool_calls_exceeded"
    assert (expected.spent.steps, expected.spent.tool_calls) == (2, 3)
    await checked(reference)
    for point in points(reference):
        story = Story(Spender, point)
        result = await story.told()
        assert result.interruption_reason == expected.interruption_reason, point
        assert (result.spent.steps, result.spent.tool_calls) == (2, 3), point
        # A reply that was lost with its process counts as the most it may have taken.
        assert result.spent.tokens >= expected.spent.tokens, point
        assert len(story.ledger.done) == 3, point
        await checked(story)


async def test_no_crash_betrays_what_is_sealed_or_does_it_twice() -> None:
    reference = Story(Sealed)
    expected = await reference.told()
    assert expected.output == SECRETIVE
    await checked(reference)
    for point in points(reference):
        story = Story(Sealed, point)
        result = await story.told()
        assert (result.status, result.output) == (expected.status, expected.output), point
        assert len(story.ledger.done) == 3, point
        assert SECRETIVE not in stored(story.store), point
        assert SECRETIVE[::-1] not in stored(story.store), point
        await checked(story)


@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_whatever_crashes_a_stuck_run_ends_once_and_its_call_is_unknown(is_cancelled: bool) -> None:
    reference = Stuck(Sticky, is_cancelled=is_cancelled)
    expected = await reference.told()
    await checked(reference)
    assert expected.state.reason == ("cancellation_requested" if is_cancelled else "timeout")
    for point in points(reference):
        story = Stuck(Sticky, point, is_cancelled=is_cancelled)
        result = await story.told()
        assert result.state.reason == expected.state.reason, point
        assert all(len(set(attempts)) == 1 for attempts in story.ledger.done.values()), point
        await checked(story)

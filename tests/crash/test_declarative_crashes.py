"""Declarative agents, crashed at every write: nobody can tell, nothing is done twice, nothing is told twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal

import pytest

from pilotage import (
    Agent,
    AgentEvent,
    AgentExecutionSpec,
    AgentStatus,
    AgentToolRuntimeContext,
    Application,
    Idempotency,
    MessageDeltaEvent,
    Pod,
    RecoveryStrategy,
    RunResult,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import (
    AgentApprovalRequest,
    ApprovalDecision,
    RejectionPolicy,
    RunFinishedEvent,
    RunStartedEvent,
    ToolApprovalRequirement,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from pilotage.architectures import React
from pilotage.jsonvalue import to_json_value
from pilotage.runtime import AgentRuns
from pilotage.runtime.plugin import initialize
from pilotage.testing import (
    CrashReport,
    Fault,
    FaultyJournal,
    MemoryStore,
    ProcessStopped,
    ScriptedModel,
    StopAfter,
    StopBefore,
    always,
    calls,
    crash_matrix,
    says,
    turn,
)

DURABLE = RecoveryStrategy.ACTION_BOUNDARY
UNGATED = ToolApprovalRequirement.NOT_REQUIRED
OUTSIDE = ToolEffects.external_side_effect()


class Bank:
    """The outside: counts what was done, by key."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()

    def act(self, what: str, context: AgentToolRuntimeContext) -> str:
        self.done[f"{what} {context.idempotency_key}"] += 1
        return f"{what} {len(self.done)}"


@Pod
class Counterdesk:
    """One tool of each kind."""

    def __init__(self, bank: Bank) -> None:
        self.bank = bank

    @agent_tool(effects=ToolEffects.read_only())
    async def balance(self, of: str) -> Decimal:
        """Look up a balance."""
        return Decimal(len(of))

    @agent_tool(effects=ToolEffects.read_only())
    def name_of(self, account: str) -> str:
        """Look up a name, in a thread."""
        return account.upper()

    @agent_tool(effects=ToolEffects.write_state(), idempotency=Idempotency.IDEMPOTENT, approval=UNGATED)
    async def note(self, text: str) -> str:
        """Note something down; doing it again changes nothing."""
        return text

    @agent_tool(
        effects=OUTSIDE, idempotency=Idempotency.NON_IDEMPOTENT, approval=UNGATED, reads_untrusted=False
    )
    async def pay(self, amount: Decimal, runtime_context: AgentToolRuntimeContext) -> str:
        """Pay; only a person can find out whether it happened."""
        return self.bank.act(f"pay {amount}", runtime_context)

    @agent_tool(effects=OUTSIDE, idempotency=Idempotency.NON_IDEMPOTENT, reads_untrusted=False)
    async def refund(self, amount: Decimal, runtime_context: AgentToolRuntimeContext) -> str:
        """Give money back; a person has to allow it."""
        return self.bank.act(f"refund {amount}", runtime_context)


class Helper:
    """What all of them can do."""

    def __init__(self, desk: Counterdesk) -> None:
        self.desk = desk


@Agent(spec=AgentExecutionSpec(name="teller", recovery=DURABLE))
class Teller(Helper):
    """Serve people at a counter."""


@Agent(spec=AgentExecutionSpec(name="polite", recovery=DURABLE, on_rejection=RejectionPolicy.TELL_MODEL))
class PoliteTeller(Helper):
    """Take no for an answer."""


@Agent(spec=AgentExecutionSpec(name="slow", recovery=DURABLE, architecture=React(parallel_tools=False)))
class SlowTeller(Helper):
    """One thing after the other."""


@dataclass(frozen=True)
class Statement:
    """An answer with a type."""

    account: str
    amount: Decimal


@Agent(spec=AgentExecutionSpec(name="auditor", recovery=DURABLE, output_type=Statement))
class Auditor(Helper):
    """Write statements."""


EVERYTHING = [
    turn(
        says("Looking. ", reasoning="Who is it?"),
        calls("balance", of="ada"),
        calls("name_of", account="ada"),
        calls("balance", of="grace"),
    ),
    turn(calls("note", text="paying"), calls("pay", amount="2"), calls("refund", amount="3")),
    says("All done."),
]


async def crashed(
    script: Sequence[object],
    second_stops: Sequence[int],
    agent: type[object] = Teller,
    approve: object = always,
) -> tuple[CrashReport, Bank]:
    bank = Bank()
    report = await crash_matrix(
        agent,
        "serve Ada",
        model=ScriptedModel(script),
        add=[bank, Counterdesk],
        approve=approve,
        second_stops=second_stops,
    )
    return report, bank


def proven(report: CrashReport, points: int) -> None:
    assert report.points >= points
    report.assert_same_result()
    report.assert_no_repeated_effects()


async def test_reading_paying_and_a_refund_that_is_approved_survive_every_crash(
    second_stops: tuple[int, ...],
) -> None:
    report, bank = await crashed(EVERYTHING, second_stops)
    assert report.reference.output == "All done."
    assert set(bank.done.values()) == {1}
    assert len(bank.done) == 2
    proven(report, 50)


async def test_tools_one_by_one_survive_every_crash(second_stops: tuple[int, ...]) -> None:
    report, _ = await crashed(EVERYTHING, second_stops, SlowTeller)
    assert report.reference.output == "All done."
    proven(report, 50)


async def test_two_refunds_of_one_reply_survive_every_crash(second_stops: tuple[int, ...]) -> None:
    script = [turn(calls("refund", amount="3"), calls("refund", amount="4")), says("Both.")]
    report, bank = await crashed(script, second_stops)
    assert (report.reference.output, len(bank.done)) == ("Both.", 2)
    proven(report, 30)


async def test_a_refund_that_is_rejected_survives_every_crash(second_stops: tuple[int, ...]) -> None:
    def never(_: AgentApprovalRequest) -> ApprovalDecision:
        return ApprovalDecision.REJECT

    script = [calls("refund", amount="3"), says("Then not.")]
    for agent, status in ((Teller, AgentStatus.FAILED), (PoliteTeller, AgentStatus.COMPLETED)):
        report, bank = await crashed(script, second_stops, agent, never)
        assert (report.reference.status, dict(bank.done)) == (status, {})
        proven(report, 20)


async def test_calls_that_go_wrong_survive_every_crash(second_stops: tuple[int, ...]) -> None:
    script = [
        turn(calls("guess", what="it"), calls("pay", amount="much"), calls("balance", of="ada")),
        calls("pay", amount="2"),
        says("Done."),
    ]
    report, bank = await crashed(script, second_stops)
    assert (report.reference.output, len(bank.done)) == ("Done.", 1)
    proven(report, 20)


async def test_a_typed_answer_that_is_repaired_survives_every_crash(second_stops: tuple[int, ...]) -> None:
    script = [calls("pay", amount="2"), says('{"account": 1}'), says(output=Statement("ada", Decimal(2)))]
    report, _ = await crashed(script, second_stops, Auditor)
    assert report.reference.output == Statement("ada", Decimal(2))
    proven(report, 20)


class Place:
    """A store and an outside that outlive every process."""

    def __init__(self, model: ScriptedModel) -> None:
        self.store = MemoryStore()
        self.bank = Bank()
        self.model = model
        self.commits = 0
        self.requests = 0

    @asynccontextmanager
    async def process(self, fault: Fault | None = None) -> AsyncGenerator[AgentRuns, None]:
        """One process, which may die."""
        journal = FaultyJournal(self.store.journal, fault)
        app = Application("bank").add(Teller, Counterdesk, self.bank, self.model, journal)
        app.add(self.store.states, self.store.signals, self.store.evidence)
        initialize(app)
        try:
            async with app:
                yield app.get(AgentRuns)
        except ProcessStopped:
            pass
        finally:
            self.commits = journal.commits
            self.requests = len(self.model.requests)
            self.model = self.model.restarted()

    async def carried_on(self) -> tuple[RunResult, list[AgentEvent]]:
        """How the run ends in a new process, and everything that was told of it in the end."""
        async with self.process() as runs:
            (state,) = (await runs.list()).runs
            if not state.is_terminal:
                await (await runs.resume(state.id)).result()
            events = [event async for event in runs.events(state.id)]
            await runs.verify(state.id)
            return await runs.result(state.id), events
        raise AssertionError("this process does not die")


READING = [
    turn(says("Looking. "), calls("balance", of="ada"), calls("name_of", account="ada")),
    calls("note", text="seen"),
    turn(says("Noting. "), calls("note", text="twice")),
    says("All done."),
]


async def test_a_run_that_dies_anywhere_is_told_once_in_the_end() -> None:
    """What stands in the log is each text once, or once more under another id with the first one marked."""
    undisturbed = Place(ScriptedModel(READING))
    async with undisturbed.process() as runs:
        await (await runs.start(Teller, "serve Ada")).result()
    assert undisturbed.commits > 3
    for number in range(2, undisturbed.commits + 1):
        for fault in (StopBefore(number), StopAfter(number)):
            place = Place(ScriptedModel(READING))
            async with place.process(fault) as runs:
                await (await runs.start(Teller, "serve Ada")).result()
            result, events = await place.carried_on()
            assert result.output == "All done.", fault
            _check_told_once(events, str(fault))


def _check_told_once(events: Sequence[AgentEvent], where: str) -> None:
    superseded = {
        event.message_id
        for event in events
        if isinstance(event, MessageDeltaEvent) and event.metadata.get("superseded")
    }
    kept = [e for e in events if isinstance(e, MessageDeltaEvent) and e.message_id not in superseded]
    assert "".join(event.delta for event in kept) == "Looking. Noting. All done.", where
    results = [event.tool_name for event in events if isinstance(event, ToolCallResultEvent)]
    assert results == ["balance", "name_of", "note", "note"], where
    marked = {e.call_id for e in events if isinstance(e, ToolCallEndEvent) and e.metadata.get("superseded")}
    starts = Counter(event.call_id for event in events if isinstance(event, ToolCallStartEvent))
    for call_id, count in starts.items():
        assert count == 1 or call_id in marked, (where, call_id)
    assert sum(isinstance(event, RunFinishedEvent) for event in events) == 1, where
    assert isinstance(events[0], RunStartedEvent), where


async def test_what_is_recorded_is_not_asked_of_the_model_again() -> None:
    """The process dies behind the commit before the second payment: the first two replies are in it."""
    script = [calls("pay", amount="2"), calls("pay", amount="3"), says("Paid.")]
    undisturbed = Place(ScriptedModel(script))
    async with undisturbed.process() as runs:
        await (await runs.start(Teller, "pay")).result()
    asked_again: list[int] = []
    for number in range(2, undisturbed.commits + 1):
        place = Place(ScriptedModel(script))
        async with place.process(StopAfter(number)) as runs:
            await (await runs.start(Teller, "pay")).result()
        before = place.requests
        async with place.process() as runs:
            (state,) = (await runs.list()).runs
            if not state.is_terminal:
                await (await runs.resume(state.id)).result()
        asked_again.append(before + place.requests - 3)
    # A reply is lost only if the process dies before the next commit: never more than the last one.
    assert max(asked_again) <= 1
    assert asked_again[-1] == 0


@pytest.mark.parametrize("stop", [StopBefore, StopAfter])
async def test_usage_and_turns_are_the_same_whatever_happens(
    stop: type[StopBefore | StopAfter],
) -> None:
    undisturbed = Place(ScriptedModel(READING))
    async with undisturbed.process() as runs:
        reference = await (await runs.start(Teller, "serve Ada")).result()
    for number in range(2, undisturbed.commits + 1):
        place = Place(ScriptedModel(READING))
        async with place.process(stop(number)) as runs:
            await (await runs.start(Teller, "serve Ada")).result()
        result, _ = await place.carried_on()
        assert (result.turns, result.usage) == (reference.turns, reference.usage), number
        assert (result.spent.steps, result.spent.tool_calls) == (
            reference.spent.steps,
            reference.spent.tool_calls,
        ), number
        assert to_json_value(result.output) == reference.output

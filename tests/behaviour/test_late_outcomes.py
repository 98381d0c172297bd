"""An action whose run is lost in the middle of it: whoever is asked what became of it gets to see what its owner knew."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated

import pytest
from tests.behaviour.newsroom import let_run

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentStatus,
    Application,
    Idempotency,
    Pod,
    RecoveryStrategy,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import (
    AgentRecoveryRequest,
    IAgentLateOutcomes,
    JournalStage,
    LateOutcome,
    RecoveryDecision,
    RunKey,
    ToolApprovalRequirement,
)
from pilotage.errors import ToolError
from pilotage.jsonvalue import JsonObject
from pilotage.runtime import AgentRuns, RunOwnershipLost, step
from pilotage.runtime.plugin import initialize
from pilotage.safety import PII, SensitiveField
from pilotage.testing import MemoryStore, ScriptedModel

UNGATED = ToolApprovalRequirement.NOT_REQUIRED
DURABLE = AgentExecutionSpec(name="cashier", recovery=RecoveryStrategy.ACTION_BOUNDARY)


@dataclass(frozen=True)
class Receipt:
    number: int
    payer: Annotated[str, SensitiveField(PII.EMAIL)]


class Bank:
    """Takes its time: it says when it has begun, and waits until it may end."""

    def __init__(self) -> None:
        self.begun, self.may_end, self.go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.paid = 0
        self.failure: Exception | None = None

    async def wave(self) -> str:
        return "hello"

    async def pay(self) -> int:
        self.paid += 1
        self.begun.set()
        await self.may_end.wait()
        if self.failure is not None:
            raise self.failure
        return self.paid


@Pod
class Till:
    def __init__(self, bank: Bank) -> None:
        self.bank = bank

    @agent_tool(
        effects=ToolEffects.external_side_effect(),
        idempotency=Idempotency.NON_IDEMPOTENT,
        approval=UNGATED,
        reads_untrusted=False,
    )
    async def pay(self) -> Receipt:
        """Pay; only a person can find out whether it happened."""
        return Receipt(await self.bank.pay(), "ada@example.org")

    @agent_tool(effects=ToolEffects.write_state(), idempotency=Idempotency.IDEMPOTENT, approval=UNGATED)
    async def note(self) -> str:
        """Note something down; it may be done again."""
        return str(await self.bank.pay())


@Agent(spec=DURABLE)
class Cashier:
    def __init__(self, till: Till, bank: Bank) -> None:
        self.till, self.bank = till, bank

    async def execute(self, order: str) -> str:
        """Does what the order says."""
        match order:
            case "tool":
                return str((await self.till.pay()).number)
            case "step":
                return str(await step("pay", self.bank.pay))
            case "both":
                return str(await asyncio.gather(self.till.pay(), self._beside()))
            case _:
                return await self.till.note()

    async def _beside(self) -> str:
        """Another branch, which has something to do later."""
        await self.bank.go_on.wait()
        return str(await step("beside", self.bank.wave))


class Away(IAgentLateOutcomes):
    """A store that cannot be reached."""

    async def append(self, outcome: LateOutcome) -> None:
        raise OSError("away")

    async def list_by_action(self, run: RunKey, action_id: str) -> Sequence[LateOutcome]:
        raise OSError("away")


class Counter:
    """Processes come and go; the store stays. The first owner's bank is slow, the others' are not asked."""

    def __init__(self, *, late: bool | IAgentLateOutcomes = True) -> None:
        self.store = MemoryStore()
        self.late = late

    @asynccontextmanager
    async def process(self, bank: Bank) -> AsyncGenerator[AgentRuns, None]:
        store = self.store
        app = Application("shop").add(Cashier, Till, bank, ScriptedModel([]), store.journal, store.states)
        app.add(store.signals, store.evidence, store.sealer)
        if self.late:
            app.add(store.late_outcomes if self.late is True else self.late)
        initialize(app)
        async with app:
            yield app.get(AgentRuns)


async def lost_in_the_middle(
    counter: Counter, order: str, failure: Exception | None = None
) -> tuple[str, list[AgentRecoveryRequest]]:
    """A run that is taken over while its first owner acts; what the taker is asked before and after that owner is done."""
    slow = Bank()
    slow.failure = failure
    asked: list[AgentRecoveryRequest] = []
    async with counter.process(slow) as owner, counter.process(Bank()) as taker:
        handle = await owner.start(Cashier, order)
        await slow.begun.wait()
        assert (await (await taker.resume(handle.id)).result()).status is AgentStatus.INTERRUPTED
        for _ in range(2):
            (question,) = await taker.questions(handle.id)
            assert isinstance(question, AgentRecoveryRequest)
            asked.append(question)
            slow.may_end.set()
            with pytest.raises(RunOwnershipLost):
                await handle.result()
    return handle.id, asked


def known(question: AgentRecoveryRequest) -> list[JsonObject]:
    return [dict(each) for each in question.late_outcomes if isinstance(each, dict)]


async def test_the_question_about_a_tool_shows_what_its_lost_owner_learned_and_hides_what_is_hidden() -> None:
    counter = Counter()
    _, (before, after) = await lost_in_the_middle(counter, "tool")
    assert before.late_outcomes == ()
    (told,) = known(after)
    assert (told["attempt"], told["epoch"]) == (1, 1)
    assert told["at"]
    assert "'number': 1" in repr(told)
    assert "ada@example.org" not in repr(told)
    assert (before.id, before.arguments) == (after.id, after.arguments)


async def test_the_question_about_a_step_does_so_too() -> None:
    _, (before, after) = await lost_in_the_middle(Counter(), "step")
    assert before.late_outcomes == ()
    assert known(after)[0]["result"] == 1


async def test_a_definite_failure_is_worth_knowing() -> None:
    _, (_, after) = await lost_in_the_middle(Counter(), "tool", ToolError("the account is closed"))
    assert known(after)[0]["error"] == "the account is closed"


async def test_an_action_that_outlives_its_attempt_is_told_all_the_same() -> None:
    counter, slow = Counter(), Bank()
    async with counter.process(slow) as owner, counter.process(Bank()) as taker:
        handle = await owner.start(Cashier, "both")
        await slow.begun.wait()
        taken = await taker.resume(handle.id)
        # Another branch notices first that the run is lost, and the attempt is over while the tool still acts.
        slow.go_on.set()
        with pytest.raises(RunOwnershipLost):
            await handle.result()
        slow.may_end.set()
        await let_run()
        await taker.cancel(handle.id)
        await taken.result()
    (told,) = counter.store.tables.late_outcomes.values()
    assert '"number":1' in told[0]


async def test_the_journal_is_untouched_and_a_person_decides() -> None:
    counter = Counter()
    run_id, (_, after) = await lost_in_the_middle(counter, "tool")
    rows = [row async for row in counter.store.journal.read(RunKey("default", run_id))]
    assert not [row for row in rows if row.action_id.endswith("pay#1") and row.stage is JournalStage.AFTER]
    bank = Bank()
    async with counter.process(bank) as runs:
        await runs.answer(run_id, after.id, RecoveryDecision.DONE, result={"number": 7, "payer": "x"})
        result = await (await runs.resume(run_id)).result()
        await runs.verify(run_id)
    assert (result.output, bank.paid) == ("7", 0)


async def test_what_was_told_before_anybody_is_asked_stands_in_the_question_itself() -> None:
    counter = Counter()
    run = RunKey("default", "unknown")
    slow = Bank()
    async with counter.process(slow) as owner:
        handle = await owner.start(Cashier, "tool")
        await slow.begun.wait()
    run = RunKey("default", handle.id)
    rows = [row async for row in counter.store.journal.read(run)]
    (action_id,) = {row.action_id for row in rows if "tool:pay" in row.action_id}
    await counter.store.late_outcomes.append(LateOutcome(run, action_id, 1, 1, {"result": 5}))
    await counter.store.late_outcomes.append(
        LateOutcome(run, action_id, 2, 1, {"result": "of another attempt"})
    )
    async with counter.process(Bank()) as runs:
        await (await runs.resume(handle.id)).result()
    rows = [row async for row in counter.store.journal.read(run)]
    (asked,) = [row.view for row in rows if row.action_id.endswith("recovery1")]
    assert isinstance(asked, dict)
    assert "'result': 5" in repr(asked["late_outcomes"])
    assert "another attempt" not in repr(asked["late_outcomes"])


async def test_what_may_be_repeated_is_simply_done_again() -> None:
    counter, slow, quick = Counter(), Bank(), Bank()
    quick.may_end.set()
    async with counter.process(slow) as owner, counter.process(quick) as taker:
        handle = await owner.start(Cashier, "note")
        await slow.begun.wait()
        assert (await (await taker.resume(handle.id)).result()).output == "1"
        slow.may_end.set()
        with pytest.raises(RunOwnershipLost):
            await handle.result()
    assert not counter.store.tables.late_outcomes


@pytest.mark.parametrize("late", [False, Away()])
async def test_without_a_store_for_them_a_person_is_asked_all_the_same(late: bool | Away) -> None:
    _, (before, after) = await lost_in_the_middle(Counter(late=late), "tool")
    assert before.late_outcomes == after.late_outcomes == ()

"""Any order of starts, answers, messages, crashes and thefts: no effect twice, no answer lost, no end undone."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, cast

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pilotage import AgentSignalKind, AgentState, AgentStatus, ApprovalDecision
from pilotage.agent import AgentApprovalRequest, AgentRecoveryRequest, RecoveryDecision
from pilotage.agent.ports.persistence import JournalRow, JournalStage
from pilotage.agent.recovery import AgentActionKind
from pilotage.errors import CallerError
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.events.event_log import logged_events
from pilotage.runtime.journal.interruptions import RunInterruption, RunOwnershipLost
from pilotage.runtime.journal.lease import LeaseSettings
from pilotage.runtime.journal.scope import RESULT
from pilotage.runtime.runs import AgentRuns
from pilotage.testing import Fault, LoseReply, ProcessStopped, StopAfter, StopBefore
from tests.crash.machine import ASKED, Cashier, Patient, Strict, Town, Trouble, receipt
from tests.random_tests import examples

LEASE_SECONDS = LeaseSettings().seconds

LATE = (CallerError, RunOwnershipLost, ProcessStopped)
FAULTS: st.SearchStrategy[Fault | None] = st.none() | st.sampled_from(
    [kind(number) for number in range(1, 9) for kind in (StopBefore, StopAfter, LoseReply)]
)
PICKS = st.integers(0, 99)
TURNS = st.integers(0, 40)
GIVING_UP = st.sampled_from([None, None, None, RecoveryDecision.FAIL, RecoveryDecision.CANCEL])
ALLOWED = {"approve", "modify"}
WITH_RESULT = {AgentStatus.COMPLETED, AgentStatus.FAILED}


class Runs(RuleBasedStateMachine):
    """Runs over one store, and everything that people and processes do to them."""

    def __init__(self) -> None:
        super().__init__()
        self.town = self.make_town()
        self.runner = asyncio.Runner()
        self.messages: dict[str, str] = {}
        self.decisions: dict[str, list[str]] = {}
        self.ended: dict[str, AgentState] = {}
        self.requests: dict[tuple[str, str], str] = {}
        self.written: dict[str, list[str]] = {}
        self.approvals: list[AgentApprovalRequest] = []
        self.recoveries: list[AgentRecoveryRequest] = []

    def make_town(self) -> Town:
        """Where the story happens."""
        return Town()

    def do(self, work: Coroutine[Any, Any, None]) -> None:
        """One step of the story, in the loop of the story."""
        try:
            self.runner.run(work)
        except RunInterruption as leaked:
            raise AssertionError(f"{type(leaked).__name__} reached a caller: {leaked}") from leaked

    def has_runs(self) -> bool:
        return bool(self.written)

    def has_approvals(self) -> bool:
        return bool(self.approvals)

    def has_recoveries(self) -> bool:
        return bool(self.recoveries)

    def pick(self, number: int) -> str:
        """One of the runs, the newest first."""
        return list(reversed(self.written))[number % len(self.written)]

    @rule(agent=st.sampled_from([Strict, Patient]), fault=FAULTS)
    def start(self, agent: type[Cashier], fault: Fault | None) -> None:
        async def work() -> None:
            async with self.town.process(fault) as runs:
                with suppress(*LATE):
                    await (await runs.start(agent, "A-17")).result()

        self.do(work())

    @precondition(has_runs)
    @rule(number=PICKS, fault=FAULTS)
    def resume(self, number: int, fault: Fault | None) -> None:
        self.do(self.resumed(self.pick(number), fault))

    @precondition(has_runs)
    @rule(number=PICKS, faults=st.tuples(FAULTS, FAULTS), turns=TURNS)
    def steal(self, number: int, faults: tuple[Fault | None, Fault | None], turns: int) -> None:
        async def work() -> None:
            run_id = self.pick(number)
            async with self.town.process(faults[0]) as owner, self.town.process(faults[1]) as thief:
                await asyncio.gather(carry_on(owner, run_id), after(turns, self.stolen(thief, run_id)))

        self.do(work())

    @precondition(has_approvals)
    @rule(number=PICKS, decision=st.sampled_from(ApprovalDecision), amount=st.integers(1, 5), fault=FAULTS)
    def answer_and_resume(
        self, number: int, decision: ApprovalDecision, amount: int, fault: Fault | None
    ) -> None:
        self.answer(number, decision, amount)
        self.do(self.resumed(self.approvals[number % len(self.approvals)].agent_state_id, fault))

    @precondition(has_approvals)
    @rule(number=PICKS, decision=st.sampled_from(ApprovalDecision), amount=st.integers(1, 5))
    def answer(self, number: int, decision: ApprovalDecision, amount: int) -> None:
        async def work() -> None:
            async with self.town.process() as runs:
                await self.decide(runs, self.approvals[number % len(self.approvals)], decision, amount)

        self.do(work())

    @precondition(has_recoveries)
    @rule(number=PICKS, gives_up=GIVING_UP, fault=FAULTS)
    def recover(self, number: int, gives_up: RecoveryDecision | None, fault: Fault | None) -> None:
        request = self.recoveries[number % len(self.recoveries)]

        async def work() -> None:
            async with self.town.process() as runs:
                await self.tell_truth(runs, request, gives_up)
            await self.resumed(request.agent_state_id, fault)

        self.do(work())

    @precondition(has_runs)
    @rule(number=PICKS, is_live=st.booleans(), turns=TURNS)
    def say(self, number: int, is_live: bool, turns: int) -> None:
        async def work() -> None:
            run_id = self.pick(number)
            async with self.town.process() as runs:
                meanwhile = carry_on(runs, run_id) if is_live else after(0, None)
                await asyncio.gather(meanwhile, after(turns, self.send(runs, run_id)))

        self.do(work())

    @precondition(has_runs)
    @rule(number=PICKS, faults=st.tuples(FAULTS, FAULTS), is_live=st.booleans(), turns=TURNS)
    def cancel(
        self, number: int, faults: tuple[Fault | None, Fault | None], is_live: bool, turns: int
    ) -> None:
        async def work() -> None:
            run_id = self.pick(number)
            async with self.town.process(faults[0]) as owner, self.town.process(faults[1]) as canceller:
                meanwhile = carry_on(owner, run_id) if is_live else after(0, None)
                await asyncio.gather(meanwhile, after(turns, stop(canceller, run_id)))

        self.do(work())

    @rule(trouble=st.sampled_from(Trouble))
    def brew(self, trouble: Trouble) -> None:
        self.town.world.trouble = trouble

    @rule(seconds=st.integers(1, 100_000))
    def wait(self, seconds: int) -> None:
        self.town.clock.advance(seconds)

    async def resumed(self, run_id: str, fault: Fault | None) -> None:
        """Bring a run as far as a process with this fault gets."""
        async with self.town.process(fault) as runs:
            await carry_on(runs, run_id)

    async def stolen(self, thief: AgentRuns, run_id: str) -> None:
        """Take a run over from an owner that was silent for too long."""
        self.town.clock.advance(2 * LEASE_SECONDS)
        await carry_on(thief, run_id)

    async def decide(
        self, runs: AgentRuns, request: AgentApprovalRequest, decision: ApprovalDecision, amount: int
    ) -> None:
        """Answer an approval request; the first answer that does not put it off is the one that counts."""
        if decision is ApprovalDecision.MODIFY:
            await runs.modify(request.id, {"amount": amount})
        else:
            await runs.answer(request.agent_state_id, request.id, decision, resume=False)
        self.decisions.setdefault(request.id, []).append(decision.value)

    async def tell_truth(
        self, runs: AgentRuns, request: AgentRecoveryRequest, gives_up: RecoveryDecision | None = None
    ) -> None:
        """Say what the till says about an attempt, or give the run up."""
        run_id, tool = request.agent_state_id, str(request.action_name)
        made = self.town.world.made(run_id, tool)
        if gives_up is not None:
            await runs.answer(run_id, request.id, gives_up, resume=False)
        elif made:
            result = receipt(tool, made[0].amount)
            await runs.answer(run_id, request.id, RecoveryDecision.DONE, result=result, resume=False)
        else:
            await runs.answer(run_id, request.id, RecoveryDecision.RETRY, resume=False)

    async def send(self, runs: AgentRuns, run_id: str) -> None:
        """Send a message twice with one id; whether it was accepted is remembered."""
        message = f"message-{len(self.messages) + 1}"
        with suppress(CallerError):
            await runs.signal(run_id, AgentSignalKind.USER_MESSAGE, {"text": message}, id=message)
            self.messages[message] = run_id
            await runs.signal(run_id, AgentSignalKind.USER_MESSAGE, {"text": message}, id=message)

    @invariant()
    def everything_holds(self) -> None:
        self.do(self.check())

    async def check(self) -> None:
        """Every run against its journal, the world and what was known of it before."""
        self.approvals, self.recoveries = [], []
        async with self.town.process() as runs:
            for state in await self.town.states():
                for request in await runs.questions(state.id):
                    if isinstance(request, AgentApprovalRequest):
                        self.approvals.append(request)
                    else:
                        self.recoveries.append(request)
                rows = await self.town.rows(state.id)
                assert await runs.verify(state.id) == len(rows)
                self.check_history(state, rows)
                self.check_requests(state.id, rows)
                self.check_payments(state.id, rows)
                await self.check_messages(state.id, rows)

    def check_history(self, state: AgentState, rows: list[JournalRow]) -> None:
        """What is written stays written, and an end is an end."""
        digests, before = [row.digest for row in rows], self.written.get(state.id, [])
        assert digests[: len(before)] == before
        self.written[state.id] = digests
        results = sum(row.action_id == RESULT for row in rows)
        assert results == (state.status in WITH_RESULT)
        ends = [item for item in logged_events(rows, state.id) if item.kind == "run_finished"]
        assert len(ends) == state.is_terminal
        if state.is_terminal:
            known = self.ended.setdefault(state.id, state)
            assert (state.status, state.reason, state.updated_at) == (
                known.status,
                known.reason,
                known.updated_at,
            )

    def check_requests(self, run_id: str, rows: list[JournalRow]) -> None:
        """A question is asked once and answered once, with an answer that somebody gave."""
        waits = [row for row in rows if row.kind is AgentActionKind.APPROVAL_WAIT]
        stages = Counter((row.action_id, row.stage) for row in waits)
        assert all(count == 1 for count in stages.values())
        for row in waits:
            record = cast(JsonObject, row.record)
            if row.stage is JournalStage.BEFORE:
                asked = str(record["id"])
                assert self.requests.setdefault((run_id, row.action_id), asked) == asked
            elif "decision" in record:
                assert record["decision"] in self.decisions[self.requests[run_id, row.action_id]]
        assert len(set(self.requests.values())) == len(self.requests)

    def check_payments(self, run_id: str, rows: list[JournalRow]) -> None:
        """Money goes once, and only as somebody allowed it."""
        made = [each for each in self.town.world.payments if each.run_id == run_id]
        assert all(count == 1 for count in Counter(each.tool for each in made).values())
        begun = {
            (row.action_id.rpartition(":")[2].partition("#")[0], row.attempt)
            for row in rows
            if row.kind is AgentActionKind.TOOL_CALL and row.stage is JournalStage.BEFORE
        }
        assert {(each.tool, each.attempt) for each in made} <= begun
        answers = [
            cast(JsonObject, row.record)
            for row in rows
            if row.action_id.endswith("/approval") and row.stage is JournalStage.AFTER
        ]
        for refund in self.town.world.made(run_id, "refund"):
            (answer,) = answers
            assert answer["decision"] in ALLOWED
            modified = cast(JsonObject, answer["modified_payload"])
            assert refund.amount == modified.get("amount", ASKED)

    async def check_messages(self, run_id: str, rows: list[JournalRow]) -> None:
        """A message waits, is taken in or comes too late, once."""
        taken = [
            cast(str, signal["id"])
            for row in rows
            if row.kind is AgentActionKind.SIGNAL
            for signal in cast("list[JsonObject]", cast(JsonObject, row.record)["result"])
        ]
        pending = await self.town.store.signals.list_pending(run_id)
        waiting = [each.id for each in pending if each.kind is AgentSignalKind.USER_MESSAGE]
        sent = [message for message, receiver in self.messages.items() if receiver == run_id]
        state = await self.town.store.states.get_or_none(run_id)
        closed = cast("list[str]", state.metadata.get("late_signals", [])) if state is not None else []
        # A request to cancel may come too late as well: while the run ends by an answer.
        late = [each for each in closed if each in self.messages]
        assert sorted(taken + waiting + late) == sorted(sent)

    def teardown(self) -> None:
        try:
            self.town.world.trouble = None
            for run_id in self.written:
                self.do(self.bring_to_its_end(run_id))
            self.do(self.check())
        finally:
            self.runner.close()

    async def bring_to_its_end(self, run_id: str) -> None:
        """Answer truthfully and resume until the run is over; then its totals must be right."""
        for _ in range(8):
            async with self.town.process() as runs:
                for request in await runs.questions(run_id):
                    if isinstance(request, AgentRecoveryRequest):
                        await self.tell_truth(runs, request)
                    else:
                        await self.decide(runs, request, ApprovalDecision.APPROVE, ASKED)
                await carry_on(runs, run_id)
                if (await runs.get(run_id)).is_terminal:
                    return await self.check_totals(runs, run_id)
        raise AssertionError(f"run {run_id!r} does not come to an end")

    async def check_totals(self, runs: AgentRuns, run_id: str) -> None:
        """A completed run did what it says, no more and no less."""
        result = await runs.result(run_id)
        if result.status is not AgentStatus.COMPLETED:
            return
        assert run_id in self.town.world.notes
        made = [each for tool in ("pay", "refund") for each in self.town.world.made(run_id, tool)]
        receipts = [receipt(each.tool, each.amount) for each in made]
        assert [each for each in result.output if each != "no refund"] == receipts


async def carry_on(runs: AgentRuns, run_id: str) -> None:
    """Resume a run and bring it as far as it gets; who comes too late, loses the run or dies has done nothing wrong."""
    with suppress(*LATE):
        await (await runs.resume(run_id)).result()


async def stop(runs: AgentRuns, run_id: str) -> None:
    """Cancel a run; who loses it or dies meanwhile has done nothing wrong."""
    with suppress(*LATE):
        await runs.cancel(run_id)


async def after(turns: int, work: Coroutine[Any, Any, None] | None) -> None:
    """Let others run for a while, then do it."""
    for _ in range(turns):
        await asyncio.sleep(0)
    if work is not None:
        await work


class LeasedRuns(Runs):
    """The same where leases say who tries."""

    def make_town(self) -> Town:
        return Town(has_leases=True)


TestRuns = Runs.TestCase
TestRuns.settings = examples(24, stateful_step_count=25)
TestLeasedRuns = LeasedRuns.TestCase
TestLeasedRuns.settings = examples(12, stateful_step_count=25)

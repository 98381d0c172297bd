"""Processes that come and go over one store and one outside world, and a person who answers truthfully."""

from __future__ import annotations

from pilotage import AgentStatus, Application, ApprovalDecision
from pilotage.agent import AgentApprovalRequest, AgentRecoveryRequest, RecoveryDecision
from pilotage.agent.run_values import RunResult
from pilotage.runtime.plugin import initialize
from pilotage.runtime.runs import AgentRuns
from pilotage.testing import Fault, FaultyJournal, MemoryStore, ProcessStopped, ScriptedModel, SeededIds, says
from pilotage.testing.crash_matrix import StorePorts
from tests.crash.shop import RECEIPTS, Clerk, Shop, World


class Processes:
    """One run of `Clerk`, carried on by as many processes as it takes."""

    def __init__(self, store: StorePorts | None = None) -> None:
        self.store = store or MemoryStore()
        self.world = World()
        self.ids = SeededIds(1)
        self.count = 0
        self.commits = 0
        self.answered: list[str] = []

    async def carry_through(self, *faults: Fault | None) -> RunResult:
        """Start the run and bring it to its end; the n-th process has the n-th fault."""
        result: RunResult | None = None
        while result is None or not result.state.is_terminal:
            fault = faults[self.count] if self.count < len(faults) else None
            result = await self._one_process(fault)
            assert self.count < 30, "the run does not come to an end"
        return result

    async def _one_process(self, fault: Fault | None) -> RunResult | None:
        self.count += 1
        journal = FaultyJournal(self.store.journal, fault)
        model = ScriptedModel([says("Yes.")])
        app = Application("shop").add(Clerk, Shop, self.world, model, journal, self.store.states)
        app.add(self.store.signals, self.store.evidence, self.ids)
        initialize(app)
        async with app:
            runs = app.get(AgentRuns)
            try:
                return await self._carry_on(runs)
            except ProcessStopped:
                return None
            finally:
                self.commits = max(self.commits, journal.commits)

    async def _carry_on(self, runs: AgentRuns) -> RunResult:
        run_id = await self._known_run()
        if run_id is None:
            return await (await runs.start(Clerk, "A-17")).result()
        if (await runs.get(run_id)).is_terminal:
            return await runs.result(run_id)
        for request in await runs.questions(run_id):
            await self._answer(runs, run_id, request)
        return await (await runs.resume(run_id)).result()

    async def _known_run(self) -> str | None:
        known = [state for status in AgentStatus for state in await self.store.states.list_by_status(status)]
        assert len(known) <= 1, "a run was started twice"
        return known[0].id if known else None

    async def _answer(
        self, runs: AgentRuns, run_id: str, request: AgentApprovalRequest | AgentRecoveryRequest
    ) -> None:
        pending = await self.store.signals.list_pending(run_id)
        if request.id in {signal.payload.get("request_id") for signal in pending}:
            return
        self.answered.append(request.id)
        if isinstance(request, AgentApprovalRequest):
            await runs.answer(run_id, request.id, ApprovalDecision.APPROVE, resume=False)
            return
        happened = self.world.done[str(request.action_name)]
        if happened:
            receipt = f"{request.action_name}-{happened}"
            await runs.answer(run_id, request.id, RecoveryDecision.DONE, result=receipt, resume=False)
        else:
            await runs.answer(run_id, request.id, RecoveryDecision.RETRY, resume=False)


def assert_done_right(processes: Processes, result: RunResult) -> None:
    """The run is completed, and the outside world saw each effect exactly once."""
    assert result.status is AgentStatus.COMPLETED, result.state
    assert result.output == RECEIPTS
    assert processes.world.done == {"mark": 1, "pay": 1, "ship": 1, "refund": 1}

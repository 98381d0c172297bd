"""The ways from an AG-UI input to a run: starting it, answering it, coming back to it, ending it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import replace

from pilotage.adapters.agui.errors import AgUiPendingApprovalError
from pilotage.adapters.agui.questions import AgUiContinuation, AgUiDecision, AgUiToolResult
from pilotage.adapters.agui.stream import Bookmark
from pilotage.agent.events import AgentEvent, AgentEventAttribution, RunFinishedEvent, RunStartedEvent
from pilotage.agent.recovery_request import AgentRecoveryRequest, RecoveryDecision
from pilotage.agent.run_input import RunAgentInput as CoreRunInput
from pilotage.agent.run_result import RunResult
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.errors import CallerError, RunConflictError
from pilotage.jsonvalue import JsonObject, to_json_value
from pilotage.runtime.answers import run_of
from pilotage.runtime.events.feed import START
from pilotage.runtime.events.subscription import Subscription
from pilotage.runtime.run.opened import OpenedRun
from pilotage.runtime.run.start import run_id_of
from pilotage.runtime.runner import AgentRunner
from pilotage.runtime.runs import AgentRuns


class _Opener:
    """Runs of one agent, reached for one principal."""

    def __init__(self, runs: AgentRuns, runner: AgentRunner) -> None:
        self._runs = runs
        self._runner = runner
        self._principal = runner.principal

    def _check_agent(self, state: AgentState) -> None:
        agent_id = self._runner.definition.agent_id
        if state.agent_type != agent_id:
            raise RunConflictError(
                f"run {state.id!r} is one of agent {state.agent_type!r}, not of {agent_id!r}. Go there with it."
            )

    async def _take_up(self, state: AgentState) -> None:
        """Resume a run that has work to do and may have no owner."""
        if state.status is AgentStatus.INTERRUPTED:
            has_work = bool(await self._runs.services.signals.list_pending(state.id))
        else:
            has_work = not state.is_terminal
        if has_work:
            # A run that has another owner, or has just ended, is read all the same.
            with suppress(CallerError):
                await self._runs.resume(state.id, principal=self._principal)


class StartedRuns(_Opener):
    """Starts runs that are kept. One that was started by the same input before is read from its beginning."""

    async def open(self, given: object, /) -> OpenedRun:
        """The run that the input starts, or has started.

        Raises:
            CallerError: the input is no input of the agent, or its name stands for a run with another one.
        """
        name = given.state_id if isinstance(given, CoreRunInput) else ""
        run_id = run_id_of(self._principal.tenant, name)
        known = await self._runs.services.states.get_or_none(run_id)
        run = await self._runner.open(given)
        if known is None:
            return run
        await self._take_up(known)
        return _ReadRun(self._runs, Bookmark(run_id, START, START), self._runner)


class AnsweredRuns(_Opener):
    """Hands decisions and results to the runs that wait for them, then brings back the run at the top."""

    def __init__(
        self,
        runs: AgentRuns,
        runner: AgentRunner,
        decided: Sequence[AgUiDecision | AgUiContinuation],
        results: Sequence[AgUiToolResult] = (),
    ) -> None:
        super().__init__(runs, runner)
        self._decided = decided
        self._results = results

    async def open(self, given: object, /) -> OpenedRun:
        """The run that goes on with what was answered.

        Raises:
            RunNotFoundError: there is no such run in the principal's tenant.
            RunConflictError: the decisions are about several runs, or about one of another agent.
            AgUiPendingApprovalError: nobody waits for the results.
            CallerError: nobody waits for a decision, or it does not fit; that question stays open.
        """
        resumed = (
            given if isinstance(given, CoreRunInput) else CoreRunInput(self._runner.definition.agent_id, "-")
        )
        top = await self._asking() if self._decided else await self._waiting(resumed.conversation_id)
        self._check_agent(top)
        for each in self._decided:
            await self._decide(each)
        for request_id, result in await self._awaited(top):
            done = RecoveryDecision.DONE
            await self._runs.answer(
                top.id, request_id, done, resume=False, principal=self._principal, result=result.result
            )
        return await self._runner.open(replace(resumed, state_id=top.id, resume=True, deferred_tools=()))

    async def _asking(self) -> AgentState:
        """The one run that all decisions are about."""
        tops = {top.id: top for top in [await self._top_of(each) for each in self._decided]}
        if len(tops) > 1:
            raise RunConflictError("the decisions are about several runs. Send one input for each of them.")
        (top,) = tops.values()
        return top

    async def _waiting(self, thread: str | None) -> AgentState:
        """The run of the thread that waits for one of the results."""
        page = await self._runs.list(
            statuses=[AgentStatus.INTERRUPTED],
            agent=self._runner.definition.agent_id,
            conversation_id=thread,
            principal=self._principal,
        )
        for state in page.runs:
            if await self._awaited(state):
                return state
        calls = ", ".join(repr(each.call_id) for each in self._results)
        raise AgUiPendingApprovalError(
            f"no run of thread {thread!r} waits for the result of tool call {calls}. Send what the user says as the "
            "last message, or the result of a call that has none."
        )

    async def _awaited(self, state: AgentState) -> list[tuple[str, AgUiToolResult]]:
        """The results that a run waits for, each with the question it answers."""
        if not self._results:
            return []
        asked = {
            question.deferred_call: question.id
            for question in await self._runs.questions(state.id, principal=self._principal)
            if isinstance(question, AgentRecoveryRequest) and question.deferred_call is not None
        }
        return [(asked[each.call_id], each) for each in self._results if each.call_id in asked]

    async def _decide(self, decided: AgUiDecision | AgUiContinuation) -> None:
        if isinstance(decided, AgUiDecision):
            run_id, decision = run_of(decided.request_id), decided.decision
            # The run is resumed here, once all decisions of the input are stored.
            await self._runs.answer(
                run_id,
                decided.request_id,
                decision,
                resume=False,
                principal=self._principal,
                **decided.details,
            )
        elif decided.is_cancelled:
            await self._runs.cancel(decided.run_id, principal=self._principal)

    async def _top_of(self, decided: AgUiDecision | AgUiContinuation) -> AgentState:
        """Return the run without a parent, at or above the one that asked."""
        asked = run_of(decided.request_id) if isinstance(decided, AgUiDecision) else decided.run_id
        state = await self._runs.get(asked, principal=self._principal)
        while isinstance(parent := state.metadata.get("parent"), str):
            state = await self._runs.get(parent, principal=self._principal)
        return state


class SeenRuns(_Opener):
    """Reconnects a client to the stream of a run; a run without an owner is resumed."""

    def __init__(self, runs: AgentRuns, runner: AgentRunner, seen: Bookmark) -> None:
        super().__init__(runs, runner)
        self._seen = seen

    async def open(self, given: object, /) -> OpenedRun:
        """The run of the bookmark, read from where its stream began.

        Raises:
            RunNotFoundError: there is no such run in the principal's tenant.
            RunConflictError: it is one of another agent.
        """
        state = await self._runs.get(self._seen.run_id, principal=self._principal)
        self._check_agent(state)
        await self._take_up(state)
        return _ReadRun(self._runs, self._seen, self._runner)


class _ReadRun:
    """A run that is read and not driven by its reader."""

    def __init__(self, runs: AgentRuns, seen: Bookmark, runner: AgentRunner) -> None:
        self.id = seen.run_id
        self._runs = runs
        self._after = str(seen.origin)
        self._principal = runner.principal

    def events(self) -> Subscription:
        return self._runs.events(self.id, after=self._after, principal=self._principal)

    async def result(self) -> RunResult:
        return await self._runs.result(self.id, principal=self._principal)

    async def leave(self) -> None:
        """Nothing happens to the run."""


class EndedRuns(_Opener):
    """Cancels a run for its client, and streams how it ended."""

    def __init__(self, runs: AgentRuns, runner: AgentRunner, name: str) -> None:
        super().__init__(runs, runner)
        self._name = name

    async def end(self) -> RunResult:
        """Cancel the run; one that has ended stays as it is.

        Raises:
            RunNotFoundError: there is no such run in the principal's tenant.
            RunConflictError: it is one of another agent, or another process has it and is told.
        """
        run_id = run_id_of(self._principal.tenant, self._name)
        self._check_agent(await self._runs.get(run_id, principal=self._principal))
        await self._runs.cancel(run_id, reason="the client wants it", principal=self._principal)
        return await self._runs.result(run_id, principal=self._principal)

    async def open(self, given: object, /) -> OpenedRun:
        """Return the run, of which only the end is streamed."""
        return _EndedRun(await self.end())


class _EndedRun:
    """A run of which only the end is streamed."""

    def __init__(self, result: RunResult) -> None:
        self.id = result.state.id
        self._result = result

    async def _told(self) -> AsyncGenerator[AgentEvent, None]:
        by = AgentEventAttribution(self._result.state.agent_type, self.id, self.id)
        yield RunStartedEvent(by)
        output: JsonObject = {"output": to_json_value(self._result.output)}
        yield RunFinishedEvent(by, self._result.error, output)

    def events(self) -> AsyncIterator[AgentEvent]:
        return self._told()

    async def result(self) -> RunResult:
        return self._result

    async def leave(self) -> None:
        """Nothing is left of the run."""

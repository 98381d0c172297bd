"""`driver_for`: the runs of one agent for every transport, and how an input leads to a run.

An input starts a run, answers its questions, reconnects to its stream, or cancels it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import replace

from ag_ui.core import RunAgentInput

from pilotage.adapters.agui import questions
from pilotage.adapters.agui.errors import AgUiPendingApprovalError
from pilotage.adapters.agui.projector import AgUiProjector
from pilotage.adapters.agui.run_input import cancelled_run_in, check_size, last_seen, with_history
from pilotage.adapters.agui.stream import AgUiRunDriver, Bookmark, RecentFrames, RunOpener, encoder_for
from pilotage.adapters.agui_plugin import AgUiConfig
from pilotage.agent.events import AgentEvent, AgentEventAttribution, RunFinishedEvent, RunStartedEvent
from pilotage.agent.principal import LOCAL, Principal
from pilotage.agent.recovery_request import AgentRecoveryRequest, RecoveryDecision
from pilotage.agent.run_values import RunAgentInput as CoreRunInput
from pilotage.agent.run_values import RunResult
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.container.application import Application
from pilotage.errors import CallerError, RunConflictError
from pilotage.jsonvalue import JsonObject, to_json_value
from pilotage.runtime.answering import GivenAnswer
from pilotage.runtime.answers import run_of
from pilotage.runtime.events.feed import START
from pilotage.runtime.events.subscription import Subscription
from pilotage.runtime.run.blueprint import can_wait_for_callers
from pilotage.runtime.run.opened import OpenedRun
from pilotage.runtime.run.start import run_id_of
from pilotage.runtime.runner import AgentRunner
from pilotage.runtime.runs import AgentRuns
from pilotage.values import value


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
    """Starts durable runs. One that was started by the same input before is read from its beginning."""

    async def open(self, given: object, /) -> OpenedRun:
        """Return the run that the input starts, or has started; the same name with another input is an error."""
        name = given.state_id if isinstance(given, CoreRunInput) else ""
        run_id = run_id_of(self._principal.tenant, name)
        known = await self._runs.services.states.get_or_none(run_id)
        run = await self._runner.open(given)
        if known is None:
            return run
        await self._take_up(known)
        return _ReadRun(self._runs, Bookmark(run_id, START, START), self._runner)


class AnsweredRuns(_Opener):
    """Passes decisions and results to the runs that wait for them, then resumes the run at the top."""

    def __init__(
        self,
        runs: AgentRuns,
        runner: AgentRunner,
        decided: Sequence[GivenAnswer | questions.AgUiContinuation],
        results: Sequence[questions.AgUiToolResult] = (),
    ) -> None:
        super().__init__(runs, runner)
        self._decided = decided
        self._results = results

    async def open(self, given: object, /) -> OpenedRun:
        """Return the run that goes on with the answers.

        Raises:
            RunNotFoundError: there is no such run in the principal's tenant.
            RunConflictError: the decisions are about several runs, or about one of another agent.
            AgUiPendingApprovalError: no run waits for the results.
            AnswerConflictError: a question has another answer, or has expired; the error says which others count.
            CallerError: no run waits for a decision, or it does not fit: no answer of the input was accepted.
        """
        agent_id = self._runner.definition.agent_id
        resumed = given if isinstance(given, CoreRunInput) else CoreRunInput(agent_id, "-")
        top = await self._asking() if self._decided else await self._waiting(resumed.conversation_id)
        self._check_agent(top)
        answers = [each for each in self._decided if isinstance(each, GivenAnswer)]
        answers += await self._awaited(top, with_closed=True)
        # The run is resumed here, once all answers of the input are stored.
        await self._runs.answer_all(top.id, answers, resume=False, principal=self._principal)
        for each in self._decided:
            if isinstance(each, questions.AgUiContinuation) and each.is_cancelled:
                await self._runs.cancel(each.run_id, principal=self._principal)
        return await self._runner.open(replace(resumed, state_id=top.id, resume=True, deferred_tools=()))

    async def _asking(self) -> AgentState:
        """Return the one run that all decisions are about."""
        tops = {top.id: top for top in [await self._top_of(each) for each in self._decided]}
        if len(tops) > 1:
            raise RunConflictError("the decisions are about several runs. Send one input for each of them.")
        (top,) = tops.values()
        return top

    async def _waiting(self, thread: str | None) -> AgentState:
        """Return the run of the thread that waits for one of the results."""
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

    async def _awaited(self, state: AgentState, *, with_closed: bool = False) -> list[GivenAnswer]:
        """Return the results that a run waits for, as answers to its questions, answered ones included."""
        if not self._results:
            return []
        open_questions = await self._runs.questions(state.id, principal=self._principal)
        if with_closed:
            open_questions += await self._runs.answered_questions(state.id, principal=self._principal)
        calls = {
            question.deferred_call: question.id
            for question in reversed(open_questions)
            if isinstance(question, AgentRecoveryRequest) and question.deferred_call is not None
        }
        return [
            GivenAnswer(calls[each.call_id], RecoveryDecision.DONE, {"result": each.result})
            for each in self._results
            if each.call_id in calls
        ]

    async def _top_of(self, decided: GivenAnswer | questions.AgUiContinuation) -> AgentState:
        """Return the run without a parent, at or above the one that asked."""
        run_id = run_of(decided.request_id) if isinstance(decided, GivenAnswer) else decided.run_id
        state = await self._runs.get(run_id, principal=self._principal)
        while isinstance(parent := state.metadata.get("parent"), str):
            state = await self._runs.get(parent, principal=self._principal)
        return state


class SeenRuns(_Opener):
    """Runs to which a client reconnects; a run without an owner is resumed."""

    def __init__(self, runs: AgentRuns, runner: AgentRunner, seen: Bookmark) -> None:
        super().__init__(runs, runner)
        self._seen = seen

    async def open(self, given: object, /) -> OpenedRun:
        """Return the run of the bookmark, which must be one of the agent, read from where its stream began."""
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
        """Do nothing: the run goes on."""


class EndedRuns(_Opener):
    """Runs that their client cancels, with a stream of their end."""

    def __init__(self, runs: AgentRuns, runner: AgentRunner, name: str) -> None:
        super().__init__(runs, runner)
        self._name = name

    async def end(self) -> RunResult:
        """Cancel the run, which must be one of the agent, and return its result; one that has ended stays as it is."""
        run_id = run_id_of(self._principal.tenant, self._name)
        self._check_agent(await self._runs.get(run_id, principal=self._principal))
        await self._runs.cancel(run_id, reason="the client cancelled it", principal=self._principal)
        return await self._runs.result(run_id, principal=self._principal)

    async def open(self, given: object, /) -> OpenedRun:
        """Return the run, of which only the end is streamed."""
        return _EndedRun(await self.end())


class _EndedRun:
    """A run of which only the end is streamed."""

    def __init__(self, result: RunResult) -> None:
        self.id = result.state.id
        self._result = result

    async def _end_events(self) -> AsyncGenerator[AgentEvent, None]:
        by = AgentEventAttribution(self._result.state.agent_type, self.id, self.id)
        yield RunStartedEvent(by)
        output: JsonObject = {"output": to_json_value(self._result.output)}
        yield RunFinishedEvent(by, self._result.error, output)

    def events(self) -> AsyncIterator[AgentEvent]:
        return self._end_events()

    async def result(self) -> RunResult:
        return self._result

    async def leave(self) -> None:
        """Do nothing: the run has ended."""


@value
class AgentDriver:
    """Makes streams over the runs of one agent, acting for a principal: a `RunDriverFactory`.

    Without a `config` it is the application's own. The application may start later.
    """

    app: Application
    agent: type[object]
    principal: Principal = LOCAL
    config: AgUiConfig | None = None

    def for_principal(self, principal: Principal) -> AgentDriver:
        """Return the same streams, acting for another principal."""
        return replace(self, principal=principal)

    @property
    def shown(self) -> AgUiConfig:
        """The settings of the endpoints."""
        return self.config or self.app.get_or_none(AgUiConfig) or AgUiConfig()

    def __call__(
        self, run_input: CoreRunInput, ag_ui_input: RunAgentInput, accept: str | None = None
    ) -> AsyncIterable[str]:
        runner = self._runner()
        seen = last_seen(ag_ui_input)
        projector = AgUiProjector(
            self.shown,
            run_id=ag_ui_input.run_id,
            thread_id=ag_ui_input.thread_id,
            messages=ag_ui_input.messages,
        )
        opener: RunOpener = SeenRuns(self._runs, runner, seen) if seen else self._opener(runner, ag_ui_input)
        given = self._given(runner, run_input, ag_ui_input)
        agent_id = runner.definition.agent_id
        recent = RecentFrames.of(self.app)
        return AgUiRunDriver(
            opener, given, agent_id, projector, encoder_for(accept), seen=seen, recent=recent
        )

    async def cancel(self, name: str) -> None:
        """Cancel the run that a client started by this name; raise CallerError where that cannot be done here."""
        await EndedRuns(self._runs, self._runner(), name).end()

    def _opener(self, runner: AgentRunner, ag_ui_input: RunAgentInput) -> RunOpener:
        if (name := cancelled_run_in(ag_ui_input)) is not None:
            return EndedRuns(self._runs, runner, name)
        decided = (
            questions.decisions_in(ag_ui_input) if questions.carries_approval_decision(ag_ui_input) else ()
        )
        results = questions.tool_results_in(ag_ui_input)
        if decided or results:
            return AnsweredRuns(self._runs, runner, decided, results)
        return StartedRuns(self._runs, runner) if runner.definition.spec.is_durable else runner

    def _given(
        self, runner: AgentRunner, run_input: CoreRunInput, ag_ui_input: RunAgentInput
    ) -> CoreRunInput:
        """Return the input that this agent accepts: tools of the client if it can wait, history if none is stored."""
        if not can_wait_for_callers(runner.definition):
            run_input = replace(run_input, deferred_tools=())
        if self._runs.services.conversations is None:
            run_input = with_history(run_input, ag_ui_input)
            check_size(run_input, self.shown.limits)
        return run_input

    def _runner(self) -> AgentRunner:
        return AgentRunner.for_agent_instance(self.app.get(self.agent)).for_principal(self.principal)

    @property
    def _runs(self) -> AgentRuns:
        return self.app.get(AgentRuns)


def driver_for(
    app: Application, agent: type[object], *, principal: Principal = LOCAL, config: AgUiConfig | None = None
) -> AgentDriver:
    """Return a factory of streams over the runs of an agent, for a principal; the application may start later."""
    return AgentDriver(app, agent, principal, config)

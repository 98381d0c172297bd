"""Inputs with answers: decisions of people, and results of the client's own tools.

The stream of an answer ends with RUN_FINISHED, whatever becomes of the answer: a client that gets an error keeps the
interrupt, and sends nothing further. An answer that is refused gets the questions that are still open again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from ag_ui.core import BaseEvent, CustomEvent, RunAgentInput, ToolCallResultEvent, ToolMessage

from pilotage.adapters.agui import decisions
from pilotage.adapters.agui.decisions import AgUiContinuation, AgUiDecision, AgUiToolResult
from pilotage.adapters.agui.errors import AgUiPendingApprovalError
from pilotage.adapters.agui.frames import marked_call
from pilotage.adapters.agui.openers import MESSAGE_IDS, Opener, StartedRuns
from pilotage.adapters.agui.questions import calls_of_question
from pilotage.adapters.agui.reading import Following, ReadRun
from pilotage.adapters.agui.stream import Bookmark, StreamedRun
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.recovery_request import AgentRecoveryRequest, RecoveryDecision
from pilotage.agent.run_values import RunAgentInput as CoreRunInput
from pilotage.agent.signals import AgentSignal, AgentSignalEnd, words_of
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.errors import AnswerConflictError, CallerError, RunConflictError
from pilotage.jsonvalue import canonical_json
from pilotage.runtime.answering import GivenAnswer
from pilotage.runtime.events.feed import EventCursor
from pilotage.runtime.events.subscription import Subscription
from pilotage.runtime.open_questions import run_of
from pilotage.runtime.runner import AgentRunner
from pilotage.runtime.runs import AgentRuns


class AnsweredRuns(Opener):
    """Passes decisions and results to the runs that wait for them, then resumes the run at the top."""

    def __init__(
        self, runs: AgentRuns, runner: AgentRunner, ag_ui_input: RunAgentInput, *, shows_calls: bool
    ) -> None:
        super().__init__(runs, runner)
        self._input = ag_ui_input
        self._results: Sequence[AgUiToolResult] = decisions.tool_results_in(ag_ui_input)
        self._carries_decision = decisions.carries_approval_decision(ag_ui_input)
        self._shows_calls = shows_calls

    async def open(self, given: CoreRunInput, /) -> StreamedRun:
        """Return the run that goes on with the answers, or its open questions where an answer was refused.

        Raises:
            AgUiPendingApprovalError: no run waits for the results, and the input has no decision.
        """
        try:
            decided = decisions.decisions_in(self._input) if self._carries_decision else ()
            top = await self._asking(decided) if decided else await self._waiting(given.conversation_id)
            self._check_agent(top)
            messages = await self._messages_for(top)
            await self._answer(top, decided)
        except CallerError as refused:
            if not self._carries_decision:
                raise
            return await self._refused(given, refused)
        following = partial(self._unread, top.id, messages, given) if messages else None
        return await self._going_on(top, given, self._results_of_calls(decided), following)

    async def _answer(self, top: AgentState, decided: Sequence[AgUiDecision | AgUiContinuation]) -> None:
        answers: list[GivenAnswer] = [each for each in decided if isinstance(each, GivenAnswer)]
        answers += await self._awaited(top, with_closed=True)
        # The run is resumed later, once all answers of the input are stored.
        await self._runs.answer_all(top.id, answers, resume=False, principal=self._principal)
        for each in decided:
            if isinstance(each, AgUiContinuation) and each.is_cancelled:
                await self._runs.cancel(each.run_id, principal=self._principal)

    async def _messages_for(self, top: AgentState) -> Sequence[AgentSignal]:
        """Return the messages that were sent beside the question, which the run may end without."""
        pending = await self._runs.services.pending_signals(RunKey(top.tenant_id, top.id))
        return [each for each in pending if each.id.startswith(MESSAGE_IDS)]

    async def _unread(
        self, run_id: str, messages: Sequence[AgentSignal], given: CoreRunInput
    ) -> StreamedRun | None:
        """Return a run for the messages that an answered run has ended without; None where there are none."""
        unread = [each for each in messages if await self._came_too_late(run_id, each)]
        if not unread:
            return None
        text = "\n".join(words_of(each.payload) or "" for each in unread)
        asked = replace(given, state_id=unread[-1].id, instruction=text, resume=False)
        return await StartedRuns(self._runs, self._runner).open(asked)

    async def _came_too_late(self, run_id: str, message: AgentSignal) -> bool:
        kind, payload = message.kind, message.payload
        sent = await self._runs.signal(run_id, kind, payload, id=message.id, principal=self._principal)
        if sent.end is None:
            return await self._is_ended_at_limit(await self._runs.get(run_id, principal=self._principal))
        return sent.end is AgentSignalEnd.TOO_LATE

    async def _going_on(
        self,
        top: AgentState,
        given: CoreRunInput,
        notices: Sequence[BaseEvent],
        following: Following | None,
    ) -> StreamedRun:
        """Return the run as it goes on; one that another process has is read where it is."""
        resumed = replace(given, state_id=top.id, resume=True, deferred_tools=())
        try:
            run = await self._runner.open(resumed)
        except RunConflictError:
            recorded = self._runs.events(top.id, follow=False, principal=self._principal)
            async for _ in recorded:
                """The stream begins after the last recorded event."""
            at = EventCursor.parse(recorded.cursor)
            seen = Bookmark(top.id, at, at)
            return ReadRun(
                self._runs, seen, self._principal, notices=notices, following=following, is_held=True
            )
        events = run.events() if notices or following else None
        if not isinstance(events, Subscription):
            return run
        at = EventCursor.parse(events.cursor)
        seen = Bookmark(top.id, at, at)
        return ReadRun(self._runs, seen, self._principal, notices=notices, following=following, events=events)

    def _results_of_calls(self, decided: Sequence[AgUiDecision | AgUiContinuation]) -> list[BaseEvent]:
        """Return the results of the calls that show questions, if clients are shown such calls and have no result."""
        if not self._shows_calls:
            return []
        messages = self._input.messages
        answered = {each.tool_call_id for each in messages if isinstance(each, ToolMessage)}
        results: list[BaseEvent] = []
        for each in decided:
            if isinstance(each, AgUiDecision):
                shown = calls_of_question(each.request_id, messages) or [each.request_id]
                content = canonical_json({"decision": each.decision.value})
                results += [
                    ToolCallResultEvent(
                        message_id=f"{call}:answer", tool_call_id=call, content=content, role="tool"
                    )
                    for call in shown
                    if call not in answered
                ]
        return results

    async def _refused(self, given: CoreRunInput, refused: CallerError) -> StreamedRun:
        """Return the questions that are open after an answer was refused; without any, a run that ends at once."""
        notices = [_notice_of(refused)]
        for run_id in decisions.asking_runs(self._input):
            try:
                top = await self._top_of(run_id)
                self._check_agent(top)
                asked = await self._asked(top, notices, str(refused))
            except CallerError:
                continue
            if asked is not None:
                return asked
        return self._at_rest(given, notices)

    async def _asking(self, decided: Sequence[AgUiDecision | AgUiContinuation]) -> AgentState:
        """Return the one run that all decisions are about."""
        tops = {top.id: top for top in [await self._top_of(_run_of(each)) for each in decided]}
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
        for state in page.whole():
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
        calls: dict[str, str] = {}
        for question in reversed(open_questions):
            if isinstance(question, AgentRecoveryRequest) and question.deferred_call is not None:
                call, asking = question.deferred_call, run_of(question.id)
                # A client that is no page may know the call by the id that the model gave it.
                calls |= {call: question.id, marked_call(asking, call): question.id}
        return [
            GivenAnswer(calls[each.call_id], RecoveryDecision.DONE, {"result": each.result})
            for each in self._results
            if each.call_id in calls
        ]

    async def _top_of(self, run_id: str) -> AgentState:
        """Return the run without a parent, at or above the one that asked."""
        state = await self._runs.get(run_id, principal=self._principal)
        while isinstance(parent := state.metadata.get("parent"), str):
            state = await self._runs.get(parent, principal=self._principal)
        return state


def _run_of(decided: AgUiDecision | AgUiContinuation) -> str:
    return run_of(decided.request_id) if isinstance(decided, AgUiDecision) else decided.run_id


def _notice_of(refused: CallerError) -> CustomEvent:
    """Return the refusal of an answer as a CUSTOM event; of a question that is closed with the answer that counts."""
    value: dict[str, str | None] = {"message": str(refused)}
    if isinstance(refused, AnswerConflictError):
        decided_at = refused.decided_at
        value |= {
            "requestId": refused.request_id,
            "decision": refused.decision,
            "decidedBy": refused.decided_by,
            "decidedAt": decided_at.isoformat() if decided_at else None,
        }
    return CustomEvent(name=refused.code, value=value)

"""Pages that connect to a thread without a message: its history, and what its run does or waits for."""

from __future__ import annotations

from collections.abc import Sequence

from ag_ui.core import BaseEvent, Message, MessagesSnapshotEvent

from pilotage.adapters.agui.history import ThreadHistory
from pilotage.adapters.agui.openers import StartedRuns
from pilotage.adapters.agui.reading import GivenRun, NoticedRun
from pilotage.adapters.agui.stream import Bookmark, NotedRun, StreamedRun
from pilotage.agent.events import AgentEventAttribution, RunFinishedEvent, RunStartedEvent
from pilotage.agent.run_values import RunAgentInput as CoreRunInput
from pilotage.runtime.events.feed import START
from pilotage.runtime.runner import AgentRunner
from pilotage.runtime.runs import AgentRuns


class ConnectedThreads(StartedRuns):
    """Streams a thread as it is: a snapshot of its messages, then its run under way, or its open questions."""

    async def open(self, given: CoreRunInput, /) -> StreamedRun:
        """Return the run of the thread that is under way or waits; without one, a run that ends at once.

        Raises:
            CallerError: the store does not know the threads of its runs.
        """
        history = history_of(self._runs, self._runner)
        thread = given.effective_conversation_id
        state = await self._run_of_thread(given)
        if state is None:
            return self._at_rest(given, await history.messages(thread))
        self._check_agent(state)
        if not await self._has_work(state):
            asked = await self._asked(state, [MessagesSnapshotEvent(messages=await history.messages(thread))])
            if asked is not None:
                return asked
        before = [*await history.messages(thread, without=state.id), *await history.asked_by(state)]
        run = await self._reading(state, Bookmark(state.id, START, START))
        run.notices = (MessagesSnapshotEvent(messages=before), *run.notices)
        return run

    def _at_rest(self, given: CoreRunInput, messages: Sequence[Message]) -> GivenRun:
        agent_id = self._runner.definition.agent_id
        by = AgentEventAttribution(agent_id, given.state_id, given.effective_conversation_id)
        notices: list[BaseEvent] = [MessagesSnapshotEvent(messages=list(messages))]
        return GivenRun(given.state_id, [RunStartedEvent(by), RunFinishedEvent(by)], None, notices)


class RunsWithHistory(StartedRuns):
    """Starts runs whose streams begin with a snapshot of the whole thread; `asked` is the message of the input."""

    def __init__(self, runs: AgentRuns, runner: AgentRunner, asked: Sequence[Message]) -> None:
        super().__init__(runs, runner)
        self._message = asked

    async def _started(self, given: CoreRunInput) -> StreamedRun:
        before = await history_of(self._runs, self._runner).messages(given.effective_conversation_id)
        run = await super()._started(given)
        if isinstance(run, NotedRun):
            # Another run of the thread is under way or waits: its stream is that of its own messages.
            return run
        return NoticedRun(run, [MessagesSnapshotEvent(messages=[*before, *self._message])])


def history_of(runs: AgentRuns, runner: AgentRunner) -> ThreadHistory:
    """Return the histories of the threads of an agent."""
    return ThreadHistory(runs, runner.definition.agent_id, runner.principal)

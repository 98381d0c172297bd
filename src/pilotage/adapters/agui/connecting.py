"""Pages that connect to a thread without a message: its history, and what its run does or waits for."""

from __future__ import annotations

from collections.abc import Sequence

from ag_ui import core as agui
from ag_ui.core import BaseEvent, Message, MessagesSnapshotEvent

from pilotage.adapters.agui.frames import TranscriptOfFrames
from pilotage.adapters.agui.openers import StartedRuns
from pilotage.adapters.agui.projector import AgUiProjector
from pilotage.adapters.agui.reading import GivenRun, NoticedRun
from pilotage.adapters.agui.stream import Bookmark, NotedRun, StreamedRun
from pilotage.agent.events import AgentEventAttribution, RunFinishedEvent, RunStartedEvent
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.principal import Principal
from pilotage.agent.run_values import RunAgentInput as CoreRunInput
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.errors import PilotageError
from pilotage.jsonvalue import JsonObject, JsonValue, object_or_empty
from pilotage.runtime.events.feed import START, Transcript
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.runner import AgentRunner
from pilotage.runtime.runs import AgentRuns

_UNDER_WAY = [status for status in AgentStatus if not status.is_terminal]
_MOST_RUNS = 50
"""The runs of a thread that are read, the newest ones."""


class ThreadHistory:
    """Reads the messages of the threads of one agent, for one principal. A run that cannot be read is left out."""

    def __init__(self, runs: AgentRuns, agent_id: str, principal: Principal) -> None:
        self._runs = runs
        self._agent_id = agent_id
        self._principal = principal

    async def runs_of(self, thread: str) -> list[AgentState]:
        """Return the newest runs of a thread, the oldest of them first.

        Raises:
            CallerError: the store does not know the threads of its runs.
        """
        page = await self._runs.list(
            agent=self._agent_id, conversation_id=thread, limit=_MOST_RUNS, principal=self._principal
        )
        return [state for state in reversed(page.runs) if state.metadata.get(words.PARENT) is None]

    async def messages(self, thread: str, *, without: str | None = None) -> list[agui.Message]:
        """Return the messages of a thread in order; those of one run can be left out.

        Raises:
            CallerError: the store does not know the threads of its runs.
        """
        found: list[agui.Message] = []
        for state in await self.runs_of(thread):
            if state.id != without:
                found += await self.messages_of(state)
        return found

    async def messages_of(self, state: AgentState) -> list[agui.Message]:
        """Return the messages of one run: that of the user, and those of its stream so far."""
        try:
            return [*await self.asked_by(state), *await self._answers_of(state)]
        except PilotageError:
            # It was erased, or its record is damaged.
            return []

    async def asked_by(self, state: AgentState) -> list[agui.Message]:
        """Return the message of the user that started a run, as readers may see it."""
        async for row in self._runs.services.journal.read(RunKey(state.tenant_id, state.id)):
            given = object_or_empty(object_or_empty(row.view).get(words.INPUT))
            text = given.get(words.INSTRUCTION) or _only_text(given)
            return [agui.UserMessage(id=f"{state.id}:user", content=text)] if isinstance(text, str) else []
        return []

    async def _answers_of(self, state: AgentState) -> list[agui.Message]:
        events = self._runs.events(state.id, follow=False, principal=self._principal)
        transcript, shown = Transcript(), TranscriptOfFrames()
        async for event in events:
            transcript.add(event, events.cursor)
        projector = AgUiProjector(marks_calls=True)
        for event in transcript.events:
            shown.take(projector.project(event))
        return shown.messages


def _only_text(given: JsonObject) -> JsonValue:
    """Return the text that an `execute()` of one parameter was given."""
    values = list(given.values())
    return values[0] if len(values) == 1 else None


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

    async def _run_of_thread(self, given: CoreRunInput) -> AgentState | None:
        """Return the run that has the thread; None where there is none.

        Raises:
            CallerError: the store does not know the threads of its runs.
        """
        page = await self._runs.list(
            statuses=_UNDER_WAY, conversation_id=given.conversation_id, principal=self._principal
        )
        return next((state for state in page.runs if state.metadata.get(words.PARENT) is None), None)

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

"""Pages that connect to a thread without a message: its history, and what its run does or waits for."""

from __future__ import annotations

from collections.abc import Sequence

from ag_ui import core as agui
from ag_ui.core import Message, MessagesSnapshotEvent

from pilotage.adapters.agui.frames import TranscriptOfFrames
from pilotage.adapters.agui.openers import StartedRuns, is_at_limit
from pilotage.adapters.agui.projector import AgUiProjector
from pilotage.adapters.agui.reading import NoticedRun
from pilotage.adapters.agui.stream import Bookmark, NotedRun, StreamedRun
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.principal import Principal
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.run_values import RunAgentInput as CoreRunInput
from pilotage.agent.signals import AgentSignalKind, words_of
from pilotage.agent.state import AgentState
from pilotage.errors import PilotageError
from pilotage.jsonvalue import JsonObject, JsonValue, object_or_empty, to_json_value
from pilotage.runtime.events.feed import START, Transcript
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.runner import AgentRunner
from pilotage.runtime.runs import AgentRuns

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
            found, sent = await self._answers_of(state), await self._sent_to(state)
        except PilotageError:
            # It was erased, or its record is damaged.
            return []
        place = 0
        for after, message in sent:
            ends = (number for number, each in enumerate(found, start=1) if each.id.startswith(after))
            place = max([place, *ends]) if after else place
            found.insert(place, message)
            place += 1
        return [*found, *await self._waiting_for(state)]

    async def asked_by(self, state: AgentState) -> list[agui.Message]:
        """Return the messages of the user to a run: the one that started it, and those that were sent meanwhile."""
        return [*(message for _, message in await self._sent_to(state)), *await self._waiting_for(state)]

    async def _sent_to(self, state: AgentState) -> list[tuple[tuple[str, ...], agui.Message]]:
        """Return the messages that a run was given, as readers may see them.

        Each has the beginnings of the ids of the messages before it: those of the model calls that were recorded.
        """
        sent: list[tuple[tuple[str, ...], agui.Message]] = []
        before: list[str] = []
        async for row in self._runs.services.journal.read(RunKey(state.tenant_id, state.id)):
            view = object_or_empty(row.view)
            match row.kind:
                case None if (text := _words_of_start(view)) is not None:
                    sent.append(((), agui.UserMessage(id=f"{state.id}:user", content=text)))
                case AgentActionKind.MODEL_CALL:
                    before.append(f"{state.id}:{row.action_id.partition('/')[2]}@")
                case AgentActionKind.SIGNAL:
                    taken = _messages_in(state.id, view.get(words.RESULT))
                    sent += [(tuple(before), each) for each in taken]
                case _:
                    pass
        return sent

    async def _waiting_for(self, state: AgentState) -> list[agui.Message]:
        """Return the messages that wait for a run to take them in."""
        if state.is_terminal:
            return []
        pending = await self._runs.services.signals.list_pending(state.id)
        return _messages_in(state.id, to_json_value(pending))

    async def _answers_of(self, state: AgentState) -> list[agui.Message]:
        events = self._runs.events(state.id, follow=False, principal=self._principal)
        transcript, shown = Transcript(), TranscriptOfFrames()
        async for event in events:
            transcript.add(event, events.cursor)
        projector = AgUiProjector(marks_calls=True)
        for event in transcript.events:
            shown.take(projector.project(event))
        return shown.messages


def _words_of_start(view: JsonObject) -> str | None:
    """Return the words that started a run, of the view of its first row."""
    given = object_or_empty(view.get(words.INPUT))
    text = given.get(words.INSTRUCTION) or _only_text(given)
    return text if isinstance(text, str) else None


def _messages_in(run_id: str, signals: JsonValue) -> list[agui.Message]:
    """Return the messages of the user in a list of signals as they are recorded."""
    found = map(object_or_empty, signals) if isinstance(signals, list | tuple) else ()
    return [
        agui.UserMessage(id=f"{run_id}:{each.get('id')}", content=text)
        for each in found
        if each.get("kind") == AgentSignalKind.USER_MESSAGE.value
        and (text := words_of(object_or_empty(each.get("payload")))) is not None
    ]


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
        state = await self._run_of_thread(given.conversation_id)
        if state is None or is_at_limit(state):
            return self._at_rest(given, [MessagesSnapshotEvent(messages=await history.messages(thread))])
        self._check_agent(state)
        if not await self._has_work(state):
            asked = await self._asked(state, history=await history.messages(thread))
            if asked is not None:
                return asked
        before = [*await history.messages(thread, without=state.id), *await history.asked_by(state)]
        run = await self._reading(state, Bookmark(state.id, START, START))
        run.notices = (MessagesSnapshotEvent(messages=before), *run.notices)
        return run


class RunsWithHistory(StartedRuns):
    """Starts runs whose streams begin with a snapshot of the whole thread; `asked` is the message of the input."""

    def __init__(
        self, runs: AgentRuns, runner: AgentRunner, messages: Sequence[Message], asked: Sequence[Message]
    ) -> None:
        super().__init__(runs, runner, messages)
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

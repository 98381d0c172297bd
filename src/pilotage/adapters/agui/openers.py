"""How an input leads to a run: it starts one, gives it a message, reconnects to its stream, or cancels it.

A thread has one run at a time. A message that comes while one is under way is given to that run, if its agent accepts
messages; a run without an owner is taken up first, and the message starts the next one in the same stream. A message
that comes while a question is open gets the question again. A run that ends without a message that it was given is
followed by one that answers it; one that stopped at a limit is ended for that.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial

from ag_ui.core import BaseEvent, CustomEvent, Message, MessagesSnapshotEvent

from pilotage.adapters.agui.errors import AgUiThreadBusyError
from pilotage.adapters.agui.frames import OpenFrames, emptied, marked_call, without_calls
from pilotage.adapters.agui.questions import deferred_call_of
from pilotage.adapters.agui.reading import GivenRun, ReadRun
from pilotage.adapters.agui.stream import Bookmark, StreamedRun
from pilotage.agent.events import (
    AgentEvent,
    AgentEventAttribution,
    RunFinishedEvent,
    RunPausedEvent,
    RunStartedEvent,
    ToolCallArgsDeltaEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
)
from pilotage.agent.run_values import RunAgentInput as CoreRunInput
from pilotage.agent.run_values import RunResult
from pilotage.agent.signals import ATTACHMENTS, AgentSignalEnd, AgentSignalKind, AgentSignalLane
from pilotage.agent.state import AgentState, AgentStateReason, AgentStatus
from pilotage.errors import CallerError, RunConflictError
from pilotage.jsonvalue import JsonObject, JsonValue, text_digest, to_json_value
from pilotage.runtime.events.feed import START, EventCursor
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.run.start import run_id_of
from pilotage.runtime.runner import AgentRunner
from pilotage.runtime.runs import AgentRuns

RUN_TAKEN_UP = "run_taken_up"
"""The name of the CUSTOM event of a stream that first takes up a run of the thread whose process died."""
MESSAGE_QUEUED = "message_queued"
"""The name of the CUSTOM event of a message that is given to the run under way, or to the one that waits."""
RUN_HELD = "run_held"
"""The name of the CUSTOM event of a run that another process holds; the stream waits for it."""

MESSAGE_IDS = "agui-message:"
"""The prefix of the ids of the signals with which messages are given to runs."""

_TRY_AGAIN_SECONDS = 0.05
_UNDER_WAY = [status for status in AgentStatus if not status.is_terminal]
_CALL_EVENTS = (ToolCallStartEvent, ToolCallArgsDeltaEvent, ToolCallEndEvent)


class Opener:
    """Runs of one agent, reached for one principal."""

    def __init__(self, runs: AgentRuns, runner: AgentRunner, messages: Sequence[Message] = ()) -> None:
        self._runs = runs
        self._runner = runner
        self._principal = runner.principal
        self._messages = messages
        """Those of the client."""

    def _check_agent(self, state: AgentState) -> None:
        agent_id = self._runner.definition.agent_id
        if state.agent_type != agent_id:
            raise RunConflictError(
                f"run {state.id!r} is one of agent {state.agent_type!r}, not of {agent_id!r}. Go there with it."
            )

    async def _has_work(self, state: AgentState) -> bool:
        """Return whether a run could go on now. A message changes nothing for one that waits for an answer."""
        if state.status is not AgentStatus.INTERRUPTED:
            return not state.is_terminal
        pending = await self._runs.services.signals.list_pending(state.id)
        if any(signal.kind.lane is AgentSignalLane.CONTROL for signal in pending):
            return True
        return bool(pending) and not await self._runs.questions(state.id, principal=self._principal)

    async def _reading(self, state: AgentState, seen: Bookmark) -> ReadRun:
        """Return a run as it is read from a bookmark on; one that may have no owner is taken up."""
        is_held = False
        if await self._has_work(state):
            try:
                await self._runs.take_up(state.id, principal=self._principal)
            except RunConflictError:
                is_held = True
            except CallerError:
                # It has just ended, or is driven by its parent: it is read all the same.
                is_held = False
        notices = [_notice(RUN_HELD, state.id)] if is_held else []
        return ReadRun(self._runs, seen, self._principal, notices=notices, is_held=is_held)

    async def _read_from_start(self, run_id: str) -> ReadRun:
        state = await self._runs.get(run_id, principal=self._principal)
        run = await self._reading(state, Bookmark(run_id, START, START))
        run.notices = (*self._emptied(run_id), *run.notices)
        return run

    def _emptied(self, run_id: str) -> Sequence[BaseEvent]:
        """Return the messages of the client, with those of a run that is read from its beginning as they began.

        A client that was cut off has a part of them, and would add the texts to it. Nothing where it has none.
        """
        return self._changed(emptied(self._messages, run_id))

    def _without_calls(
        self, calls: Collection[str], history: Sequence[Message] | None
    ) -> Sequence[BaseEvent]:
        """Return the messages that the client gets, or has, without the calls that are shown to it again."""
        if history is None:
            return self._changed(without_calls(self._messages, calls))
        return (MessagesSnapshotEvent(messages=without_calls(history, calls)),)

    def _changed(self, messages: list[Message]) -> Sequence[BaseEvent]:
        """Return a snapshot that gives the client these messages; nothing where it has them."""
        return () if messages == list(self._messages) else (MessagesSnapshotEvent(messages=messages),)

    async def _is_ended_at_limit(self, state: AgentState) -> bool:
        """End a run that stopped at a limit, so that the thread goes on; return whether it had stopped at one."""
        if not is_at_limit(state):
            return False
        await self._runs.cancel(state.id, reason="a message followed", principal=self._principal)
        return True

    async def _run_of_thread(self, thread: str | None) -> AgentState | None:
        """Return the run that has a thread; None where there is none.

        Raises:
            CallerError: the store does not know the threads of its runs, or one of them is damaged.
        """
        page = await self._runs.list(statuses=_UNDER_WAY, conversation_id=thread, principal=self._principal)
        return next((state for state in page.whole() if state.metadata.get(words.PARENT) is None), None)

    def _at_rest(self, given: CoreRunInput, notices: Sequence[BaseEvent] = ()) -> GivenRun:
        """Return a run that ends at once, for a thread that no run has."""
        agent_id = self._runner.definition.agent_id
        by = AgentEventAttribution(agent_id, given.state_id, given.effective_conversation_id)
        return GivenRun(given.state_id, [RunStartedEvent(by), RunFinishedEvent(by)], None, notices)

    async def _asked(
        self,
        state: AgentState,
        notices: Sequence[BaseEvent] = (),
        problem: str | None = None,
        history: Sequence[Message] | None = None,
    ) -> GivenRun | None:
        """Return a run that waits, as its questions alone; None where it waits for nothing.

        A call that the client performs is shown again, so that a page that was loaded anew can do so. The problem of
        an answer is in the message of the questions, with the decisions that each of them takes. The client gets the
        history, if there is one.
        """
        recorded = self._runs.events(state.id, follow=False, principal=self._principal)
        events = [event async for event in recorded]
        open_ids = {each.id for each in await self._runs.questions(state.id, principal=self._principal)}
        pauses = [event for event in _pauses_of(state.id, events) if event.approval_id in {None, *open_ids}]
        if not pauses or state.status is not AgentStatus.INTERRUPTED:
            return None
        calls = {deferred_call_of(event) for event in pauses} - {None}
        again = [event for event in events if isinstance(event, _CALL_EVENTS) and event.call_id in calls]
        shown_calls = {marked_call(event.attribution.run_id, event.call_id) for event in again}
        notices = (*self._without_calls(shown_calls, history), *notices)
        shown: list[AgentEvent] = [RunStartedEvent(pauses[0].attribution), *again]
        shown += [_with_problem(event, problem) for event in pauses]
        return GivenRun(state.id, shown, None, notices)


class StartedRuns(Opener):
    """Starts durable runs. One that was started by the same input before is read from its beginning.

    A message starts a run, or is given to the run that has the thread. The store decides that, and never a state that
    was read before: it refuses a start as long as another run has the thread, and a message to a run that has ended.
    Then the input is tried again, so that every try means that another run has ended.
    """

    async def open(self, given: CoreRunInput, /) -> StreamedRun:
        """Return the run that the input starts or has started, or the one of its thread that is under way.

        Raises:
            RunConflictError: the same name was used with another input, or the thread is one of another agent.
            AgUiThreadBusyError: a run of the thread is under way, and its agent accepts no messages.
        """
        return await self._attached(given) or await self._started(given)

    async def _attached(self, given: CoreRunInput) -> ReadRun | None:
        run_id = run_id_of(self._principal.tenant, given.state_id)
        if await self._runs.services.states.get_or_none(run_id) is None:
            return None
        await self._runner.open(given)
        return await self._read_from_start(run_id)

    async def _started(self, given: CoreRunInput) -> StreamedRun:
        """Return the run that the input starts, or the stream of its message on the run that has the thread."""
        ended: str | None = None
        while True:
            try:
                return await self._runner.open(given)
            except RunConflictError as conflict:
                if conflict.holder is None:
                    raise
                holder = conflict.holder
            if (stream := await self._beside(holder, given)) is not None:
                return stream
            if ended == holder:
                # Its turns are still being appended to the conversation.
                await self._runs.services.clock.sleep(_TRY_AGAIN_SECONDS)
            ended = holder

    async def _beside(self, run_id: str, given: CoreRunInput) -> StreamedRun | None:
        """Return the stream of a message on a thread that another run has; None where that one has ended."""
        state = await self._runs.get(run_id, principal=self._principal)
        if state.is_terminal:
            return None
        self._check_agent(state)
        if await self._is_ended_at_limit(state):
            return None
        if not await self._has_work(state) and (asked := await self._asked(state)) is not None:
            return await self._beside_question(asked, state, given)
        if (taken_up := await self._taken_up(run_id, given)) is not None:
            return taken_up
        if not self._accepts(given):
            raise AgUiThreadBusyError(self._busy)
        if not await self._is_given(run_id, given):
            return None
        return ReadRun(
            self._runs,
            Bookmark(run_id, START, START),
            self._principal,
            notices=[*self._emptied(run_id), _notice(MESSAGE_QUEUED, run_id)],
            following=partial(self.following, run_id, given),
            is_held=not self._runs.is_driven(run_id),
        )

    async def _beside_question(
        self, asked: GivenRun, state: AgentState, given: CoreRunInput
    ) -> GivenRun | None:
        """Return the questions of a run that waits, as the answer to a message; None where the run has ended."""
        if not self._accepts(given):
            asked.notices = (*asked.notices, *self._not_taken(given))
        elif await self._is_given(state.id, given):
            asked.notices = (*asked.notices, _notice(MESSAGE_QUEUED, state.id))
        else:
            return None
        return asked

    async def _taken_up(self, run_id: str, given: CoreRunInput) -> ReadRun | None:
        """Return a run that had no owner, and now has this process; None for one that is driven."""
        if self._runs.is_driven(run_id):
            return None
        try:
            handle = await self._runs.take_up(run_id, principal=self._principal)
        except RunConflictError:
            # Another process has it: it is under way there.
            return None
        events = handle.events()
        at = EventCursor.parse(events.cursor)
        return ReadRun(
            self._runs,
            Bookmark(run_id, at, at),
            self._principal,
            notices=[_notice(RUN_TAKEN_UP, run_id)],
            following=partial(self.following, run_id, given),
            events=events,
        )

    async def following(self, earlier: str, given: CoreRunInput) -> StreamedRun | None:
        """Return the run to stream after the one that had the thread; None where that one has the message.

        Raises:
            AgUiThreadBusyError: that one goes on, and its agent accepts no messages.
        """
        if (attached := await self._attached(given)) is not None:
            return attached
        if self._accepts(given):
            return None if await self._is_given(earlier, given) else await self._started(given)
        state = await self._runs.get(earlier, principal=self._principal)
        if state.is_terminal or await self._is_ended_at_limit(state):
            return await self._started(given)
        asked = await self._asked(state, self._not_taken(given))
        if asked is None:
            raise AgUiThreadBusyError(self._busy)
        return asked

    def _accepts(self, given: CoreRunInput) -> bool:
        """Return whether runs of the agent accept the message while they are under way."""
        return AgentSignalKind.USER_MESSAGE in self._runner.definition.spec.accepted_signals

    @property
    def _busy(self) -> str:
        agent_id = self._runner.definition.agent_id
        return (
            f"This conversation is busy: its agent {agent_id!r} still works on the message before, and takes no "
            "further one meanwhile. Send it again when the answer is there."
        )

    def _not_taken(self, given: CoreRunInput) -> tuple[BaseEvent, ...]:
        """Return a text for a message beside an open question that is not given to the run that asks."""
        words = (
            "This message was not taken: the conversation waits for an answer. Send it again after that one."
        )
        frames = OpenFrames()
        return *frames.text(f"{given.state_id}:{AgUiThreadBusyError.code}", words), *frames.close_all()

    async def _is_given(self, run_id: str, given: CoreRunInput) -> bool:
        """Give a message to a run; return False where the run has ended without it."""
        # The same input again is the same message.
        name = MESSAGE_IDS + text_digest(f"{run_id}\n{given.state_id}")[:32]
        kind, payload = AgentSignalKind.USER_MESSAGE, _message_of(given)
        try:
            sent = await self._runs.signal(run_id, kind, payload, id=name, principal=self._principal)
        except CallerError:
            if not (await self._runs.get(run_id, principal=self._principal)).is_terminal:
                raise
            return False
        if sent.end is None:
            return not await self._is_ended_at_limit(await self._runs.get(run_id, principal=self._principal))
        return sent.end is not AgentSignalEnd.TOO_LATE


class SeenRuns(Opener):
    """Runs to which a client reconnects; a run without an owner is resumed."""

    def __init__(
        self, runs: AgentRuns, runner: AgentRunner, seen: Bookmark, starts: StartedRuns | None
    ) -> None:
        super().__init__(runs, runner)
        self._seen = seen
        self._starts = starts

    async def open(self, given: CoreRunInput, /) -> StreamedRun:
        """Return the run of the bookmark, which must be one of the agent, read from where its stream began."""
        state = await self._runs.get(self._seen.run_id, principal=self._principal)
        self._check_agent(state)
        run = await self._reading(state, self._seen)
        own = run_id_of(self._principal.tenant, given.state_id)
        if self._starts is not None and own != state.id:
            # The stream began with an earlier run of the thread.
            run.following = partial(self._starts.following, state.id, given)
        return run


class EndedRuns(Opener):
    """Runs that their client cancels, with a stream of their end."""

    def __init__(self, runs: AgentRuns, runner: AgentRunner, name: str | None, thread: str) -> None:
        super().__init__(runs, runner)
        self._name = name
        self._thread = thread

    async def end(self) -> RunResult | None:
        """Cancel the run, which must be one of the agent, and return its result; one that has ended stays as it is.

        Without a name it is the run that has the thread; None where no run has it.
        """
        if self._name is None:
            state = await self._run_of_thread(self._thread)
            if state is None:
                return None
        else:
            run_id = run_id_of(self._principal.tenant, self._name)
            state = await self._runs.get(run_id, principal=self._principal)
        self._check_agent(state)
        await self._runs.cancel(state.id, reason="the client cancelled it", principal=self._principal)
        return await self._runs.result(state.id, principal=self._principal)

    async def open(self, given: CoreRunInput, /) -> StreamedRun:
        """Return the run, of which only the end is streamed; where there is none, a run that ends at once."""
        result = await self.end()
        if result is None:
            return self._at_rest(given)
        state = result.state
        by = AgentEventAttribution(state.agent_type, state.id, state.id)
        output: JsonObject = {"output": to_json_value(result.output)}
        return GivenRun(
            state.id, [RunStartedEvent(by), RunFinishedEvent(by, result.error, output)], result, ()
        )


def is_at_limit(state: AgentState) -> bool:
    """Return whether a run stopped at a limit, or without an answer: it waits for nothing that a page has."""
    return state.status is AgentStatus.INTERRUPTED and state.reason is AgentStateReason.LIMIT_REACHED


def _notice(name: str, run_id: str) -> CustomEvent:
    return CustomEvent(name=name, value={"runId": run_id})


def _pauses_of(run_id: str, events: Sequence[AgentEvent]) -> list[RunPausedEvent]:
    """Return the pauses at the end of the events of a run."""
    own = [event for event in events if event.attribution.run_id == run_id]
    pauses: list[RunPausedEvent] = []
    while own and isinstance(last := own.pop(), RunPausedEvent):
        pauses.append(last)
    return pauses[::-1]


def _with_problem(event: RunPausedEvent, problem: str | None) -> RunPausedEvent:
    if problem is None:
        return event
    # A person reads it: the ids are in the CUSTOM event.
    for name in (event.approval_id, event.state_id):
        problem = problem.replace(f" {name!r}", "")
    takes = f" It takes: {', '.join(event.allowed_decisions)}." if event.allowed_decisions else ""
    return replace(event, prompt=f"{event.prompt} The answer was not accepted: {problem}{takes}")


def _message_of(given: CoreRunInput) -> JsonObject:
    """Return the payload of the signal that gives a message to a run."""
    media: list[JsonValue] = [to_json_value(part) for part in given.attachments]
    return {"text": given.instruction, ATTACHMENTS: media} if media else {"text": given.instruction}

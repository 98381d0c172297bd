"""The programs of runs: their events one by one, the answer last, and what the end of a program is for its attempt."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import aclosing, suppress
from dataclasses import replace
from inspect import isawaitable
from typing import Any, cast

from pilotage.agent.events import MESSAGE, AgentEvent
from pilotage.agent.media import media_in
from pilotage.agent.messages import ModelMessage, ModelMessageRole, new_message
from pilotage.agent.ports.architecture import AgentSession, Architecture, Dependencies
from pilotage.agent.run_values import RunResult
from pilotage.agent.state import AgentSituation
from pilotage.agent.yields import AgentYield, Error, Evidence, Final, State, StatePatch, Tool
from pilotage.errors import StoppedShortError
from pilotage.filling import unchecked
from pilotage.jsonvalue import JsonObject, canonical_json, to_json_value
from pilotage.runtime.budget.limits import timed_out
from pilotage.runtime.door.run import Run
from pilotage.runtime.door.tool_call import ToolCalls
from pilotage.runtime.events.feed import close
from pilotage.runtime.events.projections import events_of
from pilotage.runtime.exposure.redactor import shown_with_words
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.interruptions import (
    LimitReached,
    Paused,
    RecordDamaged,
    RunDiverged,
    RunEnded,
    RunHandedOver,
    RunInterruption,
    damage_of,
)
from pilotage.runtime.journal.record_fields import DamagedRecordError
from pilotage.runtime.journal.records import Answer
from pilotage.runtime.journal.scope import RESULT
from pilotage.runtime.run.ending import Ending, error_of

MEDIA = "media"
"""The artifact of a result with the media of the answer."""

_answer = unchecked(Answer)


async def items_of(given: Any) -> AsyncGenerator[AgentYield[Any], None]:
    """Yield the items of a stream, or a plain answer as `Final`; the stream is closed at the end."""
    if isawaitable(given):
        given = await given
    if isinstance(given, AsyncIterable):
        stream = cast("AsyncIterable[AgentYield[Any]]", given)
        try:
            async for item in stream:
                yield item
        finally:
            if isinstance(stream, AsyncGenerator):
                await cast("AsyncGenerator[AgentYield[Any], None]", stream).aclose()
    elif isinstance(given, Generator):
        for item in cast("Iterable[AgentYield[Any]]", given):
            yield item
    else:
        yield Final(given)


class Program(ABC):
    """One execution of an agent's code."""

    @abstractmethod
    def events(self) -> AsyncIterator[AgentEvent]:
        """Return the events of the program; `answer` is set when the stream has ended. The reader closes it."""

    @property
    @abstractmethod
    def answer(self) -> Answer:
        """Return the answer, or the part of it that exists so far."""

    @property
    def can_go_on(self) -> bool:
        """Return whether a program that has its answer can take another turn for new messages."""
        return False

    def go_on(self, messages: Sequence[ModelMessage]) -> AsyncIterator[AgentEvent]:
        """Return the events of another turn for these messages; only for a program that can go on."""
        raise AssertionError("this program does not take another turn")


class ExecuteProgram(Program):
    """An agent's own `execute()`."""

    def __init__(self, run: Run, arguments: Mapping[str, object]) -> None:
        self._run = run
        self._instance = run.source.instance
        self._arguments = arguments
        self._output: object = None

    async def events(self) -> AsyncGenerator[AgentEvent, None]:
        # The class's own function: on an instance of the container, `execute` opens a run.
        owner: Any = type(self._instance)
        execute: Callable[..., object] = owner.execute
        run, by, ordinal = self._run, self._run.source.attribution, 0
        spoken = run.message_id
        async with aclosing(items_of(execute(self._instance, **self._arguments))) as items:
            async for item in items:
                payload = item.payload
                if isinstance(payload, Final):
                    self._output = cast(object, payload.output)
                    return
                if isinstance(payload, Error):
                    raise RunEnded(
                        AgentSituation.FAILED, payload.message, code=payload.code, retryable=payload.retryable
                    )
                if isinstance(payload, Tool | Evidence):
                    # Replay yields text in fewer items, so text is not numbered: other items keep their ordinals.
                    ordinal += 1
                elif isinstance(payload, State | StatePatch):
                    run.note_state(payload)
                if (speaking := run.message_id) != spoken:
                    run.events.end_text((MESSAGE, run.id, spoken))
                    spoken = speaking
                for event in events_of(item, by, speaking, ordinal=ordinal):
                    yield event

    @property
    def answer(self) -> Answer:
        spent = self._run.spending
        return Answer(self._output, usage=spent.usage, turns=spent.own.steps)


class ArchitectureProgram(Program):
    """The loop of a declarative agent."""

    def __init__(
        self,
        architecture: Architecture,
        session: AgentSession,
        dependencies: Dependencies,
        prompt: str,
        run: Run,
    ) -> None:
        self.recall: Callable[[], Awaitable[None]] | None = None
        """Shows every model call what is remembered of the user; it completes before the loop begins."""
        self._architecture = architecture
        self._session = session
        self._dependencies = dependencies
        self._prompt = prompt
        self._run = run

    def events(self) -> AsyncIterator[AgentEvent]:
        events = self._architecture.run(self._session, self._dependencies, self._prompt)
        return events if self.recall is None else self._after_recall(self.recall, events)

    @property
    def can_go_on(self) -> bool:
        """Return whether the loop has an answer, and the limits of the agent and its own leave it a turn."""
        run, session = self._run, self._session
        if session.interrupted or run.source.start.exits or _is_published(run):
            return False
        spent, own = run.spending, getattr(self._architecture, "max_turns", None)
        most = own if isinstance(own, int) else self._dependencies.max_turns
        deadline = run.source.deadline
        is_late = deadline is not None and timed_out(deadline, run.ports.clock.now()) is not None
        return not is_late and spent.own.steps < most and spent.limit_for_model_call() is None

    def go_on(self, messages: Sequence[ModelMessage]) -> AsyncIterator[AgentEvent]:
        session = self._session
        last = session.messages[-1] if session.messages else None
        if last is None or last.role is not ModelMessageRole.ASSISTANT:
            session.messages.append(new_message(ModelMessageRole.ASSISTANT, _as_text(session.output)))
        session.messages.extend(messages)
        # With evidence at the end of the transcript, the question of the run is asked again.
        asked = messages[-1].text if messages[-1].role is ModelMessageRole.USER else self._prompt
        return self._architecture.run(session, self._dependencies, asked)

    async def _after_recall(
        self, recall: Callable[[], Awaitable[None]], events: AsyncIterator[AgentEvent]
    ) -> AsyncGenerator[AgentEvent, None]:
        """Yield the events of the loop, after `recall` has completed."""
        try:
            await recall()
            async for event in events:
                yield event
        finally:
            await close(events)

    @property
    def answer(self) -> Answer:
        session, spent = self._session, self._run.spending
        return _answer(
            session.output,
            (session.interruption_reason or "agent_interrupted") if session.interrupted else None,
            # The session does not include the usage and the turns of branches, workers and folded turns.
            spent.usage,
            max(session.turns, spent.own.steps),
            with_media_of(session),
        )


def with_media_of(session: AgentSession) -> JsonObject:
    """Return what a loop has learned, with the media of its last words."""
    last = session.messages[-1] if session.messages else None
    if last is None or last.ordered is None or last.role is not ModelMessageRole.ASSISTANT:
        return dict(session.metadata)
    media = [to_json_value(part) for part in media_in([last])]
    return {**session.metadata, MEDIA: media} if media else dict(session.metadata)


def _is_published(run: Run) -> bool:
    """Return whether the answer is recorded, or a person was asked about it: it stands then."""
    return run.replay.knows(RESULT) or run.was_asked(RESULT)


def _as_text(output: object) -> str:
    return output if isinstance(output, str) else canonical_json(to_json_value(output))


class AttemptEnd:
    """Decides the end of one attempt, in the task that drives it."""

    def __init__(self, tools: ToolCalls, program: Program, ending: Ending) -> None:
        self._run = tools.run
        self._tools = tools
        self._program = program
        self._ending = ending

    async def after_return(self) -> RunResult:
        """End the attempt after its program has returned; an interruption that the program swallowed takes effect."""
        run = self._run
        if run.secrets_to_recall:
            await self._tools.recall_secrets()
        end: BaseException | None = run.replay.liveness.met
        if end is None and run.ledger.is_durable:
            end = await self._unfinished()
        if end is not None:
            return await self.after_error(end)
        if run.replay.liveness.is_pausing:
            return await self._ending.pause()
        if run.events.is_replaying:
            run.events.go_live()
        if run.admission.check_switch is not None:
            await run.admission.check_switch(run)
        answer = self._program.answer
        if answer.interruption is not None:
            error: JsonObject = {
                "code": answer.interruption,
                "message": f"the agent stopped short: {answer.interruption}",
                "retryable": False,
            }
            return await self._stop_unanswered(answer, error)
        return await self._ending.complete(answer)

    async def after_error(self, end: BaseException) -> RunResult:
        """End the attempt of a program that raised `end` instead of returning an answer."""
        await self._recall_secrets()
        answer = self._program.answer
        match end:
            case Paused():
                return await self._ending.pause(end)
            case RunHandedOver():
                return await self._ending.hand_over(end)
            case RunDiverged():
                return await self._ending.interrupt(end)
            case RunEnded(situation=AgentSituation.CANCELLING, reason=reason):
                await self._ending.begin_cancelling(reason)
                return await self.after_cancellation()
            case RunEnded() if (unfinished := await self._unfinished_by(end)) is not None:
                return await self.after_error(unfinished)
            case RunEnded() | LimitReached():
                return await self._end(answer, end)
            case DamagedRecordError():
                return await self._ending.interrupt(RecordDamaged(damage_of(end)))
            case RunInterruption():
                raise end
            case _ if (unfinished := await self._unfinished()) is not None:
                return await self.after_error(unfinished)
            case _:
                return await self._fail(answer, end)

    async def after_cancellation(self, refusal: str | None = None) -> RunResult:
        """Clean up and end a cancelled run; `refusal` is the reason of a person against the clean-up."""
        take_back_cancellation()
        outcomes, replay = self._run.outcomes, self._run.replay
        if not outcomes.under_way:
            outcomes.under_way = {action.id: (action, number) for action, number in replay.under_way()}
        return await self._ending.finish_cancelling(refusal)

    async def _stop_unanswered(self, answer: Answer, error: JsonObject) -> RunResult:
        """Stop a run whose loop has no answer: a person may resume it; of a child, the parent decides."""
        if self._run.source.start.parent is not None:
            return await self._ending.stop_short(answer, AgentSituation.FAILED, error)
        return await self._ending.stop_at_limit(answer, error)

    async def _end(self, answer: Answer, end: RunEnded | LimitReached) -> RunResult:
        """End the run, or interrupt it at a limit that can be raised."""
        situation, error = end.situation, error_of(end)
        if situation is not AgentSituation.LIMIT_REACHED:
            return await self._ending.stop_short(answer, situation, error)
        if isinstance(end, LimitReached) and self._can_be_raised(end):
            return await self._ending.stop_at_limit(answer, error)
        return await self._ending.stop_short(answer, AgentSituation.FAILED, error)

    async def _fail(self, answer: Answer, end: BaseException) -> RunResult:
        """End the run with an exception of its program; the reason of a loop that stopped short is recorded."""
        run = self._run
        if isinstance(end, StoppedShortError) and run.source.definition.is_declarative:
            stopped: JsonObject = {"code": end.reason, "message": str(end), "retryable": False}
            return await self._stop_unanswered(replace(answer, interruption=end.reason), stopped)
        message, hidden = shown_with_words(end, run.redactor, run_id=run.id, place=words.RUN)
        error = error_of(end, message)
        result = await self._ending.stop_short(answer, AgentSituation.FAILED, error, hidden)
        return replace(result, cause=end)

    def _can_be_raised(self, reached: LimitReached) -> bool:
        """Return whether the run goes on when a limit is raised.

        The own limit of a child is final: its parent gets the failure. At the limit of a run above it waits with that.
        """
        run = self._run
        is_above = reached.account is not None and reached.account is not run.spending.own
        return run.source.start.parent is None or is_above

    async def _recall_secrets(self) -> None:
        """Register the secrets of replayed calls, as far as there are any, before the words of a failure are shown."""
        if self._run.secrets_to_recall:
            with suppress(Exception):
                await self._tools.recall_secrets()

    async def _unfinished(self) -> RunInterruption | None:
        """Return why a run cannot end with its program: an unused record, or calls that wait; None if it can."""
        try:
            await self._run.replay.ended()
        except RunInterruption as end:
            return end
        return None

    async def _unfinished_by(self, end: RunEnded) -> RunInterruption | None:
        """Return the same for a program that ended with an error of its own; None for an end from outside."""
        return await self._unfinished() if self._run.replay.liveness.met is not end else None


def take_back_cancellation() -> None:
    """Take the cancellation of the running task back, so that it can wait again."""
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()

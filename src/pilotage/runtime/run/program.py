"""The programs of runs: their events one by one, the answer last, for every shape of `execute()`."""

from __future__ import annotations

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
from contextlib import aclosing
from inspect import isawaitable
from typing import Any, cast

from pilotage.agent.events import AgentEvent
from pilotage.agent.messages import ModelMessage, ModelMessageRole, new_message
from pilotage.agent.ports.architecture import AgentSession, Architecture, Dependencies
from pilotage.agent.state import AgentSituation
from pilotage.agent.yields import AgentYield, Error, Evidence, Final, State, StatePatch, Tool
from pilotage.filling import unchecked
from pilotage.jsonvalue import canonical_json, to_json_value
from pilotage.runtime.budget.deadlines import timed_out
from pilotage.runtime.door.run import Run
from pilotage.runtime.events.feed import close
from pilotage.runtime.events.projections import events_of
from pilotage.runtime.exposure.deltas import MESSAGE
from pilotage.runtime.journal.action import RESULT
from pilotage.runtime.journal.interruptions import RunEnded
from pilotage.runtime.journal.records import Answer

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
            dict(session.metadata),
        )


def _is_published(run: Run) -> bool:
    """Return whether the answer is recorded, or a person was asked about it: it stands then."""
    return run.replay.knows(RESULT) or run.was_asked(RESULT)


def _as_text(output: object) -> str:
    return output if isinstance(output, str) else canonical_json(to_json_value(output))

"""`AgUiRunDriver`: one run as a stream of encoded AG-UI events, for every transport; `driver_for` makes them.

Whatever breaks, the client gets closed frames and one end; leaving the stream leaves a durable run as it is.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing
from dataclasses import replace
from typing import Protocol, TypeAlias

from ag_ui.core import RunAgentInput

from pilotage.adapters.agui.openers import AnsweredRuns, EndedRuns, SeenRuns, StartedRuns
from pilotage.adapters.agui.projector import BROKEN, AgUiProjector
from pilotage.adapters.agui.questions import carries_approval_decision, decisions_in, tool_results_in
from pilotage.adapters.agui.run_input import cancelled_run_in, check_size, last_seen, with_history
from pilotage.adapters.agui.stream import (
    AgUiEncoder,
    Bookmark,
    FrameStream,
    Marked,
    RecentFrames,
    SseEncoder,
    VoidBookmarkError,
    encoder_for,
)
from pilotage.adapters.agui_plugin import AgUiConfig
from pilotage.agent.events import AgentEvent
from pilotage.agent.principal import LOCAL, Principal
from pilotage.agent.run_input import RunAgentInput as CoreRunInput
from pilotage.container.application import Application
from pilotage.errors import PilotageError
from pilotage.runtime.events.feed import EventCursor
from pilotage.runtime.events.subscription import Subscription
from pilotage.runtime.journal.interruptions import RunInterruption
from pilotage.runtime.run.blueprint import can_wait_for_callers
from pilotage.runtime.run.opened import OpenedRun
from pilotage.runtime.runner import AgentRunner
from pilotage.runtime.runs import AgentRuns
from pilotage.values import value

_LOG = logging.getLogger(__name__)

RunDriverFactory: TypeAlias = Callable[
    [CoreRunInput, RunAgentInput, str | None], AsyncIterable[str] | Awaitable[AsyncIterable[str]]
]
"""Makes the stream for one input; `accept` is what the client accepts, where the transport knows."""


class RunOpener(Protocol):
    """Opens runs; an `AgentRunner` does."""

    async def open(self, given: object, /) -> OpenedRun:
        """A run for this input."""
        ...


class AgUiRunDriver(AsyncIterable[str]):
    """Opens a run, reads its events and encodes what the projector makes of them.

    A client that comes back has `seen` some of the stream: it is told what follows, or where that cannot be, everything
    again from RUN_STARTED on.
    """

    def __init__(
        self,
        runner: RunOpener,
        run_input: CoreRunInput,
        agent_id: str,
        projector: AgUiProjector | None = None,
        encoder: AgUiEncoder | None = None,
        *,
        seen: Bookmark | None = None,
        recent: RecentFrames | None = None,
    ) -> None:
        self._runner = runner
        self._input = run_input
        self._agent_id = agent_id
        self._projector = projector or AgUiProjector(
            run_id=run_input.state_id, thread_id=run_input.effective_conversation_id
        )
        self._encoder = encoder or SseEncoder()
        self._seen = seen
        self._recent = recent or RecentFrames()
        self._stream = FrameStream(self._projector)

    def __aiter__(self) -> AsyncIterator[str]:
        return self._frames()

    async def _frames(self) -> AsyncGenerator[str, None]:
        run: OpenedRun | None = None
        last: list[Marked] = []
        try:
            run = await self._runner.open(self._input)
            for each in self._told_before():
                yield self._encoded(each)
            async with aclosing(self._told_of(run)) as told:
                async for each in told:
                    yield self._encoded(each)
        except (Exception, RunInterruption) as error:  # noqa: BLE001 - the top of a stream: its client gets an end
            last = self._broken(error)
        finally:
            if run is not None:
                await run.leave()
        for each in last:
            yield self._encoded(each)

    def _told_before(self) -> Iterator[Marked]:
        """Return the frames after the last one of the client that this process remembers."""
        if self._seen is not None:
            for mark, frame in self._recent.behind(self._seen):
                self._seen = mark
                yield mark, frame
            self._stream = FrameStream(self._projector, self._seen)

    async def _told_of(self, run: OpenedRun) -> AsyncGenerator[Marked, None]:
        try:
            async with aclosing(self._told(run)) as told:
                async for each in told:
                    yield each
        except VoidBookmarkError:
            self._stream, self._seen = FrameStream(self._projector.fresh()), None
            async with aclosing(self._told(run)) as told:
                async for each in told:
                    yield each

    async def _told(self, run: OpenedRun) -> AsyncGenerator[Marked, None]:
        events = run.events()
        origin = _cursor_of(events)
        self._stream.begin(run.id, origin)
        if self._seen is None and origin is not None:
            self._seen = Bookmark(run.id, origin, origin)
        async for event in events:
            for each in self._stream.take(event, _cursor_of(events)):
                yield self._noted(each)
        await run.result()
        for each in self._stream.finish():
            yield self._noted(each)

    def _noted(self, told: Marked) -> Marked:
        mark, frame = told
        if self._seen is not None and mark is not None:
            self._recent.note(self._seen, mark, frame)
            self._seen = mark
        return told

    def _encoded(self, marked: Marked) -> str:
        bookmark, frame = marked
        return self._encoder.encode(frame, str(bookmark) if bookmark is not None else None)

    def _broken(self, error: BaseException) -> list[Marked]:
        if isinstance(error, PilotageError):
            return self._stream.fail(str(error), error.code)
        # What others raise may name what clients should not read.
        _LOG.error("the AG-UI stream of agent %r broke: %s", self._agent_id, type(error).__name__)
        return self._stream.fail("The stream of the run broke.", BROKEN)


def _cursor_of(events: AsyncIterator[AgentEvent]) -> EventCursor | None:
    return EventCursor.parse(events.cursor) if isinstance(events, Subscription) else None


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
        """What clients are shown, and how much they may send."""
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
        """End the run that a client started by this name.

        Raises:
            CallerError: there is none, or it cannot be ended from here.
        """
        await EndedRuns(self._runs, self._runner(), name).end()

    def _opener(self, runner: AgentRunner, ag_ui_input: RunAgentInput) -> RunOpener:
        if (name := cancelled_run_in(ag_ui_input)) is not None:
            return EndedRuns(self._runs, runner, name)
        decided = decisions_in(ag_ui_input) if carries_approval_decision(ag_ui_input) else ()
        results = tool_results_in(ag_ui_input)
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
    """A factory of streams over the runs of an agent, acting for a principal; the application may start later."""
    return AgentDriver(app, agent, principal, config)

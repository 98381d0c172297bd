"""`driver_for`: the streams of one agent for every transport."""

from __future__ import annotations

from collections.abc import AsyncIterable
from dataclasses import replace

from ag_ui.core import Message, RunAgentInput, UserMessage

from pilotage.adapters.agui import decisions
from pilotage.adapters.agui.answered import AnsweredRuns
from pilotage.adapters.agui.connecting import ConnectedThreads, RunsWithHistory, history_of
from pilotage.adapters.agui.encoding import encoder_for
from pilotage.adapters.agui.errors import AgUiRunResolutionError
from pilotage.adapters.agui.openers import EndedRuns, SeenRuns, StartedRuns
from pilotage.adapters.agui.projector import AgUiProjector
from pilotage.adapters.agui.run_input import (
    as_of_own_page,
    cancelled_run_in,
    cancels,
    check_size,
    connects,
    last_seen,
    with_history,
)
from pilotage.adapters.agui.stream import AgUiRunDriver, RecentFrames, RunOpener
from pilotage.adapters.agui_plugin import AgUiConfig
from pilotage.agent.principal import LOCAL, Principal
from pilotage.agent.run_values import RunAgentInput as CoreRunInput
from pilotage.agent.signals import RejectionPolicy
from pilotage.container.application import Application
from pilotage.runtime.run.blueprint import can_wait_for_callers
from pilotage.runtime.runner import AgentRunner
from pilotage.runtime.runs import AgentRuns
from pilotage.values import value


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
            protocol=ag_ui_input.protocol_version,
            marks_calls=True,
        )
        opener: RunOpener = self._opener(runner, ag_ui_input)
        if seen is not None:
            opener = SeenRuns(self._runs, runner, seen, opener if isinstance(opener, StartedRuns) else None)
        given = self._given(runner, run_input, ag_ui_input)
        agent_id = runner.definition.agent_id
        recent = RecentFrames.of(self.app)
        return AgUiRunDriver(
            opener, given, agent_id, projector, encoder_for(accept), seen=seen, recent=recent
        )

    async def cancel(self, name: str | None, thread_id: str = "") -> None:
        """Cancel the run that a client started by this name; without one, the run that has the thread.

        Raises:
            CallerError: it cannot be cancelled here.
        """
        await EndedRuns(self._runs, self._runner(), name, thread_id).end()

    async def messages(self, thread_id: str) -> list[Message]:
        """Return the messages of a thread, as a page shows them that is loaded anew.

        Raises:
            CallerError: the store does not know the threads of its runs.
        """
        return await history_of(self._runs, self._runner()).messages(thread_id)

    def _opener(self, runner: AgentRunner, ag_ui_input: RunAgentInput) -> RunOpener:
        if cancels(ag_ui_input):
            return EndedRuns(self._runs, runner, cancelled_run_in(ag_ui_input), ag_ui_input.thread_id)
        is_durable = runner.definition.spec.is_durable
        if connects(ag_ui_input):
            if not is_durable:
                raise AgUiRunResolutionError(
                    f"input {ag_ui_input.run_id!r} has no user message with text, and agent "
                    f"{runner.definition.agent_id!r} is not durable, so there is no thread to connect to. "
                    "Send what the user says as the last message."
                )
            return ConnectedThreads(self._runs, runner)
        if decisions.carries_approval_decision(ag_ui_input) or decisions.tool_results_in(ag_ui_input):
            return AnsweredRuns(self._runs, runner, ag_ui_input, shows_calls=self.shown.approval_calls)
        if is_durable and self.shown.history_at_start:
            asked = [message for message in ag_ui_input.messages if isinstance(message, UserMessage)]
            return RunsWithHistory(self._runs, runner, ag_ui_input.messages, asked[-1:])
        return StartedRuns(self._runs, runner, ag_ui_input.messages) if is_durable else runner

    def _given(
        self, runner: AgentRunner, run_input: CoreRunInput, ag_ui_input: RunAgentInput
    ) -> CoreRunInput:
        """Return the input that this agent accepts: tools of the client if it can wait, history if none is stored."""
        if self.shown.report_rejections:
            run_input = replace(run_input, on_rejection=RejectionPolicy.TELL_MODEL)
        if not can_wait_for_callers(runner.definition):
            run_input = replace(run_input, deferred_tools=())
        run_input = as_of_own_page(run_input, self.shown)
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

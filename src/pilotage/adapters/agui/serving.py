"""`driver_for`: the runs of one agent of an application, for every AG-UI transport."""

from __future__ import annotations

from collections.abc import AsyncIterable
from dataclasses import replace

from ag_ui.core import RunAgentInput

from pilotage.adapters.agui.answers import carries_approval_decision, decisions_in, tool_results_in
from pilotage.adapters.agui.driver import AgUiRunDriver, RunOpener
from pilotage.adapters.agui.encoder import encoder_for
from pilotage.adapters.agui.input_parsing import cancelled_run_in, last_seen
from pilotage.adapters.agui.openers import AnsweredRuns, EndedRuns, SeenRuns, StartedRuns
from pilotage.adapters.agui.projector import AgUiProjector
from pilotage.adapters.agui.run_input import check_size, with_history
from pilotage.adapters.agui.stream import RecentFrames
from pilotage.adapters.agui_plugin import AgUiConfig
from pilotage.agent.principal import LOCAL, Principal
from pilotage.agent.run_input import RunAgentInput as CoreRunInput
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

"""`driver_for`: the runs of one agent of an application, for every AG-UI transport."""

from __future__ import annotations

from collections.abc import AsyncIterable, Sequence
from dataclasses import replace

from ag_ui.core import RunAgentInput

from pilotage.adapters.agui.decisions import (
    AgUiContinuation,
    AgUiDecision,
    carries_approval_decision,
    decisions_in,
)
from pilotage.adapters.agui.driver import AgUiRunDriver, RunDriverFactory
from pilotage.adapters.agui.encoder import encoder_for
from pilotage.adapters.agui.projector import AgUiProjector
from pilotage.adapters.agui.settings import AgUiConfig
from pilotage.agent.principal import LOCAL, Principal
from pilotage.agent.run_input import RunAgentInput as CoreRunInput
from pilotage.agent.state import AgentState
from pilotage.container.application import Application
from pilotage.errors import RunConflictError
from pilotage.runtime.runner import AgentRunner
from pilotage.runtime.runs import AgentRuns
from pilotage.runtime.service.answers import run_of
from pilotage.runtime.service.opened_runs import OpenedRun


def driver_for(
    app: Application, agent: type[object], *, principal: Principal = LOCAL, config: AgUiConfig | None = None
) -> RunDriverFactory:
    """A factory of streams over the runs of an agent, acting for a principal; the application may start later."""

    def drive(
        run_input: CoreRunInput, ag_ui_input: RunAgentInput, accept: str | None = None
    ) -> AsyncIterable[str]:
        runner = AgentRunner.for_agent_instance(app.get(agent)).for_principal(principal)
        decided = decisions_in(ag_ui_input) if carries_approval_decision(ag_ui_input) else ()
        opener = DecidedRuns(app.get(AgentRuns), runner, decided) if decided else runner
        projector = AgUiProjector(
            config,
            run_id=ag_ui_input.run_id,
            thread_id=ag_ui_input.thread_id,
            messages=ag_ui_input.messages,
        )
        agent_id = runner.definition.agent_id
        return AgUiRunDriver(opener, run_input, agent_id, projector, encoder_for(accept))

    return drive


class DecidedRuns:
    """Hands decisions to the runs that wait for them, then brings back the run at the top."""

    def __init__(
        self, runs: AgentRuns, runner: AgentRunner, decided: Sequence[AgUiDecision | AgUiContinuation]
    ) -> None:
        self._runs = runs
        self._runner = runner
        self._decided = decided

    async def open(self, given: object, /) -> OpenedRun:
        """The run that goes on with what was decided.

        Raises:
            RunNotFoundError: there is no such run in the principal's tenant.
            RunConflictError: the decisions are about several runs, or about one of another agent.
            CallerError: nobody waits for a decision, or it does not fit; that question stays open.
        """
        tops = {top.id: top for top in [await self._top_of(each) for each in self._decided]}
        if len(tops) > 1:
            raise RunConflictError("the decisions are about several runs. Send one input for each of them.")
        (top,) = tops.values()
        agent_id = self._runner.definition.agent_id
        if top.agent_type != agent_id:
            raise RunConflictError(
                f"run {top.id!r} is one of agent {top.agent_type!r}, not of {agent_id!r}. Decide about it there."
            )
        for each in self._decided:
            await self._decide(each)
        resumed = given if isinstance(given, CoreRunInput) else CoreRunInput(top.id, "resume")
        return await self._runner.open(replace(resumed, state_id=top.id, resume=True))

    async def _decide(self, decided: AgUiDecision | AgUiContinuation) -> None:
        principal = self._runner.principal
        if isinstance(decided, AgUiDecision):
            run_id, decision = run_of(decided.request_id), decided.decision
            await self._runs.decide(
                run_id, decided.request_id, decision, principal=principal, **decided.details
            )
        elif decided.is_cancelled:
            await self._runs.cancel(decided.run_id, principal=principal)

    async def _top_of(self, decided: AgUiDecision | AgUiContinuation) -> AgentState:
        """The run that nobody delegated, at or above the one that asked."""
        asked = run_of(decided.request_id) if isinstance(decided, AgUiDecision) else decided.run_id
        state = await self._runs.get(asked, principal=self._runner.principal)
        while isinstance(parent := state.metadata.get("parent"), str):
            state = await self._runs.get(parent, principal=self._runner.principal)
        return state

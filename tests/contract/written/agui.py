"""The wiring of an AG-UI endpoint as section 27 has it: a factory that makes a driver of a runner."""

from __future__ import annotations

from collections.abc import AsyncIterable

from ag_ui.core import RunAgentInput as AgUiInput

from pilotage.adapters.agui import AgUiConfig, AgUiProjector, AgUiRunDriver, RunDriverFactory
from pilotage.agent import RunAgentInput
from pilotage.runtime import AgentRunner


def drives(instance: object, config: AgUiConfig) -> RunDriverFactory:
    """The factory of an agent's drivers."""

    def factory(core_input: RunAgentInput, ag_ui_input: AgUiInput, accept: str | None) -> AsyncIterable[str]:
        runner = AgentRunner.for_agent_instance(instance)
        return AgUiRunDriver(runner, core_input, type(instance).__name__, AgUiProjector(config))

    return factory

"""Ours, measured as the peers are."""

from __future__ import annotations

from itertools import count

from benchmarks.agents import Asking, Declared, Speaker, Talking
from benchmarks.peers.measuring import tell

from pilotage import Application, IAgentModel, RunAgentInput
from pilotage.runtime.plugin import initialize
from pilotage.runtime.runner import AgentRunner

_names = map(str, count(1))


class Ours:
    """A started application with one agent, made when it is first asked."""

    def __init__(self, agent: type, model: IAgentModel) -> None:
        self._agent, self._model = agent, model
        self._runner: AgentRunner | None = None

    async def run(self, number: int) -> None:
        """A run, read as a stream of events."""
        runner = self._runner = self._runner or await self._started()
        async for _ in runner.run_events(RunAgentInput(next(_names), str(number))):
            pass

    async def _started(self) -> AgentRunner:
        app = Application("peer").add(self._agent, self._model)
        initialize(app)
        await app.start()
        return AgentRunner.for_agent_instance(app.get(self._agent))


if __name__ == "__main__":
    tell("pilotage", Ours(Declared, Asking()).run, Ours(Speaker, Talking()).run)

"""The kill switches of a run: looked at before everything it does, and before it says its answer.

A run that finds something off pauses. Nothing of that is recorded with the action, so whoever resumes the run looks
again. Switches that cannot be read are off.
"""

from __future__ import annotations

from pilotage.agent.ports.switches import IAgentSwitches, Switch, SwitchedOff
from pilotage.agent.state import AgentSituation
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.actions.interruptions import Paused, RunEnded
from pilotage.runtime.gate.asking import NoAnswerError, asked


class SwitchStage:
    """The switches that concern one run. One that nobody keeps cannot wait, so it ends."""

    def __init__(self, switches: IAgentSwitches, agent: str, tenant: str, *, is_kept: bool) -> None:
        self._switches = switches
        self._always = (Switch.agent(agent), Switch.tenant(tenant))
        self._is_kept = is_kept

    async def check(self, tool: str | None = None) -> None:
        """Return where everything is on that concerns the run, and the tool it is about to call.

        Raises:
            Paused: something is off, or nobody can say.
            RunEnded: the same, for a run that nobody keeps.
        """
        concerned = self._always if tool is None else (*self._always, Switch.tool(tool))
        try:
            off = await asked(self._switches.first_off, concerned)
        except NoAnswerError as failure:
            raise self._stopped(f"the kill switches cannot be read ({failure})", {}) from failure
        if off is not None:
            raise self._stopped(str(off), _facts(off))

    def _stopped(self, reason: str, facts: JsonObject) -> Paused | RunEnded:
        if self._is_kept:
            return Paused(reason=reason, facts=facts)
        return RunEnded(AgentSituation.FAILED, reason, code="switched_off", retryable=True)


def _facts(off: SwitchedOff) -> JsonObject:
    return {"switched_off": off.to_payload()}

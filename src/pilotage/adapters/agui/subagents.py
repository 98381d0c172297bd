"""The runs below a run as AG-UI's sub-agents: each is announced before it says something, and ended. Pure."""

from __future__ import annotations

from ag_ui.core import (
    BaseEvent,
    SubagentErrorEvent,
    SubagentFinishedEvent,
    SubagentFinishedSuspendedOutcome,
    SubagentStartedEvent,
)

from pilotage.adapters.agui.frames import OpenFrames
from pilotage.adapters.agui.wording import code_of, message_of
from pilotage.agent.events import AgentEventAttribution, RunFinishedEvent


class SubAgents:
    """The sub-agents that a client was told of and not told the end of, with what each has open."""

    def __init__(self) -> None:
        self._open: dict[str, OpenFrames] = {}

    def frames_of(self, run_id: str) -> OpenFrames:
        """What a sub-agent that was announced has open."""
        return self._open[run_id]

    def announce(self, by: AgentEventAttribution, top: str) -> list[BaseEvent]:
        """Say who speaks from now on, unless the client knows; `top` is the run whose stream it is."""
        if by.run_id in self._open:
            return []
        self._open[by.run_id] = OpenFrames(by.run_id, by.branch)
        above = by.parent_run_id if by.parent_run_id != top else None
        return [
            SubagentStartedEvent(subagent_run_id=by.run_id, name=by.agent_id, parent_subagent_run_id=above)
        ]

    def suspend(self, run_id: str) -> list[BaseEvent]:
        """A sub-agent waits, or nobody knows what becomes of it: it ends for this stream."""
        frames = self._open.pop(run_id, None)
        if frames is None:
            return []
        suspended = SubagentFinishedSuspendedOutcome()
        return [*frames.close_all(), SubagentFinishedEvent(subagent_run_id=run_id, outcome=suspended)]

    def end(self, event: RunFinishedEvent) -> list[BaseEvent]:
        """A sub-agent that was announced has its answer, or none."""
        by = event.attribution.run_id
        told = self._open.pop(by).close_all()
        if event.error is None:
            return [*told, SubagentFinishedEvent(subagent_run_id=by, result=event.metadata.get("output"))]
        message, code = message_of(event.error), code_of(event.error)
        return [*told, SubagentErrorEvent(subagent_run_id=by, message=message, code=code)]

    def close_all(self) -> list[BaseEvent]:
        """The stream ends: so do all who are left, the last one first."""
        return [frame for run_id in reversed([*self._open]) for frame in self.suspend(run_id)]

"""Telling the readers of a run that a budget comes to its end: as an event, each warning once for the whole run."""

from __future__ import annotations

from collections.abc import Iterable

from pilotage.agent.events import AgentEventAttribution, AgentEventKind, ArtifactEvent
from pilotage.runtime.budget.limits import near_bounds
from pilotage.runtime.budget.spending import Spending
from pilotage.runtime.events.event_log import LoggedEvent
from pilotage.runtime.events.writer import EventWriter
from pilotage.runtime.telemetry import RunTelemetry

BUDGET_WARNING = "budget_warning"
"""The name of the artifact that warns."""

_ARTIFACT = AgentEventKind.ARTIFACT.value


class BudgetWarnings:
    """Warns the readers of one run, in this attempt and in those before each warning once."""

    def __init__(
        self,
        events: EventWriter,
        telemetry: RunTelemetry,
        by: AgentEventAttribution,
        logged: Iterable[LoggedEvent],
    ) -> None:
        self._events = events
        self._telemetry = telemetry
        self._by = by
        artifacts = (item.event(by) for item in logged if item.kind == _ARTIFACT)
        self._warned = {
            str(event.content)
            for event in artifacts
            if isinstance(event, ArtifactEvent) and event.name == BUDGET_WARNING and event.attribution == by
        }

    def check(self, spending: Spending) -> None:
        """Warn of the limits that the run comes near to."""
        for words in near_bounds(spending.own):
            self.warn(words)

    def warn(self, words: str) -> None:
        """Warn once."""
        if words in self._warned:
            return
        self._warned.add(words)
        warning_id = f"{self._by.run_id}:{BUDGET_WARNING}:{len(self._warned)}"
        self._events.report(ArtifactEvent(self._by, warning_id, words, BUDGET_WARNING))
        self._telemetry.count("agent.budget.warnings", agent=self._by.agent_id)

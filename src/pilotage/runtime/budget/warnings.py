"""Telling the readers of a run that a budget comes to its end: as an event, each warning once for the whole run."""

from __future__ import annotations

from collections.abc import Iterable

from pilotage.agent.events import AgentEventAttribution, AgentEventKind, ArtifactEvent
from pilotage.runtime.budget.limits import near_bounds
from pilotage.runtime.budget.spending import Spending
from pilotage.runtime.door.run import Effects
from pilotage.runtime.events.event_log import LoggedEvent

BUDGET_WARNING = "budget_warning"
"""The name of the artifact that warns."""

_ARTIFACT = AgentEventKind.ARTIFACT.value


class BudgetWarnings:
    """What a run was warned of, in this attempt and in those before."""

    def __init__(self, effects: Effects, by: AgentEventAttribution, told: Iterable[LoggedEvent]) -> None:
        self._effects = effects
        self._by = by
        events = (item.event(by) for item in told if item.kind == _ARTIFACT)
        self._warned = {
            str(event.content)
            for event in events
            if isinstance(event, ArtifactEvent) and event.name == BUDGET_WARNING and event.attribution == by
        }

    def look_at(self, spending: Spending) -> None:
        """Warn of the bounds that the run comes near to."""
        for words in near_bounds(spending.own):
            self.tell(words)

    def tell(self, words: str) -> None:
        """Warn of something, unless somebody has."""
        if words in self._warned:
            return
        self._warned.add(words)
        warning_id = f"{self._by.run_id}:{BUDGET_WARNING}:{len(self._warned)}"
        self._effects.telling.report(ArtifactEvent(self._by, warning_id, words, BUDGET_WARNING))
        self._effects.observer.count("agent.budget.warnings", agent=self._by.agent_id)

"""What the adapter gives to an application: settings, the routes of agents that want to be served, recent frames."""

from __future__ import annotations

from pilotage.adapters.agui.compatible import AgUiEndpoints
from pilotage.adapters.agui.settings import AgUiConfig
from pilotage.adapters.agui.stream import RecentFrames
from pilotage.container.application import Application


def register(app: Application) -> None:
    """Add what the application has not got."""
    if not app.contains(AgUiConfig):
        app.add(AgUiConfig.from_environment())
    app.add(AgUiEndpoints(app), RecentFrames())

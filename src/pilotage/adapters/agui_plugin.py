"""The plugin `agui`: beside its adapter, because it is also loaded, and does nothing, without the extra."""

from __future__ import annotations

from importlib.util import find_spec

from pilotage.container.application import Application


def initialize(app: Application) -> None:
    """Give the application what the adapter has for it, if the extra is installed."""
    if find_spec("ag_ui") is None or find_spec("starlette") is None:
        return
    from pilotage.adapters.agui.plugin import register  # noqa: PLC0415 - needs the extra

    register(app)

"""The plugin `openai`, outside of its adapter, which is imported only if a server is named."""

from __future__ import annotations

import os
import sys

from pilotage.container.application import Application

BASE_URL = "PILOTAGE_MODEL_BASE_URL"


def initialize(app: Application) -> None:
    """Let the adapter register its model if the environment names a server, or the application may have settings.

    An application can have settings of the adapter only if the adapter was imported.
    """
    if "pilotage.adapters.openai" not in sys.modules and not os.environ.get(BASE_URL, "").strip():
        return
    from pilotage.adapters.openai.plugin import register  # noqa: PLC0415 - imports the adapter

    register(app)

"""Base classes of the kits, and their runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from pilotage.agent.ports.persistence import RunKey

PassTime = Callable[[float], Awaitable[None]]
LONG = 3600.0

RUN = RunKey("default", "run-1")
OTHER_RUN = RunKey("default", "run-2")
FOREIGN_RUN = RunKey("elsewhere", "run-1")


class Kit:
    """The promises of a port as async tests; an adapter derives from it and gives the fixtures."""

    pytestmark = pytest.mark.asyncio


class TimedKit(Kit):
    """A kit whose tests let the time of leases, claims and waits run out."""

    short = 30.0
    """Their length in seconds; use less if a test must wait in real time."""

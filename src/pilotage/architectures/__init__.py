"""Loop strategies: how an agent without an `execute()` of its own goes from the question to the answer."""

from pilotage.architectures.moves import StopReason
from pilotage.architectures.react import React
from pilotage.architectures.router import Route, Router

__all__ = ["React", "Route", "Router", "StopReason"]

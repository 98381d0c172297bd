"""Loop strategies: how an agent without an `execute()` of its own goes from the question to the answer."""

from pilotage.architectures.moves import StopReason
from pilotage.architectures.plan_and_execute import PlanAndExecute
from pilotage.architectures.react import React
from pilotage.architectures.router import Route, Router

__all__ = ["PlanAndExecute", "React", "Route", "Router", "StopReason"]

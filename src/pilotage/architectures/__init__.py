"""Loop strategies: how an agent without an `execute()` of its own goes from the question to the answer."""

from pilotage.architectures.actor_critic import ActorCritic, Verdict
from pilotage.architectures.moves import StopReason
from pilotage.architectures.plan_and_execute import PlanAndExecute
from pilotage.architectures.react import React
from pilotage.architectures.reflexion import Reflexion
from pilotage.architectures.router import Route, Router
from pilotage.architectures.self_refine import SelfRefine
from pilotage.architectures.supervisor import Supervisor

__all__ = [
    "ActorCritic",
    "PlanAndExecute",
    "React",
    "Reflexion",
    "Route",
    "Router",
    "SelfRefine",
    "StopReason",
    "Supervisor",
    "Verdict",
]

"""Loop strategies: how an agent without an `execute()` of its own goes from the question to the answer."""

from pilotage.architectures.actor_critic import ActorCritic, Verdict
from pilotage.architectures.blackboard import Blackboard, Coordination
from pilotage.architectures.debate import Debate, Position, Ruling
from pilotage.architectures.describe import describe
from pilotage.architectures.moves import StopReason
from pilotage.architectures.parts import WorkerRef
from pilotage.architectures.plan_and_execute import PlanAndExecute
from pilotage.architectures.react import React
from pilotage.architectures.reflexion import Reflexion
from pilotage.architectures.rewoo import Rewoo
from pilotage.architectures.router import Router
from pilotage.architectures.self_refine import SelfRefine
from pilotage.architectures.supervisor import Supervisor
from pilotage.architectures.swarm import HandedOver, Handoff, Peer, Swarm
from pilotage.architectures.tree_of_thoughts import TreeOfThoughts

# fmt: off
__all__ = [
    "ActorCritic", "Blackboard", "Coordination", "Debate", "HandedOver", "Handoff", "Peer",
    "PlanAndExecute", "Position", "React", "Reflexion", "Rewoo", "Router", "Ruling", "SelfRefine",
    "StopReason", "Supervisor", "Swarm", "TreeOfThoughts", "Verdict", "WorkerRef", "describe",
]

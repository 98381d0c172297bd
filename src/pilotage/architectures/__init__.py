"""Loop strategies: how an agent without an `execute()` of its own gets from the question to the answer.

The functions are the parts that the loops share, for loops of your own: `carry_out` runs a loop inside a loop,
`decide` asks the model for a typed decision, `judge` asks a worker or the model for one, `ask_worker` hands work to a
worker, and `Candidates` keeps the best answer so far.
"""

from pilotage.architectures.actor_critic import ActorCritic, Verdict
from pilotage.architectures.blackboard import Blackboard, Coordination
from pilotage.architectures.debate import Debate, Position, Ruling
from pilotage.architectures.deciding import decide, judge
from pilotage.architectures.describe import describe
from pilotage.architectures.moves import StopReason
from pilotage.architectures.parts import (
    Candidate,
    Candidates,
    WorkerRef,
    add_question,
    adopt_result,
    ask_worker,
    branch_session,
    carry_out,
    check_workers,
    conclude,
    declared_agents,
    interrupt,
)
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
    "ActorCritic", "Blackboard", "Candidate", "Candidates", "Coordination", "Debate", "HandedOver",
    "Handoff", "Peer", "PlanAndExecute", "Position", "React", "Reflexion", "Rewoo", "Router",
    "Ruling", "SelfRefine", "StopReason", "Supervisor", "Swarm", "TreeOfThoughts", "Verdict",
    "WorkerRef", "add_question", "adopt_result", "ask_worker", "branch_session", "carry_out",
    "check_workers", "conclude", "decide", "declared_agents", "describe", "interrupt", "judge",
]

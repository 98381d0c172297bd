"""Durable execution: runs that survive their process, with nothing lost and nothing done twice."""

from pilotage.agent.run_result import RunResult
from pilotage.runtime.architecture_registry import find_architecture
from pilotage.runtime.cursor import EventCursor
from pilotage.runtime.interruptions import (
    Paused,
    RunDiverged,
    RunInterruption,
    RunOwnershipLost,
    StoreUnavailable,
)
from pilotage.runtime.launch import RunHandle
from pilotage.runtime.run_aware_model import RunAwareModel
from pilotage.runtime.runner import AgentRunner
from pilotage.runtime.runs import AgentRuns
from pilotage.runtime.steps import now, random, step, uid
from pilotage.runtime.subscription import Subscription

__all__ = [
    "AgentRunner",
    "AgentRuns",
    "EventCursor",
    "Paused",
    "RunAwareModel",
    "RunDiverged",
    "RunHandle",
    "RunInterruption",
    "RunOwnershipLost",
    "RunResult",
    "StoreUnavailable",
    "Subscription",
    "find_architecture",
    "now",
    "random",
    "step",
    "uid",
]

"""Durable execution: runs that survive their process, with nothing lost and nothing done twice."""

from pilotage.runtime.attempt import RunResult
from pilotage.runtime.interruptions import (
    Paused,
    RunDiverged,
    RunInterruption,
    RunOwnershipLost,
    StoreUnavailable,
)
from pilotage.runtime.launch import RunHandle
from pilotage.runtime.model_calls import RunAwareModel
from pilotage.runtime.runs import AgentRuns
from pilotage.runtime.steps import now, random, step, uid

__all__ = [
    "AgentRuns",
    "Paused",
    "RunAwareModel",
    "RunDiverged",
    "RunHandle",
    "RunInterruption",
    "RunOwnershipLost",
    "RunResult",
    "StoreUnavailable",
    "now",
    "random",
    "step",
    "uid",
]

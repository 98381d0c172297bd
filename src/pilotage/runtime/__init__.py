"""Durable execution: runs that survive their process, with nothing lost and nothing done twice."""

from pilotage.agent.run_result import RunResult
from pilotage.runtime.actions.interruptions import (
    Paused,
    RunDiverged,
    RunInterruption,
    RunOwnershipLost,
    StoreUnavailable,
)
from pilotage.runtime.door.awaiting import next_signal
from pilotage.runtime.door.run_aware_model import RunAwareModel
from pilotage.runtime.door.steps import now, random, step, uid
from pilotage.runtime.gate.asking import GateSettings
from pilotage.runtime.gate.tenant_budget import TenantBudget
from pilotage.runtime.journal.leasing import LeaseSettings
from pilotage.runtime.outbox.retrying import RelaySettings
from pilotage.runtime.runner import AgentRunner
from pilotage.runtime.runs import AgentRuns
from pilotage.runtime.scoped.architecture_registry import find_architecture
from pilotage.runtime.scoped.memory_tools import MemoryTools, Recalled
from pilotage.runtime.service.launch import RunHandle
from pilotage.runtime.stream.cursor import EventCursor
from pilotage.runtime.stream.subscription import Subscription
from pilotage.runtime.stream.transcript import Transcript
from pilotage.runtime.worker.settings import WorkerSettings

__all__ = [
    "AgentRunner",
    "AgentRuns",
    "EventCursor",
    "GateSettings",
    "LeaseSettings",
    "MemoryTools",
    "Paused",
    "Recalled",
    "RelaySettings",
    "RunAwareModel",
    "RunDiverged",
    "RunHandle",
    "RunInterruption",
    "RunOwnershipLost",
    "RunResult",
    "StoreUnavailable",
    "Subscription",
    "TenantBudget",
    "Transcript",
    "WorkerSettings",
    "find_architecture",
    "next_signal",
    "now",
    "random",
    "step",
    "uid",
]

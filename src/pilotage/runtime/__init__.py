"""Durable execution: runs that survive their process, with nothing lost and nothing done twice."""

from pilotage.agent.run_values import RunResult
from pilotage.runtime.answering import GivenAnswer
from pilotage.runtime.architecture.memory import MemoryTools, Recalled
from pilotage.runtime.architecture.registry import find_architecture
from pilotage.runtime.architecture.tool_search import ToolSearchSettings
from pilotage.runtime.budget.tenants import TenantBudget
from pilotage.runtime.delivery.relay import RelaySettings
from pilotage.runtime.delivery.watchdog import WatchdogSettings
from pilotage.runtime.delivery.worker import WorkerSettings
from pilotage.runtime.door.asking import ask
from pilotage.runtime.door.hooks import GateSettings
from pilotage.runtime.door.model import RunAwareModel
from pilotage.runtime.door.model_retry import ModelRetrySettings
from pilotage.runtime.door.signals import next_signal
from pilotage.runtime.door.step import (
    changed,
    now,
    patch_state,
    random,
    read_state,
    set_state,
    sleep,
    step,
    timeout,
    uid,
)
from pilotage.runtime.door.tool_call import caller_tools
from pilotage.runtime.events.feed import EventCursor, Transcript
from pilotage.runtime.events.subscription import Subscription
from pilotage.runtime.journal.interruptions import (
    Paused,
    RunDiverged,
    RunInterruption,
    RunOwnershipLost,
    StoreUnavailable,
)
from pilotage.runtime.journal.lease import LeaseSettings
from pilotage.runtime.journal.resolution import ActionDone, ForkBefore, RunResolution, SkipAction
from pilotage.runtime.run.handles import RunHandle
from pilotage.runtime.runner import AgentRunner
from pilotage.runtime.runs import AgentRuns
from pilotage.runtime.stored_media import StoredMedia, media_bytes

__all__ = [
    "ActionDone",
    "AgentRunner",
    "AgentRuns",
    "EventCursor",
    "ForkBefore",
    "GateSettings",
    "GivenAnswer",
    "LeaseSettings",
    "MemoryTools",
    "ModelRetrySettings",
    "Paused",
    "Recalled",
    "RelaySettings",
    "RunAwareModel",
    "RunDiverged",
    "RunHandle",
    "RunInterruption",
    "RunOwnershipLost",
    "RunResolution",
    "RunResult",
    "SkipAction",
    "StoreUnavailable",
    "StoredMedia",
    "Subscription",
    "TenantBudget",
    "ToolSearchSettings",
    "Transcript",
    "WatchdogSettings",
    "WorkerSettings",
    "ask",
    "caller_tools",
    "changed",
    "find_architecture",
    "media_bytes",
    "next_signal",
    "now",
    "patch_state",
    "random",
    "read_state",
    "set_state",
    "sleep",
    "step",
    "timeout",
    "uid",
]

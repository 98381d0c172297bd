"""Test doubles: a scripted model, a store in memory, a clock and ids under control, fault injection.

Shipped to users and never registered by Pilotage itself. The conformance kits are in
`pilotage.testing.conformance`, which needs pytest.
"""

from pilotage.testing.agent_memory import MemoryAgentMemory
from pilotage.testing.architecture_proofs import (
    ArchitectureProofs,
    ArchitectureStory,
    StoryProcesses,
    WrongOutput,
    proof_agent,
    replies_of,
)
from pilotage.testing.blobs import MemoryBlobs
from pilotage.testing.coordination import MemoryBacklog, MemoryLeases, MemoryWakeUps
from pilotage.testing.crash_matrix import CrashReport, always, crash_matrix
from pilotage.testing.faults import (
    FailWrite,
    Fault,
    FaultyJournal,
    LoseReply,
    ProcessStopped,
    StopAfter,
    StopBefore,
)
from pilotage.testing.ids import SeededIds, VirtualClock
from pilotage.testing.memory import (
    MemoryAuditLog,
    MemoryEvidenceRepository,
    MemoryJournal,
    MemoryLateOutcomes,
    MemorySignalRepository,
    MemoryStateRepository,
    MemoryStore,
    MemoryTaskStore,
)
from pilotage.testing.operations import MemorySwitches, MemoryToolPins
from pilotage.testing.outbox import MemoryOutbox
from pilotage.testing.proof_world import ActionLedger, HostileTools, ProofProcesses, ProofTools
from pilotage.testing.retention import MemoryRetention
from pilotage.testing.script import calls, fails, says, turn, when
from pilotage.testing.scripted_model import ScriptedModel
from pilotage.testing.sealer import MemorySealer
from pilotage.testing.tenant_spending import MemoryTenantSpending

# fmt: off
__all__ = [
    "ActionLedger", "ArchitectureProofs", "ArchitectureStory", "CrashReport", "FailWrite", "Fault",
    "FaultyJournal", "HostileTools", "LoseReply", "MemoryAgentMemory", "MemoryAuditLog", "MemoryBacklog",
    "MemoryBlobs",
    "MemoryEvidenceRepository", "MemoryJournal", "MemoryLateOutcomes", "MemoryLeases",
    "MemoryOutbox", "MemoryRetention", "MemorySealer", "MemorySignalRepository",
    "MemoryStateRepository", "MemoryStore", "MemorySwitches", "MemoryTaskStore",
    "MemoryTenantSpending", "MemoryToolPins", "MemoryWakeUps", "ProcessStopped", "ProofProcesses", "ProofTools",
    "ScriptedModel", "SeededIds", "StopAfter", "StopBefore", "StoryProcesses", "VirtualClock",
    "WrongOutput", "always", "calls", "crash_matrix", "fails", "proof_agent", "replies_of", "says",
    "turn", "when",
]

"""Conformance kits: the promises of each port as tests that every adapter runs.

A kit is a class of tests. An adapter derives from it and gives the fixtures its docstring names. `StoreConformance`
runs the kits of all ports of a store from one fixture. The rule that most stores miss first is one of leases: an owner
who does not get a lease does not move the holder's expiry.
The kits need pytest and pytest-asyncio: `pip install "pilotage[testing]"`.
"""

# ruff: noqa: E402 - pytest has to know the kits before they are imported

from pkgutil import iter_modules

try:
    import pytest
except ImportError as error:
    raise ImportError('the conformance kits need an extra: pip install "pilotage[testing]"') from error

# Before the kits are imported: a failing assert then shows the values it compared.
pytest.register_assert_rewrite(*(f"{__name__}.{kit.name}" for kit in iter_modules(__path__)))

from pilotage.testing.conformance.backlog import BacklogConformance
from pilotage.testing.conformance.blobs import BlobsConformance
from pilotage.testing.conformance.conversations import ConversationCommitConformance, TaskStoreConformance
from pilotage.testing.conformance.evidence import (
    AuditLogConformance,
    EvidenceRepositoryConformance,
    LateOutcomesConformance,
)
from pilotage.testing.conformance.journal import JournalConformance
from pilotage.testing.conformance.lease_commits import LeaseCommitConformance
from pilotage.testing.conformance.leases import LeasesConformance
from pilotage.testing.conformance.memory import MemoryConformance
from pilotage.testing.conformance.model import ModelConformance
from pilotage.testing.conformance.outbox import OutboxConformance
from pilotage.testing.conformance.retention import RetentionConformance
from pilotage.testing.conformance.sealing import SealerConformance
from pilotage.testing.conformance.signal_commits import SignalCommitConformance
from pilotage.testing.conformance.signals import SignalRepositoryConformance
from pilotage.testing.conformance.spending import SpendingConformance
from pilotage.testing.conformance.states import StateRepositoryConformance
from pilotage.testing.conformance.store import StoreConformance, StoreUnderTest, TenantRepositories
from pilotage.testing.conformance.switches import SwitchesConformance
from pilotage.testing.conformance.tool_pins import ToolPinsConformance
from pilotage.testing.conformance.transaction import TransactionConformance
from pilotage.testing.conformance.wakeups import WakeUpsConformance

# fmt: off
__all__ = [
    "AuditLogConformance", "BacklogConformance", "BlobsConformance", "ConversationCommitConformance",
    "EvidenceRepositoryConformance", "JournalConformance", "LateOutcomesConformance",
    "LeaseCommitConformance", "LeasesConformance", "MemoryConformance", "ModelConformance",
    "OutboxConformance", "RetentionConformance", "SealerConformance", "SignalCommitConformance",
    "SignalRepositoryConformance", "SpendingConformance", "StateRepositoryConformance", "StoreConformance",
    "StoreUnderTest", "SwitchesConformance", "TaskStoreConformance", "TenantRepositories",
    "ToolPinsConformance", "TransactionConformance", "WakeUpsConformance",
]

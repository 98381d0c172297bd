"""Conformance kits: the promises of each port as tests that every adapter runs.

A kit is a class of tests. An adapter derives from it and gives the fixtures its docstring names; that is the
whole proof. The kits need pytest and pytest-asyncio: `pip install "pilotage[testing]"`.
"""

try:
    import pytest
except ImportError as error:
    raise ImportError('the conformance kits need an extra: pip install "pilotage[testing]"') from error

# Before the kits are imported: a failing assert then shows the values it compared.
pytest.register_assert_rewrite(
    *(
        f"pilotage.testing.conformance.{kit}"
        for kit in (
            "audit",
            "backlog",
            "conversations",
            "evidence",
            "journal",
            "late_outcomes",
            "lease_commits",
            "leases",
            "memory",
            "model",
            "outbox",
            "refused_commits",
            "retention",
            "sealing",
            "signals",
            "spending",
            "states",
            "switches",
            "transaction",
            "wakeups",
        )
    )
)

from pilotage.testing.conformance.audit import AuditLogConformance  # noqa: E402 - see above
from pilotage.testing.conformance.backlog import BacklogConformance  # noqa: E402 - see above
from pilotage.testing.conformance.conversations import ConversationCommitConformance, TaskStoreConformance  # noqa: E402
from pilotage.testing.conformance.evidence import EvidenceRepositoryConformance  # noqa: E402
from pilotage.testing.conformance.journal import JournalConformance  # noqa: E402
from pilotage.testing.conformance.late_outcomes import LateOutcomesConformance  # noqa: E402
from pilotage.testing.conformance.lease_commits import LeaseCommitConformance  # noqa: E402
from pilotage.testing.conformance.leases import LeasesConformance  # noqa: E402
from pilotage.testing.conformance.memory import MemoryConformance  # noqa: E402
from pilotage.testing.conformance.model import ModelConformance  # noqa: E402
from pilotage.testing.conformance.outbox import OutboxConformance  # noqa: E402
from pilotage.testing.conformance.retention import RetentionConformance  # noqa: E402
from pilotage.testing.conformance.sealing import SealerConformance  # noqa: E402
from pilotage.testing.conformance.signals import SignalRepositoryConformance  # noqa: E402
from pilotage.testing.conformance.spending import SpendingConformance  # noqa: E402
from pilotage.testing.conformance.states import StateRepositoryConformance  # noqa: E402
from pilotage.testing.conformance.switches import SwitchesConformance  # noqa: E402
from pilotage.testing.conformance.transaction import TransactionConformance  # noqa: E402
from pilotage.testing.conformance.wakeups import WakeUpsConformance  # noqa: E402

# fmt: off
__all__ = [
    "AuditLogConformance", "BacklogConformance", "ConversationCommitConformance",
    "EvidenceRepositoryConformance", "JournalConformance", "LateOutcomesConformance",
    "LeaseCommitConformance", "LeasesConformance", "MemoryConformance", "ModelConformance",
    "OutboxConformance", "RetentionConformance", "SealerConformance", "SignalRepositoryConformance",
    "SpendingConformance", "StateRepositoryConformance", "SwitchesConformance", "TaskStoreConformance",
    "TransactionConformance", "WakeUpsConformance",
]

"""A repository with the contract's methods alone passes the kit of its port, pages included."""

from __future__ import annotations

import pytest

from pilotage.agent import IAgentEvidenceRepository
from pilotage.testing import MemoryEvidenceRepository, MemoryStore
from pilotage.testing.conformance import EvidenceRepositoryConformance
from tests.contract.written.repositories import CountedEvidence


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


class TestCountedEvidence(EvidenceRepositoryConformance):
    @pytest.fixture
    def evidence(self, store: MemoryStore) -> IAgentEvidenceRepository:
        return CountedEvidence(store.evidence)

    @pytest.fixture
    def foreign_evidence(self, store: MemoryStore) -> IAgentEvidenceRepository:
        return CountedEvidence(MemoryEvidenceRepository(store, "elsewhere"))

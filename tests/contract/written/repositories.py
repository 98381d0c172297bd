"""Repositories with the methods of section 16 and no others: they count what is asked of another store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pilotage.agent import (
    AgentEvidence,
    AgentSignal,
    AgentState,
    AgentStatus,
    IAgentEvidenceRepository,
    IAgentSignalRepository,
    IAgentStateRepository,
)


class CountedStates(IAgentStateRepository):
    """The five methods of a state repository."""

    def __init__(self, inner: IAgentStateRepository) -> None:
        self.inner = inner
        self.asked: Counter[str] = Counter()

    async def get(self, state_id: str) -> AgentState:
        self.asked["get"] += 1
        return await self.inner.get(state_id)

    async def get_or_none(self, state_id: str) -> AgentState | None:
        self.asked["get_or_none"] += 1
        return await self.inner.get_or_none(state_id)

    async def save(self, state: AgentState) -> AgentState:
        self.asked["save"] += 1
        return await self.inner.save(state)

    async def list_by_status(self, status: AgentStatus) -> Sequence[AgentState]:
        self.asked["list_by_status"] += 1
        return await self.inner.list_by_status(status)

    async def list_resume_candidates(self) -> Sequence[AgentState]:
        self.asked["list_resume_candidates"] += 1
        return await self.inner.list_resume_candidates()


class CountedSignals(IAgentSignalRepository):
    """The three methods of a signal repository."""

    def __init__(self, inner: IAgentSignalRepository) -> None:
        self.inner = inner
        self.asked: Counter[str] = Counter()

    async def append(self, signal: AgentSignal) -> AgentSignal:
        self.asked["append"] += 1
        return await self.inner.append(signal)

    async def list_pending(self, state_id: str) -> Sequence[AgentSignal]:
        """The signals in the order in which they were appended."""
        self.asked["list_pending"] += 1
        return await self.inner.list_pending(state_id)

    async def mark_consumed(self, signal_id: str) -> AgentSignal:
        self.asked["mark_consumed"] += 1
        return await self.inner.mark_consumed(signal_id)


class CountedEvidence(IAgentEvidenceRepository):
    """The four methods of an evidence repository."""

    def __init__(self, inner: IAgentEvidenceRepository) -> None:
        self.inner = inner
        self.asked: Counter[str] = Counter()

    async def append(self, evidence: AgentEvidence) -> AgentEvidence:
        self.asked["append"] += 1
        return await self.inner.append(evidence)

    async def get(self, evidence_id: str) -> AgentEvidence:
        self.asked["get"] += 1
        return await self.inner.get(evidence_id)

    async def list_by_state(self, state_id: str) -> Sequence[AgentEvidence]:
        self.asked["list_by_state"] += 1
        return await self.inner.list_by_state(state_id)

    async def list_by_manifest_ref(self, manifest_ref: str) -> Sequence[AgentEvidence]:
        self.asked["list_by_manifest_ref"] += 1
        return await self.inner.list_by_manifest_ref(manifest_ref)

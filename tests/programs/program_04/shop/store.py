"""What an installed adapter would provide: a model, and a store that outlives the processes of one test."""

from __future__ import annotations

from pilotage import IAgentModel, Pod
from pilotage.agent import (
    IAgentEvidenceRepository,
    IAgentJournal,
    IAgentSignalRepository,
    IAgentStateRepository,
)
from pilotage.testing import MemoryStore, ScriptedModel, calls, says

STORE = MemoryStore()
MODEL = ScriptedModel([[says("One moment. "), calls("pay", to="DE-1", amount="12.50")], says("Done.")])


@Pod
def model() -> IAgentModel:
    return MODEL


@Pod
def journal() -> IAgentJournal:
    return STORE.journal


@Pod
def states() -> IAgentStateRepository:
    return STORE.states


@Pod
def signals() -> IAgentSignalRepository:
    return STORE.signals


@Pod
def evidence() -> IAgentEvidenceRepository:
    return STORE.evidence

"""Every use case has a folder of its own, in which an application keeps its runs.

Use cases of durable runs that need neither the database file nor a killed process ask for `ports`: they are run twice,
with the embedded database and with classes that have the contract's methods and no others.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pilotage.agent import (
    IAgentEvidenceRepository,
    IAgentSignalRepository,
    IAgentStateRepository,
    ITaskStore,
)
from pilotage.runtime.children.delegation import LocalDelegate
from pilotage.testing import MemoryStore
from tests.contract.written.conversations import Guestbook
from tests.contract.written.delegate import Passing
from tests.contract.written.handlers import Compressing
from tests.contract.written.repositories import CountedEvidence, CountedSignals, CountedStates


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("PILOTAGE_MODEL_BASE_URL", "PILOTAGE_DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def ports_of_part_a() -> tuple[object, ...]:
    """Return the ports of a store; those of the contract, a handler and a delegate have its methods and no others."""
    store = MemoryStore()
    replaced = (IAgentStateRepository, IAgentSignalRepository, IAgentEvidenceRepository, ITaskStore)
    others = [port for port in store.ports if not isinstance(port, replaced)]
    repositories = (
        CountedStates(store.states),
        CountedSignals(store.signals),
        CountedEvidence(store.evidence),
    )
    return *others, *repositories, Guestbook(), Compressing(), Passing(LocalDelegate())


@pytest.fixture(params=["embedded", "part A"])
def ports(request: pytest.FixtureRequest) -> tuple[object, ...]:
    """What an application is given besides its own classes; the embedded database provides itself."""
    return ports_of_part_a() if request.param == "part A" else ()

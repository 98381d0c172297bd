"""The values of the lease port."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from pilotage.agent.ports.leases import Lease
from pilotage.agent.ports.persistence import RunKey
from pilotage.errors import AgentDefinitionError

LEASE = Lease(RunKey("acme", "r1"), "ada", datetime(2026, 1, 1, tzinfo=UTC), 30.0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"owner": " "}, "Lease.owner is blank. Give it at least one visible character."),
        ({"granted_seconds": 0}, "Lease.granted_seconds is 0. Use a positive number."),
        (
            {"expires_at": datetime(2026, 1, 1)},  # noqa: DTZ001 - the mistake
            "Lease.expires_at has no time zone (2026-01-01T00:00:00). Use datetime.now(UTC).",
        ),
    ],
)
def test_a_lease_has_an_owner_and_an_end(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(AgentDefinitionError) as caught:
        replace(LEASE, **wrong)  # type: ignore[arg-type]
    assert str(caught.value) == message

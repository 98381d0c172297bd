"""What a run did can be read by everybody who may see it, and by nobody else."""

from __future__ import annotations

from decimal import Decimal

import pytest
from tests.behaviour.office import Office, Worker, start

from pilotage.agent import AgentEvidenceKind, Principal
from pilotage.errors import RunNotFoundError


async def test_every_action_of_a_run_is_evidence_in_order() -> None:
    office = Office()

    async def program(worker: Worker) -> object:
        await worker.desk.look("price")
        return (await worker.desk.pay(Decimal(5))).number

    async with office.process(program) as runs:
        run_id = (await start(runs)).state.id
        found = await runs.evidence(run_id)
    told = [(each.kind, each.payload["action_id"], each.payload["stage"]) for each in found]
    assert told == [
        (AgentEvidenceKind.TOOL, "run/tool:look#1", "after"),
        (AgentEvidenceKind.TOOL, "run/tool:pay#1", "before"),
        (AgentEvidenceKind.TOOL, "run/tool:pay#1", "after"),
        (AgentEvidenceKind.VALUE, "run/result#1", "after"),
    ]
    assert all(each.agent_state_id == run_id and each.digest for each in found)


async def test_the_evidence_of_another_tenant_is_not_found() -> None:
    office = Office()

    async def program(worker: Worker) -> object:
        return await worker.desk.look("price")

    async with office.process(program) as runs:
        run_id = (await start(runs)).state.id
        with pytest.raises(RunNotFoundError, match="there is no run"):
            await runs.evidence(run_id, principal=Principal("eve", tenant="other"))

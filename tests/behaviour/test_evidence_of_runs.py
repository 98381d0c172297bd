"""What a run did can be read by everybody who may see it, and by nobody else."""

from __future__ import annotations

from decimal import Decimal

import pytest
from tests.behaviour.office import Office, Worker, start

from pilotage.agent import AgentEvidence, AgentEvidenceCandidate, AgentEvidenceKind, Principal
from pilotage.errors import AgentDefinitionError, RunNotFoundError
from pilotage.runtime import AgentRuns


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
    # A call that only reads has no row before it; its arguments are with its outcome.
    asked = [each.payload.get("asked") for each in found[:3]]
    assert asked == [{"what": "price"}, {"amount": "5"}, None]


async def test_the_evidence_of_another_tenant_is_not_found() -> None:
    office = Office()

    async def program(worker: Worker) -> object:
        return await worker.desk.look("price")

    async with office.process(program) as runs:
        run_id = (await start(runs)).state.id
        with pytest.raises(RunNotFoundError, match="there is no run"):
            await runs.evidence(run_id, principal=Principal("eve", tenant="other"))


async def of_kind(runs: AgentRuns, run_id: str, kind: AgentEvidenceKind) -> list[AgentEvidence]:
    return [each for each in await runs.evidence(run_id) if each.kind is kind]


async def test_an_application_adds_its_evaluation_of_a_run_that_has_ended() -> None:
    office = Office()

    async def program(worker: Worker) -> object:
        return await worker.desk.look("price")

    judged = AgentEvidenceCandidate(AgentEvidenceKind.EVALUATION, {"score": 4}, "helpful")
    async with office.process(program) as runs:
        run_id = (await start(runs)).state.id
        first = await runs.add_evidence(run_id, judged, id="judge-1", principal=Principal("judge"))
        second = await runs.add_evidence(run_id, judged)
        with pytest.raises(AgentDefinitionError, match="judge-1"):
            await runs.add_evidence(run_id, judged, id="judge-1")
        with pytest.raises(RunNotFoundError):
            await runs.add_evidence(run_id, judged, principal=Principal("eve", tenant="other"))
        found = await of_kind(runs, run_id, AgentEvidenceKind.EVALUATION)
    assert found == [first, second]
    assert (first.payload, first.summary) == ({"score": 4, "recorded_by": "judge"}, "helpful")
    assert second.payload["recorded_by"] == "local"
    assert first.created_at == office.clock.now()


@pytest.mark.parametrize("kind", [kind for kind in AgentEvidenceKind if kind != "evaluation"])
async def test_only_evaluations_are_added_by_an_application(kind: AgentEvidenceKind) -> None:
    office = Office()

    async def program(worker: Worker) -> object:
        return "done"

    async with office.process(program) as runs:
        run_id = (await start(runs)).state.id
        with pytest.raises(AgentDefinitionError, match="Give the kind 'evaluation'"):
            await runs.add_evidence(run_id, AgentEvidenceCandidate(kind, {"forged": True}))

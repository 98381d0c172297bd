"""The audit log: who did what, in order, once, whatever dies in between, and never with a payload."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal

import pytest
from tests.behaviour.bureau import DURABLE, Bureau, hired, resumed, started
from tests.behaviour.office import Worker

from pilotage import Agent, AgentExecutionSpec, AgentSignalKind, ApprovalDecision, Idempotency, Principal
from pilotage.agent import AuditEntry, IAgentAuditLog
from pilotage.errors import CallerError, ToolError
from pilotage.runtime import step
from pilotage.testing import MemoryAuditLog, ScriptedModel, StopAfter, StopBefore, says

ADA, GRACE = Principal("ada"), Principal("grace")


async def works(worker: Worker) -> str:
    """One action of each kind, one of which a person has to allow."""
    await worker.desk.look("file")
    await worker.desk.note("begun")
    await step("count", lambda: 3, idempotency=Idempotency.IDEMPOTENT)
    await worker.desk.refund(Decimal("12.50"))
    return "done"


def told(log: MemoryAuditLog) -> list[tuple[str, str, str]]:
    return [(entry.principal.id, entry.act, entry.outcome) for entry in log.entries]


async def refunded(bureau: Bureau, agent: type[Worker], log: IAgentAuditLog) -> str:
    async with bureau.process(agent, works, log) as runs:
        handle = await runs.start(agent, "A-17", principal=ADA)
        await handle.result()
        (question,) = await runs.questions(handle.id)
        await runs.approve(question.id, principal=GRACE)
        await (await runs.resume(handle.id, principal=GRACE)).result()
    return handle.id


WHOLE = [
    ("ada", "run.started", "started"),
    ("ada", "tool.look", "done"),
    ("ada", "tool.note", "done"),
    ("ada", "step.count", "done"),
    ("ada", "approval.asked", "waiting"),
    ("grace", "run.resumed", "resumed"),
    ("grace", "approval.answered", "approve"),
    ("ada", "tool.refund", "done"),
    ("ada", "run.ended", "completed"),
]


async def test_every_act_is_told_with_who_did_it_and_leads_to_its_evidence() -> None:
    bureau, agent, log = Bureau(), hired(), MemoryAuditLog()
    run_id = await refunded(bureau, agent, log)
    assert told(log) == WHOLE
    rows = {f"{run_id}:{row.seq}": row for row in await bureau.rows(run_id)}
    for entry in log.entries[:-1]:
        assert entry.evidence_ref in rows
        assert entry.occurred_at == rows[entry.evidence_ref].created_at
    assert "12.50" not in repr(log.entries)


async def test_a_model_call_and_a_failure_are_acts_too() -> None:
    @Agent(spec=AgentExecutionSpec(name="greeter", recovery=DURABLE))
    class Greeter:
        """Say hello."""

    log = MemoryAuditLog()
    async with Bureau().process(Greeter, None, log, model=ScriptedModel([says("Hello.")])) as runs:
        await started(runs, Greeter, "hi")
    assert told(log)[1:] == [("local", "model.call", "done"), ("local", "run.ended", "completed")]

    async def is_refused(worker: Worker) -> str:
        worker.desk.world.failures["note x"] = ToolError("no")
        with suppress(ToolError):
            await worker.desk.note("x")
        raise RuntimeError("broken")

    agent, log = hired(), MemoryAuditLog()
    async with Bureau().process(agent, is_refused, log) as runs:
        await started(runs, agent)
    assert told(log)[1:] == [("local", "tool.note", "failed"), ("local", "run.ended", "failed")]


@pytest.mark.parametrize("stop", [StopBefore, StopAfter])
async def test_whatever_dies_nothing_is_missing_and_nothing_is_told_twice(
    stop: type[StopBefore | StopAfter],
) -> None:
    for number in range(2, 6):
        bureau, agent, log = Bureau(), hired(), MemoryAuditLog()
        async with bureau.process(agent, works, log, fault=stop(number)) as runs:
            handle = await runs.start(agent, "A-17", principal=ADA)
            with suppress(BaseException):
                await handle.result()
        bureau.clock.advance(3600)
        async with bureau.process(agent, works, log) as runs:
            await (await runs.resume(handle.id, principal=GRACE)).result()
            (question,) = await runs.questions(handle.id)
            await runs.approve(question.id, principal=GRACE)
            await (await runs.resume(handle.id, principal=GRACE)).result()
        acts = [entry.act for entry in log.entries if entry.act != "run.resumed"]
        assert acts == [act for _, act, _ in WHOLE if act != "run.resumed"], number
        refs = [entry.evidence_ref for entry in log.entries]
        assert len(set(refs)) == len(refs)


class Broken(IAgentAuditLog):
    """A log that cannot be reached."""

    async def record(self, entry: AuditEntry) -> None:
        raise OSError("away")

    async def list_by_run(self, principal: Principal, run_id: str) -> list[AuditEntry]:
        raise OSError("away")


async def test_a_log_that_is_away_fails_nothing_and_is_caught_up_with() -> None:
    bureau, agent, log = Bureau(), hired(), MemoryAuditLog()
    async with bureau.process(agent, works, Broken()) as runs:
        waiting = await started(runs, agent)
    async with bureau.process(agent, works, log) as runs:
        (question,) = await runs.questions(waiting.state.id)
        await runs.answer(waiting.state.id, question.id, ApprovalDecision.APPROVE, principal=GRACE)
        assert (await resumed(runs, waiting.state.id)).output == "done"
    assert [act for _, act, _ in told(log)] == [act for _, act, _ in WHOLE]


async def test_a_run_that_is_cancelled_while_nobody_drives_it_is_told_too() -> None:
    bureau, agent, log = Bureau(), hired(), MemoryAuditLog()
    async with bureau.process(agent, works, log) as runs:
        waiting = await started(runs, agent)
        await runs.cancel(waiting.state.id, principal=GRACE)
    assert told(log)[-1] == ("local", "run.ended", "cancelled")


async def test_nobody_can_answer_in_the_name_of_somebody_else() -> None:
    bureau, agent, log = Bureau(), hired(), MemoryAuditLog()
    async with bureau.process(agent, works, log) as runs:
        waiting = await started(runs, agent)
        (question,) = await runs.questions(waiting.state.id)
        forged = {"request_id": question.id, "decision": "approve", "decided_by": "the boss"}
        kind = AgentSignalKind.APPROVAL_DECISION
        with pytest.raises(CallerError, match="'decided_by' is no field of an answer"):
            await runs.signal(waiting.state.id, kind, forged, principal=GRACE)
        del forged["decided_by"]
        await runs.signal(waiting.state.id, kind, forged, principal=GRACE)
        await resumed(runs, waiting.state.id)
    assert ("grace", "approval.answered", "approve") in told(log)

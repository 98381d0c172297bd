"""`ask()`: a question of the program with a schema, answered, declined and cancelled, and asked once over all crashes."""

from __future__ import annotations

import pytest

from pilotage import Agent, AgentRuns, AgentStatus, Application, RecoveryDecision, agent_tool
from pilotage.agent import AgentRecoveryRequest, Idempotency, ToolApprovalRequirement, ToolEffects
from pilotage.container.pod import Pod
from pilotage.errors import AgentDefinitionError, CallerError, QuestionDeclinedError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime import ask
from pilotage.testing import MemoryStore, ScriptedModel, calls, crash_matrix, says

ADDRESS: JsonObject = {
    "type": "object",
    "properties": {"street": {"type": "string"}, "floor": {"type": "integer"}},
    "required": ["street"],
}


@Pod
class Courier:
    def __init__(self) -> None:
        self.sent: list[str] = []

    @agent_tool(
        effects=ToolEffects.external_side_effect(),
        idempotency=Idempotency.IDEMPOTENT,
        approval=ToolApprovalRequirement.NOT_REQUIRED,
        reads_untrusted=False,
    )
    async def deliver(self, parcel: str) -> str:
        """Deliver a parcel."""
        try:
            address = await ask("address", f"Where does {parcel} go?", ADDRESS)
        except QuestionDeclinedError as declined:
            return f"kept, {declined}"
        assert isinstance(address, dict)
        return f"{parcel} to {address['street']}"


@Agent(durable=True)
class Sender:
    """Send parcels."""

    def __init__(self, courier: Courier) -> None:
        self.courier = courier


def application(store: MemoryStore) -> Application:
    model = ScriptedModel([calls("deliver", parcel="P1"), says("Done.")])
    return Application("post").add(Sender, Courier, model, *store.ports).load_plugins()


async def asked(store: MemoryStore) -> AgentRecoveryRequest:
    async with application(store) as app:
        runs = app.get(AgentRuns)
        run = await runs.start(Sender, "go")
        assert (await run.result()).status is AgentStatus.INTERRUPTED
        (question,) = await runs.questions(run.id)
    assert isinstance(question, AgentRecoveryRequest)
    return question


async def test_a_question_with_a_schema_waits_for_another_process() -> None:
    store = MemoryStore()
    question = await asked(store)
    assert question.prompt == "Where does P1 go?"
    assert question.input_schema == ADDRESS
    assert question.allowed_decisions == (
        RecoveryDecision.DONE,
        RecoveryDecision.FAIL,
        RecoveryDecision.CANCEL,
    )
    async with application(store) as app:
        runs = app.get(AgentRuns)
        with pytest.raises(CallerError, match=r"the answer does not fit its schema: floor: .*integer"):
            await runs.answer(
                question.agent_state_id,
                question.id,
                RecoveryDecision.DONE,
                result={"street": "Quay", "floor": "x"},
            )
        await runs.answer(
            question.agent_state_id, question.id, RecoveryDecision.DONE, result={"street": "Quay"}
        )
        result = await (await runs.resume(question.agent_state_id)).result()
        assert result.output == "Done."
        assert (await runs.get(question.agent_state_id)).status is AgentStatus.COMPLETED
        model = app.get(ScriptedModel)
        assert "P1 to Quay" in str(model.requests[-1].messages)


async def test_a_person_may_decline() -> None:
    store = MemoryStore()
    question = await asked(store)
    async with application(store) as app:
        runs = app.get(AgentRuns)
        await runs.answer(question.agent_state_id, question.id, RecoveryDecision.FAIL, comment="not home")
        assert (await (await runs.resume(question.agent_state_id)).result()).output == "Done."
        assert "kept, not home" in str(app.get(ScriptedModel).requests[-1].messages)


async def test_a_person_may_cancel_the_run() -> None:
    store = MemoryStore()
    question = await asked(store)
    async with application(store) as app:
        runs = app.get(AgentRuns)
        await runs.answer(question.agent_state_id, question.id, RecoveryDecision.CANCEL)
        assert (await (await runs.resume(question.agent_state_id)).result()).status is AgentStatus.CANCELLED


async def test_every_crash_leads_to_one_question_and_the_same_answer(second_stops: tuple[int, ...]) -> None:
    asked_about: list[str] = []

    def answer(request: AgentRecoveryRequest) -> JsonValue:
        asked_about.append(request.id)
        return {"street": "Quay"}

    model = ScriptedModel([calls("deliver", parcel="P1"), says("Done.")])
    report = await crash_matrix(
        Sender, "go", model=model, add=[Courier], carry_out=answer, second_stops=second_stops
    )
    assert report.reference.output == "Done."
    report.assert_same_result()
    report.assert_no_repeated_effects()


async def test_outside_of_a_run_nobody_would_answer() -> None:
    with pytest.raises(AgentDefinitionError, match=r"nobody waits for the answer outside of a run"):
        await ask("address", "Where?")
    with pytest.raises(AgentDefinitionError, match="without '/' and '#'"):
        await ask("a/b", "Where?")

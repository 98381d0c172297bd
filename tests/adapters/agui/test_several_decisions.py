"""An input with several answers: all of them are accepted, or none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.adapters.agui.bank import PAY, Bank, Frame, ask, interrupts_of, refusal, texts
from tests.adapters.agui.samples import PICK, ag_ui_input, tool_message
from tests.adapters.agui.test_given import assistant, called

from pilotage import Application, ApprovalDecision, Principal
from pilotage.adapters.agui import ingest_decision
from pilotage.agent import RecoveryDecision
from pilotage.errors import CallerError
from pilotage.runtime import AgentRuns
from pilotage.testing import ScriptedModel, calls, says

APPROVE = {"decision": "approve"}
BOB = Principal("bob")


def paying_twice() -> ScriptedModel:
    both = [calls("pay", **PAY), calls("pay", to="Al", amount="7")]
    return ScriptedModel([both, says("Done.")])


def entry(interrupt: str, payload: object) -> dict[str, Any]:
    return {"interruptId": interrupt, "status": "resolved", "payload": payload}


async def asked_twice(app: Application) -> tuple[str, str]:
    """A run that asks two questions."""
    one, two = interrupts_of(await ask(app, ag_ui_input("Pay both")))
    return one["id"], two["id"]


async def resume_both(app: Application, *entries: Mapping[str, Any]) -> list[Frame]:
    return await ask(app, ag_ui_input(None, runId="client-2", resume=list(entries)))


async def test_two_questions_are_answered_by_one_input() -> None:
    bank = Bank()
    async with bank.open(paying_twice()) as app:
        one, two = await asked_twice(app)
        frames = await resume_both(app, entry(two, APPROVE), entry(one, APPROVE))
    assert (sorted(bank.payments.paid), texts(frames)) == (["5 to Bo", "7 to Al"], "Done.")


@pytest.mark.parametrize("is_first", [True, False], ids=["first", "last"])
@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ({"decision": "retry"}, "retry"),
        ({"decision": "modify", "modified_payload": {"to": 1}}, "to"),
        ({"decision": "modify"}, "modif"),
    ],
)
async def test_one_refused_answer_pays_nothing_and_leaves_both_open(
    payload: object, reason: str, is_first: bool
) -> None:
    bank = Bank()
    async with bank.open(paying_twice()) as app:
        one, two = await asked_twice(app)
        entries = [entry(one, payload), entry(two, APPROVE)]
        frames = await resume_both(app, *(entries if is_first else reversed(entries)))
        still_open = await app.get(AgentRuns).questions(one.partition(":")[0])
        assert [each.id for each in still_open] == [one, two]
    refused = refusal(frames)
    assert (refused["name"], bank.payments.paid) == ("caller_error", [])
    assert refused["value"]["message"].startswith(f"of 2 answers, the one to {one!r} is refused: ")
    assert reason in refused["value"]["message"]
    assert [each["id"] for each in interrupts_of(frames)] == [one, two]


async def test_a_question_that_somebody_else_closed_refuses_the_input() -> None:
    bank = Bank()
    async with bank.open(paying_twice()) as app:
        one, two = await asked_twice(app)
        runs, run_id = app.get(AgentRuns), one.partition(":")[0]
        await runs.answer(run_id, two, ApprovalDecision.REJECT, resume=False, principal=BOB)
        frames = await resume_both(app, entry(one, APPROVE), entry(two, APPROVE))
        assert [each.id for each in await runs.questions(run_id)] == [one]
    refused, (still_open,) = refusal(frames), interrupts_of(frames)
    assert (refused["name"], bank.payments.paid) == ("answer_conflict", [])
    assert (refused["value"]["requestId"], refused["value"]["decidedBy"]) == (two, "bob")
    assert still_open["id"] == one
    message = refused["value"]["message"]
    assert f"the one to {two!r} is refused: " in message
    assert "'reject' by 'bob'" in message
    assert message.endswith("None was accepted.")


async def test_a_refused_decision_refuses_the_result_of_a_clients_tool_and_the_other_way_round() -> None:
    bank, model = Bank(), ScriptedModel([[calls("pick"), calls("pay", **PAY)], says("Done.")])
    async with bank.open(model) as app:
        first = await ask(app, ag_ui_input("Pick and pay", tools=[PICK]))
        (interrupt,), runs = interrupts_of(first), app.get(AgentRuns)
        run_id = interrupt["id"].partition(":")[0]
        (pick, _) = next(each for each in called(first) if each[1] == "pick")
        messages = [assistant((pick, "pick")), tool_message(pick, "red")]
        wrong = entry(interrupt["id"], {"decision": "retry"})
        refused = refusal(await ask(app, ag_ui_input(messages=messages, runId="client-2", resume=[wrong])))
        assert refused["name"] == "caller_error"
        assert (len(await runs.questions(run_id)), await runs.waiting_answers(run_id)) == (2, ())
        (call,) = [each for each in await runs.questions(run_id) if each.id != interrupt["id"]]
        await runs.answer(run_id, call.id, RecoveryDecision.DONE, resume=False, result="blue")
        right = entry(interrupt["id"], APPROVE)
        refused = refusal(await ask(app, ag_ui_input(messages=messages, runId="client-3", resume=[right])))
        assert (refused["name"], call.id in refused["value"]["message"]) == ("answer_conflict", True)
        assert [each.id for each in await runs.questions(run_id)] == [interrupt["id"]]
    assert bank.payments.paid == []


async def test_decisions_that_are_queued_without_a_check_are_queued_together() -> None:
    bank = Bank()
    async with bank.open(paying_twice()) as app:
        one, two = await asked_twice(app)
        run_id = one.partition(":")[0]
        given = ag_ui_input(None, runId="client-2", resume=[entry(one, APPROVE), entry(two, APPROVE)])
        queued = await ingest_decision(given, bank.store.signals, run_id)
        assert [each.payload["request_id"] for each in queued] == [one, two]
        assert [each.id for each in await bank.store.signals.list_pending(run_id)] == [
            each.id for each in queued
        ]
        await app.get(AgentRuns).cancel(run_id)
        with pytest.raises(CallerError):
            await ingest_decision(given, bank.store.signals, run_id)

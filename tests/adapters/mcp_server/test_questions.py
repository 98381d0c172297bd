"""Questions of a run: as results with a sealed state in the modern era, during the call in the older one."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from tests.adapters.mcp_server.shop import (
    ADA,
    BOB,
    LEGACY,
    MODERN,
    Bank,
    connected,
    filled,
    keyed,
    run_id_of,
    shop,
    text_of,
)

from pilotage import AgentRuns, AgentStatus, Principal
from pilotage.adapters.mcp_server import McpExports
from pilotage.agent import ApprovalDecision
from pilotage.testing import MemoryStore


class People:
    """A user of a client who fills in forms."""

    def __init__(self, *answers: types.ElicitResult) -> None:
        self.answers = list(answers)
        self.asked: list[types.ElicitRequestFormParams] = []

    async def __call__(self, context: object, params: Any) -> types.ElicitResult:
        self.asked.append(params)
        return self.answers.pop(0)


async def asked(client: Client, name: str = "pay", **arguments: Any) -> types.InputRequiredResult:
    """The questions of a call."""
    result = await client.session.call_tool(name, arguments, allow_input_required=True)
    assert isinstance(result, types.InputRequiredResult)
    return result


async def answered(
    client: Client, result: types.InputRequiredResult, response: Any, name: str = "pay", **arguments: Any
) -> Any:
    """The result of the same call with responses."""
    keys = result.input_requests or {}
    return await client.session.call_tool(
        name,
        arguments,
        input_responses=dict.fromkeys(keys, response),
        request_state=result.request_state,
        allow_input_required=True,
    )


@pytest.mark.parametrize("mode", [MODERN, LEGACY])
async def test_an_approval_is_asked_and_the_call_goes_on(mode: str) -> None:
    people = People(filled(decision="approve", comment="fine"))
    async with shop() as app, connected(app, mode, answers=people) as client:
        result = await client.call_tool("pay", {"amount": 5})
        assert result.structured_content == {"number": 1, "to": "shop"}
        assert app.get(Bank).paid == [5]
    (form,) = people.asked
    assert '"amount": 5' in form.message
    choices = form.requested_schema["properties"]["decision"]["oneOf"]
    assert [each["const"] for each in choices] == ["approve", "reject", "modify", "cancel"]


@pytest.mark.parametrize("mode", [MODERN, LEGACY])
async def test_several_questions_come_one_after_the_other(mode: str) -> None:
    people = People(filled(decision="approve"), filled(decision="modify", modified_payload='{"amount": 9}'))
    async with shop() as app, connected(app, mode, answers=people) as client:
        result = await client.call_tool("Payer", {"first": 1, "second": 2})
        assert result.structured_content == {
            "result": [{"number": 1, "to": "shop"}, {"number": 2, "to": "shop"}]
        }
        assert app.get(Bank).paid == [1, 9]


@pytest.mark.parametrize("mode", [MODERN, LEGACY])
async def test_declining_a_form_rejects(mode: str) -> None:
    people = People(types.ElicitResult(action="decline"))
    async with shop() as app, connected(app, mode, answers=people) as client:
        result = await client.call_tool("pay", {"amount": 5})
        assert result.is_error
        assert app.get(Bank).paid == []
        state = await app.get(AgentRuns).get(run_id_of(result))
        assert state.status is AgentStatus.FAILED


@pytest.mark.parametrize("mode", [MODERN, LEGACY])
async def test_closing_a_form_leaves_the_question_open_for_another_way(mode: str) -> None:
    people = People(types.ElicitResult(action="cancel"))
    async with shop() as app, connected(app, mode, answers=people) as client:
        result = await client.call_tool("pay", {"amount": 5}, meta=keyed("p"))
        assert result.is_error
        assert "question stays open" in text_of(result)
        runs, run_id = app.get(AgentRuns), run_id_of(result)
        (question,) = await runs.questions(run_id)
        await runs.answer(run_id, question.id, ApprovalDecision.APPROVE)
        again = await client.call_tool("pay", {"amount": 5}, meta=keyed("p"))
        assert again.structured_content == {"number": 1, "to": "shop"}
        assert app.get(Bank).paid == [5]


@pytest.mark.parametrize("mode", [MODERN, LEGACY])
async def test_a_form_without_an_answer_is_asked_again_with_the_reason(mode: str) -> None:
    people = People(
        filled(comment="no decision"),
        filled(decision="modify", modified_payload="no json"),
        filled(decision="modify", modified_payload='{"amount": "much"}'),
        filled(decision="approve"),
    )
    async with shop() as app, connected(app, mode, answers=people) as client:
        result = await client.call_tool("pay", {"amount": 5})
        assert not result.is_error
        assert app.get(Bank).paid == [5]
    assert "Choose one of approve" in people.asked[1].message
    assert "is no JSON" in people.asked[2].message
    assert "'amount'" in people.asked[3].message


@pytest.mark.parametrize("mode", [MODERN, LEGACY])
async def test_a_client_without_forms_is_told_how_it_goes_on(mode: str) -> None:
    async with shop() as app, connected(app, mode) as client:
        result = await client.call_tool("pay", {"amount": 5}, meta=keyed("p"))
        assert result.is_error
        assert "waits for a person" in text_of(result)
        assert app.get(Bank).paid == []


async def test_a_state_goes_on_in_another_process_of_the_same_key() -> None:
    store = MemoryStore()
    async with shop(store=store) as app, connected(app, answers=People()) as client:
        first = await asked(client, amount=5)
    async with shop(store=store) as app, connected(app, answers=People()) as client:
        result = await answered(client, first, filled(decision="approve"), amount=5)
        assert result.structured_content == {"number": 1, "to": "shop"}
        assert app.get(Bank).paid == [5]


async def test_a_state_sent_again_gives_the_result_and_pays_once() -> None:
    async with shop() as app, connected(app, answers=People()) as client:
        first = await asked(client, amount=5)
        results = [await answered(client, first, filled(decision="approve"), amount=5) for _ in range(3)]
        assert {run_id_of(each) for each in results} == {run_id_of(results[0])}
        assert app.get(Bank).paid == [5]


async def test_a_contradicting_answer_is_refused_and_names_the_one_that_counts() -> None:
    async with shop() as app, connected(app, answers=People(), principal=ADA) as client:
        first = await asked(client, amount=5)
        await answered(client, first, filled(decision="approve"), amount=5)
        with pytest.raises(MCPError) as refused:
            await answered(client, first, filled(decision="reject"), amount=5)
        assert refused.value.error.data["code"] == "answer_conflict"
        assert refused.value.error.data["decided_by"] == "ada"
        assert app.get(Bank).paid == [5]


def forged(state: str) -> list[str]:
    """States that were altered or made up."""
    prefix, _, sealed = state.partition(".")
    raw = bytearray(base64.urlsafe_b64decode(sealed + "=" * (-len(sealed) % 4)))
    raw[-1] ^= 1
    turned = base64.urlsafe_b64encode(bytes(raw)).decode().rstrip("=")
    return ["", "x", f"{prefix}.{turned}", state[:-4], f"{state}AAAA", "v1." + "A" * 60, "ö" * 10, state * 2]


async def test_forged_states_are_refused() -> None:
    async with shop() as app, connected(app, answers=People()) as client:
        first = await asked(client, amount=5)
        assert first.request_state is not None
        for state in [*forged(first.request_state), "0" * 32]:
            wrong = first.model_copy(update={"request_state": state})
            with pytest.raises(MCPError, match="Invalid or expired requestState"):
                await answered(client, wrong, filled(decision="approve"), amount=5)
        assert app.get(Bank).paid == []


async def test_a_state_is_bound_to_its_call_and_its_principal() -> None:
    async with shop() as app:
        async with connected(app, answers=People(), principal=ADA) as client:
            first = await asked(client, amount=5)
            yes = filled(decision="approve")
            for name, arguments in (
                ("pay", {"amount": 500}),
                ("slow", {}),
                ("Payer", {"first": 1, "second": 1}),
            ):
                with pytest.raises(MCPError, match="Invalid or expired"):
                    await answered(client, first, yes, name, **arguments)
        for principal in (BOB, Principal("eve", tenant="navy"), Principal("ada", tenant="army")):
            async with connected(app, answers=People(), principal=principal) as client:
                with pytest.raises(MCPError, match="Invalid or expired"):
                    await answered(client, first, yes, amount=5)
        assert app.get(Bank).paid == []


async def test_a_state_of_another_application_is_refused() -> None:
    async with shop() as app, connected(app, answers=People()) as client:
        first = await asked(client, amount=5)
    async with shop() as other, connected(other, answers=People()) as client:
        with pytest.raises(MCPError, match="Invalid or expired|there is no run"):
            await answered(client, first, filled(decision="approve"), amount=5)
        assert other.get(Bank).paid == []


async def test_a_state_that_has_expired_is_refused() -> None:
    exports = McpExports(state_seconds=1e-9)
    async with shop() as app, connected(app, answers=People(), exports=exports) as client:
        first = await asked(client, amount=5)
        with pytest.raises(MCPError, match="Invalid or expired"):
            await answered(client, first, filled(decision="approve"), amount=5)


async def test_responses_to_nothing_that_was_asked_change_nothing() -> None:
    async with shop() as app, connected(app, answers=People()) as client:
        first = await asked(client, amount=5)
        again = await client.session.call_tool(
            "pay",
            {"amount": 5},
            input_responses={"other": filled(decision="approve")},
            request_state=first.request_state,
            allow_input_required=True,
        )
        assert isinstance(again, types.InputRequiredResult)
        assert (again.input_requests or {}).keys() == (first.input_requests or {}).keys()
        assert app.get(Bank).paid == []


@pytest.mark.parametrize("mode", [MODERN, LEGACY])
async def test_an_unknown_outcome_is_answered_in_a_form(mode: str) -> None:
    store = MemoryStore()
    async with shop(store=store) as app:
        app.get(Bank).gate.clear()
        async with connected(app, mode) as client:
            called = asyncio.create_task(client.call_tool("Waiter", {}, meta=keyed("w")))
            await app.get(Bank).waiting.wait()
            called.cancel()
            await asyncio.wait([called])
        await app.get(AgentRuns).stop()
    people = People(filled(decision="done", result='"it was done"'))
    async with shop(store=store) as app, connected(app, mode, answers=people) as client:
        result = await client.call_tool("Waiter", {}, meta=keyed("w"))
        assert text_of(result) == "it was done"
        assert not app.get(Bank).waiting.is_set()
    choices = people.asked[0].requested_schema["properties"]["decision"]["oneOf"]
    assert [each["const"] for each in choices] == ["retry", "done", "fail", "cancel"]

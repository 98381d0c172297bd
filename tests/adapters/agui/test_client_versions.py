"""The official client in four versions through the same scenarios: what pages of today and of last year use."""

from __future__ import annotations

import pytest
from tests.adapters.agui.bank import PAY
from tests.adapters.agui.official_client import OfficialClient, cache_folder, install
from tests.adapters.agui.samples import PICK
from tests.adapters.agui.test_official_client import bank, said

from pilotage.agent import AgentStatus
from pilotage.testing import ScriptedModel, calls, fails, says

VERSIONS = ("0.0.40", "0.0.47", "0.0.59", "1.0.0")
KNOW_INTERRUPTS = ("0.0.59", "1.0.0")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def client(version: str, pytestconfig: pytest.Config) -> OfficialClient:
    return OfficialClient(install(cache_folder(pytestconfig, version), version))


async def test_a_chat_of_two_turns(client: OfficialClient) -> None:
    async with bank(ScriptedModel([says("Good day."), says("You are Ada.")])) as (url, _, _):
        first, second = await client.talk(url, {"say": "I am Ada"}, {"say": "Who am I?"})
    assert (first["failures"], second["failures"]) == ([], [])
    assert [text for role, text in said(second) if role == "assistant"] == ["Good day.", "You are Ada."]
    assert second["events"][-1]["type"] == "RUN_FINISHED"


async def test_a_tool_of_the_page(client: OfficialClient) -> None:
    model = ScriptedModel([calls("pick", of="walls"), says("Red it is.")])
    tools = {"tools": [PICK]}
    async with bank(model) as (url, _, _):
        picked, ended = await client.talk(
            url, {"say": "Pick", "run": tools}, {"results": {"pick": {"color": "red"}}, "run": tools}
        )
    assert (picked["failures"], ended["failures"]) == ([], [])
    assert said(ended)[-1] == ("assistant", "Red it is.")
    assert '{"color":"red"}' in [message.text for message in model.requests[-1].messages]


async def test_an_error_and_the_thread_goes_on(client: OfficialClient) -> None:
    model = ScriptedModel([fails("the server is gone", after="Good d"), says("Here again.")])
    async with bank(model) as (url, _, _):
        broken, after = await client.talk(url, {"say": "Hello"}, {"say": "Still there?"})
    assert broken["events"][-1]["type"] == "RUN_ERROR"
    assert said(after)[-1] == ("assistant", "Here again.")


async def test_a_question_is_answered(client: OfficialClient, version: str) -> None:
    if version not in KNOW_INTERRUPTS:
        pytest.skip(f"@ag-ui/client {version} has no interrupts")
    model = ScriptedModel([calls("pay", **PAY), says("Bo has it.")])
    async with bank(model) as (url, opened, runs):
        asked, paid = await client.talk(
            url,
            {"say": "Pay Bo"},
            {"resume": {"status": "resolved", "payload": {"decision": "approve"}}},
        )
        (state,) = (await runs.list()).runs
    assert (asked["failures"], paid["failures"], len(asked["pending"])) == ([], [], 1)
    assert (paid["pending"], opened.payments.paid, state.status) == ([], ["5 to Bo"], AgentStatus.COMPLETED)

"""The official AG-UI client reads our streams, with its verification on, and complains about wrong ones."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from tests.adapters.agui.bank import PAY, Bank, Frame, Teller
from tests.adapters.agui.door import Badges, Gate, KeptDoorman
from tests.adapters.agui.official_client import OfficialClient, Report, cache_folder, install
from tests.adapters.agui.samples import PICK
from tests.adapters.agui.sequence import fault_in
from tests.adapters.agui.server import endpoints, served

from pilotage import Agent, AgentExecutionSpec, Application, RecoveryStrategy
from pilotage.adapters.agui import AgUiConfig, driver_for
from pilotage.agent import AgentStatus, AgentTeammate
from pilotage.runtime import AgentRuns
from pilotage.testing import ScriptedModel, calls, fails, says, turn


@pytest.fixture(scope="session")
def official(pytestconfig: pytest.Config) -> OfficialClient:
    return OfficialClient(install(cache_folder(pytestconfig)))


@asynccontextmanager
async def bank(
    model: ScriptedModel, config: AgUiConfig | None = None
) -> AsyncGenerator[tuple[str, Bank, AgentRuns], None]:
    """The address of a teller over SSE."""
    opened = Bank()
    async with (
        opened.open(model) as app,
        served(endpoints(driver_for(app, Teller, config=config))) as address,
    ):
        yield f"http://{address}/agui", opened, app.get(AgentRuns)


def faultless(reports: list[Report]) -> list[Report]:
    """Reports of a client that had nothing to complain about, and neither had we."""
    calls_made: set[str] = set()
    for report in reports:
        assert report["failures"] == []
        assert fault_in(report["events"], thread_id="thread-1", calls=calls_made) is None
    return reports


def of_type(report: Report, kind: str) -> list[Frame]:
    return [event for event in report["events"] if event["type"] == kind]


def said(report: Report) -> list[tuple[str, Any]]:
    return [(m["role"], m.get("content")) for m in report["messages"] if m.get("content")]


async def test_a_chat_of_several_turns(official: OfficialClient) -> None:
    model = ScriptedModel([says("Good day, Ada."), says("You are Ada.")])
    async with bank(model) as (url, _, _):
        first, second = faultless(await official.talk(url, {"say": "I am Ada"}, {"say": "Who am I?"}))
    assert first["result"] == "Good day, Ada."
    assert said(second) == [
        ("user", "I am Ada"),
        ("assistant", "Good day, Ada."),
        ("user", "Who am I?"),
        ("assistant", "You are Ada."),
    ]
    assert [m.text for m in model.requests[1].messages][-3:] == ["I am Ada", "Good day, Ada.", "Who am I?"]


async def test_reasoning_and_arguments_in_pieces(official: OfficialClient) -> None:
    long = {"to": "Bo and everybody else in the house", "amount": "5 and not a penny more than that"}
    model = ScriptedModel([turn(says("So be it.", reasoning="Bo needs it, I think."), calls("pay", **long))])
    async with bank(model) as (url, _, _):
        (report,) = faultless(await official.talk(url, {"say": "Pay"}))
    pieces = of_type(report, "TOOL_CALL_ARGS")
    own = [each for each in pieces if each["toolCallId"] == pieces[0]["toolCallId"]]
    assert len(own) > 1
    assert json.loads("".join(each["delta"] for each in own)) == long
    thought = "".join(each["delta"] for each in of_type(report, "REASONING_MESSAGE_CONTENT"))
    assert thought == "Bo needs it, I think."
    (call, *_) = [call for m in report["messages"] for call in m.get("toolCalls") or ()]
    assert json.loads(call["function"]["arguments"]) == long


async def test_an_interrupt_and_its_answer(official: OfficialClient) -> None:
    model = ScriptedModel([calls("pay", **PAY), says("Bo has it.")])
    async with bank(model) as (url, opened, _):
        asked, paid = faultless(
            await official.talk(
                url,
                {"say": "Pay Bo"},
                {"resume": {"status": "resolved", "payload": {"decision": "approve"}}},
            )
        )
    assert [each["message"] for each in asked["pending"]] == ["Approve the call of tool 'pay'?"]
    assert (paid["pending"], paid["result"], opened.payments.paid) == ([], "Bo has it.", ["5 to Bo"])


async def test_an_interrupt_that_is_given_up(official: OfficialClient) -> None:
    async with bank(ScriptedModel([calls("pay", **PAY)])) as (url, opened, _):
        _, ended = faultless(await official.talk(url, {"say": "Pay Bo"}, {"resume": {"status": "cancelled"}}))
    assert ended["events"][-1]["outcome"] == {"type": "cancelled"}
    assert opened.payments.paid == []


async def test_an_error_in_the_middle(official: OfficialClient) -> None:
    model = ScriptedModel([fails("the server is gone", after="Good d"), says("Here again.")])
    async with bank(model) as (url, _, _):
        broken, after = await official.talk(url, {"say": "Hello"}, {"say": "Still there?"})
    assert broken["events"][-1]["type"] == "RUN_ERROR"
    assert said(broken) == [("user", "Hello"), ("assistant", "Good d")]
    assert fault_in(broken["events"]) is None
    assert after["result"] == "Here again."


async def test_a_tool_of_the_page(official: OfficialClient) -> None:
    model = ScriptedModel([calls("pick", of="walls"), says("Red it is.")])
    tools = {"tools": [PICK]}
    async with bank(model) as (url, _, _):
        picked, told = faultless(
            await official.talk(
                url, {"say": "Pick", "run": tools}, {"results": {"pick": {"color": "red"}}, "run": tools}
            )
        )
    assert (picked["pending"], told["result"]) == ([], "Red it is.")
    assert '{"color":"red"}' in [m.text for m in model.requests[-1].messages]


async def test_a_run_that_the_page_leaves_and_cancels(official: OfficialClient) -> None:
    gate, store = Gate(), Bank().store
    model = ScriptedModel([turn(says("Let me see."), calls("hold")), says("As you like.")])
    app = Application("door").add(KeptDoorman, gate, model, *store.ports)
    async with app.load_plugins(), served(endpoints(driver_for(app, KeptDoorman))) as address:
        left, ended, after = await official.talk(
            f"http://{address}/agui",
            {"say": "Hold it", "run": {"runId": "run-1"}, "abortAt": "TEXT_MESSAGE_CONTENT"},
            {"run": {"runId": "run-2", "forwardedProps": {"cancelRun": "run-1"}}},
            {"say": "Never mind", "run": {"runId": "run-3"}},
        )
        states = [run.status for run in (await app.get(AgentRuns).list()).runs]
    assert "RUN_FINISHED" not in [event["type"] for event in left["events"]]
    assert (ended["failures"], ended["events"][-1]["outcome"]) == ([], {"type": "cancelled"})
    assert (gate.left.get_nowait(), after["result"]) == (1, "As you like.")
    assert states == [AgentStatus.COMPLETED, AgentStatus.CANCELLED]


@Agent(spec=AgentExecutionSpec(name="scout", recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Scout:
    """Look things up."""


@Agent(
    spec=AgentExecutionSpec(
        name="guide",
        recovery=RecoveryStrategy.ACTION_BOUNDARY,
        delegation_allowed=True,
        teammates=[AgentTeammate("scout", Scout)],
    )
)
class Guide:
    """Ask the scout."""


async def test_a_sub_agent(official: OfficialClient) -> None:
    model = ScriptedModel(
        [calls("ask_scout", task="look"), says("All clear."), says("The scout sees nothing.")]
    )
    opened = Bank()
    app = Application("hills").add(Scout, Guide, model, *opened.store.ports)
    async with app.load_plugins(), served(endpoints(driver_for(app, Guide))) as address:
        (report,) = faultless(await official.talk(f"http://{address}/agui", {"say": "Is it safe?"}))
    (started,) = of_type(report, "SUBAGENT_STARTED")
    (finished,) = of_type(report, "SUBAGENT_FINISHED")
    assert started["subagentRunId"] == finished["subagentRunId"]
    own = [e["delta"] for e in of_type(report, "TEXT_MESSAGE_CONTENT") if e.get("subagentRunId")]
    assert ("".join(own), report["result"]) == ("All clear.", "The scout sees nothing.")


async def test_the_state_of_the_page_and_a_snapshot_of_the_messages(official: OfficialClient) -> None:
    model = ScriptedModel([says("Seen.")])
    async with bank(model, AgUiConfig(messages_snapshot_enabled=True)) as (url, _, _):
        (report,) = faultless(await official.talk(url, {"say": "Look"}, state={"page": 7}))
    assert '"page":7' in str(model.requests[0])
    assert said(report) == [("user", "Look"), ("assistant", "Seen.")]


async def test_who_is_not_known_is_told_so(official: OfficialClient) -> None:
    async with Bank().open(ScriptedModel([])) as app:
        api = endpoints(driver_for(app, Teller), principal=Badges())
        async with served(api) as address:
            (report,) = await official.talk(f"http://{address}/agui", {"say": "Hello"})
    assert "HTTP 401" in report["failures"][0]


STARTED = {"type": "RUN_STARTED", "threadId": "thread-1", "runId": "r"}
FINISHED = {"type": "RUN_FINISHED", "threadId": "thread-1", "runId": "r"}
TEXT = {"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant"}
PIECE = {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "x"}
CALL = {"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "t"}
ARGS = {"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": "{}"}


WRONG: list[list[Frame]] = [
    [TEXT, FINISHED],
    [STARTED, PIECE, FINISHED],
    [STARTED, TEXT, TEXT, FINISHED],
    [STARTED, TEXT, FINISHED],
    [STARTED, ARGS, FINISHED],
    [STARTED, CALL, FINISHED],
    [STARTED, FINISHED, PIECE],
    [STARTED, STARTED, FINISHED],
    [STARTED, {"type": "STEP_FINISHED", "stepName": "s"}, FINISHED],
    [STARTED, {"type": "STEP_STARTED", "stepName": "s"}, FINISHED],
    [STARTED, {"type": "TEXT_MESSAGE_START"}, FINISHED],
]


async def test_wrong_sequences_are_reported_by_it_and_by_us(official: OfficialClient) -> None:
    left = iter(WRONG)

    async def wrong(request: Request) -> Response:
        body = "".join(f"data: {json.dumps(frame)}\n\n" for frame in next(left))
        return Response(body, media_type="text/event-stream")

    async with served(Starlette(routes=[Route("/agui", wrong, methods=["POST"])])) as address:
        steps = [{"say": "Hello"} for _ in WRONG]
        reports = await official.talk(f"http://{address}/agui", *steps)
    assert [bool(report["failures"]) for report in reports] == [True] * len(WRONG)
    assert [fault_in(frames) is not None for frames in WRONG] == [True] * len(WRONG)

"""Mutated, forged, contradicting and outdated answers: nothing is paid, the question stays open, nothing is lost.

After each attack the right answer is given, and the payment is made once.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentStatus,
    Application,
    Pod,
    Principal,
    RecoveryStrategy,
    RunContext,
    agent_tool,
)
from pilotage.adapters.agui import driver_for, frames_for, line_of
from pilotage.adapters.fastapi import agent_routes
from pilotage.agent import (
    AgentApprovalBoundaryKind,
    AgentApprovalRequest,
    ApprovalSubject,
    IAgentApprovalHandler,
)
from pilotage.agent.approval import ApprovalTerms
from pilotage.agent.signals import AgentSignalKind, ApprovalDecision
from pilotage.agent.tools.metadata import ToolApprovalRequirement, ToolRisk, ToolRiskAxis
from pilotage.cli.handlers.change_runs import answer_details
from pilotage.errors import AnswerConflictError, CallerError, RunNotFoundError
from pilotage.inbound.authentication import BearerTokens
from pilotage.runtime import AgentRuns
from pilotage.runtime.plugin import initialize
from pilotage.testing import MemoryStore, ScriptedModel, VirtualClock

pytestmark = pytest.mark.attack("approvals")

ADA, BOB, EVE = Principal("ada"), Principal("bob"), Principal("eve", tenant="globex")
APPROVE = ApprovalDecision.APPROVE
TOKEN = "a-token-of-sixteen"


class World:
    """What outlives every process."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(self.clock)
        self.paid: list[int] = []


@Pod
class Bank:
    def __init__(self, world: World) -> None:
        self._world = world

    @agent_tool(approval=ToolApprovalRequirement.REQUIRED)
    async def pay(self, amount: int) -> str:
        """Pay."""
        self._world.paid.append(amount)
        return f"paid {amount}"


@Agent(spec=AgentExecutionSpec(name="payer", recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Payer:
    def __init__(self, bank: Bank) -> None:
        self.bank = bank

    async def execute(self, text: str) -> str:
        return await self.bank.pay(5)


class Till:
    """One process, a run in it that waits for an approval, and every way in."""

    def __init__(self, app: Application, world: World) -> None:
        self.app, self.world = app, world
        self.runs = app.get(AgentRuns)
        self.run_id = self.request_id = ""

    async def begin(self, by: Principal = ADA) -> None:
        handle = await self.runs.start("payer", "A-17", principal=by)
        await handle.result()
        (question,) = await self.runs.questions(handle.id)
        self.run_id, self.request_id = handle.id, question.id

    @property
    def yes(self) -> dict[str, Any]:
        return {"request_id": self.request_id, "decision": "approve"}

    async def post(self, content: object, path: str = "answers") -> str:
        """Answer over HTTP; what the server says, empty where it accepts the answer."""
        api = FastAPI()
        api.include_router(agent_routes(self.app, principal=BearerTokens({TOKEN: ADA})))
        headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
        transport = httpx.ASGITransport(app=api)
        async with httpx.AsyncClient(transport=transport, base_url="http://till", headers=headers) as client:
            body = content if isinstance(content, str) else json.dumps(content)
            response = await client.post(f"/runs/{self.run_id}/{path}", content=body)
        return "" if response.status_code < 400 else response.text

    async def stream(self, text: str) -> str:
        """Answer over AG-UI; the error of the input, or the refusal of the answer, empty without one."""
        factory = driver_for(self.app, Payer, principal=ADA)
        frames = [json.loads(line_of(frame)) async for frame in frames_for(factory, text)]
        if frames[-1]["type"] == "RUN_ERROR":
            return str(frames[-1]["message"])
        return "".join(str(frame["value"]["message"]) for frame in frames if frame["type"] == "CUSTOM")

    def agui(self, **fields: object) -> str:
        """The text of an AG-UI input."""
        given: dict[str, object] = {"threadId": "t", "runId": "r", "messages": [], "state": {}, "tools": []}
        return json.dumps({**given, "context": [], "forwardedProps": {}, **fields})

    def entry(self, payload: object, **more: object) -> dict[str, object]:
        return {"interruptId": self.request_id, "status": "resolved", "payload": payload, **more}

    def told(self, content: object) -> dict[str, object]:
        """The message of an older client."""
        text = content if isinstance(content, str) else json.dumps(content)
        return {"id": "m1", "role": "tool", "toolCallId": self.request_id, "content": text}

    async def refuses(self, attempt: Awaitable[object]) -> str:
        """Return what a caller in the process is told."""
        try:
            await attempt
        except CallerError as error:
            return str(error)
        return ""

    async def still_works(self) -> None:
        """Nothing is paid, the question is open; the right answer pays once."""
        assert self.world.paid == []
        assert [each.id for each in await self.runs.questions(self.run_id)] == [self.request_id]
        assert (await self.runs.get(self.run_id)).status is AgentStatus.INTERRUPTED
        assert await self.world.store.signals.list_answers(self.run_id) == []
        await self.runs.approve(self.request_id, principal=BOB)
        assert (await (await self.runs.resume(self.run_id)).result()).status is AgentStatus.COMPLETED
        assert self.world.paid == [5]


@asynccontextmanager
async def process(
    world: World, *pods: object, bank: type[object] = Bank, agent: type[object] = Payer
) -> AsyncGenerator[Till, None]:
    app = Application("till").add(agent, bank, world, world.clock, ScriptedModel([]), *pods)
    initialize(app.add(*world.store.ports))
    async with app:
        yield Till(app, world)


@asynccontextmanager
async def waiting(*pods: object) -> AsyncGenerator[Till, None]:
    async with process(World(), *pods) as till:
        await till.begin()
        yield till


async def by_signal(till: Till, more: dict[str, Any]) -> str:
    kind = AgentSignalKind.APPROVAL_DECISION
    return await till.refuses(till.runs.signal(till.run_id, kind, {**till.yes, **more}, principal=ADA))


async def by_keyword(till: Till, more: dict[str, Any]) -> str:
    return await till.refuses(till.runs.answer(till.run_id, till.request_id, APPROVE, **more))


async def by_http(till: Till, more: dict[str, Any]) -> str:
    return await till.post({**till.yes, **more})


async def by_resume(till: Till, more: dict[str, Any]) -> str:
    return await till.stream(till.agui(resume=[till.entry({"decision": "approve", **more})]))


async def by_message(till: Till, more: dict[str, Any]) -> str:
    return await till.stream(till.agui(messages=[till.told({**till.yes, **more})]))


async def by_props(till: Till, more: dict[str, Any]) -> str:
    return await till.stream(till.agui(forwardedProps={"approvalDecision": {**till.yes, **more}}))


WAYS: list[Callable[[Till, dict[str, Any]], Awaitable[str]]] = [
    by_signal,
    by_keyword,
    by_http,
    by_resume,
    by_message,
    by_props,
]
CLAIMS: dict[str, object] = {
    "decided_by": "cfo",
    "tenant": "globex",
    "tenant_id": "globex",
    "expires_at": "2999-01-01T00:00:00Z",
    "created_at": "2000-01-01T00:00:00Z",
    "approver_scope": "everybody",
    "policy_version": "0",
    "requested_by": "nobody",
    "binding": "0" * 64,
    "argument_digest": "0" * 64,
    "agent_state_id": "another run",
    "pilotage.sealed": {"key_id": "k", "ciphertext": "c"},
}


@pytest.mark.parametrize("claim", CLAIMS)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_an_answer_that_claims_authority_is_none(
    way: Callable[[Till, dict[str, Any]], Awaitable[str]], claim: str
) -> None:
    async with waiting() as till:
        said = await way(till, {claim: CLAIMS[claim]})
        assert claim in said, said
        await till.still_works()


@pytest.mark.parametrize(
    "way", [each for each in WAYS if each is not by_keyword], ids=lambda way: way.__name__
)
async def test_an_answer_that_names_its_principal_is_none(
    way: Callable[[Till, dict[str, Any]], Awaitable[str]],
) -> None:
    async with waiting() as till:
        said = await way(till, {"principal": {"id": "cfo", "tenant": "default"}})
        assert "principal" in said, said
        await till.still_works()


Attack = Callable[[Till], Awaitable[str]]


def _twice(text: str, key: str, other: str) -> str:
    """The text with a key of its object given a second time."""
    return f'{text[:-1]}, "{key}": {json.dumps(other)}}}'


AMBIGUOUS: dict[str, Attack] = {
    "a decision twice over HTTP": lambda till: till.post(_twice(json.dumps(till.yes), "decision", "reject")),
    "the same decision twice over HTTP": lambda till: till.post(
        _twice(json.dumps(till.yes), "decision", "approve")
    ),
    "a request twice over HTTP": lambda till: till.post(_twice(json.dumps(till.yes), "request_id", "x")),
    "a key twice inside of arguments over HTTP": lambda till: till.post(
        f'{{"request_id": "{till.request_id}", "decision": "modify", "modified_payload": {{"amount": 1, "amount": 9}}}}'
    ),
    "a decision twice over the old route": lambda till: till.post(
        _twice(json.dumps(till.yes), "decision", "reject"), "decisions"
    ),
    "a decision twice, once with an escape, over HTTP": lambda till: till.post(
        f'{json.dumps(till.yes)[:-1]}, "\\u0064ecision": "reject"}}'
    ),
    "an approval with a result over HTTP": lambda till: till.post({**till.yes, "result": "paid by hand"}),
    "an approval with a result in a signal": lambda till: by_signal(till, {"result": "paid by hand"}),
    "an approval with answers about others over HTTP": lambda till: till.post(
        {**till.yes, "actions": {"other": {"decision": "fail"}}}
    ),
    "resume twice in an input": lambda till: till.stream(
        till.agui(resume=[till.entry({"decision": "reject"})])[:-1]
        + f', "resume": [{json.dumps(till.entry({"decision": "approve"}))}]}}'
    ),
    "a decision twice in a payload": lambda till: till.stream(
        till.agui(resume=[till.entry({"decision": "approve"})]).replace(
            '"decision": "approve"', '"decision": "approve", "decision": "reject"'
        )
    ),
    "a decision twice in a message": lambda till: till.stream(
        till.agui(messages=[till.told(_twice(json.dumps(till.yes), "decision", "approve"))])
    ),
    "approve and reject in resume": lambda till: till.stream(
        till.agui(resume=[till.entry({"decision": "approve"}), till.entry({"decision": "reject"})])
    ),
    "reject and approve in resume": lambda till: till.stream(
        till.agui(resume=[till.entry({"decision": "reject"}), till.entry({"decision": "approve"})])
    ),
    "two arguments in resume": lambda till: till.stream(
        till.agui(
            resume=[
                till.entry({"decision": "modify", "modified_payload": {"amount": each}}) for each in (1, 9)
            ]
        )
    ),
    "resolved and cancelled in resume": lambda till: till.stream(
        till.agui(resume=[till.entry({"decision": "approve"}), till.entry(None) | {"status": "cancelled"}])
    ),
    "cancelled with an approval": lambda till: till.stream(
        till.agui(resume=[till.entry({"decision": "approve"}) | {"status": "cancelled"}])
    ),
    "resume against the properties": lambda till: till.stream(
        till.agui(
            resume=[till.entry({"decision": "approve"})],
            forwardedProps={"approvalDecision": {**till.yes, "decision": "reject"}},
        )
    ),
    "resume against a message": lambda till: till.stream(
        till.agui(
            resume=[till.entry({"decision": "approve"})],
            messages=[till.told({**till.yes, "decision": "reject"})],
        )
    ),
    "two messages": lambda till: till.stream(
        till.agui(messages=[till.told({**till.yes, "decision": each}) for each in ("approve", "reject")])
    ),
    "a payload about another request": lambda till: till.stream(
        till.agui(resume=[till.entry({"decision": "approve", "request_id": "x"})])
    ),
    "a message about another request": lambda till: till.stream(
        till.agui(messages=[till.told({"decision": "approve", "request_id": "x"})])
    ),
    "an entry with a field of its own": lambda till: till.stream(
        till.agui(resume=[till.entry({"decision": "approve"}, principal="cfo")])
    ),
}


@pytest.mark.parametrize("attack", AMBIGUOUS.values(), ids=AMBIGUOUS.keys())
async def test_an_answer_that_can_be_read_in_two_ways_is_none(attack: Attack) -> None:
    async with waiting() as till:
        assert await attack(till)
        await till.still_works()


FORGED: dict[str, Callable[[Till], tuple[str, str]]] = {
    "no id": lambda till: (till.run_id, " "),
    "the id of the run": lambda till: (till.run_id, till.run_id),
    "half of the id": lambda till: (till.run_id, till.request_id[:-1]),
    "more than the id": lambda till: (till.run_id, f"{till.request_id}0"),
    "another number": lambda till: (till.run_id, f"{till.run_id}:{'0' * 32}"),
    "capital letters": lambda till: (till.run_id, till.request_id.upper()),
    "the key of the answer": lambda till: (till.run_id, f"answer:{till.request_id}"),
    "another run": lambda till: ("0" * 32, till.request_id),
    "a wildcard": lambda till: (till.run_id, f"{till.run_id}:%"),
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED.keys())
async def test_a_forged_id_answers_nothing(forge: Callable[[Till], tuple[str, str]]) -> None:
    async with waiting() as till:
        run_id, request_id = forge(till)
        with pytest.raises((CallerError, RunNotFoundError)):
            await till.runs.answer(run_id, request_id, APPROVE, principal=ADA)
        await till.still_works()


async def test_the_question_of_another_run_is_not_answered_through_this_one() -> None:
    async with waiting() as till:
        mine = till.run_id
        await till.begin()
        with pytest.raises(CallerError, match="waits for no answer"):
            await till.runs.answer(mine, till.request_id, APPROVE)
        await till.still_works()


async def test_another_tenant_answers_nothing() -> None:
    async with waiting() as till:
        for run_id in (till.run_id, "0" * 32):
            with pytest.raises(RunNotFoundError, match=f"there is no run '{run_id}'"):
                await till.runs.answer(run_id, till.request_id, APPROVE, principal=EVE)
        await till.still_works()


UNFIT: dict[str, dict[str, Any]] = {
    "a word of another question": {"decision": "retry"},
    "no word": {"decision": None},
    "a list": {"decision": ["approve"]},
    "capital letters": {"decision": "APPROVE"},
    "arguments with an approval": {"modified_payload": {"amount": 9}},
    "arguments that do not fit": {"decision": "modify", "modified_payload": {"amount": "much"}},
    "more arguments": {"decision": "modify", "modified_payload": {"amount": 1, "to": "eve"}},
    "no arguments": {"decision": "modify"},
    "a comment that is no text": {"comment": {"by": "cfo"}},
    "claims inside": {"actions": {"run/tool:pay#1": {"decision": "done", "decided_by": "cfo"}}},
}


@pytest.mark.parametrize("mutation", UNFIT.values(), ids=UNFIT.keys())
async def test_an_answer_that_does_not_fit_leaves_the_question_open(mutation: dict[str, Any]) -> None:
    async with waiting() as till:
        assert await by_signal(till, mutation)
        await till.still_works()


@pytest.mark.parametrize("option", ["arguments", "result"])
def test_the_command_line_refuses_a_key_twice(option: str) -> None:
    options: dict[str, str | None] = {"arguments": None, "result": None, "comment": None}
    with pytest.raises(CallerError, match=f"--{option} is no JSON: the key 'amount' is there twice"):
        answer_details(**{**options, option: '{"amount": 1, "amount": 9}'})


# What changes between the approval and the call.


class Asks(IAgentApprovalHandler):
    def __init__(self, version: str | None, world: World | None = None) -> None:
        self.policy_version = version
        self._expires_at = None if world is None else world.clock.now() + timedelta(minutes=5)

    async def request_for(self, context: RunContext, subject: ApprovalSubject) -> AgentApprovalRequest | None:
        return AgentApprovalRequest(
            "id", "run", subject.boundary, "May it?", ToolRisk(), "action", expires_at=self._expires_at
        )


async def approved(world: World, *pods: object) -> tuple[str, str]:
    """A run whose question is approved, in a process that ends before it goes on."""
    async with process(world, *pods) as till:
        await till.begin()
        await till.runs.approve(till.request_id, resume=False, principal=BOB)
        return till.run_id, till.request_id


@pytest.mark.parametrize(
    ("before", "now"), [("1", "2"), ("2", "1"), (None, "1"), ("1", None)], ids=lambda each: f"policy {each}"
)
async def test_an_approval_under_another_policy_does_not_fit(before: str | None, now: str | None) -> None:
    world = World()
    run_id, request_id = await approved(world, Asks(before))
    async with process(world, Asks(now)) as till:
        assert (await (await till.runs.resume(run_id)).result()).status is AgentStatus.INTERRUPTED
        (again,) = await till.runs.questions(run_id)
        assert (again.id != request_id, world.paid) == (True, [])
        evidence = await till.runs.evidence(run_id)
        assert any(each.payload.get("end") == "refused" for each in evidence)
        await till.runs.approve(again.id)
        assert (
            await (await till.runs.resume(run_id)).result()
        ).status is AgentStatus.INTERRUPTED or world.paid


async def test_an_approval_counts_for_one_call() -> None:
    @Agent(spec=AgentExecutionSpec(name="payer", recovery=RecoveryStrategy.ACTION_BOUNDARY))
    class Twice(Payer):
        async def execute(self, text: str) -> str:
            await self.bank.pay(5)
            return await self.bank.pay(5)

    world = World()
    async with process(world, agent=Twice) as till:
        await till.begin()
        await till.runs.approve(till.request_id)
        assert (await (await till.runs.resume(till.run_id)).result()).status is AgentStatus.INTERRUPTED
        await till.runs.approve(till.request_id)
        assert (await (await till.runs.resume(till.run_id)).result()).status is AgentStatus.INTERRUPTED
    assert world.paid == [5]


async def test_an_approval_does_not_cover_other_arguments() -> None:
    @Agent(spec=AgentExecutionSpec(name="payer", recovery=RecoveryStrategy.ACTION_BOUNDARY))
    class Greedy(Payer):
        async def execute(self, text: str) -> str:
            return await self.bank.pay(5_000)

    world = World()
    run_id, _ = await approved(world)
    async with process(world, agent=Greedy) as till:
        result = await (await till.runs.resume(run_id)).result()
        assert (result.state.reason, world.paid) == ("diverged", [])
    async with process(world) as till:
        await (await till.runs.resume(run_id)).result()
    assert world.paid == [5]


async def test_an_approval_that_comes_too_late_pays_nothing() -> None:
    world = World()
    async with process(world, Asks("1", world)) as till:
        await till.begin()
        world.clock.advance(301)
        with pytest.raises(AnswerConflictError, match="expired at"):
            await till.runs.approve(till.request_id)
        assert (await (await till.runs.resume(till.run_id)).result()).status is AgentStatus.FAILED
        with pytest.raises(AnswerConflictError, match="was answered 'reject'"):
            await till.runs.approve(till.request_id)
    assert world.paid == []


_CALL = AgentApprovalRequest(
    "run-1:q",
    "run-1",
    AgentApprovalBoundaryKind.TOOL_INVOCATION,
    "Pay?",
    ToolRisk(),
    "shop.Bank:pay",
    argument_digest="a" * 64,
    tool_digest="b" * 64,
    call_id="call-1",
)
_TERMS = ApprovalTerms("ada")
CHANGED_CALLS: dict[str, AgentApprovalRequest] = {
    "the run": replace(_CALL, agent_state_id="run-2"),
    "the boundary": replace(_CALL, boundary=AgentApprovalBoundaryKind.DELEGATION),
    "the action": replace(_CALL, action_ref="shop.Bank:empty"),
    "the call": replace(_CALL, call_id="call-2"),
    "the attempt": replace(_CALL, attempt=2),
    "the risk": replace(_CALL, risk=ToolRisk((ToolRiskAxis.WRITE,))),
    "the tool or its schema": replace(_CALL, tool_digest="c" * 64),
    "that there are arguments": replace(_CALL, argument_digest=None),
}
CHANGED_TERMS: dict[str, ApprovalTerms] = {
    "who caused it": ApprovalTerms("eve"),
    "nobody caused it": ApprovalTerms(None),
    "who may answer": ApprovalTerms("ada", approver_scope="everybody"),
    "the policy": ApprovalTerms("ada", policy_version="2"),
}


@pytest.mark.parametrize("changed", CHANGED_CALLS.values(), ids=CHANGED_CALLS.keys())
def test_an_approval_is_bound_to_its_call(changed: AgentApprovalRequest) -> None:
    asked = _CALL.bound_to(_TERMS)
    assert asked.is_bound_to(_CALL, _TERMS)
    assert not asked.is_bound_to(changed, _TERMS)


@pytest.mark.parametrize("changed", CHANGED_TERMS.values(), ids=CHANGED_TERMS.keys())
def test_an_approval_is_bound_to_its_terms(changed: ApprovalTerms) -> None:
    assert not _CALL.bound_to(_TERMS).is_bound_to(_CALL, changed)


@pytest.mark.parametrize("name", ["id", "allowed_decisions", "expires_at", "binding"])
def test_a_question_whose_record_was_changed_binds_nothing(name: str) -> None:
    moment = VirtualClock().now()
    changes: dict[str, Any] = {"id": "run-1:other", "allowed_decisions": (APPROVE,), "expires_at": moment}
    asked = _CALL.bound_to(_TERMS)
    forged = replace(asked, **{name: changes.get(name, "0" * 64)})
    assert not forged.is_bound_to(_CALL, _TERMS)


def test_a_question_of_an_earlier_version_is_bound_by_its_digests_alone() -> None:
    assert _CALL.is_bound_to(_CALL, ApprovalTerms("anybody"))

"""Delegation: bounded packets from one agent to another, and teammates that a model asks as it calls tools."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Annotated

import pytest
from tests.behaviour.family import Family, Hands, Play, member, resume, start

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentStatus,
    Application,
    IAgentModel,
    RecoveryStrategy,
)
from pilotage.agent import get_run_context
from pilotage.agent.approval import AgentApprovalBoundaryKind, AgentApprovalRequest
from pilotage.agent.delegation import (
    AgentDelegateTarget,
    AgentTeammate,
    DelegationBudget,
    DelegationContextSlice,
    DelegationExpectedOutput,
    DelegationPacket,
    DelegationResult,
    DelegationReturnPolicy,
)
from pilotage.agent.ports.architecture import Dependencies
from pilotage.agent.ports.handlers import ApprovalSubject, IAgentApprovalHandler
from pilotage.agent.ports.persistence import JournalStage
from pilotage.agent.ports.runner import IAgentDelegate
from pilotage.agent.principal import RunContext
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.yields import Final
from pilotage.errors import AgentToolDispatchError, ApplicationStartError, ToolError
from pilotage.runtime.children.delegation import LocalDelegate
from pilotage.safety.fields import PII, SensitiveField
from pilotage.testing import ProcessStopped, ScriptedModel, StopAfter, calls, says, when
from pilotage.testing.script import turn

DURABLE = RecoveryStrategy.ACTION_BOUNDARY
POLICY = DelegationReturnPolicy


def packet(target: str = "child", **details: object) -> DelegationPacket:
    given = {"id": "p1", "task": {"question": "why?"}, **details}
    return DelegationPacket(
        parent_agent_state_id=str(get_run_context().run_id),
        target=AgentDelegateTarget(target),
        **given,  # type: ignore[arg-type]
    )


def delegating(*packets: Callable[[], DelegationPacket], tolerant: bool = False) -> Play:
    """A parent that delegates packets one after the other and gives what came back."""

    async def play(deps: Dependencies, prompt: str) -> object:
        return [await given_back(make(), tolerant) for make in packets]

    return play


async def given_back(made: DelegationPacket, tolerant: bool) -> object:
    try:
        (item,) = [item async for item in LocalDelegate().delegate(made)]
    except (ToolError, AgentToolDispatchError) as error:
        if not tolerant:
            raise
        return str(error)
    assert isinstance(item.payload, Final)
    result = item.payload.output
    assert isinstance(result, DelegationResult)
    return {"summary": result.summary, "output": result.output, "refs": list(result.evidence_refs)}


def echoing(family: Family) -> Play:
    async def play(deps: Dependencies, prompt: str) -> object:
        await family.hands.write("w")
        return {"heard": prompt}

    return play


async def test_an_agent_that_may_not_delegate_is_told_what_to_declare() -> None:
    family = Family()
    agents = member("parent", delegating(packet, tolerant=True)), member("child", echoing(family))
    async with family.process(*agents) as runs:
        result = await start(runs, agents[0])
    assert "'parent' may not delegate. Allow it: AgentExecutionSpec(delegation_allowed=True)" in str(
        result.output
    )
    assert not family.world.done


async def test_a_packet_of_another_run_is_refused() -> None:
    family = Family()

    def foreign() -> DelegationPacket:
        return replace(packet(), parent_agent_state_id="somebody-else")

    parent = member("parent", delegating(foreign, tolerant=True), delegation_allowed=True)
    async with family.process(parent, member("child", echoing(family))) as runs:
        result = await start(runs, parent)
    assert "belongs to run 'somebody-else'" in str(result.output)
    assert "get_run_context().run_id" in str(result.output)


async def test_a_packet_outside_a_run_is_refused() -> None:
    made = DelegationPacket("p1", "run", AgentDelegateTarget("child"), {})
    with pytest.raises(AgentToolDispatchError, match="outside a run"):
        await LocalDelegate().delegate_tool_result(made)


@pytest.mark.parametrize(
    ("policy", "summary", "has_output", "has_refs"),
    [
        (POLICY.SUMMARY, '{"heard":"{\\"question\\":\\"why?\\"}"}', False, False),
        (POLICY.EVIDENCE_REFS, "(in the evidence)", False, True),
        (POLICY.SUMMARY_AND_EVIDENCE, '{"heard":"{\\"question\\":\\"why?\\"}"}', False, True),
        (POLICY.FINAL_OUTPUT, '{"heard":"{\\"question\\":\\"why?\\"}"}', True, False),
    ],
)
async def test_what_comes_back_is_what_the_return_policy_lets_through(
    policy: POLICY, summary: str, has_output: bool, has_refs: bool
) -> None:
    family = Family()

    def made() -> DelegationPacket:
        return packet(return_policy=policy)

    parent = member("parent", delegating(made), delegation_allowed=True)
    async with family.process(parent, member("child", echoing(family))) as runs:
        (back,) = (await start(runs, parent)).output
    child = await family.state_of("child")
    assert back["summary"] == summary
    assert back["output"] == ({"heard": '{"question":"why?"}'} if has_output else None)
    assert back["refs"] == ([child.id] if has_refs else [])


async def test_a_delegation_made_as_a_tool_call_gives_what_its_model_may_see() -> None:
    family = Family()

    async def play(deps: Dependencies, prompt: str) -> object:
        made = packet(return_policy=POLICY.FINAL_OUTPUT)
        result = await LocalDelegate().delegate_tool_result(made)
        return {"output": result.output, "metadata": dict(result.metadata)}

    parent = member("parent", play, delegation_allowed=True)
    async with family.process(parent, member("child", echoing(family))) as runs:
        output = (await start(runs, parent)).output
    assert output["output"] == output["metadata"]["output"] == {"heard": '{"question":"why?"}'}


async def test_context_and_constraints_go_along_to_a_declarative_agent() -> None:
    family = Family()

    def made() -> DelegationPacket:
        return packet(
            context=DelegationContextSlice("it is late"),
            constraints=("be brief",),
            expected_output=DelegationExpectedOutput("one word"),
            return_policy=POLICY.FINAL_OUTPUT,
        )

    parent = member("parent", delegating(made), delegation_allowed=True)
    async with family.process(parent, member("child", echoing(family))) as runs:
        (back,) = (await start(runs, parent)).output
    for word in ("why?", "it is late", "be brief", "one word"):
        assert word in back["output"]["heard"]


@Agent(spec=AgentExecutionSpec(name="typed", recovery=DURABLE))
class Typed:
    """Takes a question and, if there is one, the context."""

    async def execute(self, question: str, context: str = "none") -> str:
        return f"{question} ({context})"


async def test_an_agent_with_an_execute_of_its_own_gets_of_it_what_it_takes() -> None:
    family = Family()

    def made() -> DelegationPacket:
        return packet(
            "typed",
            context=DelegationContextSlice("it is late"),
            constraints=("be brief",),
            return_policy=POLICY.FINAL_OUTPUT,
        )

    parent = member("parent", delegating(made), delegation_allowed=True)
    async with family.process(parent, Typed) as runs:
        (back,) = (await start(runs, parent)).output
    assert back["output"] == "why? (it is late)"


async def test_the_same_packet_is_done_once_however_often_it_is_delegated() -> None:
    family = Family()
    parent = member("parent", delegating(packet, packet, packet), delegation_allowed=True)
    async with family.process(parent, member("child", echoing(family))) as runs:
        result = await start(runs, parent)
    first, second, third = result.output
    assert first == second == third
    assert family.world.done == {"w": 1}
    assert len(await family.states()) == 2
    assert result.spent.tool_calls == 1


async def test_the_same_packet_side_by_side_is_one_child() -> None:
    family = Family()

    async def play(deps: Dependencies, prompt: str) -> object:
        async def once() -> object:
            return await given_back(packet(), False)

        return await deps.runtime.gather("twice", [once, once])

    parent = member("parent", play, delegation_allowed=True)
    async with family.process(parent, member("child", echoing(family))) as runs:
        result = await start(runs, parent)
    assert result.status is AgentStatus.COMPLETED, result.error
    assert family.world.done == {"w": 1}


async def test_a_packet_id_stands_for_one_task() -> None:
    family = Family()

    def other() -> DelegationPacket:
        return packet(task={"question": "how?"})

    parent = member("parent", delegating(packet, other, tolerant=True), delegation_allowed=True)
    async with family.process(parent, member("child", echoing(family))) as runs:
        _, refused = (await start(runs, parent)).output
    assert "packet 'p1' was delegated to 'child' before, with another task" in refused


@pytest.mark.parametrize("packet_id", ["a/b#1", "ünder wegs", "p:1"])
async def test_a_packet_id_may_be_any_text(packet_id: str) -> None:
    family = Family()

    async def asks(deps: Dependencies, prompt: str) -> object:
        return await family.hands.ask("a")

    def made() -> DelegationPacket:
        return packet(id=packet_id)

    parent = member("parent", delegating(made, made), delegation_allowed=True)
    agents = parent, member("child", asks)
    async with family.process(*agents) as runs:
        paused = await start(runs, parent)
    async with family.process(*agents) as runs:
        (question,) = await runs.questions(paused.state.id)
        await runs.approve(question.id)
        result = await resume(runs, paused.state.id)
    assert result.status is AgentStatus.COMPLETED, result.state.current_activity
    assert family.world.done == {"a": 1}


@pytest.mark.parametrize("number", range(1, 10))
async def test_a_packet_finds_its_child_again_after_a_crash(number: int) -> None:
    family = Family()

    async def notes(deps: Dependencies, prompt: str) -> object:
        return await family.hands.note("n")

    parent = member("parent", delegating(packet, packet), delegation_allowed=True)
    agents = parent, member("child", notes)
    async with family.process(*agents, fault=StopAfter(number)) as runs:
        with suppress(ProcessStopped):
            await start(runs, parent)
    state = await family.state_of("parent")
    async with family.process(*agents) as runs:
        result = await (runs.result(state.id) if state.is_terminal else resume(runs, state.id))
    assert result.status is AgentStatus.COMPLETED
    assert (family.world.done, result.spent.tool_calls) == ({"n": 1}, 1)
    assert len(await family.states()) == 2


async def test_a_packet_bounds_steps_time_and_tools() -> None:
    family = Family()

    def made() -> DelegationPacket:
        return packet(
            budget=DelegationBudget(max_steps=2, timeout_seconds=30.0), allowed_capabilities=("look", "ask")
        )

    async def child(deps: Dependencies, prompt: str) -> object:
        return await deps.runtime.spawn_child("kid", "grandchild", {})

    async def grandchild(deps: Dependencies, prompt: str) -> object:
        try:
            await family.hands.write("w")
        except ToolError as error:
            return str(error)
        return "no"

    parent = member("parent", delegating(made), delegation_allowed=True, timeout_seconds=60.0)
    agents = parent, member("child", child), member("grandchild", grandchild)
    async with family.process(*agents) as runs:
        (back,) = (await start(runs, parent)).output
    assert "was not given the tool 'write'" in back["summary"]
    for agent in ("child", "grandchild"):
        record = (await family.rows((await family.state_of(agent)).id))[0].record
        assert isinstance(record, dict)
        assert record["capabilities"] == ["look", "ask"]
        assert record["deadline"] == (family.clock.now() + timedelta(seconds=30)).isoformat()


async def test_a_packet_cannot_give_tools_that_the_parent_was_not_given() -> None:
    family = Family()

    def given() -> DelegationPacket:
        return packet(allowed_capabilities=("look", "note"))

    def wanted() -> DelegationPacket:
        return packet("grandchild", id="p2", allowed_capabilities=("write", "look"))

    async def writes(deps: Dependencies, prompt: str) -> object:
        return await family.hands.write("w")

    parent = member("parent", delegating(given), delegation_allowed=True)
    child = member("child", delegating(wanted, tolerant=True), delegation_allowed=True)
    async with family.process(parent, child, member("grandchild", writes)) as runs:
        (back,) = (await start(runs, parent)).output
    assert "was not given the tool 'write'" in back["summary"]
    record = (await family.rows((await family.state_of("grandchild")).id))[0].record
    assert isinstance(record, dict)
    assert record["capabilities"] == ["look"]


async def test_an_application_has_a_delegate_that_agents_inject() -> None:
    family = Family()

    async def nothing(deps: Dependencies, prompt: str) -> object:
        return None

    async with family.process(member("parent", nothing)) as runs:
        assert isinstance(runs.services.app.get(IAgentDelegate), LocalDelegate)


class AskBeforeDelegating(IAgentApprovalHandler):
    """Wants a person to look at every delegation."""

    async def request_for(self, context: RunContext, subject: ApprovalSubject) -> AgentApprovalRequest | None:
        if subject.boundary is not AgentApprovalBoundaryKind.DELEGATION:
            return None
        return AgentApprovalRequest(
            "x", "x", subject.boundary, f"Delegate {subject.name}?", action_ref=subject.action_ref
        )


async def test_a_person_may_be_asked_before_a_child_is_started() -> None:
    family = Family()

    async def play(deps: Dependencies, prompt: str) -> object:
        return await deps.runtime.spawn_child("kid", "child", {})

    agents = member("parent", play), member("child", echoing(family))
    async with family.process(*agents, add=[AskBeforeDelegating]) as runs:
        paused = await start(runs, agents[0])
        assert len(await family.states()) == 1
        (question,) = await runs.questions(paused.state.id)
        await runs.approve(question.id)
        result = await resume(runs, paused.state.id)
    assert (result.status, family.world.done) == (AgentStatus.COMPLETED, {"w": 1})


# -- teammates


@Agent(spec=AgentExecutionSpec(name="archivist", recovery=DURABLE, objective="Finds old papers."))
class Archivist:
    def __init__(self, hands: Hands) -> None:
        self.hands = hands

    async def execute(self, task: str) -> str:
        return f"found {await self.hands.ask(task)}"


@Agent(spec=AgentExecutionSpec(name="reader", recovery=DURABLE))
class Reader:
    """Reads papers aloud.

    And more.
    """

    def __init__(self, model: IAgentModel) -> None:
        self.model = model


@Agent(
    spec=AgentExecutionSpec(
        name="editor",
        recovery=DURABLE,
        instructions="You are the editor.",
        delegation_allowed=True,
        teammates=[
            AgentTeammate("the archivist", pod=Archivist),
            AgentTeammate("reader", pod=Reader),
        ],
    )
)
class Editor:
    def __init__(self, model: IAgentModel, hands: Hands) -> None:
        self.model, self.hands = model, hands


def editing(*turns: object) -> ScriptedModel:
    script = [when("You are the editor.", *turns), when("Reads papers aloud.", says("read aloud"))]  # type: ignore[arg-type]
    return ScriptedModel(script)


async def test_a_teammate_that_nothing_reaches_fails_the_start_with_the_remedy() -> None:
    stranger = AgentTeammate("stranger", card_url="https://example.org/card")

    @Agent(spec=AgentExecutionSpec(delegation_allowed=True, teammates=[stranger]))
    class Lonely:
        """Ask a stranger."""

    with pytest.raises(ApplicationStartError) as caught:
        await Application("lonely").add(Lonely, ScriptedModel([])).load_plugins().start()
    assert (
        "Lonely has the teammate 'stranger' with the card 'https://example.org/card', and nothing here reaches agents "
        "by their cards.\n     Name an agent of this application: AgentTeammate('stranger', pod=...)"
    ) in str(caught.value)


async def test_teammates_are_offered_to_the_model_as_tools() -> None:
    family, model = Family(), editing(says("nothing to do"))
    async with family.process(Editor, Archivist, Reader, model=model) as runs:
        await start(runs, Editor, "edit")
    calling = model.requests[0].tool_calling
    assert calling is not None
    tools = {tool.name: tool for tool in calling.tools}
    assert {"ask_the_archivist", "ask_reader", "write"} <= set(tools)
    assert "Finds old papers." in str(tools["ask_the_archivist"].description)
    assert "Reads papers aloud." in str(tools["ask_reader"].description)
    assert tools["ask_reader"].parameters.schema["required"] == ["task"]


async def test_a_model_asks_teammates_and_their_answers_come_back_as_results() -> None:
    family = Family()
    turns = (
        turn(
            calls("ask_reader", task="read it"), calls("write", what="w"), calls("ask_reader", task="again")
        ),
        says("done"),
    )
    model = ScriptedModel(
        [
            when("You are the editor.", *turns),
            when("read it", says("aloud")),
            when("again", says("aloud again")),
        ]
    )
    async with family.process(Editor, Archivist, Reader, model=model) as runs:
        result = await start(runs, Editor, "edit")
    assert result.output == "done"
    rows = await family.rows(result.state.id)
    begun = [row.action_id for row in rows if row.kind is AgentActionKind.DELEGATION]
    assert begun == ["run/child:reader#1"] * 2 + ["run/child:reader#2"] * 2
    said = [str(message.text) for message in model.requests[-1].messages if message.tool_call_id]
    assert [part.strip('"') for part in said] == ["aloud", "w", "aloud again"]


async def test_a_teammate_that_waits_pauses_the_agent_and_goes_on_in_another_process() -> None:
    family = Family()
    turns = (calls("ask_the_archivist", task="1815"), says("done"))
    async with family.process(Editor, Archivist, Reader, model=editing(*turns)) as runs:
        paused = await start(runs, Editor, "edit")
        assert paused.status is AgentStatus.INTERRUPTED
    async with family.process(Editor, Archivist, Reader, model=editing(*turns)) as runs:
        (question,) = await runs.questions(paused.state.id)
        await runs.approve(question.id)
        result = await resume(runs, paused.state.id)
    assert (result.output, family.world.done) == ("done", {"1815": 1})


async def test_a_teammate_that_fails_or_is_asked_wrongly_is_told_to_the_model() -> None:
    family = Family()
    family.world.failures["1815"] = ToolError("burnt")
    model = editing(
        turn(calls("ask_reader", what="?"), calls("ask_nobody", task="?")),
        calls("ask_reader", task=" "),
        says("done"),
    )
    async with family.process(Editor, Archivist, Reader, model=model) as runs:
        result = await start(runs, Editor, "edit")
    assert result.output == "done"
    told = " ".join(message.text for message in model.requests[-1].messages if message.tool_call_id)
    assert told.count("ask_reader takes one argument, 'task'") == 2
    assert "there is no tool 'ask_nobody'" in told
    assert len(await family.states()) == 1


async def test_a_run_that_was_given_only_some_tools_may_ask_only_those_teammates() -> None:
    family = Family()

    def made() -> DelegationPacket:
        return packet("editor", task={"do": "edit"}, allowed_capabilities=("ask_reader", "look"))

    parent = member("parent", delegating(made), delegation_allowed=True)
    model = editing(calls("ask_the_archivist", task="1815"), says("done"))
    async with family.process(parent, Editor, Archivist, Reader, model=model) as runs:
        result = await start(runs, parent)
    assert result.status is AgentStatus.COMPLETED
    calling = model.requests[0].tool_calling
    assert calling is not None
    assert {"ask_reader"} == {tool.name for tool in calling.tools if tool.name.startswith("ask_")}
    assert not family.world.done


async def test_the_record_of_a_delegation_does_not_show_what_is_sensitive_in_the_task() -> None:
    family = Family()

    async def play(deps: Dependencies, prompt: str) -> object:
        return await deps.runtime.spawn_child("kid", "secretive", {"number": "DE-123456789"})

    parent = member("parent", play)
    async with family.process(parent, Secretive) as runs:
        result = await start(runs, parent)
    assert result.output == "kept"
    rows = [row for row in await family.rows(result.state.id) if row.stage is not JournalStage.TOLD]
    assert not any("DE-123456789" in str(row.view) for row in rows)


@Agent(spec=AgentExecutionSpec(name="secretive", recovery=DURABLE))
class Secretive:
    async def execute(self, number: Annotated[str, SensitiveField(PII.ACCOUNT_ID)]) -> str:
        return "kept"

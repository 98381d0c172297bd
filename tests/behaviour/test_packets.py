"""Delegation packets arrive whole: references, the slice of the parent's context, the schema of the answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress

import pytest
from tests.behaviour.family import Family, member, resume, start
from tests.behaviour.test_delegation import DURABLE, POLICY, packet

from pilotage import Agent, AgentExecutionSpec, Final, IAgentModel, ModelMessage, ModelRequest
from pilotage.agent import (
    AgentContext,
    AgentEvent,
    ContextPack,
    ContextPackRole,
    RunAgentInput,
    get_run_context,
)
from pilotage.agent.context import (
    ContextHealthSignal,
    ContextManifest,
    ContextOptimizationAction,
    ContextSensitivity,
)
from pilotage.agent.delegation import (
    DelegationContextSlice,
    DelegationExpectedOutput,
    DelegationPacket,
)
from pilotage.agent.ports.architecture import AgentRef, AgentSession, Dependencies
from pilotage.agent.ports.handlers import IAgentContextHandler
from pilotage.agent.run_values import RunResult
from pilotage.errors import DelegationError, ToolError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.children.delegation import LocalDelegate
from pilotage.testing import ProcessStopped, ScriptedModel, StopAfter, says

NUMBER: JsonObject = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}
WHOLE = DelegationContextSlice("it is late", ("evidence-1", "evidence-2"), "manifest-1", {"own": True})
WANTED = DelegationExpectedOutput("a number", NUMBER)


def whole(target: str = "counter", **details: object) -> DelegationPacket:
    return packet(
        target,
        context=WHOLE,
        constraints=("be brief",),
        expected_output=WANTED,
        return_policy=POLICY.FINAL_OUTPUT,
        **details,
    )


def parent_of(
    make: Callable[[], DelegationPacket] = whole, seen: list[BaseException] | None = None
) -> type[object]:
    """A parent that delegates one packet; an error is kept and becomes its answer."""

    async def play(deps: Dependencies, prompt: str) -> object:
        try:
            (item,) = [item async for item in LocalDelegate().delegate(make())]
        except DelegationError as error:
            if seen is not None:
                seen.append(error)
            return {"problems": list(error.problems), "partial": error.partial_output}
        assert isinstance(item.payload, Final)
        return item.payload.output.output

    return member("parent", play, delegation_allowed=True)


@Agent(spec=AgentExecutionSpec(name="counter", instructions="You count.", recovery=DURABLE))
class Counter:
    """A declarative child."""

    def __init__(self, model: IAgentModel) -> None:
        self.model = model


RECEIVED: list[DelegationPacket | None] = []


@Agent(spec=AgentExecutionSpec(name="by hand", recovery=DURABLE))
class ByHand:
    """A child with an `execute()` of its own, which takes a part of the packet by name."""

    async def execute(self, question: str, manifest_ref: str = "none") -> JsonObject:
        RECEIVED.append(get_run_context().delegation)
        return {"n": len(question), "manifest": manifest_ref} if question == "odd?" else {"n": len(question)}


async def test_a_declarative_child_sees_everything_and_answers_by_the_schema() -> None:
    family, model = Family(), ScriptedModel([says('{"n": 4}')])
    parent = parent_of()
    async with family.process(parent, Counter, model=model) as runs:
        result = await start(runs, parent)
    assert result.output == {"n": 4}
    (request,) = model.requests
    shown = "\n".join(
        [*(str(message.text) for message in request.messages), *(p.content for p in request.context)]
    )
    for word in ("why?", "it is late", "be brief", "a number", "evidence-1", "evidence-2", "manifest-1"):
        assert word in shown
    assert '"integer"' in shown
    assert request.structured_output is None or request.structured_output.constraint.schema == NUMBER


async def test_a_child_repairs_an_answer_that_does_not_fit() -> None:
    family, model = Family(), ScriptedModel([says("plain text"), says('{"n": 4}')])
    parent = parent_of()
    async with family.process(parent, Counter, model=model) as runs:
        result = await start(runs, parent)
    assert result.output == {"n": 4}
    assert len(model.requests) == 2


async def test_a_child_that_never_fits_is_a_typed_failure() -> None:
    family, model, seen = Family(), ScriptedModel([says("plain text")] * 8), list[BaseException]()
    parent = parent_of(seen=seen)
    async with family.process(parent, Counter, model=model) as runs:
        await start(runs, parent)
    assert [type(error) for error in seen] == [DelegationError]
    assert 2 <= len(model.requests) < 8, "it is asked to repair it, and not for ever"


async def test_a_child_by_hand_gets_the_packet_and_what_its_parameters_name() -> None:
    family = Family()
    RECEIVED.clear()
    parent = parent_of(lambda: whole("by hand"))
    async with family.process(parent, ByHand) as runs:
        result = await start(runs, parent)
    assert result.output == {"n": 4}
    (received,) = RECEIVED
    assert received is not None
    assert received.id == "p1"
    assert received.task == {"question": "why?", "manifest_ref": "manifest-1"}
    assert received.context.summary == "it is late"
    assert received.context.evidence_refs == ("evidence-1", "evidence-2")
    assert received.constraints == ("be brief",)
    assert received.expected_output.schema == NUMBER
    assert received.return_policy is POLICY.FINAL_OUTPUT
    assert get_run_context().delegation is None


async def test_an_answer_by_hand_that_does_not_fit_is_no_success() -> None:
    family, seen = Family(), list[BaseException]()
    parent = parent_of(lambda: whole("by hand", task={"question": "odd?"}), seen)
    async with family.process(parent, ByHand) as runs:
        result = await start(runs, parent)
    (error,) = seen
    assert "does not fit the schema of packet 'p1'" in str(error)
    assert "manifest" in str(result.output["problems"])
    assert result.output["partial"] == {"n": 4, "manifest": "manifest-1"}


@pytest.mark.parametrize("number", range(1, 12))
async def test_after_a_crash_the_packet_is_what_it_was(number: int) -> None:
    family, model = Family(), ScriptedModel([says("plain text"), says('{"n": 4}')])
    parent = parent_of()
    async with family.process(parent, Counter, model=model, fault=StopAfter(number)) as runs:
        with suppress(ProcessStopped):
            await start(runs, parent)
    state = await family.state_of("parent")
    async with family.process(parent, Counter, model=model.restarted()) as runs:
        result = await (runs.result(state.id) if state.is_terminal else resume(runs, state.id))
    assert result.output == {"n": 4}
    assert len(await family.states()) == 2


class TwoHalves:
    """A loop that fails when it has half of its output."""

    name = "two halves"
    version = 1

    async def run(
        self, session: AgentSession, deps: Dependencies, prompt: str
    ) -> AsyncGenerator[AgentEvent, None]:
        session.output = (await deps.model.complete(ModelRequest([ModelMessage.user("first")]))).content
        yield deps.progress("half")
        raise ToolError("out of breath")

    def declared_workers(self) -> Mapping[str, AgentRef]:
        """Nobody else."""
        return {}


async def test_of_a_child_that_stops_short_the_parent_gets_the_partial_output() -> None:
    family, seen = Family(), list[BaseException]()
    model = ScriptedModel([says("The first half, "), says("and more.")])

    @Agent(
        spec=AgentExecutionSpec(
            name="talker", recovery=DURABLE, architecture=TwoHalves(), instructions="Talk."
        )
    )
    class Talker:
        def __init__(self, model: IAgentModel) -> None:
            self.model = model

    parent = parent_of(lambda: packet("talker"), seen)
    async with family.process(parent, Talker, model=model) as runs:
        result = await start(runs, parent)
    assert result.output["partial"] == "The first half, "
    (error,) = seen
    assert "'talker' did not finish" in str(error)
    assert str(error).endswith("Its output so far: The first half, ")


class Slicer(IAgentContextHandler):
    """Gives a child what a test says, and remembers what it was asked."""

    def __init__(self, given: DelegationContextSlice | None) -> None:
        self.given = given
        self.asked: list[tuple[str, Sequence[str]]] = []

    async def select_optimization_actions(
        self, signals: Sequence[ContextHealthSignal], manifest: ContextManifest
    ) -> Sequence[ContextOptimizationAction]:
        return ()

    async def slice_for_child(
        self, packet: DelegationPacket, packs: Sequence[ContextPack]
    ) -> DelegationContextSlice:
        self.asked.append((packet.id, [pack.id for pack in packs]))
        if self.given is None:
            raise RuntimeError("no slice today")
        return self.given


PACKS = AgentContext(
    [
        ContextPack("state-1", "three orders are open", "orders", ContextPackRole.STATE),
        ContextPack("doc-1", "a long page", "wiki", ContextPackRole.EVIDENCE),
        ContextPack(
            "pay-1", "salaries", "hr", ContextPackRole.STATE, sensitivity=ContextSensitivity.CONFIDENTIAL
        ),
    ]
)


async def delegated(*add: object) -> DelegationPacket:
    """The packet that a child gets from a parent with packs of its own."""
    family = Family()
    RECEIVED.clear()
    parent = parent_of(lambda: whole("by hand"))
    async with family.process(parent, ByHand, add=add) as runs:
        run = await runs.start(parent, RunAgentInput("r", "go", context=PACKS))
        result: RunResult = await run.result()
    assert result.output == {"n": 4}
    (received,) = RECEIVED
    assert received is not None
    return received


async def test_a_child_gets_the_slice_of_the_context_that_its_parent_may_share() -> None:
    received = await delegated()
    assert received.context.summary == "it is late\n\norders: three orders are open"
    assert received.context.evidence_refs == ("evidence-1", "evidence-2", "doc-1")


async def test_a_handler_decides_what_a_child_gets_to_see() -> None:
    slicer = Slicer(DelegationContextSlice("only this"))
    received = await delegated(slicer)
    assert slicer.asked == [("p1", ["state-1", "doc-1", "pay-1"])]
    assert received.context == DelegationContextSlice("only this")
    assert "it is late" not in str(received)


async def test_a_handler_that_fails_shares_nothing() -> None:
    assert (await delegated(Slicer(None))).context == DelegationContextSlice()


@Agent(spec=AgentExecutionSpec(name="json", recovery=DURABLE))
class AnyJsonAnswer:
    """Takes and gives JSON of any shape."""

    async def execute(self, question: JsonValue) -> JsonObject:
        return {"asked": question}


async def test_an_execute_may_take_and_give_any_json() -> None:
    family = Family()
    async with family.process(AnyJsonAnswer) as runs:
        result = await start(runs, AnyJsonAnswer, {"question": [1, None, {"a": "b"}]})
    assert result.output == {"asked": [1, None, {"a": "b"}]}

"""What wrong agents, specs and messages are told, word for word."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from pilotage.agent import (
    Agent,
    AgentCompactionPolicy,
    AgentEventAttribution,
    AgentExecutionLimits,
    AgentExecutionSpec,
    AgentSignal,
    AgentSignalKind,
    AgentState,
    AgentStatus,
    AgentTeammate,
    AgentYield,
    AgentYieldKind,
    ConversationTurn,
    Evidence,
    MediaPart,
    ModelCapability,
    ModelMessage,
    ModelMessageRole,
    ModelRequest,
    ModelToolCall,
    Principal,
    Progress,
    RecoveryStrategy,
    RunAgentInput,
    SamplingOptions,
    StructuredOutputSpec,
    ToolCallingSpec,
)
from pilotage.context import KeepRecent
from pilotage.errors import AgentDefinitionError


def agent(execute: object) -> Callable[[], object]:
    """Defines an agent called Wrong with this entry point."""
    return lambda: Agent(type("Wrong", (), {"execute": execute}))


def no_self(this: Any, name: str) -> str: ...
def no_parameters() -> str: ...
def untyped(self: Any, name) -> str: ...  # type: ignore[no-untyped-def]
def positional_only(self: Any, name: str, /) -> str: ...
def any_number(self: Any, *names: str) -> str: ...
def any_names(self: Any, **names: str) -> str: ...
def no_return(self: Any, name: str): ...  # type: ignore[no-untyped-def]
def unresolved(self: Any, name: "Missing") -> str: ...  # type: ignore[name-defined]  # noqa: F821, UP037
def bare_generator(self: Any) -> AsyncGenerator: ...  # type: ignore[type-arg]
def wrong_item(self: Any) -> AsyncGenerator[str, None]: ...
def sends(self: Any) -> AsyncGenerator[AgentYield[str], str]: ...
def no_send(self: Any) -> "AsyncGenerator[AgentYield[str]]": ...  # noqa: UP037
def returns(self: Any) -> Generator[AgentYield[str], None, int]: ...
async def yields_plain(self: Any) -> str:  # type: ignore[misc]
    yield "x"


def uninjectable() -> object:
    @Agent
    class Wrong:
        def __init__(self, anything) -> None: ...  # type: ignore[no-untyped-def]

        def execute(self) -> str: ...

    return Wrong


def declared(spec: AgentExecutionSpec | None = None, **keywords: Any) -> Callable[[], object]:
    """Defines an agent called Wrong with these keywords and this spec."""
    return lambda: Agent(spec=spec or AgentExecutionSpec(), **keywords)(type("Wrong", (), {}))


DURABLE = AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY)
STEERED = AgentExecutionSpec(accepted_signals=[AgentSignalKind.USER_MESSAGE])
TEAMED = AgentExecutionSpec(teammates=[AgentTeammate("clerk", pod=int)])
BOUND = AgentExecutionSpec(timeout_seconds=2, limits=AgentExecutionLimits(max_steps=5))
STREAM = "AsyncGenerator[AgentYield[str], None]"
CASES: list[tuple[str, Callable[[], object], str]] = [
    ("function", lambda: Agent(no_parameters), "@Agent decorates a class, not no_parameters. Write a class with an execute() method."),
    ("constructor", uninjectable, "Wrong.__init__: parameter 'anything' has no type. Write the type of the pod it needs, for example anything: Anything."),
    ("property", agent(property(lambda self: 1)), "Wrong.execute is a property. Write a plain method: def execute(self, ...)."),
    ("classmethod", agent(classmethod(no_self)), "Wrong.execute is a classmethod. Write a plain method: def execute(self, ...)."),
    ("staticmethod", agent(staticmethod(no_self)), "Wrong.execute is a staticmethod. Write a plain method: def execute(self, ...)."),
    ("value", agent(3), "Wrong.execute is a int. Write a plain method: def execute(self, ...)."),
    ("no self", agent(no_self), "Wrong.execute: the first parameter is 'this'. Write a plain method: def execute(self, ...)."),
    ("no parameter", agent(no_parameters), "Wrong.execute: the first parameter is missing. Write a plain method: def execute(self, ...)."),
    ("untyped", agent(untyped), "Wrong.execute: parameter 'name' has no type. Write one, for example name: str."),
    ("positional-only", agent(positional_only), "Wrong.execute: parameter 'name' is positional-only. Remove the '/' from the signature."),
    ("*names", agent(any_number), "Wrong.execute: *names leaves the input open. Name each parameter and give it a type."),
    ("**names", agent(any_names), "Wrong.execute: **names leaves the input open. Name each parameter and give it a type."),
    ("no return", agent(no_return), "Wrong.execute has no return type. Write what it gives: AsyncGenerator[AgentYield[Answer], None] for a stream, or the answer's own type."),
    ("unresolved", agent(unresolved), "Wrong.execute: a type cannot be resolved: name 'Missing' is not defined. Define or import it above the class, at the top level of the module and not under TYPE_CHECKING."),
    ("bare generator", agent(bare_generator), "Wrong.execute: its AsyncGenerator does not say what it yields. Write AsyncGenerator[AgentYield[Answer], None]."),
    ("wrong item", agent(wrong_item), "Wrong.execute: its AsyncGenerator yields str. Write AsyncGenerator[AgentYield[Answer], None]."),
    ("sends", agent(sends), f"Wrong.execute: its AsyncGenerator has the send type str; nothing is ever sent to it. Write {STREAM}."),
    ("returns", agent(returns), "Wrong.execute: its Generator returns int, which no caller would get. Yield a Final and write Generator[AgentYield[str], None, None]."),
    ("yields plain", agent(yields_plain), f"Wrong.execute yields, but its return type is str. Write {STREAM}."),
    ("spec name", lambda: AgentExecutionSpec(name=" "), "AgentExecutionSpec.name is blank. Give it at least one visible character, or leave it out."),
    ("spec objective", lambda: AgentExecutionSpec(objective=""), "AgentExecutionSpec.objective is blank. Give it at least one visible character, or leave it out."),
    ("spec architecture", lambda: AgentExecutionSpec(architecture=""), "AgentExecutionSpec.architecture is blank. Give it at least one visible character, or leave it out."),
    ("spec timeout", lambda: AgentExecutionSpec(timeout_seconds=0), "AgentExecutionSpec.timeout_seconds is 0. Use a positive number, or leave it out."),
    ("spec version", lambda: AgentExecutionSpec(version=0), "AgentExecutionSpec.version is 0. Use a positive number."),
    ("two timeouts", lambda: AgentExecutionSpec(timeout_seconds=1, limits=AgentExecutionLimits(2)), "AgentExecutionSpec.timeout_seconds is 1 and limits.timeout_seconds is 2. Set one of them, or both to the same value."),
    ("two compactions", lambda: AgentExecutionSpec(compaction=[KeepRecent(2)], compaction_policy=AgentCompactionPolicy([KeepRecent(1)])), "AgentExecutionSpec.compaction is (KeepRecent(turns=2),) and compaction_policy has (KeepRecent(turns=1),). Set one of them, or both to the same strategies."),
    ("durable and not", declared(DURABLE, durable=False), "Wrong: @Agent(durable=False) contradicts recovery=ACTION_BOUNDARY of its spec. Declare one of them."),
    ("durable by signals and not", declared(STEERED, durable=False), "Wrong: @Agent(durable=False) contradicts accepted_signals of its spec. Declare one of them."),
    ("two outputs", declared(AgentExecutionSpec(output_type=list[int]), output=str), "Wrong: @Agent(output=str) contradicts output_type=list[int] of its spec. Declare one of them."),
    ("two teams", declared(TEAMED, teammates=[int]), "Wrong: @Agent(teammates=[int]) contradicts teammates=[clerk] of its spec. Declare one of them."),
    ("two step limits", declared(BOUND, max_steps=6), "Wrong: @Agent(max_steps=6) contradicts max_steps=5 of its spec. Declare one of them."),
    ("two time limits", declared(BOUND, timeout_seconds=1.5), "Wrong: @Agent(timeout_seconds=1.5) contradicts timeout_seconds=2 of its spec. Declare one of them."),
    ("durable word", declared(durable="yes"), "Wrong: @Agent(durable='yes') is no truth value. Write durable=True."),
    ("one teammate", declared(teammates=int), "Wrong: @Agent(teammates=<class 'int'>) is no list of agents. Write teammates=[Librarian], or AgentTeammate(...) for another name."),
    ("teammate by name", declared(teammates=["clerk"]), "Wrong: @Agent(teammates=['clerk']) is no list of agents. Write teammates=[Librarian], or AgentTeammate(...) for another name."),
    ("keyword limit", declared(max_tokens=0), "AgentExecutionLimits.max_tokens is 0. Use a positive number, or leave it out."),
    ("threshold", lambda: AgentCompactionPolicy(trigger_token_threshold=0), "AgentCompactionPolicy.trigger_token_threshold is 0. Use a positive number, or leave it out."),
    ("limit", lambda: AgentExecutionLimits(max_steps=-1), "AgentExecutionLimits.max_steps is -1. Use a positive number, or leave it out."),
    ("cost", lambda: AgentExecutionLimits(max_cost=Decimal("Infinity")), "AgentExecutionLimits.max_cost is Decimal('Infinity'). Use a positive number, or leave it out."),
    ("state count", lambda: AgentState("r", "A", AgentStatus.ACTIVE, pending_signal_count=-1), "AgentState.pending_signal_count is -1. Use zero or more."),
    ("state time", lambda: AgentState("r", "A", AgentStatus.ACTIVE, created_at=datetime(2026, 1, 1)), "AgentState.created_at has no time zone (2026-01-01T00:00:00). Use datetime.now(UTC)."),  # noqa: DTZ001
    ("signal id", lambda: AgentSignal("", "r", AgentSignalKind.CANCEL), "AgentSignal.id is blank. Give it at least one visible character."),
    ("attribution", lambda: AgentEventAttribution("a", "", "c"), "AgentEventAttribution.run_id is blank. Give it at least one visible character."),
    ("yield", lambda: AgentYield(AgentYieldKind.TOKEN, Progress("x")), "AgentYield of kind 'token' got Progress as payload. Give it a Token."),
    ("yield kind", lambda: AgentYield("smoke", Progress("x")), "AgentYield of kind 'smoke' got Progress as payload. Give it a kind of AgentYieldKind."),  # type: ignore[arg-type]
    ("evidence", lambda: Evidence({1: 2}), "Evidence.evidence cannot be recorded: a JSON key must be a string, not int (1)."),  # type: ignore[dict-item]
    ("media", lambda: MediaPart("image/png"), "MediaPart needs one of url, data (base64) and digest, and no more."),
    ("message calls", lambda: ModelMessage(ModelMessageRole.USER, "x", tool_calls=[ModelToolCall("t", {})]), "ModelMessage.tool_calls belong to an assistant's message, not to role 'user'."),
    ("message answer", lambda: ModelMessage(ModelMessageRole.USER, "x", tool_call_id="c"), "ModelMessage.tool_call_id names the call a tool's message answers, it has no meaning with role 'user'. Use ModelMessage.tool(call_id, result)."),
    ("message value", lambda: ModelMessage.evidence(object()), "ModelMessage.evidence(...) cannot show this value: object has no JSON form."),
    ("request", lambda: ModelRequest([]), "ModelRequest.messages is empty. Give it at least one member."),
    ("request twice", lambda: ModelRequest([ModelMessage.user("x")], tools=ToolCallingSpec(()), tool_calling=ToolCallingSpec(())), "ModelRequest got both tools= and tool_calling=. They mean the same: give one."),
    ("sampling", lambda: SamplingOptions(temperature=-0.1), "SamplingOptions.temperature is -0.1. Use zero or more."),
    ("capability", lambda: ModelCapability("m", context_tokens=0), "ModelCapability.context_tokens is 0. Use a positive number, or leave it out."),
    ("output type", lambda: StructuredOutputSpec.from_type(object), "output type object is object. Write the type it has; for arbitrary JSON write pilotage.jsonvalue.JsonValue."),
    ("tool choice", lambda: ToolCallingSpec((), tool_name="pay"), "ToolCallingSpec.tool_name is 'pay', which is none of its tools (none)."),
    ("not a tool", lambda: ToolCallingSpec.from_tools([len]), "len is no tool. Mark it with @agent_tool."),
    ("input", lambda: RunAgentInput("r", " "), "RunAgentInput.instruction is blank. Give it at least one visible character."),
    ("principal", lambda: Principal("ada", tenant=""), "Principal.tenant is blank. Give it at least one visible character."),
    ("turn", lambda: ConversationTurn("system", "x"), "ConversationTurn.role is 'system'. A turn belongs to 'user' or 'assistant'."),  # type: ignore[arg-type]
]  # fmt: skip


@pytest.mark.parametrize(("define", "message"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_wrong_agent_is_told_what_to_write(define: Callable[[], object], message: str) -> None:
    with pytest.raises(AgentDefinitionError) as caught:
        define()
    assert str(caught.value) == message

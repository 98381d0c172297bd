"""An application full of canaries: tools, programs, a model and people that say everything they should not."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated

from pilotage import (
    PII,
    Agent,
    AgentExecutionSpec,
    AgentYield,
    Application,
    Evidence,
    Final,
    IAgentModel,
    Idempotency,
    ModelRequest,
    ModelResponse,
    ModelStreamEvent,
    Pod,
    Progress,
    RecoveryStrategy,
    RunContext,
    SensitiveField,
    State,
    StatePatch,
    Token,
    Tool,
    ToolEffects,
    agent_tool,
)
from pilotage.adapters.agui import AGUICompatible
from pilotage.adapters.sqlalchemy import agent_audit_log
from pilotage.agent import (
    AgentFact,
    AgentSignalKind,
    AgentState,
    HookVerdict,
    IAgentHooks,
    IAgentTelemetry,
    ISecrets,
    MemoryUse,
    ModelMessageRole,
    ModelToolCall,
    OpaquePart,
    Proceed,
    ProviderState,
    ReasoningPart,
    StreamingExposureMode,
    TextPart,
    ToolApprovalRequirement,
    on_event,
)
from pilotage.agent.ports.observability import TelemetryValue
from pilotage.architectures import React
from pilotage.errors import ToolError
from pilotage.jsonvalue import JsonValue
from pilotage.models.streaming import deltas_of, final_events
from pilotage.runtime import MemoryTools, next_signal, step
from pilotage.safety import SecretField, SecretRef
from tests.attack.canaries import POLICY, SECRETS, Canary

DURABLE = RecoveryStrategy.ACTION_BOUNDARY
UNGATED = ToolApprovalRequirement.NOT_REQUIRED
MODE = StreamingExposureMode(os.environ.get("CANARY_MODE", StreamingExposureMode.BALANCED))
"""How its agents stream; the module is imported anew for another mode."""


@Pod
class Vault(ISecrets):
    """Hands out a canary for each name."""

    async def resolve(self, ref: SecretRef, context: RunContext) -> str:
        return SECRETS[ref.id].value


Handed = Annotated[str, SecretField()]


@Pod
class Counter:
    """Tools that let out what they get."""

    @agent_tool(effects=ToolEffects.read_only())
    async def look_up(
        self,
        account: Annotated[str, SensitiveField(PII.ACCOUNT_ID)],
        secret_in_answer: Handed,
        secret_in_reasoning: Handed,
        secret_in_tool_result: Handed,
        secret_in_tool_error: Handed,
        secret_in_exception: Handed,
        secret_in_tool_arguments: Handed,
        secret_in_step_result: Handed,
        secret_in_comment: Handed,
        secret_in_recovery_result: Handed,
        secret_in_next_input: Handed,
        secret_in_metadata: Handed,
        secret_in_child: Handed,
        secret_in_shared_state: Handed,
        secret_in_folded_turn: Handed,
    ) -> str:
        """Look an account up."""
        return f"opened with {secret_in_tool_result}; the card is {Canary.CARD_IN_TOOL_RESULT}"

    @agent_tool(effects=ToolEffects.read_only())
    async def glance(self) -> str:
        """Look quickly."""
        return f"{Canary.EMAIL_IN_FOLDED_TURN} has {Canary.SECRET_IN_FOLDED_TURN}"

    @agent_tool(effects=ToolEffects.read_only())
    async def crash(self) -> str:
        """Fail with an exception."""
        raise RuntimeError(f"db://{Canary.SECRET_IN_EXCEPTION}:{Canary.TOKEN_IN_EXCEPTION}@host")

    @agent_tool(effects=ToolEffects.read_only())
    async def refuse(self) -> str:
        """Fail, and say why."""
        raise ToolError(f"{Canary.EMAIL_IN_TOOL_ERROR} may not use {Canary.SECRET_IN_TOOL_ERROR}")

    @agent_tool(
        effects=ToolEffects.external_side_effect(),
        idempotency=Idempotency.NON_IDEMPOTENT,
        reads_untrusted=False,
    )
    async def pay(self, note: str) -> str:
        """Pay; a person has to allow it."""
        return f"paid: {note}"

    @agent_tool(
        effects=ToolEffects.external_side_effect(),
        idempotency=Idempotency.NON_IDEMPOTENT,
        approval=UNGATED,
        reads_untrusted=False,
    )
    async def wire(self) -> str:
        """Wire money over a line that breaks."""
        raise ConnectionError(f"{Canary.TOKEN_IN_EXCEPTION} {Canary.SECRET_IN_EXCEPTION}")


@AGUICompatible("/teller")
@Agent(
    spec=AgentExecutionSpec(
        name="teller",
        recovery=DURABLE,
        redaction=POLICY,
        streaming_exposure_mode=MODE,
        prompt_snapshots=True,
        memory=MemoryUse(),
        accepted_signals=[AgentSignalKind.USER_MESSAGE],
    )
)
class Teller:
    """Do as you are told."""

    def __init__(self, counter: Counter, memory: MemoryTools) -> None:
        self.counter = counter
        self.memory = memory


@Agent(
    spec=AgentExecutionSpec(
        name="pager", recovery=DURABLE, redaction=POLICY, architecture=React(max_turns=60)
    )
)
class Pager:
    """Read page after page."""

    def __init__(self, counter: Counter) -> None:
        self.counter = counter


@Agent(spec=AgentExecutionSpec(name="plain", recovery=DURABLE, prompt_snapshots=True))
class Plain:
    """Do as you are told, without a policy."""

    def __init__(self, counter: Counter) -> None:
        self.counter = counter


@Agent(spec=AgentExecutionSpec(name="messenger", redaction=POLICY))
class Messenger:
    """Gives back what it is given."""

    async def execute(self, text: str) -> str:
        return f"heard {text}"


@Agent(
    spec=AgentExecutionSpec(
        name="scribe",
        recovery=DURABLE,
        redaction=POLICY,
        streaming_exposure_mode=MODE,
        accepted_signals=[AgentSignalKind.USER_MESSAGE],
    )
)
class Scribe:
    """Says everything that it knows, in every way there is."""

    def __init__(self, counter: Counter, messenger: Messenger) -> None:
        self.counter = counter
        self.messenger = messenger

    async def execute(self, how: str) -> AsyncGenerator[AgentYield[str], None]:
        await self.counter.look_up(Canary.ACCOUNT_IN_SENSITIVE_ARGUMENT, *[""] * len(SECRETS))
        found = await step("look", _found, idempotency=Idempotency.IDEMPOTENT)
        yield Progress(f"found {found} {Canary.EMAIL_IN_PROGRESS} {Canary.SECRET_IN_STEP_RESULT}")
        yield Evidence({"seen": f"{Canary.TOKEN_IN_EVIDENCE} {Canary.SECRET_IN_ANSWER}"})
        yield Tool("by_hand", arguments={"a": Canary.SECRET_IN_ANSWER}, result=Canary.EMAIL_IN_PROGRESS)
        for piece in _pieces(f"It is {Canary.SECRET_IN_ANSWER}, {Canary.EMAIL_IN_ANSWER}, ok."):
            yield Token(piece)
            yield Progress("and")
        key = Canary.TOKEN_IN_STATE_KEY.value
        yield State({key: {"mail": Canary.EMAIL_IN_SHARED_STATE.value, "list": [_SHARED]}})
        yield StatePatch([{"op": "add", "path": f"/{key}/a", "value": Canary.TOKEN_IN_STATE_PATCH.value}])
        yield StatePatch([{"op": "add", "path": f"/{Canary.TOKEN_IN_STATE_PATCH}", "value": {_SHARED: 1}}])
        heard = await self.messenger.execute(f"{Canary.TOKEN_IN_CHILD} {Canary.SECRET_IN_CHILD}")
        if how == "fail":
            raise RuntimeError(f"{Canary.TOKEN_IN_RUN_EXCEPTION} {Canary.SECRET_IN_EXCEPTION}")
        if how == "wait":
            signal = await next_signal(AgentSignalKind.USER_MESSAGE)
            yield Progress(f"heard {signal.payload}")
            await next_signal(AgentSignalKind.USER_MESSAGE)
        if how == "pay":
            await self.counter.pay(Canary.SECRET_IN_TOOL_ARGUMENTS)
        wired = await self.counter.wire() if how == "wire" else ""
        yield Final(f"{heard} {wired} {Canary.SECRET_IN_ANSWER} {Canary.EMAIL_IN_ANSWER}")


_SHARED = Canary.SECRET_IN_SHARED_STATE.value


def _found() -> dict[str, str]:
    long = "long enough for a blob " * 500
    return {"key": Canary.SECRET_IN_STEP_RESULT, "card": Canary.CARD_IN_STEP_RESULT, "rest": long}


def _pieces(text: str) -> Iterator[str]:
    return (text[at : at + 3] for at in range(0, len(text), 3))


@Pod
class Adversary(IAgentModel):
    """Calls every tool in turn, then repeats everything it ever heard, three characters at a time."""

    def __init__(self) -> None:
        self.heard: list[ModelRequest] = []

    async def complete(self, request: ModelRequest) -> ModelResponse:
        self.heard.append(request)
        return self._reply(request)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        self.heard.append(request)
        reply = self._reply(request)
        is_first = "One moment." not in repr(request.messages) and reply.tool_calls
        # What no process has handed out yet, no process can look for.
        reasoning = (
            "Hm." if is_first or reply.content == "Hush." else f"I think {Canary.SECRET_IN_REASONING} is it."
        )
        for event in deltas_of(reply.content, reply.tool_calls, reasoning, request):
            for piece in _pieces(event.token_delta or ""):
                yield replace(event, token_delta=piece)
            if not event.token_delta:
                yield event
        for event in final_events(reply, request):
            yield event

    def _reply(self, request: ModelRequest) -> ModelResponse:
        said = [message for message in request.messages if message.role is ModelMessageRole.TOOL]
        offered = {tool.name for tool in request.tool_calling.tools} if request.tool_calling else set()
        last = [each for each in request.messages if each.role is ModelMessageRole.USER][-1].text
        if last == "hush":
            return ModelResponse("Hush.")
        if last == "fold" and len(said) < FOLDED:
            return ModelResponse.of([ReasoningPart("Hm."), _GLANCE if said else _CALLS[0]])
        turns = [call for call in _CALLS if call.name in offered]
        if "chat" not in last and len(said) < len(turns):
            call = replace(turns[len(said)], state=_STATE)
            return ModelResponse.of(
                [ReasoningPart("Hm.", state=_STATE), TextPart("One moment. "), call, _BLOCK]
            )
        is_plain = any("without a policy" in message.text for message in request.messages)
        known = "" if is_plain else Canary.EMAIL_IN_ANSWER.value
        return ModelResponse(f"You said: {last} and I know {Canary.SECRET_IN_ANSWER.value} {known}.")


FOLDED = 26
"""More turns than are folded into one row."""
_GLANCE = ModelToolCall("glance", {}, "c0")
_STATE = ProviderState("vendor", "adversary", "signature", {"signature": Canary.STATE_OF_PROVIDER.value})
_BLOCK = OpaquePart(_STATE)
_CALLS = (
    ModelToolCall("look_up", {"account": Canary.ACCOUNT_IN_SENSITIVE_ARGUMENT.value}, "c1"),
    ModelToolCall("crash", {}, "c2"),
    ModelToolCall("refuse", {}, "c3"),
    ModelToolCall("remember", {"text": f"the token is {Canary.TOKEN_IN_MEMORY.value}"}, "c4"),
    ModelToolCall("pay", {"note": Canary.SECRET_IN_TOOL_ARGUMENTS.value}, "c5"),
)


@Pod
class Exported:
    """What left by telemetry, hooks and facts."""

    def __init__(self) -> None:
        self.telemetry: list[str] = []
        self.hooks: list[str] = []
        self.facts: list[str] = []
        self.has_heard = asyncio.Event()


@Pod
class Telemetry(IAgentTelemetry):
    """Writes down all that it is given, the content of model calls too."""

    wants_content = True

    def __init__(self, exported: Exported) -> None:
        self._seen = exported.telemetry

    @contextmanager
    def trace(self, name: str, attributes: Mapping[str, TelemetryValue] | None = None) -> Iterator[None]:
        self._seen.append(f"{name} {attributes}")
        try:
            yield
        except BaseException as error:
            self._seen.append(f"{error!r} {error} {error.__cause__!r} {error.__context__!r}")
            raise

    def emit_metric(
        self, name: str, value: float, attributes: Mapping[str, TelemetryValue] | None = None
    ) -> None:
        self._seen.append(f"{name} {attributes}")

    def record(
        self,
        name: str,
        seconds: float,
        attributes: Mapping[str, TelemetryValue] | None = None,
        error: str | None = None,
    ) -> None:
        self._seen.append(f"{name} {attributes} {error}")

    def annotate(self, attributes: Mapping[str, TelemetryValue]) -> None:
        self._seen.append(f"{attributes}")


@Pod
class Hooks(IAgentHooks):
    """Writes down all that it is shown."""

    def __init__(self, exported: Exported) -> None:
        self._seen = exported.hooks

    async def pre_run(self, context: RunContext, state: AgentState) -> HookVerdict:
        self._seen.append(repr(state))
        return Proceed()

    async def post_run(self, context: RunContext, state: AgentState) -> None:
        self._seen.append(repr(state))

    async def pre_model(self, context: RunContext, request: ModelRequest) -> HookVerdict:
        self._seen.append(repr(request.messages))
        return Proceed()

    async def post_model(self, context: RunContext, response: ModelResponse) -> None:
        self._seen.append(repr(response))

    async def pre_tool(self, context: RunContext, call: ModelToolCall) -> HookVerdict:
        self._seen.append(repr(call))
        return Proceed()

    async def post_tool(self, context: RunContext, call: ModelToolCall, result: JsonValue) -> None:
        self._seen.append(repr((call, result)))


@Pod
class Listener:
    """Hears every fact."""

    def __init__(self, exported: Exported) -> None:
        self._exported = exported

    @on_event(AgentFact)
    def hear(self, fact: AgentFact) -> None:
        self._exported.facts.append(repr(fact))
        if len(self._exported.facts) > 20:
            self._exported.has_heard.set()


def made() -> Application:
    """Return the application, not started."""
    return (
        Application("canaries")
        .add(Teller, Pager, Plain, Scribe, Messenger, Counter, Vault, Adversary, MemoryTools)
        .add(Exported, Telemetry, Hooks, Listener, agent_audit_log)
        .load_plugins()
    )


app = made()

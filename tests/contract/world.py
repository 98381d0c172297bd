"""The names that the lines of the table use besides those of the contract."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Annotated, Any, TypeVar

import pilotage.adapters.agui
import pilotage.agent
from pilotage.adapters.agui import AgUiProjector
from pilotage.agent import *  # noqa: F403 - the table speaks of the contract's names
from pilotage.agent import (
    PII,
    AgentActionBoundaryCheckpoint,
    AgentActionBoundaryStage,
    AgentActionKind,
    AgentApprovalBoundaryKind,
    AgentApprovalRequest,
    AgentBootstrapValidationPostProcessor,
    AgentCancellationCleanupResult,
    AgentCancellationCleanupTask,
    AgentCancellationRequest,
    AgentCancellationTargetKind,
    AgentDelegateTarget,
    AgentEventAttribution,
    AgentEvidence,
    AgentEvidenceCandidate,
    AgentExecutionSpec,
    AgentSignal,
    AgentSignalKind,
    AgentState,
    AgentStatus,
    AgentToolDescriptor,
    AgentYield,
    ContextExposurePolicy,
    ContextOptimizationAction,
    ContextOptimizationActionKind,
    ContextPack,
    ContextPackRole,
    DelegationPacket,
    DelegationResult,
    EvidenceCapture,
    IAgentModel,
    Idempotency,
    ModelResponse,
    ModelStreamEvent,
    ModelStreamEventKind,
    ModelToolCall,
    Progress,
    RecoveryStrategy,
    RedactionPolicy,
    SensitiveField,
    SensitiveFieldDescriptor,
    StreamingRedactionAudit,
    StreamingRedactionAuditStatus,
    StreamingRedactionPolicy,
    StreamingRedactionSession,
    StreamingSensitivePattern,
    ToolEffects,
    ToolRisk,
    agent_tool,
    bind_agent_tool_invocation,
    consume_pending_agent_signals,
    discover_agent_tools,
    materialize_agent_approval_decision_state,
    on_signal,
    parse_agent_approval_decision_signal,
    plan_agent_resume,
    plan_agent_tool_approval,
)
from pilotage.agent.tools.metadata import AgentToolMetadata
from pilotage.errors import AgentPersistenceConfigurationError, CallerError
from pilotage.runtime import AgentRunner, AgentRuns
from pilotage.safety.trust import TrustLabel
from pilotage.testing import MemoryStore
from tests.contract.written.architecture import DraftAndRevise
from tests.contract.written.delegate import Colleague
from tests.contract.written.handlers import Compressing

T = TypeVar("T")


class Color(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Point:
    x: int
    y: int = 0


@dataclass(frozen=True)
class Customer:
    email: Annotated[str, SensitiveField(PII.EMAIL)]


class Tools:
    """Three tools; the order of discovery is that of their keys."""

    @agent_tool(effects=ToolEffects.external_side_effect())
    def pay(self, to: str) -> str:
        """Pay."""
        return to

    @agent_tool(effects=ToolEffects.read_only())
    def look(self, at: str) -> str:
        """Look."""
        return at

    @staticmethod
    @agent_tool
    def still() -> str:
        """Wait."""
        return ""


class Hiding(Tools):
    """An override that is no tool hides the one of the base class."""

    def pay(self, to: str) -> str:
        return to


@pilotage.agent.Agent(spec=AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY))
class SampleAgent:
    """A durable agent."""

    def __init__(self, model: IAgentModel) -> None:
        self.model = model

    async def execute(self, wish: str) -> str:
        return wish


@pilotage.agent.Agent(spec=AgentExecutionSpec(accepted_signals=(AgentSignalKind.USER_MESSAGE,)))
class Listening:
    """An agent with a handler of signals."""

    @on_signal(AgentSignalKind.USER_MESSAGE)
    async def listen(self, signal: AgentSignal) -> AsyncGenerator[AgentYield[str], None]:
        yield Progress(signal.id)

    async def execute(self) -> str:
        return ""


@pilotage.agent.Agent()
class PlainAgent:
    """An agent without durability."""

    async def execute(self) -> str:
        return ""


STATE = AgentState("run-1", "a", AgentStatus.ACTIVE)
MESSAGE = AgentSignal("message", "run-1", AgentSignalKind.USER_MESSAGE, {"text": "a"})
MESSAGE_2 = replace(MESSAGE, id="message-2")
EVENT = AgentSignal("event", "run-1", AgentSignalKind.EXTERNAL_EVENT, {"text": "a"})
CANCEL = AgentSignal("cancel", "run-1", AgentSignalKind.CANCEL, {"reason": "wrong branch"})
NAME = SensitiveField(PII.NAME)
AT_ROOT, AT_TO = SensitiveFieldDescriptor((), NAME), SensitiveFieldDescriptor(("to",), NAME)
OPEN = ContextExposurePolicy(include_sensitive_schema_metadata=True)
OBJECT = {"type": "object", "properties": {"to": {"type": "string"}}}
DIGITS = StreamingSensitivePattern("digits", r"\d{2,8}")
AUDIT = StreamingRedactionAudit(StreamingRedactionAuditStatus.PASSED, 1, 1, (), 64, 10, 12)
ACTION = ContextOptimizationAction("action-1", ContextOptimizationActionKind.COMPRESSION)
BY = AgentEventAttribution("agent", "run-1", "chat")
CALL = ModelToolCall("pay", {}, "c1")
RESULT = DelegationResult("r", "p", AgentDelegateTarget("a"), "done", {"n": 1})
PACKET = DelegationPacket("p", "run-1", AgentDelegateTarget("a"), {"city": "Oslo"})
TOOL_TARGET = AgentCancellationTargetKind.TOOL_EXECUTION
FAILED_CLEANUP = AgentCancellationCleanupResult.failed(
    target_kind=TOOL_TARGET, target_ref="t", error_code="e", message="m"
)


def request(**changes: Any) -> AgentApprovalRequest:
    boundary = AgentApprovalBoundaryKind.TOOL_INVOCATION
    given = {"id": "q1", "agent_state_id": "run-1", "boundary": boundary, "prompt": "May I?"}
    return AgentApprovalRequest(**{**given, "risk": ToolRisk(), "action_ref": "pay", **changes})


REQUEST = request()


def awaited(coming: Awaitable[T]) -> T:
    async def wait() -> T:
        return await coming

    return asyncio.run(wait())


def triple(state: Any) -> tuple[object, object, object]:
    return state.status, state.transition, state.reason


def fields_of(kind: Any) -> set[str]:
    return {each.name for each in fields(kind)}


def members_of(kind: type[Enum]) -> set[str]:
    return {str(each.value) for each in kind}


def tool(name: str) -> AgentToolDescriptor:
    return discover_agent_tools(Tools).by_schema_name(name)


def risk_of(effects: ToolEffects) -> tuple[list[str], bool]:
    metadata = AgentToolMetadata(
        effects=effects, data_access=effects.data_access, externality=effects.externality
    )
    return [axis.value for axis in metadata.risk.axes], metadata.requires_approval_candidate


async def _consumed(signals: Sequence[AgentSignal], **limits: Any) -> tuple[list[str], list[str]]:
    store = MemoryStore()
    await store.states.save(STATE)
    for each in signals:
        await store.signals.append(each)
    batch = await consume_pending_agent_signals(store.signals, "run-1", **limits)
    left = await store.signals.list_pending("run-1")
    return [each.id for each in batch.signals], [each.id for each in left]


def consumed(*signals: AgentSignal, **limits: Any) -> tuple[list[str], list[str]]:
    return asyncio.run(_consumed(signals, **limits))


def _defined(source: str, name: str) -> Any:
    space = {**globals(), **_TYPING}
    source = f"from __future__ import annotations\n{source}"
    exec(compile(source, "table", "exec", dont_inherit=True), space)  # noqa: S102 - the text is the table's own
    return space[name]


def agent_of(method: str) -> Any:
    return _defined(f"@Agent()\nclass Made:\n    '''Do.'''\n    {method}\n", "Made")


def _tool_of(parameters: str, returns: str) -> Any:
    arrow = f" -> {returns}" if returns else ""
    source = f"class Made:\n    @agent_tool\n    def made(self, {parameters}){arrow}: ...\n"
    return _defined(source, "Made")


def input_of(parameters: str) -> object:
    return discover_agent_tools(_tool_of(parameters, "str")).by_schema_name("made").schema.input_schema


def output_of(returns: str) -> object:
    return discover_agent_tools(_tool_of("", returns)).by_schema_name("made").schema.output_schema


def schema_of(annotation: str) -> Any:
    schema: Any = input_of(f"a: {annotation}")
    return schema["properties"]["a"]


def paths_of(parameters: str) -> list[tuple[str, ...]]:
    descriptor = discover_agent_tools(_tool_of(parameters, "str")).by_schema_name("made")
    return [each.path for each in descriptor.schema.input_sensitive_fields]


def bound(parameters: str, payload: Any) -> tuple[object, object]:
    invocation = bind_agent_tool_invocation(_tool_of(parameters, "str").made, payload)
    return invocation.args, dict(invocation.kwargs)


def text_of_missing() -> str:
    try:
        AgentBootstrapValidationPostProcessor().post_process(SampleAgent(None))  # type: ignore[arg-type]
    except AgentPersistenceConfigurationError as error:
        return str(error)
    return ""


def dropped(*path: str) -> SensitiveFieldDescriptor:
    return SensitiveFieldDescriptor(path, SensitiveField(PII.NAME, redaction=RedactionPolicy.DROP))


def streamed(*chunks: str) -> str:
    session = StreamingRedactionSession(StreamingRedactionPolicy((DIGITS,)))
    parts = [part for chunk in chunks for part in session.push(chunk).chunks]
    return "".join([*parts, *session.finish().chunks])


def finished() -> StreamingRedactionSession:
    session = StreamingRedactionSession(StreamingRedactionPolicy((DIGITS,)))
    session.finish()
    return session


def pack(**changes: Any) -> ContextPack:
    return ContextPack("pack-1", "words", "docs", ContextPackRole.EVIDENCE, **changes)


def event(kind: str, **parts: Any) -> ModelStreamEvent:
    return ModelStreamEvent(ModelStreamEventKind(kind), **parts)


def ended(text: str, *calls: ModelToolCall) -> ModelStreamEvent:
    return event("done", response=ModelResponse(text, tool_calls=calls))


def captured(result: Any, descriptor: SensitiveFieldDescriptor) -> AgentEvidenceCandidate:
    return AgentEvidenceCandidate.tool_result(
        tool_identity="m.Q:n",
        tool_schema_name="n",
        result=result,
        capture=EvidenceCapture.STRUCTURED,
        sensitive_fields=(descriptor,),
    )


def of_tool(**changes: Any) -> AgentApprovalRequest:
    return AgentApprovalRequest.from_tool_descriptor(
        approval_id="q1", agent_state_id="run-1", descriptor=tool("pay"), **changes
    )


def plan_of(name: str) -> object:
    return plan_agent_tool_approval(
        descriptor=tool(name), approval_id="q1", agent_state_id="run-1", agent_type="a"
    )


def decided(**payload: Any) -> Any:
    signal = AgentSignal("s", "run-1", AgentSignalKind.APPROVAL_DECISION, payload)
    return parse_agent_approval_decision_signal(signal, request=REQUEST)


def materialized(decision: str) -> tuple[object, ...]:
    changed = {"modified_payload": {"to": "Eve"}} if decision == "modify" else {}
    outcome = decided(request_id="q1", decision=decision, **changed)
    state = materialize_agent_approval_decision_state(REQUEST.to_state(agent_type="a"), outcome)
    return *triple(state), state.current_activity


def cleaning(target_ref: str) -> AgentCancellationCleanupTask:
    async def clean_up(asked: AgentCancellationRequest) -> AgentCancellationCleanupResult:
        return AgentCancellationCleanupResult.succeeded(target_kind=TOOL_TARGET, target_ref=target_ref)

    return AgentCancellationCleanupTask(TOOL_TARGET, "t", clean_up)


def breaking() -> AgentCancellationCleanupTask:
    async def clean_up(asked: AgentCancellationRequest) -> AgentCancellationCleanupResult:
        raise ValueError(asked.target_ref)

    return AgentCancellationCleanupTask(TOOL_TARGET, "t", clean_up)


def _boundary(kind: str, idempotency: str | None, stage: AgentActionBoundaryStage) -> AgentEvidence:
    kinds = {
        "tool": AgentActionKind.TOOL_CALL,
        "model": AgentActionKind.MODEL_CALL,
        "approval": AgentActionKind.APPROVAL_WAIT,
    }
    known = Idempotency(idempotency or "non_idempotent")
    checkpoint = AgentActionBoundaryCheckpoint("a", kinds[kind], stage, known)
    candidate = checkpoint.to_evidence_candidate()
    return candidate.to_evidence(evidence_id=f"e-{stage.value}", agent_state_id="run-1")


def before(kind: str, idempotency: str | None) -> AgentEvidence:
    return _boundary(kind, idempotency, AgentActionBoundaryStage.BEFORE)


def after(kind: str, idempotency: str | None) -> AgentEvidence:
    return _boundary(kind, idempotency, AgentActionBoundaryStage.AFTER)


def resumed(status: str, *evidence: AgentEvidence) -> tuple[object, object]:
    plan = plan_agent_resume(replace(STATE, status=AgentStatus(status)), evidence)
    return plan.action.value, plan.boundary.action_id if plan.boundary else None


def projected(*events: Any) -> list[str]:
    projector = AgUiProjector()
    frames = [frame for each in events for frame in projector.project(each)]
    return [str(frame.type.value) for frame in [*frames, *projector.finish()]]


_TYPING: Mapping[str, object] = {
    **{name: getattr(pilotage.agent, name) for name in pilotage.agent.__all__},
    **{name: getattr(__import__("typing"), name) for name in ("Annotated", "Any", "Literal")},
    **{
        name: __import__("collections.abc").abc.__dict__[name]
        for name in ("AsyncGenerator", "Callable", "Generator", "Mapping", "Sequence")
    },
}

NAMES: Mapping[str, object] = {
    **{name: getattr(pilotage.adapters.agui, name) for name in pilotage.adapters.agui.__all__},
    **globals(),
    **{name: getattr(pilotage.agent, name) for name in pilotage.agent.__all__},
    "AgentRunner": AgentRunner,
    "AgentRuns": AgentRuns,
    "Decimal": Decimal,
    "date": date,
    "datetime": datetime,
    "NOON": datetime(2026, 1, 1, 12, tzinfo=UTC),
    "SECOND": timedelta(seconds=1),
    "TrustLabel": TrustLabel,
    "CallerError": CallerError,
    "DraftAndRevise": DraftAndRevise,
    "Colleague": Colleague,
    "Compressing": Compressing,
    "Callable": Callable,
}

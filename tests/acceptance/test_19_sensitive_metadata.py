"""Use case 19: a field that is marked once is known as sensitive in schema, context, evidence, stream and answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pilotage import (
    PII,
    Agent,
    AgentExecutionSpec,
    Application,
    MaskingPolicy,
    Pod,
    RecoveryStrategy,
    RunContext,
    SensitiveField,
    StreamingExposureMode,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import (
    AgentEvidenceCandidate,
    AgentEvidenceKind,
    IAgentOutputGuard,
    MessageDeltaEvent,
    discover_agent_tools,
)
from pilotage.errors import AgentOutputGuardError
from pilotage.jsonvalue import JsonValue
from pilotage.models import OfflineModel
from pilotage.runtime import AgentRuns
from pilotage.safety import ContextExposurePolicy

IBAN = "DE00123456789"
Account = Annotated[str, SensitiveField(PII.ACCOUNT_ID, masking=MaskingPolicy.LAST_FOUR)]


@dataclass(frozen=True)
class Customer:
    name: str
    iban: Account


@Pod
class Customers:
    @agent_tool(effects=ToolEffects.read_only())
    async def lookup(self, name: str) -> Customer:
        """Look a customer up."""
        return Customer(name, IBAN)

    @agent_tool(effects=ToolEffects.read_only())
    async def balance(self, iban: Account) -> str:
        """The balance of an account."""
        return "12.50"


@Pod
class NoNames(IAgentOutputGuard):
    async def check(self, context: RunContext, output: JsonValue) -> JsonValue:
        if context.metadata.get("is_public"):
            raise AgentOutputGuardError("no names in public")
        return output


@Agent(
    spec=AgentExecutionSpec(
        recovery=RecoveryStrategy.ACTION_BOUNDARY,
        streaming_exposure_mode=StreamingExposureMode.NO_STREAM_UNTIL_FINAL_GUARDED,
    )
)
class Clerk:
    """Look customers up."""

    def __init__(self, customers: Customers) -> None:
        self.customers = customers


def test_the_schema_may_say_so() -> None:
    schema = discover_agent_tools(Customers).by_schema_name("balance").schema
    shown = schema.input_schema_for(ContextExposurePolicy(include_sensitive_schema_metadata=True))
    (mark,) = shown["properties"]["iban"]["x-pilotage-sensitive"]  # type: ignore[index, call-overload]
    assert mark["path"] == ["iban"]  # type: ignore[index, call-overload]
    assert mark["field"]["category"] == "account_id"  # type: ignore[index, call-overload]
    assert "x-pilotage-sensitive" not in str(schema.input_schema)


async def test_the_program_gets_the_value_and_everybody_else_the_mask(ports: tuple[object, ...]) -> None:
    async with Application("bank").add(Clerk, Customers, NoNames, OfflineModel, *ports).load_plugins() as app:
        runs = app.get(AgentRuns)
        run = await runs.start(Clerk, "lookup Ada")
        events = [event async for event in run.events()]
        answer = "".join(event.delta for event in events if isinstance(event, MessageDeltaEvent))
        assert "iban: ***6789" in answer
        assert IBAN not in str(events)
        tools = [each for each in await runs.evidence(run.id) if each.kind is AgentEvidenceKind.TOOL]
        assert tools[-1].payload["result"] == {"iban": "***6789", "name": "Ada"}


def test_evidence_that_is_made_by_hand_says_which_fields_are_masked() -> None:
    tool = discover_agent_tools(Customers).by_schema_name("lookup")
    evidence = AgentEvidenceCandidate.tool_result(
        tool_identity=tool.identity.key,
        tool_schema_name="lookup",
        result={"name": "Ada", "iban": IBAN},
        capture=tool.metadata.evidence,
        sensitive_fields=tool.schema.output_sensitive_fields,
    )
    assert evidence.payload["result"] == {"name": "Ada", "iban": "***6789"}
    assert [each.path for each in evidence.sensitive_fields] == [("iban",)]


async def test_the_output_guard_has_the_last_word(ports: tuple[object, ...]) -> None:
    async with Application("bank").add(Clerk, Customers, NoNames, OfflineModel, *ports).load_plugins() as app:
        run = await app.get(AgentRuns).start(Clerk, "lookup Ada", metadata={"is_public": True})
        events = [event async for event in run.events()]
        assert not any(isinstance(event, MessageDeltaEvent) for event in events)
        assert events[-1].error["message"] == "AgentOutputGuardError: no names in public"  # type: ignore[union-attr]

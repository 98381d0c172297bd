"""Discovering the tools of a class and finding them again."""

import inspect
import subprocess
import sys
from decimal import Decimal
from typing import Annotated, Any

import pytest

from pilotage.agent.tools.catalog import (
    AgentToolCatalog,
    AgentToolDescriptor,
    ToolBinding,
    discover_agent_tools,
)
from pilotage.agent.tools.context import AgentToolRuntimeContext
from pilotage.agent.tools.declare import agent_tool
from pilotage.agent.tools.described import IAgentToolProvider
from pilotage.agent.tools.metadata import Idempotency, ToolEffects
from pilotage.agent.tools.schema import AgentToolIdentity
from pilotage.errors import AgentToolBindingError
from pilotage.safety.fields import PII, SecretField, SensitiveField
from pilotage.safety.guard import ContextExposurePolicy


class Payments:
    @agent_tool(
        schema_name="payments.pay",
        effects=ToolEffects.external_side_effect(),
        idempotency=Idempotency.CONDITIONALLY_IDEMPOTENT,
        reconcile="find_payment",
    )
    async def pay(
        self,
        to: Annotated[str, SensitiveField(PII.ACCOUNT_ID)],
        amount: Decimal,
        api_key: Annotated[str, SecretField()],
        runtime_context: AgentToolRuntimeContext,
    ) -> str:
        """Pay an amount to an account."""
        return f"{amount} to {to} with {api_key} ({runtime_context.idempotency_key})"

    async def find_payment(self, idempotency_key: str) -> str | None: ...

    @agent_tool(effects=ToolEffects.read_only())
    def balance(self) -> Decimal:
        return Decimal(0)

    @agent_tool
    @staticmethod
    def currency(country: str) -> str:
        return f"money of {country}"

    @classmethod
    @agent_tool
    def kind(cls, loud: bool = False) -> str:
        return cls.__name__.upper() if loud else cls.__name__

    def helper(self, anything: Any) -> Any: ...

    constant = 5


class StrictPayments(Payments):
    def balance(self) -> Decimal:
        return Decimal(1)

    @agent_tool
    def kind(self, word: str) -> str:
        return word

    @agent_tool
    def audit(self) -> str:
        return "fine"


def tool(name: str, owner: type = Payments) -> AgentToolDescriptor:
    return discover_agent_tools(owner).by_schema_name(name)


def test_tools_are_found_whatever_kind_of_method_they_are() -> None:
    found = discover_agent_tools(Payments).descriptors
    assert [(each.name, each.binding) for each in found] == [
        ("balance", ToolBinding.INSTANCE),
        ("currency", ToolBinding.NOTHING),
        ("kind", ToolBinding.CLASS),
        ("pay", ToolBinding.INSTANCE),
    ]


def test_a_descriptor_holds_everything_about_a_tool() -> None:
    pay = tool("payments.pay")
    assert pay.identity == AgentToolIdentity(__name__, "Payments", "pay")
    assert pay.identity.key == f"{__name__}.Payments:pay"
    assert pay.owner is Payments
    assert pay.callable is inspect.getattr_static(Payments, "pay")
    assert pay.description == "Pay an amount to an account."
    assert pay.schema.input_schema_name == "payments.pay.input"
    assert pay.schema.input_schema == {
        "type": "object",
        "title": "payments.pay.input",
        "properties": {"to": {"type": "string"}, "amount": {"type": "string", "format": "decimal"}},
        "additionalProperties": False,
        "required": ["to", "amount"],
    }
    assert pay.schema.output_schema == {"title": "payments.pay.output", "type": "string"}
    assert pay.secrets == {"api_key": SecretField()}
    assert pay.takes_runtime_context
    assert pay.effective_idempotency is Idempotency.CONDITIONALLY_IDEMPOTENT


def test_reading_is_repeatable_and_a_bare_tool_is_not() -> None:
    assert tool("balance").effective_idempotency is Idempotency.IDEMPOTENT
    assert tool("currency").effective_idempotency is Idempotency.UNKNOWN


def test_an_override_hides_or_replaces_the_tool_of_a_base() -> None:
    found = discover_agent_tools(StrictPayments).descriptors
    assert [each.identity.key for each in found] == [
        f"{__name__}.Payments:currency",
        f"{__name__}.Payments:pay",
        f"{__name__}.StrictPayments:audit",
        f"{__name__}.StrictPayments:kind",
    ]


def test_a_tool_added_later_is_found_later() -> None:
    class Growing:
        pass

    assert discover_agent_tools(Growing) == AgentToolCatalog()
    Growing.grow = agent_tool(lambda_free)  # type: ignore[attr-defined]
    assert [each.name for each in discover_agent_tools(Growing).descriptors] == ["lambda_free"]


def lambda_free(self: object, word: str) -> str:
    return word


def test_an_approval_shows_what_would_run_and_guards_it() -> None:
    context = tool("payments.pay").approval_context({"to": "DE-4711", "amount": 1})
    assert context.prompt == 'Approve payments.pay with {"amount":"1","to":"[REDACTED]"}?'
    assert context.action_ref == f"{__name__}.Payments:pay"
    assert context.metadata == {
        "tool_identity": f"{__name__}.Payments:pay",
        "tool_schema_name": "payments.pay",
        "tool_name": "pay",
        "risk_axes": ["read", "write", "side_effect", "network"],
        "arguments": {"to": "[REDACTED]", "amount": "1"},
    }


def test_an_approval_is_not_asked_for_arguments_that_do_not_fit() -> None:
    with pytest.raises(AgentToolBindingError):
        tool("payments.pay").approval_context({"to": 1})


def test_a_schema_shows_its_sensitive_places_only_when_asked_to() -> None:
    schema = tool("payments.pay").schema
    assert schema.input_schema_for() is schema.input_schema
    assert schema.output_schema_for() is schema.output_schema
    marked: Any = schema.input_schema_for(ContextExposurePolicy(include_sensitive_schema_metadata=True))
    assert marked["properties"]["to"]["x-pilotage-sensitive"][0]["field"]["category"] == "account_id"


def test_catalogs_merge_and_share_what_they_have_in_common() -> None:
    strict, plain = discover_agent_tools(StrictPayments), discover_agent_tools(Payments)
    shared = AgentToolCatalog(strict.descriptors[:2])
    merged = AgentToolCatalog.merge(plain, shared)
    assert merged.descriptors == plain.descriptors


def test_a_tool_is_found_by_its_identity() -> None:
    catalog = discover_agent_tools(Payments)
    pay = catalog.by_schema_name("payments.pay")
    assert catalog.by_identity(AgentToolIdentity(__name__, "Payments", "pay")) is pay


def test_a_provider_offers_a_catalog() -> None:
    class Remote(IAgentToolProvider):
        @property
        def tool_catalog(self) -> AgentToolCatalog:
            return discover_agent_tools(Payments)

    assert Remote().tool_catalog.by_schema_name("balance").name == "balance"


PROGRAM = """
import sys
from pilotage.agent.tools import agent_tool, discover_agent_tools

class Docs:
    @agent_tool
    def search(self, query: str, limit: int = 5) -> list[str]: ...

catalog = discover_agent_tools(Docs)
assert not [name for name in sys.modules if name.startswith("pydantic")]
catalog.by_schema_name("search").bind_invocation({"query": "a"})
assert "pydantic_core" in sys.modules
assert "pydantic" not in sys.modules
"""


def test_pydantic_is_imported_when_it_is_needed_and_not_before() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)  # noqa: S603

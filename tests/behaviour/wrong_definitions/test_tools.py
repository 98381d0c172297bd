"""Wrong tools: what each mistake is answered with, word for word."""

import functools
import io
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from dataclasses import InitVar, dataclass
from enum import Enum
from pathlib import Path
from typing import IO, Annotated, Any, Dict, Generic, List, Literal, TypeVar  # noqa: UP035

import pytest
from pydantic import BaseModel, Field

from pilotage.agent.tools import (
    AgentToolApprovalContext,
    AgentToolCatalog,
    AgentToolDefinition,
    AgentToolIdentity,
    AgentToolMetadata,
    AgentToolRuntimeContext,
    AgentToolSchemaHandle,
    ResultBudget,
    TimeoutPolicy,
    ToolEffects,
    ToolPermission,
    ToolRisk,
    ToolRiskAxis,
    agent_tool,
    bind_agent_tool_invocation,
    discover_agent_tools,
    get_agent_tool_definition,
)
from pilotage.errors import AgentDefinitionError, AgentToolBindingError
from pilotage.safety.fields import PII, SecretField, SensitiveField

T = TypeVar("T")
CASES: list[Any] = []


def wrong(message: str, error: type[Exception] = AgentDefinitionError) -> Callable[[Any], Any]:
    """Register a mistake with the answer it must get."""

    def register(mistake: Callable[[], object]) -> Callable[[], object]:
        CASES.append(pytest.param(mistake, error, message, id=mistake.__name__))
        return mistake

    return register


def offer(tool: Callable[..., object]) -> AgentToolCatalog:
    """Put a tool on a class called Payments and discover it there."""
    tool.__qualname__ = "Payments.pay"
    return discover_agent_tools(type("Payments", (), {"pay": agent_tool(tool)}))


@dataclass
class Loose:
    extra: dict  # type: ignore[type-arg]


@dataclass
class Card:
    cvc: Annotated[str, SecretField()]


@dataclass
class Unborn:
    id: str
    seed: InitVar[int]


@dataclass
class Lost:
    home: "Nowhere"  # noqa: F821


@dataclass
class Box(Generic[T]):
    inner: "Box[list[T]] | None" = None


class Plain:
    pass


class Shade(Enum):
    DARK = object()


class Hue(Enum):
    RED = "red"


class Nothing(Enum):
    pass


class Odd(BaseModel):
    handler: Callable[[], None]


@wrong(
    "Payments.pay: parameter 'options' is untyped (dict). Write dict[str, str], a TypedDict, a dataclass or a pydantic model."
)
def an_untyped_dict() -> None:
    def pay(self, options: dict) -> None: ...

    offer(pay)


@wrong("Payments.pay: parameter 'rows' is untyped (list). Write list[str], or a list of dataclasses.")
def an_untyped_list() -> None:
    def pay(self, rows: list) -> None: ...

    offer(pay)


@wrong("Payments.pay: parameter 'rows' is untyped (list). Write list[str], or a list of dataclasses.")
def an_untyped_typing_list() -> None:
    def pay(self, rows: List) -> None: ...  # noqa: UP006

    offer(pay)


@wrong(
    "Payments.pay: parameter 'rows' is untyped (dict). Write dict[str, str], a TypedDict, a dataclass or a pydantic model."
)
def an_untyped_typing_dict() -> None:
    def pay(self, rows: Dict) -> None: ...  # noqa: UP006

    offer(pay)


@wrong("Payments.pay: parameter 'rows' is untyped (tuple). Write tuple[str, ...], or tuple[str, int].")
def an_untyped_tuple() -> None:
    def pay(self, rows: tuple) -> None: ...

    offer(pay)


@wrong("Payments.pay: parameter 'rows' is untyped (Sequence). Write Sequence[str].")
def an_untyped_sequence() -> None:
    def pay(self, rows: Sequence) -> None: ...

    offer(pay)


@wrong("Payments.pay: parameter 'rows' is untyped (set). Write set[str].")
def an_untyped_set() -> None:
    def pay(self, rows: set) -> None: ...

    offer(pay)


@wrong(
    "Payments.pay: parameter 'orders' (field Loose.extra) is untyped (dict). Write dict[str, str], a TypedDict, a dataclass or a pydantic model."
)
def an_untyped_field_deep_inside() -> None:
    def pay(self, orders: list[Loose]) -> None: ...

    offer(pay)


@wrong("Payments.pay: parameter 'amount' has no annotation. Write its type, such as 'amount: str'.")
def a_parameter_without_annotation() -> None:
    def pay(self, amount) -> None: ...

    offer(pay)


@wrong("Payments.pay: the return value has no annotation. Write '-> None', or the type the function returns.")
def a_missing_return_annotation() -> None:
    def pay(self, amount: int): ...

    offer(pay)


@wrong(
    "Payments.pay: parameter 'what' is Any. Write the type it has; for arbitrary JSON write pilotage.jsonvalue.JsonValue."
)
def any_as_parameter() -> None:
    def pay(self, what: Any) -> None: ...

    offer(pay)


@wrong(
    "Payments.pay: the return value is object. Write the type it has; for arbitrary JSON write pilotage.jsonvalue.JsonValue."
)
def object_as_result() -> None:
    def pay(self) -> object: ...

    offer(pay)


@wrong("Payments.pay: parameter 'prices' has keys of type int. JSON keys are text: write dict[str, ...].")
def keys_that_are_not_text() -> None:
    def pay(self, prices: dict[int, str]) -> None: ...

    offer(pay)


@wrong("Payments.pay: parameter 'then' is a callable. JSON holds data: take a name or a Literal.")
def a_callable() -> None:
    def pay(self, then: Callable[[], None]) -> None: ...

    offer(pay)


@wrong(
    "Payments.pay: the return value is a stream (AsyncGenerator[str, None]). Write list[...] and hand over the finished list."
)
def a_stream_as_result() -> None:
    def pay(self) -> AsyncGenerator[str, None]: ...

    offer(pay)


@wrong(
    "Payments.pay: parameter 'rows' is a stream (Iterator[str]). Write list[...] and hand over the finished list."
)
def an_iterator() -> None:
    def pay(self, rows: Iterator[str]) -> None: ...

    offer(pay)


@wrong("Payments.pay: the return value is an awaitable (Awaitable[str]). Write the type of what is awaited.")
def an_awaitable_as_result() -> None:
    def pay(self) -> Awaitable[str]: ...

    offer(pay)


@wrong(
    "Payments.pay: parameter 'receipt' is a file (IO[str]). Take a name as str and open the file inside the tool."
)
def a_file() -> None:
    def pay(self, receipt: IO[str]) -> None: ...

    offer(pay)


@wrong(
    "Payments.pay: parameter 'receipt' is a file (StringIO). Take a name as str and open the file inside the tool."
)
def a_file_class() -> None:
    def pay(self, receipt: io.StringIO) -> None: ...

    offer(pay)


@wrong(
    "Payments.pay: parameter 'document' is bytes. JSON has no bytes: write str, and encode them as base64."
)
def bytes_as_parameter() -> None:
    def pay(self, document: bytes) -> None: ...

    offer(pay)


@wrong("Payments.pay: parameter 'kind' is a class (type[int]). JSON holds data: take a name or a Literal.")
def a_class_as_parameter() -> None:
    def pay(self, kind: type[int]) -> None: ...

    offer(pay)


@wrong(
    "Payments.pay: parameter 'order' is Plain, a plain class. Write a dataclass, a TypedDict or a pydantic model."
)
def a_plain_class() -> None:
    def pay(self, order: Plain) -> None: ...

    offer(pay)


@wrong("Payments.pay: parameter 'place' is Path. Take it as str and make the path inside the tool.")
def a_path() -> None:
    def pay(self, place: Path) -> None: ...

    offer(pay)


@wrong("Payments.pay: parameter 'thing' is the type variable T. Write a concrete type.")
def a_type_variable() -> None:
    def pay(self, thing: T) -> None: ...

    offer(pay)


@wrong(
    "Payments.pay: parameter 'shade' is the enum Shade, whose member 'DARK' is no text, number, bool or None. Give the members plain values."
)
def an_enum_of_objects() -> None:
    def pay(self, shade: Shade) -> None: ...

    offer(pay)


@wrong("Payments.pay: parameter 'choice' is the enum Nothing, which is empty. Give it members.")
def an_enum_without_members() -> None:
    def pay(self, choice: Nothing) -> None: ...

    offer(pay)


@wrong(
    "Payments.pay: parameter 'hue' is a Literal with <Hue.RED: 'red'>. Use texts, numbers, bools or None in a Literal, or write the enum itself."
)
def a_literal_of_enum_members() -> None:
    def pay(self, hue: Literal[Hue.RED]) -> None: ...

    offer(pay)


@wrong(
    "Payments.pay: parameter 'order' has an annotation that cannot be resolved: name 'Missing' is not defined. Define or import every name it uses at the top level of the module."
)
def a_name_that_does_not_exist() -> None:
    def pay(self, order: "Missing") -> None: ...  # noqa: F821

    offer(pay)


@wrong(
    "Payments.pay: parameter 'where' has an annotation that cannot be resolved: name 'Nowhere' is not defined (in Lost). Define or import every name it uses at the top level of the module."
)
def a_name_that_does_not_exist_in_a_dataclass() -> None:
    def pay(self, where: Lost) -> None: ...

    offer(pay)


@wrong("Payments.pay: parameter 'box' (field Box.inner) nests without end. Let it contain itself unchanged.")
def a_type_that_grows_as_it_nests() -> None:
    def pay(self, box: Box[int]) -> None: ...

    offer(pay)


@wrong(
    "Payments.pay: parameter 'order' is Unborn, whose constructor needs 'seed', which is no field. Make it a field, or give it a default."
)
def a_dataclass_with_a_hidden_parameter() -> None:
    def pay(self, order: Unborn) -> None: ...

    offer(pay)


@wrong(
    "Payments.pay: parameter 'odd' has no schema in pydantic: Cannot generate a JsonSchema for core_schema.CallableSchema. Write a type that has one."
)
def a_model_that_has_no_schema() -> None:
    def pay(self, odd: Odd) -> None: ...

    offer(pay)


@wrong(
    "Payments.pay: parameter 'to' has the limit 'ge', which means nothing for str. Move the limit to the type it is about, or remove it."
)
def a_limit_that_means_nothing() -> None:
    def pay(self, to: Annotated[str, Field(ge=1)]) -> None: ...

    offer(pay)


@wrong(
    "Payments.pay: parameter 'to' has the limit 'min_length', which means nothing for int. Move the limit to the type it is about, or remove it."
)
def a_limit_on_the_members_of_a_union() -> None:
    def pay(self, to: Annotated[str | int, Field(min_length=1)]) -> None: ...

    offer(pay)


@wrong(
    "Payments.pay: parameter 'limit' has the default None, which its type int does not allow. Write int | None."
)
def a_default_of_none_that_the_type_refuses() -> None:
    def pay(self, limit: int = None) -> None: ...  # noqa: RUF013

    offer(pay)


@wrong(
    "Payments.pay: parameter 'limit' has Field(...) as its default. Write Annotated[<type>, Field(...)] = <default> instead."
)
def a_field_as_default() -> None:
    def pay(self, limit: int = Field(5, ge=1)) -> None: ...

    offer(pay)


@wrong("Payments.pay: parameter 'to' is positional-only. Arguments come by name: remove the '/'.")
def a_positional_only_parameter() -> None:
    def pay(self, to: str, /) -> None: ...

    offer(pay)


@wrong(
    "Payments.pay: parameter 'to' takes any number of arguments (*). Write one parameter of type list[...]."
)
def any_number_of_arguments() -> None:
    def pay(self, *to: str) -> None: ...

    offer(pay)


@wrong(
    "Payments.pay: parameter 'options' takes any names (**). Write the parameters one by one, or one of type dict[str, ...]."
)
def any_names() -> None:
    def pay(self, **options: str) -> None: ...

    offer(pay)


@wrong(
    "Payments.pay: parameter 'card' holds a secret in 'card.cvc', which the model would have to write. Make the secret a parameter of its own."
)
def a_secret_inside_a_parameter() -> None:
    def pay(self, card: Card) -> None: ...

    offer(pay)


@wrong(
    "Payments.pay: parameter 'phones' has keys of type Annotated[str, ...]. JSON keys are text: write dict[str, ...]."
)
def sensitive_keys() -> None:
    def pay(self, phones: dict[Annotated[str, SensitiveField(PII.PHONE)], str]) -> None: ...

    offer(pay)


@wrong(
    "Payments.pay: parameter 'runtime_context' mixes up the runtime context. Write 'runtime_context: AgentToolRuntimeContext', name and type."
)
def a_runtime_context_of_another_type() -> None:
    def pay(self, runtime_context: str) -> None: ...

    offer(pay)


@wrong(
    "Payments.pay: parameter 'context' mixes up the runtime context. Write 'runtime_context: AgentToolRuntimeContext', name and type."
)
def a_runtime_context_of_another_name() -> None:
    def pay(self, context: AgentToolRuntimeContext) -> None: ...

    offer(pay)


@wrong(
    "Shop.pay: parameter 'rest' takes any number of arguments (*). Write one parameter of type list[...].\nShop.pay: parameter 'options' is untyped (dict). Write dict[str, str], a TypedDict, a dataclass or a pydantic model.\nShop.pay: the return value is Any. Write the type it has; for arbitrary JSON write pilotage.jsonvalue.JsonValue.\nShop.ship: parameter 'to' has no annotation. Write its type, such as 'to: str'."
)
def several_mistakes_at_once() -> None:
    class Shop:
        @agent_tool
        def pay(self, options: dict, *rest: int) -> Any: ...

        @agent_tool
        def ship(self, to) -> None: ...

    discover_agent_tools(Shop)


@wrong(
    "Payments.pay: reconcile names 'find_payment', which is no method of Payments. Write 'async def find_payment(self, idempotency_key: str) -> ...'."
)
def a_reconcile_method_that_does_not_exist() -> None:
    class Payments:
        @agent_tool(reconcile="find_payment")
        def pay(self, to: str) -> None: ...

    discover_agent_tools(Payments)


@wrong(
    "Payments.pay: reconcile names 'find_payment', which does not take exactly one 'idempotency_key: str'. Write 'async def find_payment(self, idempotency_key: str) -> ...'."
)
def a_reconcile_method_without_the_key() -> None:
    class Payments:
        @agent_tool(reconcile="find_payment")
        def pay(self, to: str) -> None: ...

        def find_payment(self, idempotency_key: int) -> None: ...

    discover_agent_tools(Payments)


@wrong(
    "Payments.pay: reconcile names 'find_payment', which does not take exactly one 'idempotency_key: str'. Write 'async def find_payment(self, idempotency_key: str) -> ...'."
)
def a_reconcile_method_that_asks_for_more() -> None:
    class Payments:
        @agent_tool(reconcile="find_payment")
        def pay(self, to: str) -> None: ...

        def find_payment(self, idempotency_key: str, account: str) -> None: ...

    discover_agent_tools(Payments)


@wrong(
    "Payments.pay: reconcile names 'find_payment', which does not take exactly one 'idempotency_key: str'. Write 'async def find_payment(self, idempotency_key: str) -> ...'."
)
def a_reconcile_method_with_an_unknown_type() -> None:
    class Payments:
        @agent_tool(reconcile="find_payment")
        def pay(self, to: str) -> None: ...

        def find_payment(self, idempotency_key: "Key") -> None: ...  # noqa: F821

    discover_agent_tools(Payments)


@wrong("pay: agent_tool.name is blank. Give it at least one visible character.")
def a_blank_name() -> None:
    @agent_tool(name=" ")
    def pay(to: str) -> None: ...


@wrong("pay: agent_tool.schema_name is blank. Give it at least one visible character.")
def a_blank_schema_name() -> None:
    @agent_tool(schema_name="")
    def pay(to: str) -> None: ...


@wrong("pay: agent_tool.description is blank. Give it at least one visible character.")
def a_blank_description() -> None:
    @agent_tool(description="\n")
    def pay(to: str) -> None: ...


@wrong("pay: agent_tool.timeout is 10. Give it a value of type TimeoutPolicy.")
def a_number_as_timeout() -> None:
    @agent_tool(timeout=10)
    def pay(to: str) -> None: ...


@wrong("pay: agent_tool.effects is 'ToolEffects.read_only'. Call it: ToolEffects.read_only().")
def a_function_as_effects() -> None:
    @agent_tool(effects=ToolEffects.read_only)
    def pay(to: str) -> None: ...


@wrong("pay: agent_tool.idempotency is 'idempotent'. Give it a value of type Idempotency.")
def a_text_as_idempotency() -> None:
    @agent_tool(idempotency="idempotent")
    def pay(to: str) -> None: ...


@wrong(
    "pay: agent_tool.permissions is ['payments.pay']. Give it a list of ToolPermission values, such as [ToolPermission('payments.pay')]."
)
def a_text_as_permission() -> None:
    @agent_tool(permissions=["payments.pay"])
    def pay(to: str) -> None: ...


@wrong(
    "pay: agent_tool.permissions is ToolPermission(name='payments.pay'). Give it a list of ToolPermission values, such as [ToolPermission('payments.pay')]."
)
def a_single_permission() -> None:
    @agent_tool(permissions=ToolPermission("payments.pay"))
    def pay(to: str) -> None: ...


@wrong("@agent_tool marks Plain, which is a class. Put it on a function or a method.")
def a_tool_that_is_a_class() -> None:
    agent_tool(Plain)


@wrong("@agent_tool marks Payments.pay, which is a property. Put it on a function or a method.")
def a_tool_that_is_a_property() -> None:
    class Payments:
        @agent_tool
        @property
        def pay(self) -> str: ...


@wrong("pay is a tool already. Put @agent_tool on it once.")
def a_tool_that_is_a_tool_already() -> None:
    @agent_tool
    @agent_tool
    def pay(to: str) -> None: ...


@wrong("Payments.pay is a tool under another decorator. Put @agent_tool on top of it.")
def a_tool_under_another_decorator() -> None:
    def traced(function: Callable[..., object]) -> Callable[..., object]:
        @functools.wraps(function)
        def call(*args: object) -> object:
            return function(*args)

        return call

    class Payments:
        @traced
        @agent_tool
        def pay(self, to: str) -> None: ...

    discover_agent_tools(Payments)


@wrong("pay is a generator. A tool has one result: return it, as a list if need be.")
def a_tool_that_is_a_generator() -> None:
    @agent_tool
    async def pay(to: str) -> AsyncGenerator[str, None]:
        yield to


@wrong(
    "pay: __pilotage_agent_tool_definition__ holds str, not an AgentToolDefinition. Declare the tool with @agent_tool and leave that attribute alone."
)
def a_definition_that_is_something_else() -> None:
    def pay(to: str) -> None: ...

    pay.__dict__["__pilotage_agent_tool_definition__"] = "mine"
    get_agent_tool_definition(pay)


@wrong("discover_agent_tools got 'Payments'. Give it the class, not an instance.")
def an_instance_instead_of_a_class() -> None:
    discover_agent_tools("Payments")


@wrong(
    "Files.read and Mails.read both offer the tool 'read'. Name one of them differently: @agent_tool(schema_name=...)."
)
def one_schema_name_for_two_tools() -> None:
    class Files:
        @agent_tool
        def read(self, name: str) -> str: ...

    class Mails:
        @agent_tool
        def read(self, number: int) -> str: ...

    AgentToolCatalog(discover_agent_tools(Files).descriptors + discover_agent_tools(Mails).descriptors)


@wrong(
    f"Two tools have the identity '{__name__}.one_identity_for_two_tools.<locals>.Files:read'. Name one of them differently: @agent_tool(name=...)."
)
def one_identity_for_two_tools() -> None:
    class Files:
        @agent_tool
        def read(self, name: str) -> str: ...

    descriptors = discover_agent_tools(Files).descriptors
    AgentToolCatalog(descriptors * 2)


@wrong("The catalog has no tool 'workspace.reed'. Did you mean 'workspace.read'?")
def an_unknown_schema_name() -> None:
    class Files:
        @agent_tool(schema_name="workspace.read")
        def read(self, name: str) -> str: ...

    discover_agent_tools(Files).by_schema_name("workspace.reed")


@wrong("The catalog has no tool 'read'. It is empty.")
def an_unknown_schema_name_in_an_empty_catalog() -> None:
    AgentToolCatalog().by_schema_name("read")


@wrong("AgentToolCatalog.by_schema_name.schema_name is blank. Give it at least one visible character.")
def a_blank_schema_name_to_look_up() -> None:
    AgentToolCatalog().by_schema_name(" ")


@wrong("The catalog has no tool 'shop.Mails:send'. It has 'read'.")
def an_unknown_identity() -> None:
    class Files:
        @agent_tool
        def read(self, name: str) -> str: ...

    discover_agent_tools(Files).by_identity(AgentToolIdentity("shop", "Mails", "send"))


@wrong("AgentToolIdentity.owner_qualname is blank. Give it at least one visible character.")
def a_blank_identity() -> None:
    AgentToolIdentity("shop", "", "pay")


@wrong("AgentToolSchemaHandle.output_schema_name is blank. Give it at least one visible character.")
def a_blank_schema_handle() -> None:
    AgentToolSchemaHandle("pay", "pay.input", " ")


@wrong("AgentToolDefinition.name is blank. Give it at least one visible character.")
def a_blank_definition() -> None:
    AgentToolDefinition("", "pay")


@wrong("ToolPermission has no name. Write ToolPermission('payments.pay'), or a subclass of it.")
def a_permission_without_a_name() -> None:
    ToolPermission()


@wrong("ToolPermission.name is blank. Give it at least one visible character.")
def a_blank_permission() -> None:
    ToolPermission(" ")


@wrong("TimeoutPolicy.seconds is 0. Use a positive number, or leave it out.")
def a_timeout_of_zero() -> None:
    TimeoutPolicy(0)


@wrong("ResultBudget.max_bytes is -1. Use a positive number, or leave it out.")
def a_negative_result_budget() -> None:
    ResultBudget(-1)


@wrong("ToolRisk.axes has 'read' twice. Name each axis once.")
def an_axis_named_twice() -> None:
    ToolRisk((ToolRiskAxis.READ, ToolRiskAxis.READ))


@wrong("AgentToolMetadata.reconcile is blank. Give it at least one visible character, or leave it out.")
def a_blank_reconcile() -> None:
    AgentToolMetadata(reconcile="")


@wrong("AgentToolRuntimeContext.call_id is blank. Give it at least one visible character.")
def a_blank_call_id() -> None:
    AgentToolRuntimeContext("state", "conversation", "", "pay")


@wrong("AgentToolRuntimeContext.attempt is 0. Use a positive number.")
def an_attempt_of_zero() -> None:
    AgentToolRuntimeContext("state", "conversation", "call", "pay", attempt=0)


@wrong("AgentToolApprovalContext.prompt is blank. Give it at least one visible character.")
def a_blank_approval_prompt() -> None:
    AgentToolApprovalContext("", "shop.Payments:pay")


@wrong("'pay' is no function. Bind arguments to a function or a method.", AgentToolBindingError)
def binding_to_something_that_is_no_function() -> None:
    bind_agent_tool_invocation("pay", {})


@wrong(
    "<method 'update' of 'dict' objects> is no function. Bind arguments to a function or a method.",
    AgentToolBindingError,
)
def binding_to_something_without_a_signature() -> None:
    bind_agent_tool_invocation(dict.update, {})


@pytest.mark.parametrize(("mistake", "error", "message"), CASES)
def test_a_mistake_is_answered_with_what_to_do(
    mistake: Callable[[], object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as raised:
        mistake()
    assert str(raised.value) == message

"""Marking functions as tools, and calling them inside and outside a run."""

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import pytest

from pilotage.agent.tools.declare import (
    AgentToolDefinition,
    ToolOptions,
    active_tool_calls,
    agent_tool,
    get_agent_tool_definition,
    original_function,
    tool_calls_go_to,
)
from pilotage.agent.tools.metadata import (
    AgentToolMetadata,
    DataAccess,
    EvidenceCapture,
    Externality,
    Idempotency,
    ResultBudget,
    TimeoutPolicy,
    ToolApprovalRequirement,
    ToolEffects,
    ToolPermission,
)


class Recorder:
    """Takes calls over and remembers them."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[object, ...], Mapping[str, object]]] = []

    def call(
        self, tool: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> object:
        self.calls.append((tool.__name__, args, kwargs))
        return original_function(tool)(*args, **kwargs)


class Docs:
    @agent_tool(effects=ToolEffects.read_only())
    def search(self, query: str, limit: int = 5) -> str:
        """Search the docs.

        Slowly.
        """
        return f"{query}:{limit}"

    @agent_tool
    async def fetch(self, page: int) -> str:
        return f"page {page}"

    @agent_tool
    @staticmethod
    def outer_static(word: str) -> str:
        return word

    @staticmethod
    @agent_tool
    def inner_static(word: str) -> str:
        return word

    @agent_tool
    @classmethod
    def outer_class(cls, word: str) -> str:
        return f"{cls.__name__} {word}"

    @classmethod
    @agent_tool
    def inner_class(cls, word: str) -> str:
        return f"{cls.__name__} {word}"


def test_a_tool_is_a_plain_function_of_the_same_signature() -> None:
    assert inspect.isfunction(Docs.search)
    assert str(inspect.signature(Docs.search)) == "(self, query: str, limit: int = 5) -> str"
    assert Docs.search.__qualname__ == "Docs.search"


def test_outside_a_run_a_tool_is_a_plain_call() -> None:
    docs = Docs()
    assert docs.search("a", limit=2) == "a:2"
    assert docs.outer_static("x") == docs.inner_static("x") == "x"
    assert docs.outer_class("x") == docs.inner_class("x") == "Docs x"


def test_an_async_tool_is_known_as_one_where_python_allows_it() -> None:
    assert inspect.iscoroutinefunction(Docs.fetch) is (sys.version_info >= (3, 12))
    assert not inspect.iscoroutinefunction(Docs.search)


async def test_outside_a_run_an_async_tool_is_awaited_as_usual() -> None:
    assert await Docs().fetch(3) == "page 3"


def test_inside_a_run_the_run_gets_the_call_with_the_instance() -> None:
    docs, run = Docs(), Recorder()
    with tool_calls_go_to(run):
        assert docs.search("a", limit=2) == "a:2"
    assert run.calls == [("search", (docs, "a"), {"limit": 2})]


async def test_the_run_gets_a_call_when_it_is_made_not_when_it_is_awaited() -> None:
    docs, run = Docs(), Recorder()
    with tool_calls_go_to(run):
        second, first = docs.fetch(2), docs.fetch(1)
        assert [args for _, args, _ in run.calls] == [(docs, 2), (docs, 1)]
    assert (await first, await second) == ("page 1", "page 2")


def test_after_a_run_calls_are_plain_again() -> None:
    run = Recorder()
    with tool_calls_go_to(run):
        pass
    Docs().search("a")
    assert active_tool_calls.get() is None
    assert run.calls == []


@pytest.mark.parametrize("name", ["outer_static", "inner_static", "outer_class", "inner_class"])
def test_a_run_sees_static_and_class_methods_too(name: str) -> None:
    run = Recorder()
    with tool_calls_go_to(run):
        assert getattr(Docs(), name)("x").endswith("x")
    assert [called for called, _, _ in run.calls] == [name]


def test_a_bare_tool_declares_next_to_nothing() -> None:
    def ping(host: str) -> None: ...

    definition = get_agent_tool_definition(agent_tool(ping))
    assert definition == AgentToolDefinition("ping", "ping", None, AgentToolMetadata())
    assert get_agent_tool_definition(ping) is None


def test_the_definition_is_kept_in_the_function_itself() -> None:
    definition = Docs.search.__dict__["__pilotage_agent_tool_definition__"]
    assert definition is get_agent_tool_definition(Docs.search)
    assert definition.description == "Search the docs."


def test_everything_that_is_declared_is_kept() -> None:
    @agent_tool(
        name="pay",
        schema_name="payments.pay",
        description="Pay.",
        permissions=[ToolPermission("payments")],
        effects=ToolEffects.external_side_effect(),
        idempotency=Idempotency.NON_IDEMPOTENT,
        data_access=DataAccess.WRITE,
        externality=Externality.UNKNOWN,
        timeout=TimeoutPolicy(10),
        result_budget=ResultBudget(1000),
        evidence=EvidenceCapture.RAW,
        approval=ToolApprovalRequirement.REQUIRED,
        reconcile="find",
        reads_untrusted=True,
        reads_private=True,
        communicates=False,
        accepts_untrusted=True,
    )
    def do_pay(to: str) -> None:
        """Not shown."""

    assert get_agent_tool_definition(do_pay) == AgentToolDefinition(
        "pay",
        "payments.pay",
        "Pay.",
        AgentToolMetadata(
            permissions=(ToolPermission("payments"),),
            effects=ToolEffects.external_side_effect(),
            idempotency=Idempotency.NON_IDEMPOTENT,
            data_access=DataAccess.WRITE,
            externality=Externality.UNKNOWN,
            timeout=TimeoutPolicy(10),
            result_budget=ResultBudget(1000),
            evidence=EvidenceCapture.RAW,
            approval=ToolApprovalRequirement.REQUIRED,
            reconcile="find",
            reads_untrusted=True,
            reads_private=True,
            communicates=False,
            accepts_untrusted=True,
        ),
    )


def test_options_that_are_left_out_declare_nothing() -> None:
    assert ToolOptions().metadata() == AgentToolMetadata()
    assert ToolOptions(effects=None, timeout=None, result_budget=None).metadata() == AgentToolMetadata()


def test_everything_that_can_be_declared_is_an_option() -> None:
    options = {each.name for each in fields(ToolOptions)} - {"name", "schema_name", "description"}
    assert {each.name for each in fields(AgentToolMetadata)} - options == {"deferred"}
    assert options <= {each.name for each in fields(AgentToolMetadata)}


def test_options_are_given_by_name() -> None:
    with pytest.raises(TypeError):
        ToolOptions("pay")  # type: ignore[misc]
    with pytest.raises(TypeError, match="'deferred'"):
        agent_tool(deferred=True)  # type: ignore[call-overload]


def test_effects_set_access_and_externality_unless_they_are_given() -> None:
    @agent_tool(effects=ToolEffects.destructive_action(), data_access=DataAccess.NONE)
    def wipe(disk: str) -> None: ...

    definition = get_agent_tool_definition(wipe)
    assert definition is not None
    assert definition.metadata.data_access is DataAccess.NONE
    assert definition.metadata.externality is Externality.EXTERNAL


def test_a_schema_name_follows_the_name() -> None:
    @agent_tool(name="look_up")
    def search(query: str) -> None: ...

    definition = get_agent_tool_definition(search)
    assert definition is not None
    assert (definition.name, definition.schema_name) == ("look_up", "look_up")


def test_the_original_of_a_plain_function_is_itself() -> None:
    def plain() -> None: ...

    tool: Any = agent_tool(plain)
    assert original_function(plain) is plain
    assert original_function(tool) is plain


def test_an_unknown_option_is_refused() -> None:
    option: dict[str, Any] = {"retries": 3}
    with pytest.raises(TypeError, match="retries"):
        agent_tool(**option)

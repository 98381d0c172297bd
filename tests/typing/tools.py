"""How tools look to a type checker: right uses, and wrong ones that must be reported."""

from collections.abc import Callable
from typing import assert_type

from pilotage.agent.tools import (
    AgentToolBoundInvocation,
    AgentToolCatalog,
    AgentToolDescriptor,
    EvidenceCapture,
    Idempotency,
    TimeoutPolicy,
    ToolEffects,
    ToolPermission,
    agent_tool,
    bind_agent_tool_invocation,
    discover_agent_tools,
    original_function,
)
from pilotage.errors import ToolError
from pilotage.runtime import step


class NoPageError(ToolError):
    pass


class CanPay(ToolPermission):
    pass


@agent_tool(name="add", reads_private=True)
def added(first: int, second: int = 1) -> int:
    return first + second


assert_type(added(1), int)


class DocsRead(ToolPermission):
    name = "docs.read"


class Docs:
    @agent_tool
    def bare(self, query: str, limit: int = 5) -> list[str]:
        return [query] * limit

    @agent_tool(
        effects=ToolEffects.read_only(),
        idempotency=Idempotency.IDEMPOTENT,
        permissions=[CanPay(), DocsRead(), ToolPermission("docs")],
        timeout=TimeoutPolicy(10),
        evidence=EvidenceCapture.structured(),
        errors=[NoPageError],
        formerly=["page"],
    )
    async def declared(self, page: int) -> str:
        return str(page)

    @agent_tool
    @staticmethod
    def static(word: str) -> str:
        return word

    @agent_tool
    @classmethod
    def of_class(cls, word: str) -> int:
        return len(word)


docs = Docs()
assert_type(docs.bare("a", limit=2), list[str])
assert_type(docs.static("a"), str)
assert_type(docs.of_class("a"), int)
assert_type(Docs.bare(docs, "a"), list[str])


async def calls() -> None:
    assert_type(await docs.declared(1), str)
    await docs.declared("a")  # pyright: ignore[reportArgumentType]


async def counted() -> int:
    return 1


async def steps() -> None:
    """The type of a step is that of `returns`, else that of its function."""
    assert_type(await step("count", counted), int)
    assert_type(await step("count", lambda: 1, errors=[NoPageError]), int)
    assert_type(await step("words", lambda: {"a": 1}, returns=list[str]), list[str])
    assert_type(await step("word", lambda: None, returns=str | None), object)


catalog = discover_agent_tools(Docs)
assert_type(catalog, AgentToolCatalog)
assert_type(catalog.descriptors, tuple[AgentToolDescriptor, ...])
assert_type(catalog.by_schema_name("bare").bind_invocation({"query": "a"}), AgentToolBoundInvocation)
assert_type(bind_agent_tool_invocation(docs.bare, {"query": "a"}).args, tuple[object, ...])
assert_type(original_function(Docs.bare), Callable[..., object])


def wrong_uses() -> None:
    """Never called: what a type checker must refuse."""
    docs.bare(5)  # pyright: ignore[reportArgumentType]
    docs.bare("a", max=2)  # pyright: ignore[reportCallIssue]
    agent_tool(timeout=10)  # pyright: ignore[reportArgumentType]
    agent_tool(permissions=["docs.read"])  # pyright: ignore[reportArgumentType]
    agent_tool(errors=[ValueError])  # pyright: ignore[reportArgumentType]
    agent_tool(formerly=[3])  # pyright: ignore[reportArgumentType]
    agent_tool(retries=3)  # pyright: ignore[reportCallIssue]
    agent_tool(5)  # pyright: ignore[reportArgumentType]
    agent_tool("pay")  # pyright: ignore[reportArgumentType]
    agent_tool(deferred=True)  # pyright: ignore[reportCallIssue]
    discover_agent_tools(docs)  # pyright: ignore[reportArgumentType]

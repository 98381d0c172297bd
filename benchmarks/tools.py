"""What a tool costs: binding against the bare validator, a call against the bare function."""

from __future__ import annotations

import timeit
from collections.abc import Callable
from decimal import Decimal
from functools import partial

from benchmarks.timing import FULL, Effort
from pydantic import TypeAdapter, with_config
from typing_extensions import TypedDict

from pilotage.agent.tools import ToolEffects, agent_tool, discover_agent_tools

PAYLOAD = {"query": "agents", "limit": 3, "budget": "12.50"}


def search(query: str, limit: int = 5, budget: Decimal = Decimal(1)) -> str:
    return query


class Docs:
    @agent_tool(effects=ToolEffects.read_only())
    def search(self, query: str, limit: int = 5, budget: Decimal = Decimal(1)) -> str:
        return query


@with_config({"extra": "forbid"})
class Arguments(TypedDict):
    query: str
    limit: int
    budget: Decimal


def measure(effort: Effort = FULL) -> dict[str, float]:
    """Microseconds per operation, and the ratios that matter."""
    microseconds = partial(_best, effort.times(20_000))
    tool = discover_agent_tools(Docs).by_schema_name("search")
    adapter = TypeAdapter(Arguments)
    wrapped = agent_tool(search)
    bind = microseconds(lambda: tool.bind_invocation(PAYLOAD))
    validate = microseconds(lambda: adapter.validate_python(PAYLOAD))
    plain = microseconds(lambda: search("agents"))
    call = microseconds(lambda: wrapped("agents"))
    return {
        "bind a small payload, us": bind,
        "plain TypeAdapter on the same payload, us": validate,
        "bind / plain TypeAdapter": bind / validate,
        "plain call, us": plain,
        "tool call outside a run, us": call,
        "what the wrapper adds to a call, ns": (call - plain) * 1000,
        "discover the tools of a class, us": microseconds(lambda: discover_agent_tools(Docs)),
    }


def _best(times: int, act: Callable[[], object]) -> float:
    return min(timeit.repeat(act, number=times, repeat=5)) / times * 1e6

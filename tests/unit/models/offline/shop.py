"""Tools such as agents have, for the tables of the offline model."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

from pilotage.agent.model_request import ToolCallingSpec
from pilotage.agent.tools.declare import agent_tool
from pilotage.models.offline.choosing import OfferedTool, offered


@agent_tool
def nickname(name: str) -> str:
    """Look up how a person likes to be called."""
    return name


@agent_tool
def list_files(path: str = ".") -> list[str]:
    """List the files of a folder."""
    return [path]


@agent_tool
def read_file(path: str, limit: int = 100) -> str:
    """Read a file."""
    return path[:limit]


@agent_tool
def write_file(path: str, content: str) -> str:
    """Write a text into a file."""
    return path + content


@agent_tool
def search(query: str, path: str = ".", limit: int = 10) -> list[str]:
    """Search the documents."""
    return [query, path][:limit]


@agent_tool
def run_command(command: str, timeout: int = 10) -> str:
    """Run a shell command."""
    return command * timeout


@agent_tool
def order_status(order_id: str) -> str:
    """Tell how an order stands."""
    return order_id


@agent_tool
def pay(to: str, amount: Decimal, currency: Literal["EUR", "USD"] = "EUR") -> str:
    """Pay an amount to an account."""
    return f"{to}{amount}{currency}"


@agent_tool
def weather(city: str, day: str | None = None) -> str:
    """The weather of a city."""
    return f"{city}{day}"


@agent_tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@agent_tool
def remember(fact: str) -> str:
    """Keep a fact."""
    return fact


@agent_tool
def tag(names: list[str], label: str, urgent: bool = False) -> str:
    """Tag people."""
    return f"{names}{label}{urgent}"


@agent_tool
def total(numbers: list[int]) -> int:
    """Sum numbers up."""
    return sum(numbers)


CALLING = ToolCallingSpec.from_tools(
    [
        nickname,
        list_files,
        read_file,
        write_file,
        search,
        run_command,
        order_status,
        pay,
        weather,
        add,
        remember,
        tag,
        total,
    ]
)
TOOLS: tuple[OfferedTool, ...] = tuple(map(offered, CALLING.tools))
NAMES = [tool.name for tool in TOOLS]

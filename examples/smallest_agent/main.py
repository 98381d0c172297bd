"""The smallest agent end to end: found by its type, injected, streamed.

Run it: python examples/smallest_agent/main.py
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from pilotage import (
    Agent,
    AgentYield,
    Application,
    Final,
    Pod,
    Progress,
    Token,
    Tool,
    ToolEffects,
    agent_tool,
)


@Pod
class Directory:
    """Knows how people like to be called."""

    @agent_tool(effects=ToolEffects.read_only())
    def nickname(self, name: str) -> str:
        """Look up how a person likes to be called.

        Args:
            name: the person's given name.
        """
        return {"Ada": "Countess"}.get(name, name)


@Agent
class Greeter:
    """Greet people by name, warmly and briefly."""

    def __init__(self, directory: Directory) -> None:
        self.directory = directory

    async def execute(self, name: str) -> AsyncGenerator[AgentYield[str], None]:
        yield Progress(f"Looking up {name}")
        called = self.directory.nickname(name)
        yield Tool("nickname", arguments={"name": name}, result=called)
        greeting = f"Good day, {called}."
        for word in greeting.split(" "):
            yield Token(word)
        yield Final(greeting)


async def main() -> str:
    """Start an application around the agent, run it, show its stream."""
    answer = ""
    async with Application("hello").add(Directory, Greeter) as app:
        async for item in app.get(Greeter).execute("Ada"):
            match item.payload:
                case Progress(message=message):
                    print(f"... {message}")
                case Tool(name=name, arguments=arguments, result=result):
                    print(f"... {name}({arguments['name']}) gave {result}")
                case Token(text=text):
                    print(text, end=" ", flush=True)
                case Final(output=output):
                    answer = output
                case _:
                    pass
    print()
    return answer


if __name__ == "__main__":
    if asyncio.run(main()) != "Good day, Countess.":
        raise SystemExit("demo: failed")
    print("demo: ok")

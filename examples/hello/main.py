"""The smallest agent end to end: a model drives it, a tool is called, the run is streamed.

The model is the offline one: rules that follow commands, no key, no server, no language model. Give the agent another
one and nothing else changes.

Run it: python examples/hello/main.py
"""

from __future__ import annotations

import asyncio

from pilotage import (
    Agent,
    AgentRunner,
    Application,
    Final,
    OfflineModel,
    Pod,
    RunAgentInput,
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


async def main() -> str:
    """Start an application around the agent, run it, show its stream."""
    async with Application("hello").add(Directory, Greeter, OfflineModel).load_plugins() as app:
        return await show(AgentRunner.for_agent_instance(app.get(Greeter)))


async def show(runner: AgentRunner) -> str:
    """Print what the agent does; its answer."""
    answer = ""
    async for item in runner.run(RunAgentInput("greeting", "greet Ada")):
        match item.payload:
            case Tool(name=name, arguments=arguments, result=result):
                print(f"... {name}({arguments['name']}) gave {result}")
            case Token(text=text):
                print(text, end="", flush=True)
            case Final(output=output):
                answer = str(output)
            case _:
                pass
    print()
    return answer


if __name__ == "__main__":
    if not asyncio.run(main()).startswith("Good day, Countess."):
        raise SystemExit("demo: failed")
    print("demo: ok")

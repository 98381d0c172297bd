"""LangChain's agent with a fake model."""

from __future__ import annotations

import warnings

from benchmarks.floor import INSTRUCTIONS, look_up
from benchmarks.peers.langgraph_peer import Asking, Talking
from benchmarks.peers.measuring import tell
from langchain.agents import create_agent

warnings.simplefilter("ignore")

_asking = create_agent(Asking(), [look_up], system_prompt=INSTRUCTIONS)
_talking = create_agent(Talking(), [look_up], system_prompt=INSTRUCTIONS)


async def run(turns: int) -> None:
    """A run, read as a stream of updates."""
    given = {"messages": [("user", str(turns))]}
    async for _ in _asking.astream(given, {"recursion_limit": 10_000}, stream_mode="updates"):
        pass


async def talk(deltas: int) -> None:
    """A run, read as a stream of tokens."""
    async for _ in _talking.astream({"messages": [("user", str(deltas))]}, stream_mode="messages"):
        pass


if __name__ == "__main__":
    tell("langchain", run, talk)

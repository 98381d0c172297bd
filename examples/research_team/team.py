"""A research team: an editor asks a librarian and a fact checker, and answers with a typed report."""

import sys
from dataclasses import dataclass

from pilotage import Agent, ToolEffects, agent_tool, run_sync

SHELVES = {"ports": ["A port is an interface that the core owns."]}


@dataclass(frozen=True)
class Report:
    """What the editor answers with."""

    title: str
    findings: list[str]
    is_confirmed: bool


@Agent
class Librarian:
    """Find what the library has about a topic. Quote it word by word."""

    @agent_tool(effects=ToolEffects.read_only())
    def search(self, topic: str) -> list[str]:
        """Search the shelves."""
        return SHELVES.get(topic, [])


@Agent
class FactChecker:
    """Say whether a sentence is in the library."""

    @agent_tool(effects=ToolEffects.read_only())
    def is_known(self, sentence: str) -> bool:
        """Look for a sentence."""
        return any(sentence in shelf for shelf in SHELVES.values())


@Agent(output=Report, teammates=[Librarian, FactChecker], max_steps=20, timeout_seconds=120)
class Editor:
    """Ask the librarian for material, have the fact checker check it, then write the report."""


if __name__ == "__main__":
    print(run_sync(Editor, sys.argv[1]).output)

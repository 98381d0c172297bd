"""The agent that looks at a change before it goes in: what rules find, and what its model says to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from examples.code_assistant.git_tools import GitTools
from examples.code_assistant.safety import KEYS
from pilotage import (
    Agent,
    AgentExecutionSpec,
    IAgentModel,
    ModelMessage,
    ModelRequest,
    ToolCallingSpec,
    ToolEffects,
    agent_tool,
)
from pilotage.errors import ToolError
from pilotage.jsonvalue import to_json_value

MOST_TURNS = 8
_FILE = re.compile(r"^\+\+\+ b/(.*)$")
_HUNK = re.compile(r"^@@ -\S+ \+(\d+)")
_NEVER = {
    "a mark of a conflict": re.compile(r"^(<{7}|={7}|>{7})( |$)"),
    "a leftover of debugging": re.compile(r"\bbreakpoint\(\)|\bpdb\.set_trace\(\)|\bconsole\.log\("),
    "blanks at the end of the line": re.compile(r"[ \t]+$"),
    "what looks like a key": re.compile(r"\bsk-[A-Za-z0-9]{8,}|-----BEGIN [A-Z ]*PRIVATE KEY-----"),
}


@dataclass(frozen=True)
class Checked:
    """How large a change is, and what should not go in, as `path:line: what it is`."""

    lines_added: int
    lines_removed: int
    findings: list[str]


@Agent(spec=AgentExecutionSpec(name="reviewer", objective="Looks at a change.", redaction=KEYS))
class Reviewer:
    """You review a change. Check it, read it, and say briefly whether it does what it is for."""

    def __init__(self, model: IAgentModel, git: GitTools) -> None:
        self.model, self.git = model, git

    async def execute(self, question: str) -> str:
        tools = ToolCallingSpec.from_tools([self.check, self.git.diff])
        messages = [ModelMessage.system(Reviewer.__doc__ or ""), ModelMessage.user(question)]
        for _ in range(MOST_TURNS):
            reply = await self.model.complete(ModelRequest(messages=messages, tools=tools))
            if not reply.tool_calls:
                return reply.content
            messages.append(reply.message)
            for call in reply.tool_calls:
                result = to_json_value(await tools.invoke(call))
                messages.append(ModelMessage.tool(call.call_id or "", result))
        raise ToolError(f"the review is not done after {MOST_TURNS} turns")

    @agent_tool(name="review.check", effects=ToolEffects.read_only(), reads_untrusted=True)
    async def check(self) -> Checked:
        """Check the change by rules: marks of conflicts, leftovers of debugging, keys, blanks at line ends."""
        return checked(await self.git.diff())


def checked(diff: str) -> Checked:
    """What rules say about a change. Pure."""
    lines = [line for line in diff.splitlines() if not line.startswith(("+++", "---"))]
    added, removed = (sum(line.startswith(sign) for line in lines) for sign in "+-")
    return Checked(added, removed, list(_findings(diff)))


def _findings(diff: str) -> Iterator[str]:
    """Only lines that the change adds are looked at."""
    path, number = "", 0
    for line in diff.splitlines():
        if found := _FILE.match(line):
            path = found[1]
        elif found := _HUNK.match(line):
            number = int(found[1])
        elif line.startswith("+"):
            yield from (f"{path}:{number}: {what}" for what, sign in _NEVER.items() if sign.search(line[1:]))
            number += 1
        elif line.startswith(" "):
            number += 1

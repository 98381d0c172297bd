"""A hand-written loop with tools, word for word as users write it; only the body of `__init__` is filled in."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentSignalKind,
    AgentYield,
    Final,
    IAgentModel,
    Idempotency,
    ModelMessage,
    ModelRequest,
    Pod,
    RecoveryStrategy,
    StreamingExposureMode,
    Token,
    Tool,
    ToolCallingSpec,
    ToolEffects,
    agent_tool,
)


@dataclass(frozen=True)
class CodeTask:
    instructions: str
    goal: str


@dataclass(frozen=True)
class CodeResult:
    summary: str


class Disk:
    def __init__(self) -> None:
        self.files: dict[str, str] = {"README": "hello"}
        self.commands: list[str] = []


@Pod
class WorkspaceTools:
    def __init__(self, disk: Disk) -> None:
        self.disk = disk

    @agent_tool(effects=ToolEffects.read_only())
    async def read(self, path: str) -> str:
        """Read a file."""
        return self.disk.files[path]

    @agent_tool(effects=ToolEffects.write_state(), idempotency=Idempotency.IDEMPOTENT)
    async def write(self, path: str, text: str) -> int:
        """Write a file; a person has to allow it."""
        self.disk.files[path] = text
        return len(text)


@Pod
class ShellTools:
    def __init__(self, disk: Disk) -> None:
        self.disk = disk

    @agent_tool(effects=ToolEffects.destructive_action(), idempotency=Idempotency.NON_IDEMPOTENT)
    async def run(self, command: str) -> str:
        """Run a command; a person has to allow it."""
        self.disk.commands.append(command)
        return f"{command}: ok"


@Agent(spec=AgentExecutionSpec(
    name="code_assistant",
    recovery=RecoveryStrategy.ACTION_BOUNDARY,
    accepted_signals=[AgentSignalKind.USER_MESSAGE, AgentSignalKind.APPROVAL_DECISION, AgentSignalKind.CANCEL],
    streaming_exposure_mode=StreamingExposureMode.BALANCED,
))
class CodeAssistant:
    def __init__(self, model: IAgentModel, workspace: WorkspaceTools, shell: ShellTools) -> None:
        self.model, self.workspace, self.shell = model, workspace, shell

    async def execute(self, task: CodeTask) -> AsyncGenerator[AgentYield[CodeResult], None]:
        tools = ToolCallingSpec.from_tools([self.workspace.read, self.workspace.write, self.shell.run])
        messages = [ModelMessage.system(task.instructions), ModelMessage.user(task.goal)]
        while True:
            reply = []
            async for event in self.model.stream(ModelRequest(messages=messages, tools=tools)):
                if event.is_text_delta:
                    yield Token(event.text)
                elif event.is_tool_call:
                    result = await event.invoke_tool()            # approval, journal, guard happen here
                    yield Tool(event.name, call_id=event.call_id, result=result)
                    reply.append(ModelMessage.tool(event.call_id, result))
                elif event.is_final:                              # the end of a reply without tool calls
                    yield Final(CodeResult(summary=event.text))
                    return
                elif event.is_done:                               # the end of any reply
                    messages += [event.message, *reply]

"""The same assistant, declared: tools from the pods it injects, ReAct as its loop, the reviewer as a teammate."""

from __future__ import annotations

from examples.code_assistant.git_tools import GitTools
from examples.code_assistant.reviewer import Reviewer
from examples.code_assistant.safety import KEYS
from examples.code_assistant.shell_tools import ShellTools
from examples.code_assistant.task import INSTRUCTIONS
from examples.code_assistant.workspace_tools import WorkspaceTools
from pilotage import (
    Agent,
    AgentExecutionLimits,
    AgentExecutionSpec,
    AgentSignalKind,
    RecoveryStrategy,
)
from pilotage.adapters.agui import AGUICompatible
from pilotage.agent import AgentTeammate, RejectionPolicy


@AGUICompatible("/agui")
@Agent(
    spec=AgentExecutionSpec(
        name="declarative_code_assistant",
        objective="Works on the code in a workspace.",
        instructions=INSTRUCTIONS,
        recovery=RecoveryStrategy.ACTION_BOUNDARY,
        accepted_signals=[AgentSignalKind.USER_MESSAGE, AgentSignalKind.STEERING_INSTRUCTION],
        redaction=KEYS,
        on_rejection=RejectionPolicy.TELL_MODEL,
        teammates=[AgentTeammate("reviewer", pod=Reviewer)],
        limits=AgentExecutionLimits(timeout_seconds=3600, max_steps=40),
    )
)
class DeclarativeCodeAssistant:
    """Works on the code in a workspace."""

    def __init__(self, workspace: WorkspaceTools, shell: ShellTools, git: GitTools) -> None:
        self.workspace, self.shell, self.git = workspace, shell, git

"""What a model may do with a shell: commands, each of them allowed by a person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from examples.code_assistant.processes import Finished, ProcessLimits, clean_environment, run_process
from examples.code_assistant.workspace import Workspace
from pilotage import Idempotency, Pod, SecretField, TimeoutPolicy, ToolEffects, agent_tool
from pilotage.agent import DataAccess, Externality

TOKEN = "WORKSPACE_TOKEN"  # noqa: S105 - the name of a secret, not one
ANYTHING = ToolEffects(DataAccess.READ_WRITE, Externality.EXTERNAL, destructive=True, network=True)
_LIMITS = ProcessLimits()
# The command is stopped in good order before the run loses patience with the whole call.
_PATIENCE = TimeoutPolicy(_LIMITS.seconds + 10)


@dataclass(frozen=True)
class CommandResult:
    """How a command ended: its exit code, or none where it took too long, and what it said."""

    exit_code: int | None
    output: str


@Pod
class ShellTools:
    """A shell in the workspace. What a command does may not be repeated blindly: after a crash a person is asked."""

    def __init__(self, workspace: Workspace, limits: ProcessLimits = _LIMITS) -> None:
        self.workspace = workspace
        self.limits = limits

    @agent_tool(
        name="shell.command",
        effects=ANYTHING,
        idempotency=Idempotency.NON_IDEMPOTENT,
        timeout=_PATIENCE,
        reads_untrusted=True,
        reads_private=True,
    )
    async def run(self, command: str) -> CommandResult:
        """Run a shell command in the workspace.

        Args:
            command: a line for the shell; it has a minute, no keyboard, and a clean environment.
        """
        return self._result(await self._run(command))

    @agent_tool(
        name="shell.command_with_token",
        effects=ANYTHING,
        idempotency=Idempotency.NON_IDEMPOTENT,
        timeout=_PATIENCE,
        reads_untrusted=True,
        reads_private=True,
    )
    async def run_with_token(
        self, command: str, token: Annotated[str, SecretField(label=TOKEN)]
    ) -> CommandResult:
        """Run a shell command that needs the workspace's token; it finds it in $WORKSPACE_TOKEN.

        Args:
            command: a line for the shell, as for `shell.command`.
        """
        return self._result(await self._run(command, **{TOKEN: token}))

    async def _run(self, command: str, **secrets: str) -> Finished:
        folder = self.workspace.root
        line = ["/bin/sh", "-c", command]
        return await run_process(line, folder, clean_environment(folder, **secrets), self.limits)

    def _result(self, finished: Finished) -> CommandResult:
        late = f"\nstopped after {self.limits.seconds:g} seconds" if finished.exit_code is None else ""
        return CommandResult(finished.exit_code, f"{finished.output.rstrip()}{late}")

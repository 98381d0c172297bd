"""A crash at every commit of the assistant, on real files and with a real shell."""

from __future__ import annotations

from pathlib import Path

from examples.code_assistant.assistant import CodeAssistant
from examples.code_assistant.git_tools import GitTools
from examples.code_assistant.reviewer import Reviewer
from examples.code_assistant.shell_tools import ShellTools
from examples.code_assistant.tokens import EnvironmentSecrets
from examples.code_assistant.workspace import Workspace
from examples.code_assistant.workspace_tools import WorkspaceTools
from pilotage.testing import ScriptedModel, calls, crash_matrix, says, turn

SCRIPT = [
    turn(calls("workspace.read", path="a.txt"), calls("workspace.write", path="a.txt", content="two\n")),
    calls("shell.command", command="echo hi"),
    says("Done."),
]
TOOLS = [WorkspaceTools, ShellTools, GitTools, EnvironmentSecrets, Reviewer]


async def test_no_crash_changes_what_it_does_or_does_it_twice(
    tmp_path: Path, second_stops: tuple[int, ...]
) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    model = ScriptedModel(SCRIPT)
    report = await crash_matrix(
        CodeAssistant, "do it", model=model, add=[*TOOLS, Workspace(tmp_path)], second_stops=second_stops
    )
    assert report.points > 40
    report.assert_same_result()
    report.assert_no_repeated_effects()

"""The assistant that is written by hand: what its loop makes of models that go wrong, and of reviews."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from examples.code_assistant.assistant import MOST_TURNS, CodeAssistant
from examples.code_assistant.demo.repository import git
from examples.code_assistant.git_tools import GitTools
from examples.code_assistant.reviewer import MOST_TURNS as MOST_TURNS_OF_A_REVIEW
from examples.code_assistant.reviewer import Reviewer
from examples.code_assistant.shell_tools import ShellTools
from examples.code_assistant.tokens import EnvironmentSecrets
from examples.code_assistant.workspace import Workspace
from examples.code_assistant.workspace_tools import WorkspaceTools
from pilotage import Application, RunResult
from pilotage.agent import ModelMessage
from pilotage.runtime import AgentRuns
from pilotage.testing import MemoryStore, ScriptedModel, calls, says


@pytest.fixture
def root(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    (tmp_path / "a.txt").write_text("one\n")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message", "begin")
    return tmp_path


async def work(root: Path, model: ScriptedModel) -> tuple[RunResult, int]:
    """What a run comes to in which everything is approved; how many runs there are then."""
    pods = (CodeAssistant, Reviewer, WorkspaceTools, ShellTools, GitTools, EnvironmentSecrets)
    app = Application("code").add(*pods, Workspace(root), model, *MemoryStore().ports)
    async with app.load_plugins():
        runs = app.get(AgentRuns)
        run = await runs.start(CodeAssistant, "do it")
        while questions := (await run.result()) and await runs.questions(run.id):
            for question in questions:
                await runs.approve(question.id)
            run = await runs.resume(run.id)
        return await run.result(), len((await runs.list()).runs)


def told(model: ScriptedModel) -> Sequence[ModelMessage]:
    """What the model was told last."""
    return model.requests[-1].messages


async def test_a_model_that_never_ends_is_ended(root: Path) -> None:
    model = ScriptedModel([calls("git.status")] * MOST_TURNS)
    result, _ = await work(root, model)
    assert result.status == "failed"
    assert result.error is not None
    assert result.error["message"] == f"the work is not done after {MOST_TURNS} turns"


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("workspace.read", {"file": "a.txt"}, "'path' is missing"),
        ("workspace.raed", {"path": "a.txt"}, "there is no tool 'workspace.raed'"),
        ("workspace.read", {"path": "../a.txt"}, "leads out of the workspace"),
        ("shell.command_with_token", {"command": "true"}, "there is no WORKSPACE_TOKEN here"),
    ],
)
async def test_what_goes_wrong_is_told_to_the_model(
    root: Path, monkeypatch: pytest.MonkeyPatch, name: str, arguments: dict[str, str], words: str
) -> None:
    monkeypatch.delenv("WORKSPACE_TOKEN", raising=False)
    model = ScriptedModel([calls(name, **arguments), says("I see.")])
    result, _ = await work(root, model)
    assert result.output.summary == "I see."
    assert words in told(model)[-1].text


async def test_the_same_question_after_a_change_is_another_review(root: Path) -> None:
    model = ScriptedModel(
        [
            calls("review", question="well?"),
            says("Nothing has changed."),
            calls("workspace.write", path="a.txt", content="two\n"),
            calls("review", question="well?"),
            calls("git.diff"),
            says("One line."),
            says("Done."),
        ]
    )
    result, count = await work(root, model)
    assert result.output.summary == "Done."
    assert count == 3
    assert "One line." in told(model)[-1].text


async def test_a_review_that_never_ends_is_told_as_a_failure(root: Path) -> None:
    reviewing = [calls("review.check")] * MOST_TURNS_OF_A_REVIEW
    model = ScriptedModel([calls("review", question="well?"), *reviewing, says("Without a review, then.")])
    result, _ = await work(root, model)
    assert result.output.summary == "Without a review, then."
    assert "'reviewer' did not finish" in told(model)[-1].text

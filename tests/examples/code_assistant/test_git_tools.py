"""git tools on a real repository: looking runs nothing of it, a commit is found again by its key."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from examples.code_assistant.git_tools import GitTools
from examples.code_assistant.processes import ProcessLimits
from examples.code_assistant.workspace import Workspace
from pilotage import AgentToolRuntimeContext
from pilotage.errors import ToolError


def git(root: Path, *words: str) -> str:
    command = ["git", "-C", str(root), "-c", "user.name=Ada", "-c", "user.email=ada@localhost", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def root(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    (tmp_path / "a.txt").write_text("one\n")
    git(tmp_path, "add", "a.txt")
    git(tmp_path, "commit", "--quiet", "--message", "begin")
    return tmp_path


@pytest.fixture
def tools(root: Path) -> GitTools:
    return GitTools(Workspace(root))


def context(key: str) -> AgentToolRuntimeContext:
    return AgentToolRuntimeContext("run", "conversation", "call", "git.commit", idempotency_key=key)


async def test_status_and_diff_show_what_has_changed(tools: GitTools, root: Path) -> None:
    (root / "a.txt").write_text("two\n")
    (root / "b.txt").write_text("new\n")
    (root / ".pilotage").mkdir()
    (root / ".pilotage" / "pilotage.db").write_text("ours")
    assert await tools.status() == "## main\n M a.txt\n?? b.txt"
    diff = await tools.diff()
    assert "-one\n+two" in diff


async def test_looking_runs_nothing_that_the_repository_configures(tools: GitTools, root: Path) -> None:
    trap = root / "trap.sh"
    trap.write_text(f"#!/bin/sh\ntouch {root}/sprung\n")
    trap.chmod(0o755)
    git(root, "config", "core.fsmonitor", str(trap))
    git(root, "config", "diff.external", str(trap))
    git(root, "config", "core.pager", str(trap))
    git(root, "config", "diff.x.textconv", str(trap))
    (root / ".gitattributes").write_text("*.txt diff=x\n")
    (root / "a.txt").write_text("two\n")
    await tools.status()
    await tools.diff()
    await tools.find_commit("k")
    assert not (root / "sprung").exists()


async def test_a_commit_takes_everything_but_the_runs_themselves(tools: GitTools, root: Path) -> None:
    (root / "a.txt").write_text("two\n")
    (root / ".pilotage").mkdir()
    (root / ".pilotage" / "pilotage.db").write_text("ours")
    assert await tools.commit("Change a", context("key-1")) == "committed: Change a"
    assert git(root, "show", "--name-only", "--format=%an: %s").split() == [
        "Code",
        "Assistant:",
        "Change",
        "a",
        "a.txt",
    ]


async def test_a_commit_is_found_by_its_key_and_by_no_other(tools: GitTools, root: Path) -> None:
    (root / "a.txt").write_text("two\n")
    await tools.commit("Change a", context("key-1"))
    assert await tools.find_commit("key-1") == "committed: Change a"
    assert await tools.find_commit("key-2") is None


async def test_the_hooks_of_a_commit_decide(tools: GitTools, root: Path) -> None:
    hook = root / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho 'not on a Sunday'\nexit 1\n")
    hook.chmod(0o755)
    (root / "a.txt").write_text("two\n")
    with pytest.raises(ToolError, match="not on a Sunday"):
        await tools.commit("Change a", context("key-1"))
    assert await tools.find_commit("key-1") is None


async def test_nobody_knows_how_far_a_commit_came_that_took_too_long(root: Path) -> None:
    hook = root / ".git" / "hooks" / "post-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nsleep 1000\n")
    hook.chmod(0o755)
    (root / "a.txt").write_text("two\n")
    tools = GitTools(Workspace(root), ProcessLimits(seconds=3))
    with pytest.raises(TimeoutError):
        await tools.commit("Change a", context("key-1"))
    assert await tools.find_commit("key-1") == "committed: Change a"


DIFF = """--- a/a.txt
+++ b/a.txt
@@ -1 +1 @@
-one
+two"""


async def test_a_diff_is_applied_whole_or_not_at_all(tools: GitTools, root: Path) -> None:
    both = f"{DIFF}\n--- a/missing.txt\n+++ b/missing.txt\n@@ -1 +1 @@\n-x\n+y\n"
    with pytest.raises(ToolError, match=r"missing\.txt"):
        await tools.apply(both)
    assert (root / "a.txt").read_text() == "one\n"
    assert "a.txt" in await tools.apply(DIFF)
    assert (root / "a.txt").read_text() == "two\n"


@pytest.mark.parametrize("path", ["../out.txt", ".git/hooks/post-commit", "link/out.txt"])
async def test_a_diff_does_not_reach_out_of_the_workspace(tools: GitTools, root: Path, path: str) -> None:
    (root / "link").symlink_to(root.parent)
    with pytest.raises(ToolError):
        await tools.apply(f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n")
    assert not (root.parent / "out.txt").exists()
    assert not (root / ".git" / "hooks" / "post-commit").exists()


async def test_where_there_is_no_repository_git_says_so(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="not a git repository"):
        await GitTools(Workspace(tmp_path)).status()

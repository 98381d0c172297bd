"""What a model may do with git: look at changes at will; apply and commit when a person allows it.

What a repository configures is not run when somebody only looks: no hooks, no external diffs, no file system monitor.
The hooks of a commit do run: a person allowed it. What is closed to tools is neither shown, changed nor committed.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from examples.code_assistant.processes import ProcessLimits, clean_environment, run_process
from examples.code_assistant.workspace import Workspace
from pilotage import AgentToolRuntimeContext, Idempotency, Pod, ToolEffects, agent_tool
from pilotage.errors import ToolError

KEY = "Pilotage-Key"
_LOOKING = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")
_AUTHOR = ("-c", "user.name=Code Assistant", "-c", "user.email=code-assistant@localhost")
_THEIRS = (".", ":(exclude).pilotage")

_SOURCE = re.compile(r"^(?:rename|copy) (?:from|old) (.+)$", re.MULTILINE)


def _unquoted(path: str) -> str:
    """Return a path as git writes it into a change: names with unusual characters are quoted like in C."""
    if not path.startswith('"'):
        return path
    written = path.strip('"').encode("latin-1", "replace").decode("unicode_escape")
    return written.encode("latin-1", "replace").decode(errors="replace")


@Pod
class GitTools:
    """The git repository of a workspace."""

    def __init__(self, workspace: Workspace, limits: ProcessLimits | None = None) -> None:
        self.workspace = workspace
        self.limits = limits or ProcessLimits()

    @agent_tool(name="git.status", effects=ToolEffects.read_only(), reads_untrusted=True)
    async def status(self) -> str:
        """Show the branch, and which files have changed."""
        return await self._git([*_LOOKING, "status", "--short", "--branch", "--", *_THEIRS])

    @agent_tool(name="git.diff", effects=ToolEffects.read_only(), reads_untrusted=True, reads_private=True)
    async def diff(self) -> str:
        """Show what has changed since the last commit."""
        closed = [f":(exclude,top,literal){path}" for path in await self._closed("diff", "HEAD")]
        shown = ["diff", "--no-ext-diff", "--no-textconv", "HEAD", "--", *_THEIRS, *closed]
        return await self._git([*_LOOKING, *shown])

    @agent_tool(name="git.apply", effects=ToolEffects.write_state(), idempotency=Idempotency.NON_IDEMPOTENT)
    async def apply(self, diff: str) -> str:
        """Apply a change in the form of `git diff`, all of it or nothing.

        Args:
            diff: the change; paths are those of the workspace.
        """
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "change.diff")
            await asyncio.to_thread(file.write_text, diff if diff.endswith("\n") else f"{diff}\n")
            await self._require_open(diff, file)
            said = await self._git([*_LOOKING, "apply", "--verbose", "--whitespace=nowarn", str(file)])
        return said or "applied"

    @agent_tool(
        name="git.commit",
        effects=ToolEffects.write_state(),
        idempotency=Idempotency.CONDITIONALLY_IDEMPOTENT,
        reconcile="find_commit",
    )
    async def commit(self, message: str, runtime_context: AgentToolRuntimeContext) -> str:
        """Commit everything that has changed.

        Args:
            message: what the commit is for, its first line short.
        """
        key = f"{KEY}: {runtime_context.idempotency_key}"
        await self._git([*_LOOKING, "add", "--all"])
        closed = [f":(top,literal){path}" for path in await self._closed("diff", "--cached")]
        if closed:
            await self._git([*_LOOKING, "reset", "--quiet", "--", *closed])
        await self._git([*_AUTHOR, "commit", "--quiet", "--message", message, "--trailer", key])
        return await self.find_commit(runtime_context.idempotency_key) or "committed"

    async def find_commit(self, idempotency_key: str) -> str | None:
        """What became of an earlier attempt: the commit that carries its key; None if there is none."""
        mark = ["--fixed-strings", f"--grep={KEY}: {idempotency_key}"]
        found = await self._git([*_LOOKING, "log", "--all", "--max-count=1", "--format=%s", *mark])
        return f"committed: {found}" if found else None

    async def _closed(self, *words: str) -> list[str]:
        """Return the changed files that are closed to tools."""
        listed = ["--no-renames", "--no-ext-diff", "--no-textconv", "--name-only", "-z"]
        changed = (await self._git([*_LOOKING, *words, *listed])).split("\0")
        return [path for path in changed if path and not self.workspace.is_open(path)]

    async def _require_open(self, diff: str, file: Path) -> None:
        """Refuse a change of files that are closed to tools, and one that copies or renames them."""
        counted = await self._git([*_LOOKING, "apply", "--numstat", "-z", str(file)])
        changed = [row.rpartition("\t")[2] for row in counted.split("\0")]
        sources = [_unquoted(path) for path in _SOURCE.findall(diff)]
        if closed := [path for path in [*changed, *sources] if not self.workspace.is_open(path)]:
            raise ToolError(f"{closed[0]!r} is closed: names like this are not for tools")

    async def _git(self, words: Sequence[str]) -> str:
        """What git says.

        Raises:
            ToolError: git says that it failed.
            TimeoutError, ChildProcessError: it was stopped; nobody knows how far it came.
        """
        root = self.workspace.root
        alone = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"}
        command = ["git", "--no-pager", "-C", str(root), *words]
        done = await run_process(command, root, clean_environment(root, **alone), self.limits)
        if done.exit_code is None:
            raise TimeoutError(f"git took longer than {self.limits.seconds:g} seconds")
        if done.exit_code < 0:
            raise ChildProcessError(f"git was ended by signal {-done.exit_code}")
        if done.exit_code != 0:
            raise ToolError(f"git failed: {done.output.strip() or done.exit_code}")
        return done.output.rstrip()

"""`make demo`: the code assistant on a small repository, killed in the middle of a commit, and resumed.

Ends with `demo: ok` and exit code 0; any other end is a failure. It needs no input.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from examples.code_assistant.application import code_assistant, offline_model
from examples.code_assistant.assistant import CodeAssistant
from examples.code_assistant.console import COLUMNS, Console
from examples.code_assistant.demo.checks import checks
from examples.code_assistant.demo.repository import COMMITTED, make_repository, remove_hook
from examples.code_assistant.demo.timeline import timeline
from pilotage import AgentStatus
from pilotage.runtime import AgentRuns

ROOT = Path(__file__).parents[3]
SECONDS = 300.0 if os.environ.get("PILOTAGE_MODEL_BASE_URL") else 60.0
FOR_RULES = """search Helo and read settings.ini
then patch greeting.py old=Helo new=Hello
then run "python3 -m unittest -q 2>&1 | tail -n 1"
then review "check the change"
then shell.command_with_token "sh publish.sh"
then git.commit message="Spell hello correctly\""""
FOR_MODELS = """The test in this repository fails. Find the misspelt word, correct it with workspace.patch, and run
`python3 -m unittest -q`. Have the change reviewed. Then publish with `sh publish.sh`, which needs the token. Then
commit everything with git.commit."""
NEXT = (
    ("chat with it in this folder", "make chat"),
    ("ask it one thing", '.venv/bin/pilotage run declarative_code_assistant "list files"'),
    ("serve it over HTTP and AG-UI", ".venv/bin/pilotage serve examples.code_assistant.application:app"),
    ("the same with your own model", "make demo MODEL_BASE_URL=... MODEL_NAME=..."),
)
PAUSE_SECONDS = 1.0
"""The pause after a heading on a terminal."""


class Worker:
    """A process that drives the assistant; its output is shown and stored."""

    def __init__(self, root: Path, goal: str, token: str, console: Console) -> None:
        self._console = console
        self._said: list[str] = []
        pace = {"FORCE_COLOR": "1"} if console.styled("x", "bold") != "x" else {}
        if sys.stdout.isatty():
            pace |= {"DEMO_TOKENS_PER_SECOND": "30", COLUMNS: str(console.width)}
        command = [sys.executable, "-m", "examples.code_assistant.demo.process", str(root), goal]
        self.process = subprocess.Popen(  # noqa: S603 - ourselves
            command,
            cwd=ROOT,
            env={**os.environ, **pace, "WORKSPACE_TOKEN": token},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def _listen(self) -> None:
        pipe = self.process.stdout
        while pipe is not None and (piece := pipe.read(1)):
            self._said.append(piece)
            self._console.piece(piece)

    def kill_when(self, mark: Path) -> bool:
        """Kill the process as soon as a file exists; return False if it ended before."""
        end = time.monotonic() + SECONDS
        while not (mark.exists() and mark.read_text().strip()):
            if self.process.poll() is not None or time.monotonic() > end:
                self.process.kill()
                return False
            time.sleep(0.02)
        os.kill(self.process.pid, signal.SIGKILL)
        return True

    def ended(self) -> tuple[int, str]:
        """Return the exit code of the process and its output."""
        try:
            code = self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self._listener.join()
        return code, "".join(self._said)


def main() -> int:
    """Run the demo and return the exit code."""
    console = Console()
    if shutil.which("git") is None:
        console.line("demo: the assistant works on a git repository, and there is no git here", "red")
        return 1
    os.environ.pop("PILOTAGE_DATABASE_URL", None)  # the database is a file in the folder of the demo
    token = f"token-{secrets.token_hex(8)}"
    goal = FOR_MODELS if os.environ.get("PILOTAGE_MODEL_BASE_URL") else FOR_RULES
    with TemporaryDirectory() as folder:
        root = Path(folder)
        make_repository(root)
        _introduce(console, goal)
        problems = _run(console, root, goal, token)
    for problem in problems:
        console.line(f"demo: {problem}", "red")
    if problems:
        return 1
    _begin(console, "Next")
    for what, command in NEXT:
        console.line(f"  {what}:", "dim")
        console.line(f"      {command}", "cyan")
    console.line()
    console.line("demo: ok", "bold", "green")
    return 0


def _begin(console: Console, title: str) -> None:
    """Begin another part: a heading, and on a terminal time to read it."""
    console.line()
    console.line(f"── {title} {'─' * (console.width - len(title) - 4)}", "bold")
    if sys.stdout.isatty():
        time.sleep(PAUSE_SECONDS)


def _introduce(console: Console, goal: str) -> None:
    console.line("A code assistant works on a repository with a failing test.", "bold")
    console.line("Its process is killed during a commit. Another process finishes the run.")
    if goal is FOR_RULES:
        console.line("The offline model drives it: rules that follow commands, no language model.", "dim")
    for line in goal.splitlines():
        console.line(f"  > {line}", "green")


def _run(console: Console, root: Path, goal: str, token: str) -> list[str]:
    """Run the two processes, show the record and the checks; return the problems."""
    _begin(console, "1. A process starts the run")
    first = Worker(root, goal, token, console)
    is_killed = first.kill_when(root / ".git" / COMMITTED)
    code, output = first.ended()
    if not is_killed:
        return [f"the run did not reach the commit in which it is killed (exit code {code})"]
    console.line("  ✗ kill -9", "bold", "red")
    console.line("    The commit is made, but its outcome is not recorded.", "red")
    remove_hook(root)
    _begin(console, "2. Another process resumes the run")
    second = Worker(root, goal, token, console)
    code, more = second.ended()
    if code != 0:
        return [f"the run did not complete (exit code {code})"]
    _begin(console, "3. The record of the run")
    problems = asyncio.run(_record(console, root))
    _begin(console, "4. The proof, from outside of the run")
    for check in checks(root, output + more, token):
        console.line(f"  {'✓' if check.is_so else '✗'} {check.what}", "green" if check.is_so else "red")
        problems += [] if check.is_so else [f"it is not so that {check.what}"]
    return problems


async def _record(console: Console, root: Path) -> list[str]:
    """Show the exceptional actions of the journal, and verify it."""
    async with code_assistant(root, *offline_model()) as app:
        runs = app.get(AgentRuns)
        (run,) = (await runs.list(agent=CodeAssistant)).runs
        for line in timeline(await runs.evidence(run.id)):
            console.line(f"  {line}", "dim")
        for each in (await runs.list()).runs:
            await runs.verify(each.id)
            console.line(f"  ✓ {each.agent_type}: verified, every row is chained to the one before", "green")
        return [] if run.status is AgentStatus.COMPLETED else [f"the run is {run.status.value}"]


if __name__ == "__main__":
    raise SystemExit(main())

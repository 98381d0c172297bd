"""The assistant at a keyboard, as a real process: in a pipe, in a terminal, and in a process after that."""

from __future__ import annotations

import asyncio
import os
import pty
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CHAT = [sys.executable, "-m", "examples.code_assistant.chat"]


def piped(folder: Path, *lines: str) -> str:
    said = subprocess.run(
        [*CHAT, str(folder)],
        cwd=ROOT,
        input="\n".join(lines),
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    assert said.stderr == ""
    return said.stdout


class Terminal:
    """A process with a terminal of its own."""

    def __init__(self, folder: Path) -> None:
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [*CHAT, str(folder)], cwd=ROOT, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
        os.close(theirs)
        os.set_blocking(self._ours, False)
        self.said = ""

    def type(self, line: str) -> None:
        os.write(self._ours, f"{line}\n".encode())

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Read on until something is so; only what hangs takes two minutes."""
        async with asyncio.timeout(120):
            while not is_so():
                try:
                    self.said += os.read(self._ours, 65_536).decode(errors="replace")
                except OSError:  # nothing is there yet, or nobody is there any more
                    await asyncio.sleep(0.01)

    async def until_said(self, words: str) -> None:
        await self.until(lambda: words in self.said)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)


@asynccontextmanager
async def terminal(folder: Path) -> AsyncGenerator[Terminal, None]:
    opened = Terminal(folder)
    try:
        yield opened
    finally:
        opened.close()


def test_in_a_pipe_lines_are_questions_and_answers(tmp_path: Path) -> None:
    said = piped(tmp_path, "write a.md: tea", "perhaps", "yes", "read a.md", "write b.md: x", "no, not today")
    assert "Please begin with yes or no." in said
    assert "workspace.read(a.md) gave tea" in said
    assert "a person rejected this call: not today" in said
    assert (tmp_path / "a.md").read_text() == "tea"
    assert not (tmp_path / "b.md").exists()


@pytest.mark.slow
def test_a_question_that_nobody_answered_is_asked_again_by_the_next_process(tmp_path: Path) -> None:
    assert "The question stays open" in piped(tmp_path, "write a.md: tea")
    assert not (tmp_path / "a.md").exists()
    said = piped(tmp_path, "yes", "list files")
    assert "An open run was found here" in said
    assert "workspace.list_files() gave 1 entry:\n  - a.md" in said


async def test_what_is_typed_in_between_reaches_the_run(tmp_path: Path) -> None:
    async with terminal(tmp_path) as chat:
        await chat.until_said("> ")
        chat.type('run "touch begun; while ! test -e go; do sleep 0.05; done; echo went"')
        await chat.until_said("yes, or no and why?")
        chat.type("yes")
        await chat.until((tmp_path / "begun").exists)
        chat.type("list files")
        await chat.until_said("(sent to the run)")
        (tmp_path / "go").touch()
        await chat.until_said("workspace.list_files() gave 2 entries:")


async def test_what_it_does_can_be_cancelled(tmp_path: Path) -> None:
    async with terminal(tmp_path) as chat:
        await chat.until_said("> ")
        chat.type('run "touch begun; sleep 600; touch ended"')
        await chat.until_said("yes, or no and why?")
        chat.type("yes")
        await chat.until((tmp_path / "begun").exists)
        chat.said = ""
        chat.type("/cancel")
        await chat.until_said("> ")
        chat.type("")
        await chat.until(lambda: chat.process.poll() is not None)
        assert chat.process.returncode == 0
    assert not (tmp_path / "ended").exists()


async def test_what_became_of_a_command_is_asked_when_its_process_was_killed(tmp_path: Path) -> None:
    async with terminal(tmp_path) as chat:
        await chat.until_said("> ")
        chat.type('run "echo x >> ran; while ! test -e go; do sleep 0.05; done; echo went"')
        await chat.until_said("yes, or no and why?")
        chat.type("yes")
        await chat.until((tmp_path / "ran").exists)
    (tmp_path / "go").touch()
    said = piped(tmp_path, "nonsense", "retry")
    assert "It is not known whether attempt 1 of 'shell.command' took effect." in said
    assert "retry, done, fail or cancel?" in said
    assert "output: went" in said
    assert (tmp_path / "ran").read_text() == "x\nx\n"

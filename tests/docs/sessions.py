"""Console blocks as sessions: commands with what they show, run in order and compared."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

_ID = re.compile(r"\b[0-9a-f]{32}\b|\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*[0-9])[0-9a-f]{12}\b")
# What is different every time; blanks too, because columns move with it.
_VARIES = (
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC|\b\d\d:\d\d:\d\d\b"), "TIME"),
    (re.compile(r"\b[\d.]+ (ms|s|min)\b"), "WHILE"),
    (re.compile(r"Python 3[.\d]+"), "PYTHON"),
    (re.compile(r"\b\d+ rows\b"), "ROWS"),
    (re.compile(r" +"), " "),
)


@dataclass
class Session:
    """A shell in a folder that remembers where it is, how the last command ended, and which id stands for which."""

    folder: Path
    code: int = 0
    ids: dict[str, str] = field(default_factory=dict[str, str])

    def run(self, command: str, shown: list[str]) -> tuple[list[str], list[str]]:
        """Run a command; what it shows and what the page shows, both without what is different every time."""
        if command.startswith("cd "):
            self.folder = self.folder / command.removeprefix("cd ")
            return [], shown
        text = self._output(_ID.sub(lambda found: self._own(found[0]), command))
        expected = "\n".join(shown)
        for written, own in zip(_ID.findall(expected), _ID.findall(text), strict=False):
            if len(written) == 32:
                self.ids.setdefault(written, own)
        expected = _ID.sub(lambda found: self._own(found[0]), expected)
        return _steady(text), _steady(expected)

    def _own(self, written: str) -> str:
        """The id of this session that stands for one on the page; the beginning of one for its beginning."""
        whole = next((own for each, own in self.ids.items() if each.startswith(written)), written)
        return whole[: len(written)]

    def _output(self, command: str) -> str:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environ = {name: each for name, each in os.environ.items() if not name.startswith("PILOTAGE_")}
        done = subprocess.run(  # noqa: S603 - the commands of our own pages
            ["/bin/sh", "-c", f"(exit {self.code}); {command}"],
            cwd=self.folder,
            env={**environ, "PATH": path, "PILOTAGE_AS": "ada"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
            check=False,
        )
        self.code = done.returncode
        return done.stdout


def steps(block: str) -> list[tuple[str, list[str]]]:
    """The commands of a block, each with the lines below it."""
    found: list[tuple[str, list[str]]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line.removeprefix("$ "), []))
        else:
            found[-1][1].append(line)
    return found


def _steady(text: str) -> list[str]:
    for varying, name in _VARIES:
        text = varying.sub(name, text)
    return [each.rstrip() for each in text.strip().splitlines()]

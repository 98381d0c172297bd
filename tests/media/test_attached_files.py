"""`pilotage run --attach FILE`: the model gets the file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.media.pictures import png

GALLERY = '''
from collections.abc import AsyncIterator

from pilotage import Agent, Application, IAgentModel, ModelRequest, ModelResponse, ModelStreamEvent
from pilotage.agent import MediaPart, ModelStreamEventKind


class Eye(IAgentModel):
    """Says what it was given."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        seen = [part for part in request.messages[-1].parts if isinstance(part, MediaPart)]
        return ModelResponse(", ".join(f"{each.name} is {each.media_type}" for each in seen) or "nothing")

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        yield ModelStreamEvent(ModelStreamEventKind.DONE, response=await self.complete(request))


@Agent()
class Viewer:
    """Say what you see."""


app = Application("gallery").add(Eye, Viewer).load_plugins()
'''


def call(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "gallery.py").write_text(GALLERY)
    command = [
        sys.executable,
        "-m",
        "pilotage.cli.main",
        "run",
        "gallery:Viewer",
        "--app",
        "gallery:app",
        "What is this?",
        *words,
    ]
    return subprocess.run(  # noqa: S603 - our own command
        command, cwd=folder, capture_output=True, text=True, check=False
    )


def test_the_model_gets_the_files(tmp_path: Path) -> None:
    (tmp_path / "cat.jpg").write_bytes(png())
    (tmp_path / "list.csv").write_text("a,b\n1,2\n")
    done = call(tmp_path, "--attach", "cat.jpg", "--attach", "list.csv")
    assert (done.returncode, done.stdout) == (0, "cat.jpg is image/png, list.csv is text/csv\n"), done.stderr


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("missing.png", None, "'missing.png' cannot be read: No such file or directory."),
        ("setup.png", b"MZ...", "what was given as 'image/png' is a program, and is not taken."),
    ],
)
def test_a_file_that_is_not_taken_is_refused(
    tmp_path: Path, name: str, content: bytes | None, why: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    done = call(tmp_path, "--attach", name)
    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr

"""An agent that keeps notes in a folder, to be talked to from the keyboard: no key, no server.

The offline model drives it. Type commands such as these, or `help`:

    list notes
    write shopping.txt: tea and a cake
    read shopping.txt then write it to copy.txt
    search cake

Run it: python examples/note_keeper/main.py              (ends with an empty line)
Check it: python examples/note_keeper/main.py --check
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from pilotage import Agent, Application, Final, Pod, RunAgentInput, Token, ToolEffects, agent_tool
from pilotage.agent import ToolApprovalRequirement
from pilotage.errors import ToolError
from pilotage.models import OfflineModel
from pilotage.runtime import AgentRunner


class Folder:
    """Where the notes are."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def note(self, name: str) -> Path:
        """The file of a note.

        Raises:
            ToolError: the name leads out of the folder.
        """
        found = (self.path / name).resolve()
        if found.parent != self.path.resolve():
            raise ToolError(f"{name} is not a note of this folder")
        return found


@Pod
class NoteTools:
    """What can be done with notes."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder

    @agent_tool(effects=ToolEffects.read_only())
    def list_notes(self) -> list[str]:
        """List all notes."""
        return sorted(each.name for each in self.folder.path.iterdir())

    @agent_tool(effects=ToolEffects.read_only())
    def read_note(self, path: str) -> str:
        """Read a note."""
        note = self.folder.note(path)
        if not note.exists():
            raise ToolError(f"there is no note {path}")
        return note.read_text()

    @agent_tool(effects=ToolEffects.read_only())
    def search_notes(self, query: str) -> list[str]:
        """Find the notes in which a text stands."""
        return [
            each for each in self.list_notes() if query.lower() in self.folder.note(each).read_text().lower()
        ]

    @agent_tool(effects=ToolEffects.write_state(), approval=ToolApprovalRequirement.NOT_REQUIRED)
    def write_note(self, path: str, content: str) -> str:
        """Write a note."""
        self.folder.note(path).write_text(content)
        return f"{len(content)} characters"


@Agent
class NoteKeeper:
    """Keep notes, and find them again."""

    def __init__(self, notes: NoteTools) -> None:
        self.notes = notes


@asynccontextmanager
async def note_keeper() -> AsyncGenerator[AgentRunner, None]:
    """The agent in an application, with a folder that goes away with it."""
    with TemporaryDirectory() as folder:
        app = Application("notes").add(NoteKeeper, NoteTools, Folder(Path(folder)), OfflineModel)
        async with app.load_plugins():
            yield AgentRunner.for_agent_instance(app.get(NoteKeeper))


async def answers(lines: Iterable[str]) -> list[str]:
    """Ask line by line, print what is said as it is said; all answers."""
    said: list[str] = []
    async with note_keeper() as runner:
        for number, line in enumerate(lines, start=1):
            async for item in runner.run(RunAgentInput(f"line-{number}", line)):
                match item.payload:
                    case Token(text=text):
                        print(text, end="", flush=True)
                    case Final(output=output):
                        said.append(str(output))
                    case _:
                        pass
            print("\n")
    return said


def typed() -> Iterator[str]:
    """What somebody types, up to an empty line or the end of the input."""
    with suppress(EOFError):
        while line := input("> ").strip():
            yield line


def check() -> None:
    """Type what the docstring says, and look at the answers."""
    lines = [
        "list notes",
        "write shopping.txt: tea and a cake",
        "read shopping.txt then write it to copy.txt",
        "search cake",
        "read ../secret.txt",
    ]
    empty, _, copied, found, refused = asyncio.run(answers(lines))
    assert "an empty list" in empty
    assert "write_note(copy.txt, tea and a cake) gave 14 characters" in copied
    assert "- copy.txt\n- shopping.txt" in found
    assert "is not a note of this folder" in refused
    print("demo: ok")


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        check()
    else:
        asyncio.run(answers(typed()))

"""The workspace: nothing outside of it is read or written, and no call takes more than its bounds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from examples.code_assistant.workspace import Workspace, WorkspaceLimits
from examples.code_assistant.workspace_tools import WorkspaceTools
from pilotage.errors import ToolError

LIMITS = WorkspaceLimits(read_bytes=100, write_bytes=50, entries=3, matches=2, searched_bytes=300)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "outside.txt").write_text("nobody's business")
    root = tmp_path / "work"
    (root / "src").mkdir(parents=True)
    (root / "README.md").write_text("hello\n")
    (root / "src" / "main.py").write_text("print('hello')\nprint('Hello again')\n")
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("[core]")
    (root / ".env").write_text("KEY=1")
    return root


@pytest.fixture
def workspace(root: Path) -> Workspace:
    return Workspace(root, LIMITS)


@pytest.fixture
def tools(workspace: Workspace) -> WorkspaceTools:
    return WorkspaceTools(workspace)


@pytest.mark.parametrize(
    "path",
    ["../outside.txt", "src/../../outside.txt", "/etc/passwd", "..", "src/../..", "../work2/x"],
)
def test_a_path_that_leads_out_is_refused(workspace: Workspace, path: str) -> None:
    with pytest.raises(ToolError, match="leads out of the workspace"):
        workspace.read(path)
    with pytest.raises(ToolError, match="leads out of the workspace"):
        workspace.write(path, "x")


@pytest.mark.parametrize("path", [".git/config", "src/../.git/config", ".GIT/config", ".env", ".pilotage/x"])
def test_what_is_closed_is_neither_read_nor_written(workspace: Workspace, path: str) -> None:
    with pytest.raises(ToolError, match="is closed"):
        workspace.read(path)
    with pytest.raises(ToolError, match="is closed"):
        workspace.write(path, "x")


@pytest.mark.parametrize("path", ["a\0b", "x" * 5000, "loop/x"])
def test_a_path_that_cannot_be_followed_is_an_error_in_words(
    workspace: Workspace, root: Path, path: str
) -> None:
    (root / "loop").symlink_to("loop")
    with pytest.raises(ToolError):
        workspace.read(path)
    with pytest.raises(ToolError):
        workspace.write(path, "x")


def test_a_link_out_of_the_workspace_is_refused_wherever_it_stands(workspace: Workspace, root: Path) -> None:
    (root / "leak.txt").symlink_to(root.parent / "outside.txt")
    (root / "up").symlink_to(root.parent)
    (root / "nowhere").symlink_to(root.parent / "not-there-yet")
    for path in ("leak.txt", "up/outside.txt", "nowhere"):
        with pytest.raises(ToolError, match="leads out of the workspace"):
            workspace.read(path)
        with pytest.raises(ToolError, match="leads out of the workspace"):
            workspace.write(path, "x")
    assert (root.parent / "outside.txt").read_text() == "nobody's business"
    assert not (root.parent / "not-there-yet").exists()


def test_a_link_to_what_is_closed_is_closed(workspace: Workspace, root: Path) -> None:
    (root / "innocent.txt").symlink_to(".git/config")
    with pytest.raises(ToolError, match="is closed"):
        workspace.read("innocent.txt")


def test_a_link_inside_the_workspace_is_followed(workspace: Workspace, root: Path) -> None:
    (root / "link.md").symlink_to("README.md")
    assert workspace.read("link.md") == "hello\n"
    workspace.write("link.md", "changed")
    assert (root / "link.md").is_symlink()
    assert (root / "README.md").read_text() == "changed"


class Swapped(Workspace):
    """A workspace in which somebody puts a link in the place of a folder once a path has been looked at."""

    def _inside(self, path: str) -> tuple[str, ...]:
        parts = super()._inside(path)
        (self.root / "src").rename(self.root / "moved")
        (self.root / "src").symlink_to(self.root.parent)
        return parts


def test_a_link_that_is_put_there_behind_the_check_is_not_followed(root: Path) -> None:
    with pytest.raises(ToolError, match="src/outside.txt"):
        Swapped(root).read("src/outside.txt")
    with pytest.raises(ToolError):
        Workspace(root).write("src/new/outside.txt", "x")
    assert (root.parent / "outside.txt").read_text() == "nobody's business"


def test_only_files_are_read_and_written(workspace: Workspace, root: Path) -> None:
    os.mkfifo(root / "pipe")
    for path in ("pipe", "src", "."):
        with pytest.raises(ToolError):
            workspace.read(path)
        with pytest.raises(ToolError):
            workspace.write(path, "x")


def test_too_much_is_neither_read_nor_written(workspace: Workspace, root: Path) -> None:
    (root / "long.txt").write_text("x" * 101)
    (root / "fits.txt").write_text("x" * 100)
    assert len(workspace.read("fits.txt")) == 100
    with pytest.raises(ToolError, match="more than 100 bytes"):
        workspace.read("long.txt")
    with pytest.raises(ToolError, match="51 bytes are too many"):
        workspace.write("new.txt", "é" + "x" * 49)
    assert not (root / "new.txt").exists()


def test_what_is_no_text_is_not_read(workspace: Workspace, root: Path) -> None:
    (root / "picture.png").write_bytes(b"\x89PNG\xff")
    with pytest.raises(ToolError, match="is not a text"):
        workspace.read("picture.png")


def test_a_file_is_replaced_as_a_whole_and_keeps_its_mode(workspace: Workspace, root: Path) -> None:
    script = root / "run.sh"
    script.write_text("old")
    script.chmod(0o755)
    assert workspace.write("run.sh", "new") is False
    assert (script.read_text(), script.stat().st_mode & 0o777) == ("new", 0o755)
    assert workspace.write("deep/down/new.txt", "x") is True
    assert sorted(each.name for each in (root / "deep" / "down").iterdir()) == ["new.txt"]


def test_listing_leaves_out_links_and_what_is_closed_and_has_an_end(
    tools: WorkspaceTools, root: Path
) -> None:
    (root / "link").symlink_to("README.md")
    (root / os.fsdecode(b"\xff.txt")).write_text("")
    for folder in (".cache", "node_modules"):
        (root / folder).mkdir()
        (root / folder / "made.js").write_text("made")
    assert tools.read("node_modules/made.js") == "made"
    assert tools.list_files() == ["README.md", "src/main.py"]
    assert tools.list_files("src") == ["src/main.py"]
    for number in range(5):
        (root / f"{number}.txt").write_text("")
    assert tools.list_files() == ["0.txt", "1.txt", "2.txt", "... more than 3 files"]
    with pytest.raises(ToolError, match="there is no 'nowhere'"):
        tools.list_files("nowhere")


def test_searching_shows_lines_and_has_an_end(tools: WorkspaceTools, root: Path) -> None:
    assert tools.search("AGAIN") == ["src/main.py:2: print('Hello again')"]
    assert tools.search("hello") == [
        "README.md:1: hello",
        "src/main.py:1: print('hello')",
        "... more than 2 lines",
    ]
    assert tools.search("hello", "src")[0] == "src/main.py:1: print('hello')"
    (root / "a.bin").write_bytes(b"\xff again")
    assert len(tools.search("again")) == 1
    assert tools.search("KEY=1") == []
    for number in range(4):
        (root / f"b{number}.txt").write_text("x" * 90)
    assert tools.search("nowhere") == ["... the search ended before b3.txt: there is too much to look at"]
    with pytest.raises(ToolError, match="say what to look for"):
        tools.search(" ")


def test_reading_may_begin_anywhere(tools: WorkspaceTools) -> None:
    assert tools.read("src/main.py", first_line=2, lines=1) == "print('Hello again')\n"
    assert tools.read("src/main.py", first_line=9) == ""


def test_a_patch_changes_one_place_and_may_be_repeated(tools: WorkspaceTools, root: Path) -> None:
    assert tools.patch("src/main.py", "Hello again", "Goodbye") == "src/main.py is changed"
    once = (root / "src" / "main.py").read_text()
    assert tools.patch("src/main.py", "Hello again", "Goodbye") == "src/main.py says so already"
    assert (root / "src" / "main.py").read_text() == once == "print('hello')\nprint('Goodbye')\n"
    with pytest.raises(ToolError, match="several places"):
        tools.patch("src/main.py", "print", "show")
    with pytest.raises(ToolError, match="is not there"):
        tools.patch("src/main.py", "farewell", "hello there")


def test_writing_says_what_came_of_it(tools: WorkspaceTools, root: Path) -> None:
    assert tools.write("notes/a.md", "one\ntwo\n") == "notes/a.md is new and has 2 lines"
    assert tools.write("notes/a.md", "one\n") == "notes/a.md has 1 lines"

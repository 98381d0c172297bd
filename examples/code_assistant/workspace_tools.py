"""What a model may do with files: list, search and read at will; write and patch when a person allows it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Annotated

from pydantic import Field

from examples.code_assistant.patching import PatchError, patched
from examples.code_assistant.workspace import Workspace
from pilotage import Idempotency, Pod, ToolEffects, agent_tool
from pilotage.errors import ToolError


@Pod
class WorkspaceTools:
    """The files of a workspace. Anybody may have written them, so what is read there is not to be trusted."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace

    @agent_tool(name="workspace.list_files", effects=ToolEffects.read_only(), reads_untrusted=True)
    def list_files(self, folder: str = ".") -> list[str]:
        """List the files below a folder.

        Args:
            folder: where to begin; the whole workspace by default.
        """
        most = self.workspace.limits.entries
        found = list(islice(self.workspace.files(folder), most + 1))
        return found if len(found) <= most else [*found[:most], f"... more than {most} files"]

    @agent_tool(
        name="workspace.search",
        effects=ToolEffects.read_only(),
        reads_untrusted=True,
        reads_private=True,
    )
    def search(self, query: str, folder: str = ".") -> list[str]:
        """Find the lines in which a text stands, as `path:line: text`.

        Args:
            query: the text, as it stands there; upper and lower case are the same.
            folder: where to look; the whole workspace by default.
        """
        if not query.strip():
            raise ToolError("say what to look for")
        most = self.workspace.limits.matches
        found = list(islice(self._matches(query.lower(), folder), most + 1))
        return found if len(found) <= most else [*found[:most], f"... more than {most} lines"]

    @agent_tool(
        name="workspace.read", effects=ToolEffects.read_only(), reads_untrusted=True, reads_private=True
    )
    def read(
        self,
        path: str,
        first_line: Annotated[int, Field(ge=1)] = 1,
        lines: Annotated[int, Field(ge=1, le=10_000)] = 2_000,
    ) -> str:
        """Read a file.

        Args:
            path: the file, from the workspace on.
            first_line: the line to begin with.
            lines: how many lines at most.
        """
        text = self.workspace.read(path)
        return "".join(text.splitlines(keepends=True)[first_line - 1 : first_line - 1 + lines])

    @agent_tool(
        name="workspace.write",
        effects=ToolEffects.write_state(),
        idempotency=Idempotency.IDEMPOTENT,
    )
    def write(self, path: str, content: str) -> str:
        """Write a whole file.

        Args:
            path: the file, from the workspace on; folders are made as needed.
            content: everything that the file shall say.
        """
        is_new = self.workspace.write(path, content)
        return f"{path} {'is new and ' if is_new else ''}has {len(content.splitlines())} lines"

    @agent_tool(
        name="workspace.patch",
        effects=ToolEffects.write_state(),
        idempotency=Idempotency.IDEMPOTENT,
    )
    def patch(self, path: str, old: str, new: str) -> str:
        """Replace a text that stands in one place of a file.

        Args:
            path: the file, from the workspace on.
            old: the text to be replaced, exactly as it stands there.
            new: what shall stand there instead.
        """
        text = self.workspace.read(path)
        try:
            changed = patched(text, old, new)
        except PatchError as error:
            raise ToolError(f"{path}: {error}") from error
        if changed == text:
            return f"{path} says so already"
        self.workspace.write(path, changed)
        return f"{path} is changed"

    def _matches(self, query: str, folder: str) -> Iterator[str]:
        left = self.workspace.limits.searched_bytes
        for path in self.workspace.files(folder):
            try:
                text = self.workspace.read(path)
            except ToolError:
                continue  # no text, or too long: nothing that a search could show
            left -= len(text)
            if left < 0:
                yield f"... the search ended before {path}: there is too much to look at"
                return
            for number, line in enumerate(text.split("\n"), start=1):
                if query in line.lower():
                    yield f"{path}:{number}: {line.strip()[:200]}"

"""`new`: a small project that works."""

from __future__ import annotations

from typing import Annotated

import typer


def new(
    name: Annotated[str, typer.Argument(help="The name of the project, and of the folder that is made.")],
) -> None:
    """Make a small project that works: an agent, a tool, a test. No key and no server needed."""
    from pilotage.cli.work.new_project import new_project

    new_project(name)

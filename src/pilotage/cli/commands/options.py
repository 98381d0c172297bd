"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Annotated, Any

import typer

AppOption = Annotated[
    str | None,
    typer.Option(
        "--app",
        metavar="MODULE:NAME",
        help="The application, or an agent to make one for. Default: PILOTAGE_APP, or tool.pilotage.app in "
        "pyproject.toml.",
    ),
]
TenantOption = Annotated[
    str | None, typer.Option("--tenant", help="Whose runs. Default: PILOTAGE_TENANT, or 'default'.")
]
AsOption = Annotated[
    str | None,
    typer.Option("--as", metavar="NAME", help="Who asks. Default: PILOTAGE_AS, or your login name."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="For programs: JSON, one value a line.")]
ReasoningOption = Annotated[bool, typer.Option("--reasoning", help="Show what the model thinks, too.")]


def finish(code: int) -> None:
    """End the command with an exit code."""
    if code:
        raise typer.Exit(code)


def carry_out(work: Coroutine[Any, Any, int]) -> None:
    """Do the work of a command, and end with its exit code."""
    import asyncio

    finish(asyncio.run(work))

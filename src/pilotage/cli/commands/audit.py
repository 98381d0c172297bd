"""`audit ...`: commands that keep the heads of journals, and compare the database with them later."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pilotage.cli.asked import Asked
from pilotage.cli.commands.options import AppOption, JsonOption, TenantOption, carry_out

commands = typer.Typer(
    help="Notice a database that was rolled back, and runs that were deleted.", no_args_is_help=True
)


@commands.command()
def heads(app: AppOption = None, tenant: TenantOption = None) -> None:
    """Write the head of every run's journal to standard output, a line of JSON each.

    Keep them where the database's administrators cannot write. With --tenant, those of one tenant.
    """
    from pilotage.cli.work.auditing import write_heads

    carry_out(write_heads(Asked(app, tenant)))


@commands.command()
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `pilotage audit heads` has written.")],
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Say which runs are gone or do not continue from the heads in a file."""
    from pilotage.cli.work.auditing import check_heads

    carry_out(check_heads(Asked(app, None, None, json), file))

"""`db`: the tables that runs are kept in."""

from __future__ import annotations

from typing import Annotated

import typer

from pilotage.cli.commands.options import finish

commands = typer.Typer(help="Look after the tables that runs are kept in.", no_args_is_help=True)

UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url", help="The address of the database. Default: PILOTAGE_DATABASE_URL, or the embedded one."
    ),
]


@commands.command()
def upgrade(url: UrlOption = None) -> None:
    """Bring the tables up to date; safe to repeat, and for several at once."""
    from pilotage.cli.work import database

    finish(database.with_database(database.upgrade, url))


@commands.command()
def current(url: UrlOption = None) -> None:
    """Say which version the tables have."""
    from pilotage.cli.work import database

    finish(database.with_database(database.current, url))


@commands.command()
def check(url: UrlOption = None) -> None:
    """Say whether an application could use the database as it is."""
    from pilotage.cli.work import database

    finish(database.with_database(database.check, url))

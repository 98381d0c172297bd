"""All commands together."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from pilotage.cli.commands import answers, database, runs
from pilotage.cli.commands.application import check, describe, worker
from pilotage.cli.commands.doctor import doctor
from pilotage.cli.commands.new import new
from pilotage.cli.commands.run import run
from pilotage.cli.commands.serve import agui_stdio, serve


def command() -> Callable[..., Any]:
    """The command `pilotage`, to be called with arguments."""
    root = typer.Typer(
        name="pilotage",
        help="Agents as ordinary application components.",
        no_args_is_help=True,
        rich_markup_mode="rich" if sys.stdout.isatty() else None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        callback=_options,
    )
    declared: tuple[Callable[..., None], ...] = (new, run, serve, agui_stdio, worker, doctor, check, describe)
    for each in declared:
        root.command()(each)
    about_runs = typer.Typer(
        help="Look at runs and act on them. Ids may be abbreviated.", no_args_is_help=True
    )
    about_runs.add_typer(runs.commands)
    about_runs.add_typer(answers.commands)
    root.add_typer(about_runs, name="runs")
    root.add_typer(database.commands, name="db")
    return typer.main.get_command(root)


def _tell_version(wanted: bool) -> None:
    if wanted:
        from pilotage.cli.main import own_version

        typer.echo(f"pilotage {own_version()}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_tell_version, is_eager=True, help="Say the version, and leave."),
    ] = False,
) -> None:
    """Agents as ordinary application components."""

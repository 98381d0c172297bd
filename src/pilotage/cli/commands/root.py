"""The command `pilotage`: its groups, and the commands that are in none."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from pilotage.cli.asked import Asked
from pilotage.cli.commands import audit, runs
from pilotage.cli.commands.options import (
    AppOption,
    AsOption,
    JsonOption,
    ReasoningOption,
    TenantOption,
    carry_out,
    finish,
)

Target = Annotated[str, typer.Argument(metavar="MODULE:NAME", help="For example shop.main:app.")]
AgentArgument = Annotated[
    str, typer.Argument(metavar="AGENT", help="MODULE:CLASS, or the name of an agent of the application.")
]
UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url", help="The address of the database. Default: PILOTAGE_DATABASE_URL, or the embedded one."
    ),
]

db = typer.Typer(help="Look after the tables that runs are kept in.", no_args_is_help=True)


def command() -> Callable[..., Any]:
    """Return the command `pilotage`, to be called with arguments."""
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
    root.add_typer(runs.commands, name="runs")
    root.add_typer(audit.commands, name="audit")
    root.add_typer(db, name="db")
    return typer.main.get_command(root)


def new(
    name: Annotated[str, typer.Argument(help="The name of the project, and of the folder that is made.")],
) -> None:
    """Make a small project that works: an agent, a tool, a test. No key and no server needed."""
    from pilotage.cli.work.new_project import new_project

    new_project(name)


def run(
    agent: AgentArgument,
    text: Annotated[
        str | None,
        typer.Argument(
            metavar="[TEXT]", help="What it is asked; - reads standard input. JSON where it takes no text."
        ),
    ] = None,
    app: AppOption = None,
    tenant: TenantOption = None,
    as_: AsOption = None,
    json: JsonOption = False,
    reasoning: ReasoningOption = False,
) -> None:
    """Run an agent and show what it does. Ctrl-C cancels the run, a second one leaves it.

    Questions are asked here if this is a terminal. The runs of a durable agent are kept in the store of its
    application, and can be resumed.
    """
    from pilotage.cli.work.acting_on_runs import run_agent

    carry_out(run_agent(Asked(app, tenant, as_, json), agent, text, reasoning=reasoning))


def serve(
    application: Target,
    host: Annotated[str, typer.Option("--host", help="The address to bind.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65_535, help="The port; 0 takes a free one.")
    ] = 8000,
    token: Annotated[
        list[str] | None,
        typer.Option(
            "--token",
            metavar="WHO[@TENANT]=VARIABLE",
            help="Let somebody in by the bearer token that an environment variable holds; several times for several.",
        ),
    ] = None,
) -> None:
    """Serve the runs of an application over HTTP.

    It stops with Ctrl-C or SIGTERM. Without tokens, and without a resolver of principals in the application, only this
    machine is served.
    """
    from pilotage.cli.work.application import serve_application

    finish(serve_application(application, host, port, token or []))


def agui_stdio(
    agent: AgentArgument, app: AppOption = None, tenant: TenantOption = None, as_: AsOption = None
) -> None:
    """Talk AG-UI over standard input and output.

    One JSON text a line, in both directions.
    """
    from pilotage.cli.work.acting_on_runs import talk

    carry_out(talk(Asked(app, tenant, as_), agent))


def worker(
    application: Target,
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", metavar="N", help="Take up at most N runs at once.")
    ] = None,
    grace: Annotated[
        float | None,
        typer.Option(
            "--grace",
            metavar="SECONDS",
            help="Let runs finish their current action for so long when it stops.",
        ),
    ] = None,
) -> None:
    """Take up runs that nobody drives, until SIGTERM."""
    from pilotage.cli.work.worker import work

    finish(work(application, concurrency, grace))


def doctor(app: AppOption = None, json: JsonOption = False) -> None:
    """Look whether everything is there.

    Settings, plugins, database, model server and application; what is off is said with the way out.
    """
    from pilotage.cli.work.doctor import examine

    carry_out(examine(app, as_json=json))


def check(application: Target) -> None:
    """Say everything that keeps an application from starting."""
    from pilotage.cli.work.application import check as work

    finish(work(application))


def describe(
    application: Target,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="As a Mermaid flowchart.")] = False,
) -> None:
    """Show the pods of an application and what each of them needs."""
    from pilotage.cli.work.application import describe as work

    finish(work(application, as_mermaid=mermaid))


@db.command()
def upgrade(url: UrlOption = None) -> None:
    """Bring the tables up to date; safe to repeat, and for several at once."""
    from pilotage.cli.work import database

    finish(database.with_database(database.upgrade, url))


@db.command()
def current(url: UrlOption = None) -> None:
    """Say which version the tables have."""
    from pilotage.cli.work import database

    finish(database.with_database(database.current, url))


@db.command("check")
def check_database(url: UrlOption = None) -> None:
    """Say whether an application could use the database as it is."""
    from pilotage.cli.work import database

    finish(database.with_database(database.check, url))


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

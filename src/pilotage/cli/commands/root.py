"""The command `pilotage`: its groups, and the commands that are in none."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Annotated, Any

import typer

from pilotage.agent.ports.costs import CostField
from pilotage.cli.commands import mcp, runs, storage
from pilotage.cli.options import CHANGES, READS, CommandOptions, ReasoningOption, takes

AttachOption = Annotated[
    list[Path] | None,
    typer.Option("--attach", metavar="FILE", help="A picture, a sound or a file for the model; repeatable."),
]
Target = Annotated[
    str | None,
    typer.Argument(
        metavar="[MODULE:NAME]",
        help="For example shop.main:app, or shop/main.py:app; the same as --app.",
        show_default=False,
    ),
]
AgentArgument = Annotated[
    str,
    typer.Argument(
        metavar="AGENT", help="MODULE:CLASS, FILE.py:CLASS, or the name of an agent of the application."
    ),
]
ConversationOption = Annotated[
    str | None,
    typer.Option(
        "--conversation", metavar="ID", help="Show the model the earlier turns of this conversation."
    ),
]
_HELP = ["-h", "--help"]
_LEAST_COLUMNS_OF_PANELS = 76


def command() -> Callable[..., Any]:
    """Return the command `pilotage`, to be called with arguments."""
    has_panels = sys.stdout.isatty() and shutil.get_terminal_size().columns >= _LEAST_COLUMNS_OF_PANELS
    root = typer.Typer(
        name="pilotage",
        help="Agents as ordinary application components.",
        no_args_is_help=True,
        rich_markup_mode="rich" if has_panels else None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": _HELP},
        callback=_options,
    )
    declared: tuple[Callable[..., None], ...] = (
        *(new, run, chat, serve, agui_stdio, worker, costs, doctor, check, describe),
    )
    for each in declared:
        root.command()(each)
    root.add_typer(runs.commands, name="runs")
    root.add_typer(mcp.commands, name="mcp")
    root.add_typer(storage.memory, name="memory")
    root.add_typer(storage.audit, name="audit")
    root.add_typer(storage.db, name="db")
    built = typer.main.get_command(root)
    for each in _commands_in(built):
        context = each.context_class(each, help_option_names=_HELP)
        for parameter in (*each.params, each.get_help_option(context)):
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""  # a flag takes no value, so its help shows no type
    return built


def _commands_in(command: Any) -> Iterator[Any]:
    """Return a command and all commands below it."""
    yield command
    for each in getattr(command, "commands", {}).values():
        yield from _commands_in(each)


def new(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The name of the project, and of the folder that is made.")
    ],
) -> None:
    """Make a small project that works: an agent, a tool, a test. It needs no key and no server."""
    from pilotage.cli.handlers.new_project import new_project

    new_project(name)


@takes(CHANGES)
def run(
    options: CommandOptions,
    agent: AgentArgument,
    text: Annotated[
        str | None,
        typer.Argument(
            metavar="[TEXT]", help="The input; - reads standard input. JSON where the agent takes no text."
        ),
    ] = None,
    conversation: ConversationOption = None,
    reasoning: ReasoningOption = False,
    attach: AttachOption = None,
) -> int:
    """Run an agent and show what it does. Ctrl-C cancels the run, a second one leaves it.

    In a terminal, questions of the run are asked here. Runs of a durable agent are stored by its application and can
    be resumed.
    """
    from pilotage.cli.handlers.run import RunSettings, run_agent

    return run_agent(options, agent, text, RunSettings(conversation, reasoning, attach or ()))


@takes(("app", "tenant", "principal_id"))
def chat(
    options: CommandOptions,
    agent: AgentArgument,
    conversation: ConversationOption = None,
    reasoning: ReasoningOption = False,
    attach: AttachOption = None,
) -> int:
    """Chat with an agent: a run for each line, as one conversation.

    Questions are asked between the lines. Ctrl-C cancels the run under way; Ctrl-D or /quit ends the chat.
    """
    from pilotage.cli.handlers.run import RunSettings, chat_with_agent

    return chat_with_agent(options, agent, RunSettings(conversation, reasoning, attach or ()))


@takes(("app",))
def serve(
    options: CommandOptions,
    application: Target = None,
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="The address to bind.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", metavar="N", min=0, max=65_535, help="The port; 0 takes a free one.")
    ] = 8000,
    token: Annotated[
        list[str] | None,
        typer.Option(
            "--token",
            metavar="WHO[@TENANT]=VARIABLE",
            help="Accept the bearer token in an environment variable as this principal; repeatable.",
        ),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-origin",
            metavar="URL",
            help="Let pages of another origin send requests, for example http://localhost:5173; repeatable.",
        ),
    ] = None,
    no_worker: Annotated[
        bool, typer.Option("--no-worker", help="Leave runs without an owner to other processes.")
    ] = False,
) -> int:
    """Serve an application over HTTP. Runs whose process died are taken up.

    It stops at Ctrl-C or SIGTERM. Without tokens, and without an IPrincipalResolver in the application, it serves only
    this machine.
    """
    from pilotage.cli.application import application_to_serve
    from pilotage.cli.handlers.serve import ServeSettings, serve_application

    settings = ServeSettings(host, port, token or (), allow_origin or (), not no_worker)
    return serve_application(application_to_serve(application, options.app), settings)


@takes(("app", "tenant", "principal_id"))
def agui_stdio(options: CommandOptions, agent: AgentArgument) -> int:
    """Talk AG-UI over standard input and output.

    One JSON text a line, in both directions.
    """
    from pilotage.cli.handlers.run import talk_agui

    return talk_agui(options, agent)


@takes(("app",))
def worker(
    options: CommandOptions,
    application: Target = None,
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", metavar="N", help="Take up at most N runs at once.")
    ] = None,
    grace: Annotated[
        float | None,
        typer.Option(
            "--grace",
            metavar="SECONDS",
            help="The time runs have to finish their current action at shutdown.",
        ),
    ] = None,
) -> int:
    """Take up runs that no process drives, until SIGTERM or Ctrl-C."""
    from pilotage.cli.application import application_to_serve
    from pilotage.cli.handlers.application import work

    return work(application_to_serve(application, options.app), concurrency, grace)


@takes(READS)
def costs(
    options: CommandOptions,
    by: Annotated[
        list[CostField] | None,
        typer.Option(
            "--by", metavar="FIELD", help=f"Sums by this field; repeatable: {', '.join(CostField)}."
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="Only calls since: 15m, 2h, 7d, 2026-11-15 (UTC)."),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="Only calls before this time.")
    ] = None,
) -> int:
    """Show what the durable runs of a tenant cost."""
    from pilotage.cli.application import read_runs
    from pilotage.cli.handlers.costs import show_costs

    times = [None if each is None else runs.moment(each) for each in (since, until)]
    return read_runs(options, show_costs, by or (), *times)


@takes(("app", "as_json"))
def doctor(options: CommandOptions) -> int:
    """Check settings, plugins, database, model server, application.

    Every problem is shown with its remedy.
    """
    from pilotage.cli.handlers.doctor import examine

    return examine(options.app, as_json=options.as_json)


@takes(("app",))
def check(options: CommandOptions, application: Target = None) -> int:
    """Show everything that keeps an application from starting."""
    from pilotage.cli.application import application_to_serve
    from pilotage.cli.handlers.application import check as work

    return work(application_to_serve(application, options.app))


@takes(("app",))
def describe(
    options: CommandOptions,
    application: Target = None,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="As a Mermaid flowchart.")] = False,
) -> int:
    """Show the pods of an application and what each of them needs."""
    from pilotage.cli.application import application_to_serve
    from pilotage.cli.handlers.application import describe as work

    return work(application_to_serve(application, options.app), as_mermaid=mermaid)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pilotage {version_of('pilotage')}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Agents as ordinary application components."""

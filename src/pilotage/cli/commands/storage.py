"""`db ...`, `audit ...`, `memory ...`: commands on what a database stores besides runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pilotage.agent.ports.memory import MOST_RECALLED, MemoryKind
from pilotage.cli.options import CHANGES, CommandOptions, finish, takes

UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        help="The address of the database. Default: PILOTAGE_DATABASE_URL, or the embedded one.",
    ),
]
UserOption = Annotated[
    str | None,
    typer.Option("--user", metavar="NAME", help="Whose memory. Default: the principal that acts (--as)."),
]
AgentOption = Annotated[
    str | None, typer.Option("--agent", metavar="NAME", help="Only what was stored for this agent.")
]

db = typer.Typer(help="Check and upgrade the tables of the database.", no_args_is_help=True)
audit = typer.Typer(help="Find a database that was rolled back, and deleted runs.", no_args_is_help=True)
memory = typer.Typer(help="Read and delete what agents remember of a user.", no_args_is_help=True)


@db.command()
def upgrade(url: UrlOption = None) -> None:
    """Upgrade the tables. Safe to repeat, and to run in several processes at once."""
    from pilotage.cli.handlers import storage

    finish(storage.with_database(storage.upgrade, url))


@db.command()
def current(url: UrlOption = None) -> None:
    """Show the version of the tables."""
    from pilotage.cli.handlers import storage

    finish(storage.with_database(storage.current, url))


@db.command("check")
def check_database(url: UrlOption = None) -> None:
    """Show whether an application can use the database as it is."""
    from pilotage.cli.handlers import storage

    finish(storage.with_database(storage.check, url))


@audit.command()
@takes(("app", "tenant"))
def heads(options: CommandOptions) -> int:
    """Write the head of every run's journal as a line of JSON.

    Store them where the administrators of the database cannot write. With --tenant, those of one tenant.
    """
    from pilotage.cli.application import read_runs
    from pilotage.cli.handlers.storage import write_heads

    return read_runs(options, write_heads)


@audit.command()
@takes(("app", "as_json"))
def check(
    options: CommandOptions,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The output of `pilotage audit heads`.")],
) -> int:
    """Show runs that are gone or differ from the heads in a file."""
    from pilotage.cli.application import read_runs
    from pilotage.cli.handlers.storage import check_heads

    return read_runs(options, check_heads, file)


@memory.command("list")
@takes(CHANGES)
def list_memory(
    options: CommandOptions,
    query: Annotated[
        str,
        typer.Argument(metavar="[QUERY]", help="Items with these words, best first. Default: the latest."),
    ] = "",
    kind: Annotated[MemoryKind | None, typer.Option("--kind", help="Only items of this kind.")] = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, max=MOST_RECALLED, help="At most so many.")
    ] = 20,
    user: UserOption = None,
    agent: AgentOption = None,
) -> int:
    """List what is stored for a user."""
    from pilotage.cli.handlers import storage

    return storage.list_memory(storage.MemoryOptions(options, user, agent), query, kind, limit)


@memory.command("show")
@takes(CHANGES)
def show_memory(
    options: CommandOptions,
    item: Annotated[str, typer.Argument(metavar="ITEM", help="The id of an item, or its beginning.")],
    user: UserOption = None,
    agent: AgentOption = None,
) -> int:
    """Show one item with its trust label."""
    from pilotage.cli.handlers import storage

    return storage.show_memory(storage.MemoryOptions(options, user, agent), item)


@memory.command("export")
@takes(("app", "tenant", "principal_id"))
def export_memory(
    options: CommandOptions,
    user: UserOption = None,
    agent: AgentOption = None,
) -> int:
    """Write all items of a user as lines of JSON, oldest first."""
    from pilotage.cli.handlers import storage

    return storage.export_memory(storage.MemoryOptions(options, user, agent))


@memory.command("forget")
@takes(CHANGES)
def forget_memory(
    options: CommandOptions,
    item: Annotated[
        str | None, typer.Argument(metavar="[ITEM]", help="The id of an item, or its beginning.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Everything that is stored for the user.")
    ] = False,
    user: UserOption = None,
    agent: AgentOption = None,
) -> int:
    """Delete an item, or with --all all items of a user. It cannot be undone."""
    from pilotage.cli.handlers import storage

    return storage.forget_memory(storage.MemoryOptions(options, user, agent), item, is_everything=everything)

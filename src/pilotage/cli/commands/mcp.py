"""`mcp ...`: commands about the Model Context Protocol."""

from __future__ import annotations

from typing import Annotated

import typer

from pilotage.cli.options import CommandOptions, takes

Target = Annotated[
    str | None,
    typer.Argument(
        metavar="[MODULE:NAME]",
        help="For example shop.main:app, or shop/main.py:app; the same as --app.",
        show_default=False,
    ),
]

commands = typer.Typer(help="Serve agents to MCP clients.", no_args_is_help=True)


@commands.callback()
def group() -> None:
    """Keep the group a group while it has one command."""


@commands.command()
@takes(("app", "tenant", "principal_id"))
def serve(options: CommandOptions, application: Target = None) -> int:
    """Serve the agents of an application as MCP tools, over standard input and output.

    An MCP client starts this command, and its user is the principal of all runs: --as and --tenant. Over HTTP it is
    mcp_extension of pilotage.adapters.mcp_server.
    """
    from pilotage.cli.application import application_to_serve
    from pilotage.cli.handlers.mcp import serve_mcp

    return serve_mcp(application_to_serve(application, options.app), options.principal)

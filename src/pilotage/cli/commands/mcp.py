"""`mcp ...`: the MCP servers that an application uses, and the application as one."""

from __future__ import annotations

from typing import Annotated

import typer

from pilotage.cli.options import CommandOptions, takes

ServerArgument = Annotated[str, typer.Argument(metavar="SERVER", help="The name of a server.")]
ServersArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[SERVER...]", help="Only these servers. Default: all.", show_default=False),
]

Target = Annotated[
    str | None,
    typer.Argument(
        metavar="[MODULE:NAME]",
        help="For example shop.main:app, or shop/main.py:app; the same as --app.",
        show_default=False,
    ),
]

commands = typer.Typer(
    help="See, call and accept the tools of MCP servers; serve your own.", no_args_is_help=True
)


@commands.command("list")
@takes(("app", "as_json"))
def list_tools(options: CommandOptions, servers: ServersArgument = None) -> int:
    """List the tools of servers: which are offered, which are off, and why."""
    from pilotage.cli.handlers import mcp

    return mcp.list_tools(options, servers or ())


@commands.command()
@takes(("app", "as_json"))
def diff(
    options: CommandOptions,
    servers: ServersArgument = None,
    whole: Annotated[bool, typer.Option("--whole", help="Every line, however many there are.")] = False,
) -> int:
    """Show what differs between the tools that servers list and those that were accepted.

    It exits with 1 if a tool is off.
    """
    from pilotage.cli.handlers import mcp

    return mcp.show_differences(options, servers or (), is_whole=whole)


@commands.command()
@takes(("app", "principal_id", "as_json"))
def approve(
    options: CommandOptions,
    server: ServerArgument,
    tools: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TOOL...]", help="Their names in the list of the server.", show_default=False
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All tools of the server that are off.")] = False,
    digest: Annotated[
        str | None,
        typer.Option(
            "--digest", metavar="DIGEST", help="Accept the list that has this digest, and no other one."
        ),
    ] = None,
) -> int:
    """Accept tools of a server as they are now.

    In a terminal the differences are shown, and you are asked. Elsewhere --digest names the list that you have seen.
    """
    from pilotage.cli.handlers import mcp

    return mcp.approve(options, server, mcp.ToolsToAccept(tools or (), everything, digest))


@commands.command()
@takes(("app", "as_json"))
def call(
    options: CommandOptions,
    server: ServerArgument,
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="Its name in the list of the server.")],
    arguments: Annotated[
        str, typer.Argument(metavar="[JSON]", help="The arguments, as a JSON object.")
    ] = "{}",
) -> int:
    """Call an accepted tool, outside of any run: nothing is asked or recorded."""
    from pilotage.cli.handlers import mcp

    return mcp.call(options, server, tool, arguments)


@commands.command()
@takes(("app", "tenant", "principal_id"))
def serve(options: CommandOptions, application: Target = None) -> int:
    """Serve the agents of an application as MCP tools, over standard input and output.

    An MCP client starts this command, and its user is the principal of all runs: --as and --tenant. Over HTTP it is
    mcp_extension of pilotage.adapters.mcp_server.
    """
    from pilotage.cli.application import application_to_serve
    from pilotage.cli.handlers.mcp_serve import serve_mcp

    return serve_mcp(application_to_serve(application, options.app), options.principal)

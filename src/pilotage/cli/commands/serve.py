"""`serve` and `agui-stdio`: an application for clients."""

from __future__ import annotations

from typing import Annotated

import typer

from pilotage.cli.commands.options import AppOption, AsOption, Target, TenantOption, carry_out, finish


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
    from pilotage.cli.work.serving import serve_application

    finish(serve_application(application, host, port, token or []))


def agui_stdio(
    agent: Annotated[
        str, typer.Argument(metavar="AGENT", help="MODULE:CLASS, or the name of an agent of the application.")
    ],
    app: AppOption = None,
    tenant: TenantOption = None,
    as_: AsOption = None,
) -> None:
    """Talk AG-UI over standard input and output.

    One JSON text a line, in both directions.
    """
    from pilotage.cli.work.agui_stdio import talk
    from pilotage.cli.work.asked import Asked

    carry_out(talk(Asked(app, tenant, as_), agent))

"""`run`: one run of one agent."""

from __future__ import annotations

from typing import Annotated

import typer

from pilotage.cli.commands.options import (
    AppOption,
    AsOption,
    JsonOption,
    ReasoningOption,
    TenantOption,
    carry_out,
)


def run(
    agent: Annotated[
        str, typer.Argument(metavar="AGENT", help="MODULE:CLASS, or the name of an agent of the application.")
    ],
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
    from pilotage.cli.work.asked import Asked
    from pilotage.cli.work.run_agent import run_agent

    carry_out(run_agent(Asked(app, tenant, as_, json), agent, text, reasoning=reasoning))

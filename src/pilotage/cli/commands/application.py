"""`check`, `describe`, `worker`: an application as it is."""

from __future__ import annotations

from typing import Annotated

import typer

from pilotage.cli.commands.options import Target, finish


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

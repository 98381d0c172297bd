"""`runs list, show, events, verify, resume, send, fork`: looking at runs and driving them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from pilotage.agent.signals import AgentSignalKind
from pilotage.agent.state import AgentStatus
from pilotage.cli.commands.options import (
    AppOption,
    AsOption,
    JsonOption,
    ReasoningOption,
    TenantOption,
    carry_out,
)

commands = typer.Typer()

Run = Annotated[str, typer.Argument(metavar="RUN", help="The id of a run, or its beginning.")]
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def moment(text: str) -> datetime | timedelta:
    """A moment, or how long ago it was: 90s, 15m, 2h, 7d, 2026-11-15, 2026-11-15T08:00.

    Raises:
        typer.BadParameter: it is neither.
    """
    number, unit = text[:-1], text[-1:]
    if unit in _UNITS and number.isdigit():
        return timedelta(seconds=int(number) * _UNITS[unit])
    try:
        read = datetime.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is no time. Write 15m, 2h, 7d or 2026-11-15T08:00.") from error
    return read if read.tzinfo else read.replace(tzinfo=UTC)


@commands.command("list")
def list_(
    status: Annotated[
        list[AgentStatus] | None,
        typer.Option("--status", help="Only these; give it several times for several."),
    ] = None,
    agent: Annotated[str | None, typer.Option("--agent", help="Only the runs of this agent.")] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="TIME", help="Only runs started since: 15m, 2h, 7d, 2026-11-15 (UTC)."
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1_000, help="At most so many.")] = 20,
    after: Annotated[str | None, typer.Option("--after", metavar="CURSOR", help="The next page.")] = None,
    app: AppOption = None,
    tenant: TenantOption = None,
    json: JsonOption = False,
) -> None:
    """The runs of a tenant, newest first."""
    from pilotage.cli.work.asked import Asked
    from pilotage.cli.work.reading_runs import list_runs

    when = moment(since) if since else None
    carry_out(
        list_runs(
            Asked(app, tenant, None, json),
            statuses=status or (),
            agent=agent,
            since=when,
            limit=limit,
            after=after,
        )
    )


@commands.command()
def show(run: Run, app: AppOption = None, tenant: TenantOption = None, json: JsonOption = False) -> None:
    """One run on one page: how it stands, what it waits for, what it did, what to do."""
    from pilotage.cli.work.asked import Asked
    from pilotage.cli.work.reading_runs import show_run

    carry_out(show_run(Asked(app, tenant, None, json), run))


@commands.command()
def events(
    run: Run,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run has ended.")] = False,
    after: Annotated[
        str | None, typer.Option("--after", metavar="CURSOR", help="Only what came later.")
    ] = None,
    app: AppOption = None,
    tenant: TenantOption = None,
    json: JsonOption = False,
    reasoning: ReasoningOption = False,
) -> None:
    """What a run told, from its beginning or from a cursor."""
    from pilotage.cli.work.asked import Asked
    from pilotage.cli.work.reading_runs import tell_events

    asked = Asked(app, tenant, None, json)
    carry_out(tell_events(asked, run, after=after, follows=follow, reasoning=reasoning))


@commands.command()
def verify(run: Run, app: AppOption = None, tenant: TenantOption = None, json: JsonOption = False) -> None:
    """Check the record of a run against itself and its state."""
    from pilotage.cli.work.asked import Asked
    from pilotage.cli.work.reading_runs import verify_run

    carry_out(verify_run(Asked(app, tenant, None, json), run))


@commands.command()
def resume(
    run: Run,
    app: AppOption = None,
    tenant: TenantOption = None,
    as_: AsOption = None,
    json: JsonOption = False,
) -> None:
    """Bring a run back, here, and follow it. What it did is replayed, not repeated."""
    from pilotage.cli.work.acting_on_runs import resume as work
    from pilotage.cli.work.asked import Asked

    carry_out(work(Asked(app, tenant, as_, json), run))


@commands.command()
def send(
    run: Run,
    text: Annotated[str, typer.Argument(help="What to say.")],
    steering: Annotated[
        bool, typer.Option("--steering", help="As an instruction about how to go on, not as a message.")
    ] = False,
    app: AppOption = None,
    tenant: TenantOption = None,
    as_: AsOption = None,
    json: JsonOption = False,
) -> None:
    """Send a message to a run."""
    from pilotage.cli.work.acting_on_runs import send as work
    from pilotage.cli.work.asked import Asked

    kind = AgentSignalKind.STEERING_INSTRUCTION if steering else AgentSignalKind.USER_MESSAGE
    carry_out(work(Asked(app, tenant, as_, json), run, kind, text))


@commands.command()
def fork(
    run: Run,
    at: Annotated[
        int | None,
        typer.Option("--at", min=1, metavar="ROW", help="Up to this row of its journal. Default: all."),
    ] = None,
    resume_it: Annotated[bool, typer.Option("--resume", help="Let the new run go on, here.")] = False,
    app: AppOption = None,
    tenant: TenantOption = None,
    as_: AsOption = None,
    json: JsonOption = False,
) -> None:
    """Make a new run with the beginning of another one's record."""
    from pilotage.cli.work.acting_on_runs import fork as work
    from pilotage.cli.work.asked import Asked

    carry_out(work(Asked(app, tenant, as_, json), run, at, resumes=resume_it))

"""`runs approve, reject, modify, defer, retry, done, fail, cancel`: answering what runs ask, and ending them."""

from __future__ import annotations

from typing import Annotated

import typer

from pilotage.cli.commands.options import AppOption, AsOption, JsonOption, TenantOption, carry_out
from pilotage.cli.commands.runs import Run
from pilotage.jsonvalue import JsonValue

Request = Annotated[
    str,
    typer.Argument(
        metavar="RUN[:REQUEST]", help="The run that asks; with the request where it asks several things."
    ),
]
CommentOption = Annotated[str | None, typer.Option("--comment", help="Why; it is recorded.")]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Let the run go on, here, and follow it.")]

commands = typer.Typer()


@commands.command()
def approve(
    request: Request,
    comment: CommentOption = None,
    resume: ResumeOption = False,
    app: AppOption = None,
    tenant: TenantOption = None,
    as_: AsOption = None,
    json: JsonOption = False,
) -> None:
    """Allow what a run asks for."""
    _decide("approve", request, (app, tenant, as_, json), comment, resume)


@commands.command()
def reject(
    request: Request,
    comment: CommentOption = None,
    resume: ResumeOption = False,
    app: AppOption = None,
    tenant: TenantOption = None,
    as_: AsOption = None,
    json: JsonOption = False,
) -> None:
    """Refuse what a run asks for."""
    _decide("reject", request, (app, tenant, as_, json), comment, resume)


@commands.command()
def modify(
    request: Request,
    arguments: Annotated[
        str,
        typer.Option("--arguments", metavar="JSON", help="All arguments; what was shown masked, in full."),
    ],
    comment: CommentOption = None,
    resume: ResumeOption = False,
    app: AppOption = None,
    tenant: TenantOption = None,
    as_: AsOption = None,
    json: JsonOption = False,
) -> None:
    """Allow it with other arguments."""
    from pilotage.cli.work.acting_on_runs import parsed_json

    changed = parsed_json("--arguments", arguments)
    _decide("modify", request, (app, tenant, as_, json), comment, resume, modified_payload=changed)


@commands.command()
def defer(
    request: Request,
    comment: CommentOption = None,
    resume: ResumeOption = False,
    app: AppOption = None,
    tenant: TenantOption = None,
    as_: AsOption = None,
    json: JsonOption = False,
) -> None:
    """Decide later: the run goes on waiting."""
    _decide("defer", request, (app, tenant, as_, json), comment, resume)


@commands.command()
def retry(
    request: Request,
    comment: CommentOption = None,
    resume: ResumeOption = False,
    app: AppOption = None,
    tenant: TenantOption = None,
    as_: AsOption = None,
    json: JsonOption = False,
) -> None:
    """Of an action whose outcome is unknown: do it again."""
    _decide("retry", request, (app, tenant, as_, json), comment, resume)


@commands.command()
def done(
    request: Request,
    result: Annotated[str, typer.Option("--result", metavar="JSON", help="What it gave; null is a result.")],
    comment: CommentOption = None,
    resume: ResumeOption = False,
    app: AppOption = None,
    tenant: TenantOption = None,
    as_: AsOption = None,
    json: JsonOption = False,
) -> None:
    """Of an action whose outcome is unknown: it happened, and this is its result."""
    from pilotage.cli.work.acting_on_runs import parsed_json

    found = parsed_json("--result", result)
    _decide("done", request, (app, tenant, as_, json), comment, resume, result=found)


@commands.command()
def fail(
    request: Request,
    comment: CommentOption = None,
    resume: ResumeOption = False,
    app: AppOption = None,
    tenant: TenantOption = None,
    as_: AsOption = None,
    json: JsonOption = False,
) -> None:
    """Of an action whose outcome is unknown: let the run fail."""
    _decide("fail", request, (app, tenant, as_, json), comment, resume)


@commands.command()
def cancel(
    run: Run,
    reason: Annotated[str | None, typer.Option("--reason", help="Why; it is recorded.")] = None,
    app: AppOption = None,
    tenant: TenantOption = None,
    as_: AsOption = None,
    json: JsonOption = False,
) -> None:
    """End a run, wherever it stands."""
    from pilotage.cli.work.acting_on_runs import cancel as work
    from pilotage.cli.work.asked import Asked

    carry_out(work(Asked(app, tenant, as_, json), run, reason))


def _decide(
    decision: str,
    request: str,
    shared: tuple[str | None, str | None, str | None, bool],
    comment: str | None,
    resumes: bool,
    **details: JsonValue,
) -> None:
    from pilotage.cli.work.acting_on_runs import decide
    from pilotage.cli.work.asked import Asked

    told = {**details, **({"comment": comment} if comment is not None else {})}
    carry_out(decide(Asked(*shared), request, decision, told, resumes=resumes))

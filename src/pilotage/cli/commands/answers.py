"""`runs questions, answer`, a command for each answer (`runs approve, reject, ...`), and `runs cancel`."""

from __future__ import annotations

from enum import StrEnum
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
ResumeOption = Annotated[
    bool, typer.Option("--resume", help="Let the run go on in this process, and follow it.")
]

commands = typer.Typer()


class Decision(StrEnum):
    """The decision of an answer: the first five answer an approval question, the last four an unknown outcome."""

    APPROVE = "approve"
    REJECT = "reject"
    MODIFY = "modify"
    DEFER = "defer"
    CANCEL = "cancel"
    RETRY = "retry"
    DONE = "done"
    FAIL = "fail"


@commands.command()
def questions(run: Run, app: AppOption = None, tenant: TenantOption = None, json: JsonOption = False) -> None:
    """List the open questions of a run and its child runs, with the commands that answer them."""
    from pilotage.cli.work.asked import Asked
    from pilotage.cli.work.reading_runs import list_questions

    carry_out(list_questions(Asked(app, tenant, None, json), run))


@commands.command()
def answer(
    request: Request,
    decision: Annotated[Decision, typer.Argument(help="One that the question allows.")],
    arguments: Annotated[
        str | None,
        typer.Option("--arguments", metavar="JSON", help="With modify: all arguments of the action."),
    ] = None,
    result: Annotated[
        str | None,
        typer.Option("--result", metavar="JSON", help="With done: the result of the action; null is one."),
    ] = None,
    comment: CommentOption = None,
    resume: ResumeOption = False,
    app: AppOption = None,
    tenant: TenantOption = None,
    as_: AsOption = None,
    json: JsonOption = False,
) -> None:
    """Answer a question of a run. A worker then lets the run go on, or this command with --resume."""
    from pilotage.cli.work.acting_on_runs import parsed_json

    details: dict[str, JsonValue] = {}
    if arguments is not None:
        details["modified_payload"] = parsed_json("--arguments", arguments)
    if result is not None:
        details["result"] = parsed_json("--result", result)
    _answer(decision.value, request, (app, tenant, as_, json), comment, resume, **details)


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
    _answer("approve", request, (app, tenant, as_, json), comment, resume)


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
    _answer("reject", request, (app, tenant, as_, json), comment, resume)


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
    _answer("modify", request, (app, tenant, as_, json), comment, resume, modified_payload=changed)


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
    _answer("defer", request, (app, tenant, as_, json), comment, resume)


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
    _answer("retry", request, (app, tenant, as_, json), comment, resume)


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
    _answer("done", request, (app, tenant, as_, json), comment, resume, result=found)


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
    _answer("fail", request, (app, tenant, as_, json), comment, resume)


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


def _answer(
    decision: str,
    request: str,
    shared: tuple[str | None, str | None, str | None, bool],
    comment: str | None,
    resumes: bool,
    **details: JsonValue,
) -> None:
    from pilotage.cli.work.acting_on_runs import answer as work
    from pilotage.cli.work.asked import Asked

    sent = {**details, **({"comment": comment} if comment is not None else {})}
    carry_out(work(Asked(*shared), request, decision, sent, resumes=resumes))

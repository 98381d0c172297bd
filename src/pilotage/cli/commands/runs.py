"""`runs ...`: commands that look at runs, drive them and answer their questions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated

import typer

from pilotage.agent.signals import AgentSignalKind, AgentSteeringUpdate
from pilotage.agent.state import AgentStatus
from pilotage.cli.asked import Asked
from pilotage.cli.commands.options import (
    AppOption,
    AsOption,
    JsonOption,
    ReasoningOption,
    TenantOption,
    carry_out,
)
from pilotage.jsonvalue import JsonObject

Run = Annotated[str, typer.Argument(metavar="RUN", help="The id of a run, or its beginning.")]
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
ActionOption = Annotated[
    list[str] | None,
    typer.Option(
        "--action",
        metavar="NAME=DECISION",
        help="With retry: the answer to an open action inside, as NAME=retry or NAME=done:RESULT; for each of them.",
    ),
]
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}

commands = typer.Typer(help="Look at runs and act on them. Ids may be abbreviated.", no_args_is_help=True)


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


def moment(text: str) -> datetime | timedelta:
    """Return a moment, or how long ago it was: 90s, 15m, 2h, 7d, 2026-11-15, 2026-11-15T08:00.

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
    from pilotage.cli.work.reading_runs import list_runs

    asked, when = Asked(app, tenant, None, json), moment(since) if since else None
    carry_out(list_runs(asked, statuses=status or (), agent=agent, since=when, limit=limit, after=after))


@commands.command()
def show(run: Run, app: AppOption = None, tenant: TenantOption = None, json: JsonOption = False) -> None:
    """One run on one page: how it stands, what it waits for, what it did, what to do."""
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
    from pilotage.cli.work.reading_runs import tell_events

    asked = Asked(app, tenant, None, json)
    carry_out(tell_events(asked, run, after=after, follows=follow, reasoning=reasoning))


@commands.command()
def verify(run: Run, app: AppOption = None, tenant: TenantOption = None, json: JsonOption = False) -> None:
    """Check the record of a run against itself and its state."""
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

    carry_out(work(Asked(app, tenant, as_, json), run))


@commands.command()
def send(
    run: Run,
    text: Annotated[str | None, typer.Argument(help="What to say; not needed with --withdraw.")] = None,
    steering: Annotated[
        bool, typer.Option("--steering", help="As an instruction about how to go on, not as a message.")
    ] = False,
    input_id: Annotated[
        str | None,
        typer.Option(
            "--input", metavar="ID", help="Steering: the name of the instruction, for its revisions."
        ),
    ] = None,
    revision: Annotated[
        int, typer.Option(min=1, help="Steering: the newest revision of the input counts.")
    ] = 1,
    draft: Annotated[
        bool, typer.Option("--draft", help="Steering: not to be used before a final one.")
    ] = False,
    withdraw: Annotated[
        bool, typer.Option("--withdraw", help="Steering: take the instruction back.")
    ] = False,
    app: AppOption = None,
    tenant: TenantOption = None,
    as_: AsOption = None,
    json: JsonOption = False,
) -> None:
    """Send a message to a run, or a steering instruction; with --input it can be revised until it is taken in."""
    from pilotage.cli.work.acting_on_runs import send as work

    if input_id is None and (draft or withdraw or revision > 1):
        raise typer.BadParameter("a revision names its instruction: --input ID")
    if text is None and not withdraw:
        raise typer.BadParameter("what to say is missing")
    is_steering = steering or input_id is not None
    kind = AgentSignalKind.STEERING_INSTRUCTION if is_steering else AgentSignalKind.USER_MESSAGE
    update = (
        None
        if input_id is None
        else AgentSteeringUpdate(input_id, text, revision, final=not draft, withdrawn=withdraw)
    )
    payload: JsonObject = {"text": text} if update is None else update.to_payload()
    carry_out(work(Asked(app, tenant, as_, json), run, kind, payload))


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

    carry_out(work(Asked(app, tenant, as_, json), run, at, resumes=resume_it))


@commands.command()
def questions(run: Run, app: AppOption = None, tenant: TenantOption = None, json: JsonOption = False) -> None:
    """List the open questions of a run and its child runs, with the commands that answer them."""
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
    action: ActionOption = None,
    comment: CommentOption = None,
    resume: ResumeOption = False,
    app: AppOption = None,
    tenant: TenantOption = None,
    as_: AsOption = None,
    json: JsonOption = False,
) -> None:
    """Answer a question of a run. A worker then lets the run go on, or this command with --resume."""
    asked = Asked(app, tenant, as_, json)
    _answer(
        decision, request, asked, comment, resumes=resume, arguments=arguments, result=result, inside=action
    )


def _declare_answer(decision: Decision, words: str) -> None:
    """Declare the command of a decision that needs nothing but the question."""

    def command(
        request: Request,
        comment: CommentOption = None,
        resume: ResumeOption = False,
        app: AppOption = None,
        tenant: TenantOption = None,
        as_: AsOption = None,
        json: JsonOption = False,
    ) -> None:
        _answer(decision, request, Asked(app, tenant, as_, json), comment, resumes=resume)

    commands.command(decision.value, help=words)(command)


_declare_answer(Decision.APPROVE, "Allow what a run asks for.")
_declare_answer(Decision.REJECT, "Refuse what a run asks for.")


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
    asked = Asked(app, tenant, as_, json)
    _answer(Decision.MODIFY, request, asked, comment, resumes=resume, arguments=arguments)


_declare_answer(Decision.DEFER, "Decide later: the run goes on waiting.")


@commands.command()
def retry(
    request: Request,
    action: ActionOption = None,
    comment: CommentOption = None,
    resume: ResumeOption = False,
    app: AppOption = None,
    tenant: TenantOption = None,
    as_: AsOption = None,
    json: JsonOption = False,
) -> None:
    """Of an action whose outcome is unknown: do it again."""
    _answer(Decision.RETRY, request, Asked(app, tenant, as_, json), comment, resumes=resume, inside=action)


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
    _answer(Decision.DONE, request, Asked(app, tenant, as_, json), comment, resumes=resume, result=result)


_declare_answer(Decision.FAIL, "Of an action whose outcome is unknown: let the run fail.")


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

    carry_out(work(Asked(app, tenant, as_, json), run, reason))


@commands.command()
def resolve(
    run: Run,
    reason: Annotated[str, typer.Option("--reason", help="Why; it is recorded.")],
    skip: Annotated[
        str | None,
        typer.Option("--skip", metavar="ACTION", help="Pass this recorded call over in replay."),
    ] = None,
    done: Annotated[
        str | None,
        typer.Option("--done", metavar="ACTION", help="This call happened; --result is what it gave."),
    ] = None,
    result: Annotated[
        str | None,
        typer.Option("--result", metavar="JSON", help="With --done: the result; null is one."),
    ] = None,
    fork_at: Annotated[
        int | None,
        typer.Option(
            "--fork-at", min=1, metavar="ROW", help="Begin a new run with the rows before this one."
        ),
    ] = None,
    resume: ResumeOption = False,
    app: AppOption = None,
    tenant: TenantOption = None,
    as_: AsOption = None,
    json: JsonOption = False,
) -> None:
    """Decide about a run that diverged from its record: --skip, --done or --fork-at."""
    from pilotage.cli.work.resolving_runs import resolution_of
    from pilotage.cli.work.resolving_runs import resolve as work

    chosen = resolution_of(skip=skip, done=done, result=result, fork_at=fork_at)
    carry_out(work(Asked(app, tenant, as_, json), run, chosen, reason, resumes=resume))


def _answer(
    decision: Decision,
    request: str,
    asked: Asked,
    comment: str | None,
    *,
    resumes: bool,
    arguments: str | None = None,
    result: str | None = None,
    inside: list[str] | None = None,
) -> None:
    from pilotage.cli.work.acting_on_runs import answer as work
    from pilotage.cli.work.acting_on_runs import answer_details

    details = answer_details(arguments=arguments, result=result, comment=comment)
    carry_out(work(asked, request, decision.value, details, resumes=resumes, inside=inside or ()))

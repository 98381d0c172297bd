"""`runs ...`: commands that read runs, drive them and answer their questions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated

import typer

from pilotage.agent.signals import AgentSignalKind, AgentSteeringUpdate
from pilotage.agent.state import AgentStatus
from pilotage.cli.options import CHANGES, READS, AttachOption, CommandOptions, ReasoningOption, takes
from pilotage.jsonvalue import JsonObject

Run = Annotated[
    str, typer.Argument(metavar="RUN", help="The id of a run, its beginning, or the id it was started with.")
]
Request = Annotated[
    str,
    typer.Argument(
        metavar="RUN[:REQUEST]", help="The run with the question; with the request if it has several."
    ),
]
CommentOption = Annotated[
    str | None, typer.Option("--comment", metavar="TEXT", help="A comment; it is recorded.")
]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Drive the run in this process, and follow it.")]
GoOnOption = Annotated[
    bool | None,
    typer.Option(
        "--resume/--no-resume",
        help="Let the run go on in this process and follow it, or only store the answer for a worker. "
        "Default: go on; with --json, only store.",
        show_default=False,
    ),
]
ActionOption = Annotated[
    list[str] | None,
    typer.Option(
        "--action",
        metavar="NAME=DECISION",
        help="With retry: the answer for each open action inside, as NAME=retry or NAME=done:RESULT.",
    ),
]
_STATUSES = ", ".join(each.value for each in AgentStatus)
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}

commands = typer.Typer(
    help="Read runs, drive them and answer their questions. Ids may be abbreviated.", no_args_is_help=True
)


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
    try:
        if unit in _UNITS and number.isdecimal():
            return timedelta(seconds=int(number) * _UNITS[unit])
        read = datetime.fromisoformat(text)
    except (ValueError, OverflowError) as error:
        raise typer.BadParameter(f"{text!r} is no time. Write 15m, 2h, 7d or 2026-11-15T08:00.") from error
    return read if read.tzinfo else read.replace(tzinfo=UTC)


@commands.command("list")
@takes(READS)
def list_(
    options: CommandOptions,
    status: Annotated[
        list[AgentStatus] | None,
        typer.Option(
            "--status", metavar="STATUS", help=f"Only runs with this status; repeatable: {_STATUSES}."
        ),
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", metavar="NAME", help="Only the runs of this agent.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="TIME", help="Only runs started since: 15m, 2h, 7d, 2026-11-15 (UTC)."
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, max=1_000, help="At most so many.")
    ] = 20,
    after: Annotated[str | None, typer.Option("--after", metavar="CURSOR", help="The next page.")] = None,
) -> int:
    """List the runs of a tenant, newest first."""
    from pilotage.cli.application import read_runs
    from pilotage.cli.handlers.read_runs import RunFilter, list_runs

    wanted = RunFilter(status or (), agent, moment(since) if since else None, limit, after)
    return read_runs(options, list_runs, wanted)


@commands.command()
@takes(READS)
def show(options: CommandOptions, run: Run) -> int:
    """Show one run on one page. Status, questions, actions, result, and what to do."""
    from pilotage.cli.application import read_runs
    from pilotage.cli.handlers.read_runs import show_run

    return read_runs(options, show_run, run)


@commands.command()
@takes(READS)
def events(
    options: CommandOptions,
    run: Run,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Follow the run until it has ended.")
    ] = False,
    after: Annotated[
        str | None, typer.Option("--after", metavar="CURSOR", help="Only events after this cursor.")
    ] = None,
    reasoning: ReasoningOption = False,
) -> int:
    """Show the events of a run, from its start or from a cursor."""
    from pilotage.cli.application import read_runs
    from pilotage.cli.handlers.read_runs import show_events

    return read_runs(options, show_events, run, after=after, follows=follow, reasoning=reasoning)


@commands.command()
@takes(READS)
def verify(options: CommandOptions, run: Run) -> int:
    """Check the record of a run against itself and its state."""
    from pilotage.cli.application import read_runs
    from pilotage.cli.handlers.read_runs import verify_run

    return read_runs(options, verify_run, run)


@commands.command()
@takes(CHANGES)
def resume(
    options: CommandOptions,
    run: Run,
) -> int:
    """Resume a run in this process, and follow it. Recorded actions are replayed, not repeated."""
    from pilotage.cli.application import change_runs
    from pilotage.cli.handlers.change_runs import resume as work

    return change_runs(options, work, run)


@commands.command()
@takes(CHANGES)
def send(
    options: CommandOptions,
    run: Run,
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="The message; not needed with --withdraw.")
    ] = None,
    steering: Annotated[
        bool, typer.Option("--steering", help="As a steering instruction, not as a message.")
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
    attach: AttachOption = None,
) -> int:
    """Send a message or a steering instruction. With --input it can be revised until it is taken in."""
    from pilotage.cli.application import change_runs
    from pilotage.cli.handlers.change_runs import send as work

    if input_id is None and (draft or withdraw or revision > 1):
        raise typer.BadParameter("a revision names its instruction: --input ID")
    if text is None and not withdraw:
        raise typer.BadParameter("the message is missing")
    is_steering = steering or input_id is not None
    kind = AgentSignalKind.STEERING_INSTRUCTION if is_steering else AgentSignalKind.USER_MESSAGE
    payload: JsonObject = {"text": text}
    if input_id is not None:
        update = AgentSteeringUpdate(input_id, text, revision, final=not draft, withdrawn=withdraw)
        payload = update.to_payload()
    if attach and is_steering:
        raise typer.BadParameter("--attach goes with a message, not with a steering instruction")
    return change_runs(options, work, run, kind, payload, files=attach or ())


@commands.command()
@takes(CHANGES)
def fork(
    options: CommandOptions,
    run: Run,
    at: Annotated[
        int | None,
        typer.Option("--at", min=1, metavar="ROW", help="Up to this row of its journal. Default: all."),
    ] = None,
    resume_it: Annotated[bool, typer.Option("--resume", help="Drive the new run in this process.")] = False,
) -> int:
    """Create a run with the first rows of another run's journal."""
    from pilotage.cli.application import change_runs
    from pilotage.cli.handlers.change_runs import fork as work

    return change_runs(options, work, run, at, resumes=resume_it)


@commands.command()
@takes(READS)
def questions(options: CommandOptions, run: Run) -> int:
    """List open questions, with the commands that answer them. Those of child runs too."""
    from pilotage.cli.application import read_runs
    from pilotage.cli.handlers.read_runs import list_questions

    return read_runs(options, list_questions, run)


@commands.command()
@takes(CHANGES)
def answer(
    options: CommandOptions,
    request: Request,
    decision: Annotated[Decision, typer.Argument(metavar="DECISION", help="One that the question allows.")],
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
    resume: GoOnOption = None,
) -> int:
    """Answer a question of a run, and let the run go on."""
    return _answer(
        decision, request, options, comment, resumes=resume, arguments=arguments, result=result, inside=action
    )


def _declare_answer(decision: Decision, words: str) -> None:
    """Declare the command of a decision that needs nothing but the question."""

    def command(
        options: CommandOptions,
        request: Request,
        comment: CommentOption = None,
        resume: GoOnOption = None,
    ) -> int:
        return _answer(decision, request, options, comment, resumes=resume)

    commands.command(decision.value, help=words)(takes(CHANGES)(command))


_declare_answer(Decision.APPROVE, "Approve the action of a question.")
_declare_answer(Decision.REJECT, "Reject the action of a question.")


@commands.command()
@takes(CHANGES)
def modify(
    options: CommandOptions,
    request: Request,
    arguments: Annotated[
        str,
        typer.Option("--arguments", metavar="JSON", help="All arguments; masked ones in full."),
    ],
    comment: CommentOption = None,
    resume: GoOnOption = None,
) -> int:
    """Approve the action with other arguments."""
    return _answer(Decision.MODIFY, request, options, comment, resumes=resume, arguments=arguments)


_declare_answer(Decision.DEFER, "Postpone the answer: the run continues to wait.")


@commands.command()
@takes(CHANGES)
def retry(
    options: CommandOptions,
    request: Request,
    action: ActionOption = None,
    comment: CommentOption = None,
    resume: GoOnOption = None,
) -> int:
    """Repeat an action whose outcome is unknown."""
    return _answer(
        Decision.RETRY,
        request,
        options,
        comment,
        resumes=resume,
        inside=action,
    )


@commands.command()
@takes(CHANGES)
def done(
    options: CommandOptions,
    request: Request,
    result: Annotated[str, typer.Option("--result", metavar="JSON", help="The result; null is one.")],
    comment: CommentOption = None,
    resume: GoOnOption = None,
) -> int:
    """Give the result of an action with an unknown outcome."""
    return _answer(Decision.DONE, request, options, comment, resumes=resume, result=result)


_declare_answer(Decision.FAIL, "Let a run fail after an action with an unknown outcome.")


@commands.command()
@takes(CHANGES)
def cancel(
    options: CommandOptions,
    run: Run,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="The reason; it is recorded.")
    ] = None,
) -> int:
    """Cancel a run in any state."""
    from pilotage.cli.application import change_runs
    from pilotage.cli.handlers.change_runs import cancel as work

    return change_runs(options, work, run, reason)


@commands.command()
@takes(CHANGES)
def resolve(
    options: CommandOptions,
    run: Run,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="The reason; it is recorded.")],
    skip: Annotated[
        str | None,
        typer.Option("--skip", metavar="ACTION", help="Skip this recorded call in replay."),
    ] = None,
    done: Annotated[
        str | None,
        typer.Option("--done", metavar="ACTION", help="This call happened; --result is its result."),
    ] = None,
    result: Annotated[
        str | None,
        typer.Option("--result", metavar="JSON", help="With --done: the result; null is one."),
    ] = None,
    fork_at: Annotated[
        int | None,
        typer.Option("--fork-at", min=1, metavar="ROW", help="Create a run with the rows before this one."),
    ] = None,
    resume: ResumeOption = False,
) -> int:
    """Decide about a run that diverged from its record. Give --skip, --done or --fork-at."""
    from pilotage.cli.application import change_runs
    from pilotage.cli.handlers.change_runs import resolution_of
    from pilotage.cli.handlers.change_runs import resolve as work

    chosen = resolution_of(skip=skip, done=done, result=result, fork_at=fork_at)
    return change_runs(options, work, run, chosen, reason, resumes=resume)


def _answer(
    decision: Decision,
    request: str,
    options: CommandOptions,
    comment: str | None,
    *,
    resumes: bool | None,
    arguments: str | None = None,
    result: str | None = None,
    inside: list[str] | None = None,
) -> int:
    from pilotage.cli.application import change_runs
    from pilotage.cli.handlers.change_runs import answer as work
    from pilotage.cli.handlers.change_runs import answer_details

    details = answer_details(arguments=arguments, result=result, comment=comment)
    decided, open_actions = decision.value, inside or ()
    return change_runs(options, work, request, decided, details, resumes=resumes, inside=open_actions)

"""`pilotage runs resolve`: deciding about a diverged run."""

from __future__ import annotations

from pilotage.cli.asked import Asked
from pilotage.cli.exit_codes import ExitCode
from pilotage.cli.screen import Screen
from pilotage.cli.views.json_forms import run_json
from pilotage.cli.words import TextSpan, Tone, line, short
from pilotage.cli.work.acting_on_runs import acting_on, parsed_option, resume_and_follow, top_of
from pilotage.cli.work.reading_runs import find_run
from pilotage.errors import CallerError
from pilotage.runtime.journal.resolution import ActionDone, ForkBefore, RunResolution, SkipAction


def resolution_of(
    *, skip: str | None, done: str | None, result: str | None, fork_at: int | None
) -> RunResolution:
    """Return the decision that the options of the command give.

    Raises:
        CallerError: they give none, or several, or a result without --done.
    """
    given = [each for each in (skip, done, fork_at) if each is not None]
    if len(given) != 1:
        raise CallerError("give one of --skip ACTION, --done ACTION --result JSON and --fork-at ROW.")
    if (done is None) is not (result is None):
        raise CallerError("--done and --result go together. Write --result null if the call gives nothing.")
    if skip is not None:
        return SkipAction(skip)
    if done is not None and result is not None:
        return ActionDone(done, parsed_option("--result", result))
    return ForkBefore(fork_at or 1)


async def resolve(asked: Asked, text: str, resolution: RunResolution, reason: str, *, resumes: bool) -> int:
    """Write the decision; with `resumes` let the run, or its fork, go on here."""
    screen = Screen.of_process()
    async with acting_on(asked) as (runs, hints):
        origin = await find_run(runs, text, asked.principal)
        # This process ends with the command: a worker drives the run, or it is resumed below.
        decided = await runs.resolve(
            origin.id, resolution, reason=reason, resume=False, principal=asked.principal
        )
        state = await top_of(runs, decided.id, asked)
        if resumes:
            return await resume_and_follow(runs, state, asked, hints, screen)
    resume = TextSpan(hints.command("runs", "resume", short(state.id)), Tone.NAME)
    is_fork = isinstance(resolution, ForkBefore)
    words = f"run {decided.id}, forked from {origin.id}" if is_fork else f"resolved: {_words(resolution)}"
    screen.answer(
        {"run": run_json(decided), "resolved": origin.id},
        line(words),
        aside=line("let it go its own way: " if is_fork else "a worker takes the run up, or: ", resume),
        as_json=asked.as_json,
    )
    return ExitCode.DONE


def _words(resolution: RunResolution) -> str:
    match resolution:
        case SkipAction(action=action):
            return f"{action} is passed over"
        case ActionDone(action=action):
            return f"{action} has the given result"
        case ForkBefore(row=row):
            return f"a fork before row {row}"

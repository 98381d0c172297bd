"""`pilotage runs answer, resume, cancel, send, fork, resolve`: change runs, in their application."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from pilotage.agent.recovery_request import ACTIONS, AgentRecoveryRequest, RecoveryDecision
from pilotage.agent.signals import ATTACHMENTS, AgentSignalKind, ApprovalDecision
from pilotage.agent.state import AgentState
from pilotage.cli.application import Session
from pilotage.cli.exit_codes import ExitCode
from pilotage.cli.follow import FollowedDurableRun, follow
from pilotage.cli.handlers.read_runs import find_question, find_run
from pilotage.cli.handlers.run import attached
from pilotage.cli.json_view import view_json
from pilotage.cli.prompt import prompt_for
from pilotage.cli.question_view import short_names
from pilotage.cli.run_output import RunOutput
from pilotage.cli.text import TextSpan, Tone, line, short
from pilotage.errors import CallerError, RunConflictError
from pilotage.inbound.views import RunView
from pilotage.jsonvalue import JsonObject, JsonValue, parsed_input, to_json_value
from pilotage.runtime.journal.resolution import ActionDone, ForkBefore, RunResolution, SkipAction
from pilotage.runtime.open_questions import Question, run_of

_ANSWER_INSIDE = re.compile(r"(.+?)=(retry|done|fail|cancel)(?::(.*))?", re.DOTALL)


async def answer(
    session: Session,
    text: str,
    decision: str,
    details: JsonObject,
    *,
    resumes: bool | None,
    inside: Sequence[str] = (),
) -> int:
    """Answer a question of a run; with `resumes` drive the run here. `inside` are answers `action=decision`.

    Where `resumes` is None the run goes on, unless the answer is for a program, or postpones the decision.
    """
    runs, principal = session.runs, session.principal
    _, question = await find_question(runs, text, principal, decision)
    chosen, run_id = _decision(decision, question), run_of(question.id)
    if inside:
        details = {**details, ACTIONS: answers_inside(question, inside)}
    # This process ends with the command: a worker drives the run, or it is resumed below.
    await runs.answer(run_id, question.id, chosen, resume=False, principal=principal, **details)
    state = await _root_of(session, question.agent_state_id)
    if resumes is None:
        resumes = not session.options.as_json and chosen is not ApprovalDecision.DEFER
    if resumes:
        session.screen.message(line(TextSpan(decision, Tone.STRONG), f": {question.prompt}"))
        return await _go_on(session, state)
    waiting = await runs.waiting_answers(state.id, principal=principal)
    is_waiting = any(each.question.id == question.id for each in waiting)
    session.screen.answer(
        {
            "request_id": question.id,
            "decision": decision,
            "is_waiting": is_waiting,
            "run": view_json(RunView.of(state)),
        },
        line(TextSpan(decision, Tone.STRONG), f": {question.prompt}"),
        aside=line(
            "stored; a worker continues the run, or: " if is_waiting else "a worker has it, or: ",
            session.hints.command("runs", "resume", short(state.id)),
        ),
        as_json=session.options.as_json,
    )
    return ExitCode.DONE


async def resume(session: Session, text: str) -> int:
    """Resume a run in this process and follow it."""
    return await _resume_and_follow(session, await find_run(session.runs, text, session.principal))


async def cancel(session: Session, text: str, reason: str | None) -> int:
    """Cancel a run."""
    runs, principal = session.runs, session.principal
    state = await find_run(runs, text, principal)
    is_cancelled = await runs.cancel(state.id, reason=reason, principal=principal)
    state = await runs.get(state.id, principal=principal)
    words = "cancelled" if is_cancelled else f"had ended already: {state.status}"
    value = {"cancelled": is_cancelled, "run": view_json(RunView.of(state))}
    session.screen.answer(value, line(f"run {state.id} {words}"), as_json=session.options.as_json)
    return ExitCode.DONE


async def send(
    session: Session, text: str, kind: AgentSignalKind, payload: JsonObject, *, files: Sequence[Path]
) -> int:
    """Send a message, with files, or a steering instruction to a run."""
    state = await find_run(session.runs, text, session.principal)
    if files:
        payload = {**payload, ATTACHMENTS: [to_json_value(attached(path)) for path in files]}
    signal = await session.runs.signal(state.id, kind, payload, principal=session.principal)
    value = {"id": signal.id, "run_id": state.id, "kind": signal.kind}
    session.screen.answer(value, line(f"sent to run {state.id}"), as_json=session.options.as_json)
    return ExitCode.DONE


async def fork(session: Session, text: str, at: int | None, *, resumes: bool) -> int:
    """Create a run with the first rows of another run's journal; with `resumes` drive it here."""
    origin = await find_run(session.runs, text, session.principal)
    state = await session.runs.fork(origin.id, at=at, principal=session.principal)
    if resumes:
        return await _resume_and_follow(session, state)
    session.screen.answer(
        {"run": view_json(RunView.of(state))},
        line(f"run {state.id}, forked from {origin.id}"),
        aside=line("resume it: ", session.hints.command("runs", "resume", short(state.id))),
        as_json=session.options.as_json,
    )
    return ExitCode.DONE


async def resolve(
    session: Session, text: str, resolution: RunResolution, reason: str, *, resumes: bool
) -> int:
    """Store a decision about a diverged run; with `resumes` drive the run, or its fork, here."""
    runs, principal = session.runs, session.principal
    origin = await find_run(runs, text, principal)
    # This process ends with the command: a worker drives the run, or it is resumed below.
    decided = await runs.resolve(origin.id, resolution, reason=reason, resume=False, principal=principal)
    state = await _root_of(session, decided.id)
    if resumes:
        return await _resume_and_follow(session, state)
    is_fork = isinstance(resolution, ForkBefore)
    words = f"run {decided.id}, forked from {origin.id}" if is_fork else f"resolved: {_words(resolution)}"
    session.screen.answer(
        {"run": view_json(RunView.of(decided)), "resolved": origin.id},
        line(words),
        aside=line(
            "resume it: " if is_fork else "a worker continues the run, or: ",
            session.hints.command("runs", "resume", short(state.id)),
        ),
        as_json=session.options.as_json,
    )
    return ExitCode.DONE


async def _resume_and_follow(session: Session, state: AgentState) -> int:
    handle = await session.runs.resume(state.id, principal=session.principal)
    as_json = session.options.as_json
    output = RunOutput(session.screen, session.hints, state.id, as_json=as_json)
    run = FollowedDurableRun(session.runs, handle, session.principal)
    return await follow(run, output, prompt_for(session.screen, as_json=as_json))


async def _go_on(session: Session, state: AgentState) -> int:
    """Resume an answered run and follow it, unless its agent is not here, or another process was faster."""
    if state.agent_type not in session.runs.services.agent_ids:
        resume_it = f"pilotage runs resume {short(state.id)} --app MODULE:NAME"
        session.screen.message(
            line(
                f"stored; the application here has no agent {state.agent_type!r}. A worker of its own application "
                "continues the run, or: ",
                TextSpan(resume_it, Tone.COMMAND),
            )
        )
        return ExitCode.DONE
    try:
        return await _resume_and_follow(session, state)
    except RunConflictError:
        follow_it = session.hints.command("runs", "events", short(state.id), "--follow")
        session.screen.message(line("another process continues the run: ", follow_it))
        return ExitCode.DONE


async def _root_of(session: Session, run_id: str) -> AgentState:
    """Return the run without a parent above a run, or the run itself: it is the one to resume."""
    state = await session.runs.get(run_id, principal=session.principal)
    while isinstance(parent := state.metadata.get("parent"), str):
        state = await session.runs.get(parent, principal=session.principal)
    return state


def answers_inside(question: Question, given: Sequence[str]) -> JsonObject:
    """Return the answers to actions inside of the one asked about, from texts: `pay=retry`, `pay=done:{"n": 1}`. Pure.

    Raises:
        CallerError: a text names no such action, or has no decision.
    """
    names = short_names(question) if isinstance(question, AgentRecoveryRequest) else {}
    answers: dict[str, JsonValue] = {}
    for text in given:
        read = _ANSWER_INSIDE.fullmatch(text)
        if read is None:
            raise CallerError(
                f"--action {text!r} is no answer. Write NAME=retry, NAME=fail, NAME=cancel, or NAME=done:RESULT "
                "with the result as JSON."
            )
        name, decision, result = read.groups()
        action_id = names.get(name, name)
        if action_id not in names.values():
            waiting = ", ".join(names) or "none"
            raise CallerError(f"{name!r} is none of the actions that need an answer: {waiting}.")
        own: dict[str, JsonValue] = {"decision": decision}
        answers[action_id] = own if result is None else {**own, "result": parsed_option("--action", result)}
    return answers


def answer_details(*, arguments: str | None, result: str | None, comment: str | None) -> JsonObject:
    """Return the details of an answer that its options give.

    Raises:
        CallerError: an option is no JSON.
    """
    details: dict[str, JsonValue] = {}
    if arguments is not None:
        details["modified_payload"] = parsed_option("--arguments", arguments)
    if result is not None:
        details["result"] = parsed_option("--result", result)
    return details if comment is None else {**details, "comment": comment}


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


def parsed_option(option: str, text: str) -> JsonValue:
    """Return the JSON value of an option.

    Raises:
        CallerError: it is no JSON.
    """
    try:
        return parsed_input(text)
    except ValueError as error:
        raise CallerError(f"{option} is no JSON: {error}.") from error


def _words(resolution: RunResolution) -> str:
    match resolution:
        case SkipAction(action=action):
            return f"{action} is skipped"
        case ActionDone(action=action):
            return f"{action} has the given result"
        case ForkBefore(row=row):
            return f"a fork before row {row}"


def _decision(decision: str, question: Question) -> ApprovalDecision | RecoveryDecision:
    """Return the decision of the question's kind; the run refuses one that the question does not allow."""
    is_recovery = isinstance(question, AgentRecoveryRequest)
    kinds = (RecoveryDecision, ApprovalDecision) if is_recovery else (ApprovalDecision, RecoveryDecision)
    return next(kind(decision) for kind in kinds if decision in {each.value for each in kind})

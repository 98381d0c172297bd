"""`pilotage runs answer, resume, cancel, fork ...`: acting on runs, in their application, without its worker."""

from __future__ import annotations

from pilotage.agent.recovery_request import AgentRecoveryRequest, RecoveryDecision
from pilotage.agent.signals import AgentSignalKind, ApprovalDecision
from pilotage.agent.state import AgentState
from pilotage.cli.choosing import application_to_act
from pilotage.cli.driving.followed import KeptRun
from pilotage.cli.driving.following import follow
from pilotage.cli.driving.telling import Telling
from pilotage.cli.exit_codes import ExitCode
from pilotage.cli.opening import acting
from pilotage.cli.references import find_question, find_run
from pilotage.cli.screen.screen import Screen
from pilotage.cli.screen.words import Span, Tone, line
from pilotage.cli.views.hints import Hints, short
from pilotage.cli.views.json_forms import run_json
from pilotage.cli.work.asked import Asked
from pilotage.errors import CallerError
from pilotage.jsonvalue import JsonObject, JsonValue, parsed
from pilotage.runtime.answers import Question, run_of
from pilotage.runtime.runs import AgentRuns


async def answer(asked: Asked, text: str, decision: str, details: JsonObject, *, resumes: bool) -> int:
    """Answer a question of a run; with `resumes` let the run go on here."""
    chosen = application_to_act(asked.app)
    screen, hints = Screen.of_process(), asked.hints(chosen)
    async with acting(chosen.app) as runs:
        _, question = await find_question(runs, text, asked.principal, decision)
        chosen_decision = _decision(decision, question)
        # This process ends with the command: a worker drives the run, or it is resumed below.
        await runs.answer(
            run_of(question.id),
            question.id,
            chosen_decision,
            resume=False,
            principal=asked.principal,
            **details,
        )
        state = await _top_of(runs, question.agent_state_id, asked)
        if resumes:
            return await _resume(runs, state, asked, hints, screen)
    if asked.as_json:
        screen.say_json({"request_id": question.id, "decision": decision, "run": run_json(state)})
        return ExitCode.DONE
    screen.say(line(Span(decision, Tone.STRONG), f": {question.prompt}"))
    resume = hints.command("runs", "resume", short(state.id))
    screen.tell(line("a worker takes the run up, or: ", Span(resume, Tone.NAME)))
    return ExitCode.DONE


async def resume(asked: Asked, text: str) -> int:
    """Bring a run back in this process and follow it."""
    chosen = application_to_act(asked.app)
    async with acting(chosen.app) as runs:
        state = await find_run(runs, text, asked.principal)
        return await _resume(runs, state, asked, asked.hints(chosen), Screen.of_process())


async def cancel(asked: Asked, text: str, reason: str | None) -> int:
    """End a run."""
    chosen = application_to_act(asked.app)
    screen = Screen.of_process()
    async with acting(chosen.app) as runs:
        state = await find_run(runs, text, asked.principal)
        is_cancelled = await runs.cancel(state.id, reason=reason, principal=asked.principal)
        state = await runs.get(state.id, principal=asked.principal)
    if asked.as_json:
        screen.say_json({"cancelled": is_cancelled, "run": run_json(state)})
    else:
        words = "cancelled" if is_cancelled else f"had ended already: {state.status}"
        screen.say(line(f"run {state.id} {words}"))
    return ExitCode.DONE


async def send(asked: Asked, text: str, kind: AgentSignalKind, message: str) -> int:
    """Send a message to a run."""
    chosen = application_to_act(asked.app)
    screen = Screen.of_process()
    async with acting(chosen.app) as runs:
        state = await find_run(runs, text, asked.principal)
        signal = await runs.signal(state.id, kind, {"text": message}, principal=asked.principal)
    if asked.as_json:
        screen.say_json({"id": signal.id, "run_id": state.id, "kind": signal.kind})
    else:
        screen.say(line(f"sent to run {state.id}"))
    return ExitCode.DONE


async def fork(asked: Asked, text: str, at: int | None, *, resumes: bool) -> int:
    """A new run with the beginning of another one's record."""
    chosen = application_to_act(asked.app)
    screen, hints = Screen.of_process(), asked.hints(chosen)
    async with acting(chosen.app) as runs:
        origin = await find_run(runs, text, asked.principal)
        state = await runs.fork(origin.id, at=at, principal=asked.principal)
        if resumes:
            return await _resume(runs, state, asked, hints, screen)
    if asked.as_json:
        screen.say_json({"run": run_json(state)})
        return ExitCode.DONE
    screen.say(line(f"run {state.id}, forked from {origin.id}"))
    resume = hints.command("runs", "resume", short(state.id))
    screen.tell(line("let it go its own way: ", Span(resume, Tone.NAME)))
    return ExitCode.DONE


def parsed_json(option: str, text: str) -> JsonValue:
    """The JSON of an option.

    Raises:
        CallerError: it is none.
    """
    try:
        return parsed(text)
    except ValueError as error:
        raise CallerError(f"{option} is no JSON: {error}.") from error


async def _resume(runs: AgentRuns, state: AgentState, asked: Asked, hints: Hints, screen: Screen) -> int:
    handle = await runs.resume(state.id, principal=asked.principal)
    telling = Telling(screen, hints, state.id, as_json=asked.as_json)
    return await follow(KeptRun(runs, handle, asked.principal), telling, asked.asker(screen))


async def _top_of(runs: AgentRuns, run_id: str, asked: Asked) -> AgentState:
    """The run that nobody delegated, at or above the one that asked: it is the one to resume."""
    state = await runs.get(run_id, principal=asked.principal)
    while isinstance(parent := state.metadata.get("parent"), str):
        state = await runs.get(parent, principal=asked.principal)
    return state


def _decision(decision: str, question: Question) -> ApprovalDecision | RecoveryDecision:
    """The decision in the words of the question; one that is none of them the run refuses, and says what it takes."""
    is_recovery = isinstance(question, AgentRecoveryRequest)
    kinds = (RecoveryDecision, ApprovalDecision) if is_recovery else (ApprovalDecision, RecoveryDecision)
    return next(kind(decision) for kind in kinds if decision in {each.value for each in kind})

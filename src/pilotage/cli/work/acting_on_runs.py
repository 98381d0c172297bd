"""`pilotage run, agui-stdio, runs answer, resume, cancel, send, fork`: acting on runs, in their application."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from importlib.util import find_spec

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.recovery_request import ACTIONS, AgentRecoveryRequest, RecoveryDecision
from pilotage.agent.signals import AgentSignalKind, ApprovalDecision
from pilotage.agent.state import AgentState
from pilotage.cli.application import acting, application_to_act, application_to_run
from pilotage.cli.asked import Asked
from pilotage.cli.driving.asking import Asker, asker_for
from pilotage.cli.driving.following import Followed, KeptRun, UnkeptRun, follow
from pilotage.cli.driving.telling import Telling
from pilotage.cli.exit_codes import ExitCode
from pilotage.cli.screen import Screen
from pilotage.cli.views.json_forms import run_json
from pilotage.cli.views.question import short_names
from pilotage.cli.words import Hints, TextSpan, Tone, line, short
from pilotage.cli.work.reading_runs import find_question, find_run
from pilotage.container.names import type_name
from pilotage.errors import AgentDefinitionError, CallerError
from pilotage.jsonvalue import JsonObject, JsonValue, parsed_input
from pilotage.runtime.answers import Question, run_of
from pilotage.runtime.runner import AgentRunner
from pilotage.runtime.runs import AgentRuns

FROM_INPUT = "-"
_ANSWER_INSIDE = re.compile(r"(.+?)=(retry|done|fail|cancel)(?::(.*))?", re.DOTALL)


async def run_agent(asked: Asked, agent: str, text: str | None, *, reasoning: bool) -> int:
    """Run an agent and follow the run.

    Raises:
        CallerError: the input does not fit the agent.
    """
    chosen, definition = application_to_run(agent, asked.app)
    screen = Screen.of_process()
    asker = asker_for(screen, as_json=asked.as_json)
    given = given_by(definition, await _read(text, definition, asker))
    async with acting(chosen.app) as runs:
        run = await _opened(runs, definition, given, asked)
        hints = asked.hints(chosen.option)
        if run.is_kept and not asked.as_json:
            screen.tell(line(TextSpan(f"run {run.id}", Tone.QUIET)))
        telling = Telling(screen, hints, run.id, as_json=asked.as_json, reasoning=reasoning)
        return await follow(run, telling, asker)


def given_by(definition: AgentDefinition, text: str | None) -> object:
    """The input of a run: a text as it is where the agent takes one, else what it is as JSON. Pure.

    Raises:
        CallerError: the agent takes something else than a text, and this is no JSON.
    """
    if text is None or _takes_text(definition):
        return text
    try:
        return parsed_input(text)
    except ValueError as error:
        raise CallerError(
            f"{definition.target.__name__} takes {_taken(definition)}. Give it as JSON: {error}."
        ) from error


def _taken(definition: AgentDefinition) -> str:
    parameters = definition.execution.parameters.items() if definition.execution else ()
    return ", ".join(f"{name}: {type_name(type_)}" for name, type_ in parameters) or "nothing"


def _takes_text(definition: AgentDefinition) -> bool:
    if definition.execution is None:
        return True
    parameters, required = definition.execution.parameters, definition.execution.required
    wanted = [parameters[name] for name in required] or list(parameters.values())
    return wanted == [str]


async def _read(text: str | None, definition: AgentDefinition, asker: Asker | None) -> str | None:
    """The text: as it is given, from standard input, or, where somebody is there, asked for."""
    if text == FROM_INPUT:
        return sys.stdin.read().strip()
    if text is None and asker is not None and _takes_text(definition):
        return await asker.text(f"{definition.agent_id} > ")
    return text


async def _opened(runs: AgentRuns, definition: AgentDefinition, given: object, asked: Asked) -> Followed:
    instance = runs.services.instance_of(definition)
    runner = AgentRunner.for_agent_instance(instance).for_principal(asked.principal)
    try:
        opened = await runner.open(given)
    except AgentDefinitionError as error:
        raise CallerError(str(error)) from error
    return KeptRun(runs, opened, asked.principal) if definition.spec.is_durable else UnkeptRun(opened)


async def talk(asked: Asked, agent: str) -> int:
    """Serve inputs line by line until there are no more.

    Raises:
        CallerError: the extra is not installed.
    """
    if find_spec("ag_ui") is None:
        raise CallerError('this command needs an extra: pip install "pilotage[agui]".')
    from pilotage.adapters.agui import AgUiStdioCommand, driver_for  # noqa: PLC0415 - needs the extra

    chosen, definition = application_to_run(agent, asked.app)
    async with acting(chosen.app):
        factory = driver_for(chosen.app, definition.target, principal=asked.principal)
        await AgUiStdioCommand(factory, sys.stdin, sys.stdout)()
    return ExitCode.DONE


async def answer(
    asked: Asked,
    text: str,
    decision: str,
    details: JsonObject,
    *,
    resumes: bool,
    inside: Sequence[str] = (),
) -> int:
    """Answer a question of a run; with `resumes` let the run go on here. `inside` are answers `action=decision`."""
    screen = Screen.of_process()
    async with acting_on(asked) as (runs, hints):
        _, question = await find_question(runs, text, asked.principal, decision)
        chosen, run_id = _decision(decision, question), run_of(question.id)
        if inside:
            details = {**details, ACTIONS: answers_inside(question, inside)}
        # This process ends with the command: a worker drives the run, or it is resumed below.
        await runs.answer(run_id, question.id, chosen, resume=False, principal=asked.principal, **details)
        state = await top_of(runs, question.agent_state_id, asked)
        if resumes:
            return await resume_and_follow(runs, state, asked, hints, screen)
        waiting = await runs.waiting_answers(state.id, principal=asked.principal)
        is_waiting = any(each.question.id == question.id for each in waiting)
    resume = TextSpan(hints.command("runs", "resume", short(state.id)), Tone.NAME)
    screen.answer(
        {"request_id": question.id, "decision": decision, "is_waiting": is_waiting, "run": run_json(state)},
        line(TextSpan(decision, Tone.STRONG), f": {question.prompt}"),
        aside=line(
            "stored; it waits for a worker to take the run up, or: "
            if is_waiting
            else "a worker has it, or: ",
            resume,
        ),
        as_json=asked.as_json,
    )
    return ExitCode.DONE


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


async def resume(asked: Asked, text: str) -> int:
    """Bring a run back in this process and follow it."""
    async with acting_on(asked) as (runs, hints):
        state = await find_run(runs, text, asked.principal)
        return await resume_and_follow(runs, state, asked, hints, Screen.of_process())


async def cancel(asked: Asked, text: str, reason: str | None) -> int:
    """End a run."""
    async with acting_on(asked) as (runs, _):
        state = await find_run(runs, text, asked.principal)
        is_cancelled = await runs.cancel(state.id, reason=reason, principal=asked.principal)
        state = await runs.get(state.id, principal=asked.principal)
    words = "cancelled" if is_cancelled else f"had ended already: {state.status}"
    value = {"cancelled": is_cancelled, "run": run_json(state)}
    Screen.of_process().answer(value, line(f"run {state.id} {words}"), as_json=asked.as_json)
    return ExitCode.DONE


async def send(asked: Asked, text: str, kind: AgentSignalKind, payload: JsonObject) -> int:
    """Send a message or a steering instruction to a run."""
    async with acting_on(asked) as (runs, _):
        state = await find_run(runs, text, asked.principal)
        signal = await runs.signal(state.id, kind, payload, principal=asked.principal)
    value = {"id": signal.id, "run_id": state.id, "kind": signal.kind}
    Screen.of_process().answer(value, line(f"sent to run {state.id}"), as_json=asked.as_json)
    return ExitCode.DONE


async def fork(asked: Asked, text: str, at: int | None, *, resumes: bool) -> int:
    """Make a new run with the beginning of another one's record; with `resumes` let it go on here."""
    screen = Screen.of_process()
    async with acting_on(asked) as (runs, hints):
        origin = await find_run(runs, text, asked.principal)
        state = await runs.fork(origin.id, at=at, principal=asked.principal)
        if resumes:
            return await resume_and_follow(runs, state, asked, hints, screen)
    resume = TextSpan(hints.command("runs", "resume", short(state.id)), Tone.NAME)
    screen.answer(
        {"run": run_json(state)},
        line(f"run {state.id}, forked from {origin.id}"),
        aside=line("let it go its own way: ", resume),
        as_json=asked.as_json,
    )
    return ExitCode.DONE


def parsed_option(option: str, text: str) -> JsonValue:
    """Return the JSON value of an option.

    Raises:
        CallerError: it is no JSON.
    """
    try:
        return parsed_input(text)
    except ValueError as error:
        raise CallerError(f"{option} is no JSON: {error}.") from error


@asynccontextmanager
async def acting_on(asked: Asked) -> AsyncGenerator[tuple[AgentRuns, Hints]]:
    """Start the application of the command, without its worker."""
    chosen = application_to_act(asked.app)
    async with acting(chosen.app) as runs:
        yield runs, asked.hints(chosen.option)


async def resume_and_follow(
    runs: AgentRuns, state: AgentState, asked: Asked, hints: Hints, screen: Screen
) -> int:
    """Bring a run back in this process and follow it."""
    handle = await runs.resume(state.id, principal=asked.principal)
    telling = Telling(screen, hints, state.id, as_json=asked.as_json)
    return await follow(
        KeptRun(runs, handle, asked.principal), telling, asker_for(screen, as_json=asked.as_json)
    )


async def top_of(runs: AgentRuns, run_id: str, asked: Asked) -> AgentState:
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

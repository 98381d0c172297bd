"""`pilotage run, chat, agui-stdio`: runs of one agent, followed in this process."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from mimetypes import guess_type
from pathlib import Path
from typing import Any

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.messages import MediaPart
from pilotage.agent.run_values import RunAgentInput
from pilotage.agent.state import AgentState, AgentStateReason
from pilotage.cli.application import ChosenApplication, Session, acting, application_to_run, in_application
from pilotage.cli.exit_codes import ExitCode
from pilotage.cli.follow import FollowedDurableRun, FollowedEphemeralRun, FollowedRun, follow
from pilotage.cli.options import CommandOptions
from pilotage.cli.prompt import InputLines, Prompt, prompt_for
from pilotage.cli.run_output import RunOutput
from pilotage.cli.text import TextSpan, Tone, line, one_line
from pilotage.container.names import type_name
from pilotage.errors import AgentDefinitionError, CallerError, RunConflictError
from pilotage.jsonvalue import parsed_input
from pilotage.runtime.runner import AgentRunner
from pilotage.values import value

FROM_INPUT = "-"
_LEAVE = frozenset({"/quit", "/exit"})


@value
class RunSettings:
    """What `run` and `chat` take besides the shared options."""

    conversation: str | None = None
    reasoning: bool = False
    attached: Sequence[Path] = ()


def run_agent(options: CommandOptions, agent: str, text: str | None, settings: RunSettings) -> int:
    """Run an agent once and follow the run.

    Raises:
        CallerError: the input does not fit the agent.
    """
    chosen, definition = application_to_run(agent, options.app)
    return in_application(options, chosen, _run_once, definition, text=text, settings=settings)


async def _run_once(
    session: Session, definition: AgentDefinition, *, text: str | None, settings: RunSettings
) -> int:
    prompt = prompt_for(session.screen, as_json=session.options.as_json)
    given = with_files(
        definition, given_by(definition, await _read(text, definition, prompt)), settings.attached
    )
    run = await _opened(session, definition, given, settings.conversation)
    if run.is_durable and not session.options.as_json:
        session.screen.message(line(TextSpan(f"run {run.id}", Tone.QUIET)))
    return await follow(run, _output(session, definition, run, settings), prompt)


def chat_with_agent(options: CommandOptions, agent: str, settings: RunSettings) -> int:
    """Run an agent for each line that is typed, as one conversation.

    Raises:
        CallerError: the agent takes no text.
    """
    chosen, definition = application_to_run(agent, options.app)
    if not _takes_text(definition):
        raise CallerError(
            f"{definition.target.__name__} takes {_taken(definition)}, not a text. Use: pilotage run {agent} JSON."
        )
    return in_application(options, chosen, _chat, definition, agent=agent, settings=settings)


async def _chat(session: Session, definition: AgentDefinition, *, agent: str, settings: RunSettings) -> int:
    """Read lines and run the agent for each; a run that waits for an answer ends the chat.

    One that stopped at a limit, or without an answer, does not: the next line cancels it, and begins another one.
    """
    screen = session.screen
    conversation = settings.conversation or session.runs.services.ids.uid()
    settings = replace(settings, conversation=conversation)
    prompt = prompt_for(screen, as_json=False)
    if prompt is not None:
        screen.message(line(TextSpan(_welcome(definition), Tone.QUIET)))
    typed = prompt or Prompt(screen, InputLines())
    code, has_turns = ExitCode.DONE, False
    try:
        while (text := await _next_line(typed, is_shown=prompt is not None)) is not None:
            given = with_files(definition, given_by(definition, text), settings.attached)
            settings = replace(settings, attached=())
            run = await _opened_after(session, definition, given, conversation)
            code = await follow(run, _output(session, definition, run, settings, brief=True), prompt)
            has_turns = definition.is_declarative
            if code is ExitCode.WAITING and not await _has_stopped(session, run):
                break
    finally:
        if has_turns:
            is_named = ":" in agent and not session.options.app
            hints = session.options.hints("") if is_named else session.hints
            again = hints.command("chat", agent, "--conversation", conversation)
            screen.message(line(TextSpan("continue this conversation: ", Tone.QUIET), again))
    return code if code is ExitCode.WAITING or prompt is None else ExitCode.DONE


async def _opened_after(
    session: Session, definition: AgentDefinition, given: Any, conversation: str
) -> FollowedRun:
    """Start a run of a conversation; one that stopped at a limit is cancelled for it.

    Raises:
        RunConflictError: another run has the conversation.
    """
    try:
        return await _opened(session, definition, given, conversation)
    except RunConflictError as conflict:
        runs, principal, holder = session.runs, session.principal, conflict.holder
        if holder is None or not _is_at_limit(await runs.get(holder, principal=principal)):
            raise
        await runs.cancel(holder, reason="a message followed", principal=principal)
        return await _opened(session, definition, given, conversation)


async def _has_stopped(session: Session, run: FollowedRun) -> bool:
    """Return whether a run stopped at a limit, or without an answer: it asks nothing."""
    if isinstance(run, FollowedDurableRun):
        return _is_at_limit(await session.runs.get(run.id, principal=session.principal))
    result = await run.result()
    return result is not None and _is_at_limit(result.state)


def _is_at_limit(state: AgentState) -> bool:
    return state.reason is AgentStateReason.LIMIT_REACHED


def _welcome(definition: AgentDefinition) -> str:
    words = f"Chat with {one_line(definition.agent_id)}. Ctrl-C cancels a run; Ctrl-D or /quit ends the chat."
    if not definition.is_declarative:
        words += " The agent has its own execute(): it gets each line alone, without the lines before."
    return words


async def _next_line(prompt: Prompt, *, is_shown: bool) -> str | None:
    """Return the next line that is not blank; None at the end of the chat."""
    while (text := await prompt.text("> " if is_shown else "")) is not None:
        if text.lower() in _LEAVE:
            return None
        if text:
            return text
    return None


def talk_agui(options: CommandOptions, agent: str) -> int:
    """Serve AG-UI over standard input and output until the input ends.

    Raises:
        CallerError: the extra is not installed.
    """
    if find_spec("ag_ui") is None:
        raise CallerError('this command needs an extra: pip install "pilotage[agui]".')
    chosen, definition = application_to_run(agent, options.app)
    asyncio.run(_serve_agui(options, chosen, definition))
    return ExitCode.DONE


async def _serve_agui(
    options: CommandOptions, chosen: ChosenApplication, definition: AgentDefinition
) -> None:
    from pilotage.adapters.agui import AgUiStdioCommand, driver_for  # noqa: PLC0415 - needs the extra

    async with acting(chosen.app):
        factory = driver_for(chosen.app, definition.target, principal=options.principal)
        await AgUiStdioCommand(factory, sys.stdin, sys.stdout)()


def given_by(definition: AgentDefinition, text: str | None) -> object:
    """Return the input of a run: the text if the agent takes one, else the JSON value of the text. Pure.

    Raises:
        CallerError: the agent takes another type, and the text is no JSON.
    """
    if text is None or _takes_text(definition):
        return text
    try:
        return parsed_input(text)
    except ValueError as error:
        raise CallerError(
            f"{definition.target.__name__} takes {_taken(definition)}. Give it as JSON: {error}."
        ) from error


def with_files(definition: AgentDefinition, given: object, files: Sequence[Path]) -> object:
    """Return the input of a run with the files attached to it.

    Raises:
        CallerError: a file cannot be read, or the agent takes no text.
    """
    if not files:
        return given
    if not isinstance(given, str) or not given.strip():
        raise CallerError(
            f"--attach goes with a text. {definition.target.__name__} takes {_taken(definition)}."
        )
    return RunAgentInput("attached", given, attachments=[attached(path) for path in files])


def attached(path: Path) -> MediaPart:
    """Return a file as media.

    Raises:
        CallerError: it cannot be read, or is empty.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CallerError(f"{str(path)!r} cannot be read: {error.strerror or error}.") from error
    if not content:
        raise CallerError(f"{str(path)!r} is empty.")
    return MediaPart.of(content, guess_type(path.name)[0] or "application/octet-stream", path.name)


def _taken(definition: AgentDefinition) -> str:
    parameters = definition.execution.parameters.items() if definition.execution else ()
    return ", ".join(f"{name}: {type_name(type_)}" for name, type_ in parameters) or "nothing"


def _takes_text(definition: AgentDefinition) -> bool:
    if definition.execution is None:
        return True
    parameters, required = definition.execution.parameters, definition.execution.required
    wanted = [parameters[name] for name in required] or list(parameters.values())
    return wanted == [str]


async def _read(text: str | None, definition: AgentDefinition, prompt: Prompt | None) -> str | None:
    """Return the text of the command line, of standard input, or of the prompt."""
    if text == FROM_INPUT:
        return sys.stdin.read().strip()
    if text is None and prompt is not None and _takes_text(definition):
        return await prompt.text(f"{definition.agent_id} > ") or None
    return text


async def _opened(
    session: Session, definition: AgentDefinition, given: Any, conversation: str | None
) -> FollowedRun:
    """Start a run of the agent, durable if the agent is."""
    runs, principal = session.runs, session.principal
    if conversation is not None and definition.is_declarative and runs.services.conversations is None:
        raise CallerError(
            f"application {runs.services.app.name!r} stores no conversations: nothing in it provides ITaskStore. "
            'Install pip install "pilotage[sqlalchemy]", and load the plugins: app.load_plugins().'
        )
    try:
        if definition.spec.is_durable:
            handle = await runs.start(
                definition.agent_id, given, principal=principal, conversation_id=conversation
            )
            return FollowedDurableRun(runs, handle, principal)
        if conversation is not None and isinstance(given, str):
            given = RunAgentInput(runs.services.ids.uid(), given, conversation)
        if isinstance(given, RunAgentInput):
            given = replace(given, state_id=runs.services.ids.uid(), conversation_id=conversation)
        runner = AgentRunner.for_agent_instance(runs.services.instance_of(definition))
        return FollowedEphemeralRun(await runner.for_principal(principal).open(given))
    except AgentDefinitionError as error:
        raise CallerError(str(error)) from error


def _output(
    session: Session,
    definition: AgentDefinition,
    run: FollowedRun,
    settings: RunSettings,
    *,
    brief: bool = False,
) -> RunOutput:
    return RunOutput(
        session.screen,
        session.hints,
        run.id,
        as_json=session.options.as_json,
        reasoning=settings.reasoning,
        waits_for="waiting for the model" if definition.is_declarative else "working",
        brief=brief,
    )

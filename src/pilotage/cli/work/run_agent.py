"""`pilotage run`: one run of one agent, followed from this terminal."""

from __future__ import annotations

import json
import sys

from pilotage.agent.definition import AgentDefinition
from pilotage.cli.choosing import application_to_run
from pilotage.cli.driving.asking import Asker
from pilotage.cli.driving.followed import Followed, KeptRun, UnkeptRun
from pilotage.cli.driving.following import follow
from pilotage.cli.driving.telling import Telling
from pilotage.cli.opening import acting
from pilotage.cli.screen.screen import Screen
from pilotage.cli.screen.words import Span, Tone, line
from pilotage.cli.work.asked import Asked
from pilotage.container.names import type_name
from pilotage.errors import AgentDefinitionError, CallerError
from pilotage.runtime.runner import AgentRunner
from pilotage.runtime.runs import AgentRuns

FROM_INPUT = "-"


async def run_agent(asked: Asked, agent: str, text: str | None, *, reasoning: bool) -> int:
    """Run an agent and follow the run.

    Raises:
        CallerError: the input does not fit the agent.
    """
    chosen, definition = application_to_run(agent, asked.app)
    screen = Screen.of_process()
    asker = asked.asker(screen)
    given = given_by(definition, await _read(text, definition, asker))
    async with acting(chosen.app) as runs:
        run = await _opened(runs, definition, given, asked)
        hints = asked.hints(chosen)
        if run.is_kept and not asked.as_json:
            screen.tell(line(Span(f"run {run.id}", Tone.QUIET)))
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
        return json.loads(text)
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

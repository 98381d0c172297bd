"""Finding runs and questions by the beginning of their ids."""

from __future__ import annotations

from collections.abc import Sequence

from pilotage.agent.principal import Principal
from pilotage.agent.state import AgentState
from pilotage.errors import CallerError, RunNotFoundError
from pilotage.runtime.answers import Question
from pilotage.runtime.runs import AgentRuns

_SHORTEST = 4
_PAGE, _PAGES = 500, 20


async def find_run(runs: AgentRuns, text: str, principal: Principal) -> AgentState:
    """The run of this id, or the only one whose id begins like this, among the newest ten thousand of the tenant.

    Raises:
        RunNotFoundError: there is none, or there are several.
    """
    try:
        return await runs.get(text, principal=principal)
    except RunNotFoundError as missing:
        if len(text) < _SHORTEST:
            raise CallerError(
                f"{text!r} is too short for a run. Give {_SHORTEST} characters or more."
            ) from missing
    found = await _beginning_with(runs, text, principal)
    if len(found) == 1:
        return found[0]
    if not found:
        raise RunNotFoundError(
            f"there is no run {text!r} in tenant {principal.tenant!r}. Name another one with --tenant."
        )
    ids = ", ".join(each.id for each in found[:5])
    raise RunNotFoundError(f"{len(found)} runs begin with {text!r}: {ids}. Give more of the id.")


async def find_question(
    runs: AgentRuns, text: str, principal: Principal, decision: str
) -> tuple[AgentState, Question]:
    """The run and the question that are meant: by the request's id, or by the run's where it has only one to answer so.

    Raises:
        RunNotFoundError: there is no such run.
        CallerError: it asks nothing of the kind, or several things.
    """
    run_text, _, request = text.partition(":")
    state = await find_run(runs, run_text, principal)
    asked = await runs.questions(state.id, principal=principal)
    named = [each for each in asked if not request or _own(each).startswith(request)]
    if not named:
        raise CallerError(
            f"run {state.id!r} is {state.status} and waits for no answer{f' to {text!r}' if request else ''}."
        )
    fitting = [each for each in named if decision in {choice.value for choice in each.allowed_decisions}]
    meant = fitting or named  # what does not fit, the run itself refuses
    if len(meant) == 1:
        return state, meant[0]
    ids = ", ".join(each.id for each in meant)
    raise CallerError(f"run {state.id!r} asks {len(meant)} questions. Name one of them: {ids}.")


def _own(question: Question) -> str:
    return question.id.partition(":")[2]


async def _beginning_with(runs: AgentRuns, text: str, principal: Principal) -> Sequence[AgentState]:
    found: list[AgentState] = []
    cursor: str | None = None
    for _ in range(_PAGES):
        page = await runs.list(after=cursor, limit=_PAGE, principal=principal)
        found += [each for each in page.runs if each.id.startswith(text)]
        cursor = page.cursor
        if cursor is None:
            break
    return found

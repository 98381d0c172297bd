"""`pilotage runs list, show, questions, events, verify`: finding runs by their ids, and looking at them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

from pilotage.agent.events import RunFinishedEvent
from pilotage.agent.ports.sealing import RecordSealError
from pilotage.agent.principal import Principal
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.cli.application import chosen_application, reading
from pilotage.cli.asked import Asked
from pilotage.cli.driving.telling import Telling
from pilotage.cli.exit_codes import ExitCode
from pilotage.cli.screen import Screen
from pilotage.cli.views.json_forms import claims_json, evidence_json, result_json, run_json
from pilotage.cli.views.question import answer_json, open_questions, question_json
from pilotage.cli.views.run_page import Moment, RunFacts, moments_in, run_lines, run_page
from pilotage.cli.words import Hints, line
from pilotage.errors import CallerError, RunErasedError, RunNotFoundError
from pilotage.runtime.answers import Question
from pilotage.runtime.runs import AgentRuns

_LOOK_AGAIN_SECONDS = 1.0
_SHORTEST = 4
_PAGE, _PAGES = 500, 20


async def list_runs(
    asked: Asked,
    *,
    statuses: Sequence[AgentStatus],
    agent: str | None,
    since: datetime | timedelta | None,
    limit: int,
    after: str | None,
) -> int:
    """The runs of a tenant, newest first."""
    screen = Screen.of_process()
    async with _runs(asked) as (runs, _):
        now = runs.services.clock.now()
        page = await runs.list(
            statuses=statuses,
            agent=agent,
            since=now - since if isinstance(since, timedelta) else since,
            after=after,
            limit=limit,
            principal=asked.principal,
        )
    screen.answer(
        {"runs": [run_json(each) for each in page.runs], "cursor": page.cursor},
        *run_lines(page.runs, now, screen.width),
        aside=None if page.cursor is None else line(f"there are more: --after {page.cursor}"),
        as_json=asked.as_json,
    )
    return ExitCode.DONE


async def show_run(asked: Asked, text: str) -> int:
    """Everything about one run on one page."""
    screen = Screen.of_process()
    async with _runs(asked) as (runs, hints):
        state = await find_run(runs, text, asked.principal)
        evidence = await runs.evidence(state.id, principal=asked.principal)
        facts = await _facts(runs, state, moments_in(evidence), asked)
        now = runs.services.clock.now()
    value = {
        **(result_json(facts.result) if facts.result else {"run": run_json(state)}),
        **({"claims": claims_json(facts.claims)} if facts.claims.count else {}),
        "questions": [question_json(each) for each in facts.questions],
        "waiting_answers": [answer_json(each) for each in facts.answers],
        "evidence": [evidence_json(each) for each in evidence],
    }
    screen.answer(value, *run_page(facts, hints, now, screen.width), as_json=asked.as_json)
    return ExitCode.DONE


async def list_questions(asked: Asked, text: str) -> int:
    """The open questions of a run, each with the commands that answer it."""
    screen = Screen.of_process()
    async with _runs(asked) as (runs, hints):
        state = await find_run(runs, text, asked.principal)
        questions = await runs.questions(state.id, principal=asked.principal)
    value = {"run_id": state.id, "questions": [question_json(each) for each in questions]}
    none_open = line(f"run {state.id} is {state.status} and has no open question")
    screen.answer(value, *open_questions(questions, hints) or [none_open], as_json=asked.as_json)
    return ExitCode.DONE


async def tell_events(asked: Asked, text: str, *, after: str | None, follows: bool, reasoning: bool) -> int:
    """What a run did, and with `follows` what it does, until it has ended."""
    screen = Screen.of_process(telling_is_answer=True)
    async with _runs(asked) as (runs, hints):
        state = await find_run(runs, text, asked.principal)
        telling = Telling(screen, hints, state.id, as_json=asked.as_json, reasoning=reasoning, streams=True)
        cursor, is_over = after, False
        while not is_over:
            events = runs.events(state.id, after=cursor, follow=follows, principal=asked.principal)
            async for event in events:
                telling.tell(event, events.cursor)
                is_over = isinstance(event, RunFinishedEvent) and event.attribution.run_id == state.id
            cursor = events.cursor
            state = await runs.get(state.id, principal=asked.principal)
            is_over = is_over or not follows or state.is_terminal
            if not is_over:  # it waits, and somebody elsewhere may let it go on
                await runs.services.clock.sleep(_LOOK_AGAIN_SECONDS)
        screen.end_line()
    return ExitCode.DONE


async def verify_run(asked: Asked, text: str) -> int:
    """Whether the record of a run is whole and says what its state says."""
    screen = Screen.of_process()
    async with _runs(asked) as (runs, _):
        state = await find_run(runs, text, asked.principal)
        try:
            rows = await runs.verify(state.id, principal=asked.principal)
        except RunNotFoundError:
            raise
        except CallerError as error:
            screen.tell(line(str(error)))
            if asked.as_json:
                screen.say_json({"run_id": state.id, "verified": False, "problem": str(error)})
            return ExitCode.WRONG
    value = {"run_id": state.id, "verified": True, "rows": rows}
    screen.answer(value, line(f"run {state.id}: {rows} rows, in order"), as_json=asked.as_json)
    return ExitCode.DONE


async def _facts(runs: AgentRuns, state: AgentState, moments: Sequence[Moment], asked: Asked) -> RunFacts:
    """State, questions and result; of a run that was erased, or whose key is not here, only what can be read."""
    claims = await runs.claims(state.id, principal=asked.principal)
    try:
        questions = await runs.questions(state.id, principal=asked.principal)
        answers = await runs.waiting_answers(state.id, principal=asked.principal)
        result = await runs.result(state.id, principal=asked.principal)
    except (RunErasedError, RecordSealError) as error:
        return RunFacts(state, (), moments, None, why_not=str(error), claims=claims)
    return RunFacts(result.state, questions, moments, result, claims=claims, answers=answers)


@asynccontextmanager
async def _runs(asked: Asked) -> AsyncGenerator[tuple[AgentRuns, Hints], None]:
    """The runs of the application that is named, else of the database of the environment."""
    chosen = chosen_application(asked.app)
    async with reading(chosen.app if chosen is not None else None) as runs:
        yield runs, asked.hints(chosen.option if chosen is not None else "")


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
    if not named and (closed := await _answered(runs, state, request, principal)) is not None:
        return state, closed
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


async def _answered(
    runs: AgentRuns, state: AgentState, request: str, principal: Principal
) -> Question | None:
    """The one answered question that is meant: the run says by whom it was answered, and confirms the same answer."""
    asked = await runs.answered_questions(state.id, principal=principal)
    named = [each for each in asked if _own(each).startswith(request)]
    return named[0] if len(named) == 1 else None


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

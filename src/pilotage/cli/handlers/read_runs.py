"""`pilotage runs list, show, questions, events, verify`: find runs by their ids, and read them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from pilotage.agent.events import RunFinishedEvent
from pilotage.agent.ports.persistence import JournalStage, RunKey
from pilotage.agent.ports.sealing import RecordSealError
from pilotage.agent.principal import Principal
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.cli.application import Session
from pilotage.cli.exit_codes import ExitCode
from pilotage.cli.json_view import answer_json, claims_json, listed_json, view_json
from pilotage.cli.question_view import open_questions
from pilotage.cli.run_output import RunOutput
from pilotage.cli.run_view import RunFacts, run_lines, run_page
from pilotage.cli.screen import Screen
from pilotage.cli.text import TextSpan, Tone, line
from pilotage.cli.timeline import TimelineEntry, timeline_of
from pilotage.errors import CallerError, RunErasedError, RunNotFoundError
from pilotage.inbound.questions import QuestionView
from pilotage.inbound.views import DamagedRunView, EvidenceView, ResultView, RunView
from pilotage.runtime.open_questions import Question
from pilotage.runtime.run.start import run_id_of
from pilotage.runtime.runs import AgentRuns
from pilotage.values import value

_LOOK_AGAIN_SECONDS = 1.0
_SHORTEST = 4
_PAGE, _PAGES = 500, 20


@value
class RunFilter:
    """Which runs `list` shows."""

    statuses: Sequence[AgentStatus] = ()
    agent: str | None = None
    since: datetime | timedelta | None = None
    limit: int = 20
    after: str | None = None


async def list_runs(session: Session, wanted: RunFilter) -> int:
    """List the runs of a tenant, newest first; a damaged one makes the exit code 1."""
    now, since = session.runs.services.clock.now(), wanted.since
    page = await session.runs.list(
        statuses=wanted.statuses,
        agent=wanted.agent,
        since=now - since if isinstance(since, timedelta) else since,
        after=wanted.after,
        limit=wanted.limit,
        principal=session.principal,
    )
    listed = [(each, await session.runs.outline(each.id, principal=session.principal)) for each in page.runs]
    damaged = [view_json(DamagedRunView.showing(each)) for each in page.damaged]
    session.screen.answer(
        {"runs": [listed_json(*each) for each in listed], "cursor": page.cursor, "damaged": damaged},
        *run_lines(listed, now, session.screen.width),
        aside=None if page.cursor is None else line(f"there are more: --after {page.cursor}"),
        as_json=session.options.as_json,
    )
    for each in () if session.options.as_json else page.damaged:
        session.screen.message(line(TextSpan("damaged: ", Tone.BAD), each.problem))
    return ExitCode.WRONG if damaged else ExitCode.DONE


async def show_run(session: Session, text: str) -> int:
    """Show one run on one page."""
    runs, screen = session.runs, session.screen
    state = await find_run(runs, text, session.principal)
    evidence = await runs.evidence(state.id, principal=session.principal)
    taken_over = await _taken_over(runs, state) if not session.options.as_json else ()
    facts = await _facts(session, state, timeline_of(evidence, taken_over))
    value = {
        **(view_json(ResultView.of(facts.result)) if facts.result else {"run": view_json(RunView.of(state))}),
        **({"claims": claims_json(facts.claims)} if facts.claims.count else {}),
        "questions": [view_json(QuestionView.of(each)) for each in facts.questions],
        "waiting_answers": [answer_json(each) for each in facts.answers],
        "evidence": [view_json(EvidenceView.of(each)) for each in evidence],
    }
    now = runs.services.clock.now()
    page = run_page(facts, session.hints, now, screen.width)
    screen.answer(value, *page, as_json=session.options.as_json)
    return ExitCode.DONE


async def list_questions(session: Session, text: str) -> int:
    """List the open questions of a run, each with the commands that answer it."""
    state = await find_run(session.runs, text, session.principal)
    questions = await session.runs.questions(state.id, principal=session.principal)
    value = {"run_id": state.id, "questions": [view_json(QuestionView.of(each)) for each in questions]}
    none_open = line(f"run {state.id} is {state.status} and has no open question")
    lines = open_questions(questions, session.hints) or [none_open]
    session.screen.answer(value, *lines, as_json=session.options.as_json)
    return ExitCode.DONE


async def show_events(
    session: Session, text: str, *, after: str | None, follows: bool, reasoning: bool
) -> int:
    """Show the events of a run; with `follows`, until it has ended."""
    runs, screen = session.runs, Screen.of_process(messages_are_answer=True)
    state = await find_run(runs, text, session.principal)
    as_json = session.options.as_json
    output = RunOutput(screen, session.hints, state.id, as_json=as_json, reasoning=reasoning, streams=True)
    cursor, is_over = after, False
    while not is_over:
        events = runs.events(state.id, after=cursor, follow=follows, principal=session.principal)
        async for event in events:
            output.write(event, events.cursor)
            is_over = isinstance(event, RunFinishedEvent) and event.attribution.run_id == state.id
        cursor = events.cursor
        state = await runs.get(state.id, principal=session.principal)
        is_over = is_over or not follows or state.is_terminal
        if not is_over:  # it waits, and may be answered elsewhere
            await runs.services.clock.sleep(_LOOK_AGAIN_SECONDS)
    screen.end_line()
    return ExitCode.DONE


async def verify_run(session: Session, text: str) -> int:
    """Check the record of a run against itself and its state."""
    screen, as_json = session.screen, session.options.as_json
    state = await find_run(session.runs, text, session.principal)
    try:
        rows = await session.runs.verify(state.id, principal=session.principal)
    except RunNotFoundError:
        raise
    except CallerError as error:
        screen.message(line(str(error)))
        if as_json:
            screen.print_json({"run_id": state.id, "verified": False, "problem": str(error)})
        return ExitCode.WRONG
    value = {"run_id": state.id, "verified": True, "rows": rows}
    screen.answer(value, line(f"run {state.id}: {rows} rows, in order"), as_json=as_json)
    return ExitCode.DONE


async def _facts(session: Session, state: AgentState, timeline: Sequence[TimelineEntry]) -> RunFacts:
    """Return state, questions and result; of an erased run, or one whose key is missing, what can be read."""
    runs, principal = session.runs, session.principal
    claims = await runs.claims(state.id, principal=principal)
    try:
        questions = await runs.questions(state.id, principal=principal)
        answers = await runs.waiting_answers(state.id, principal=principal)
        result = await runs.result(state.id, principal=principal)
    except (RunErasedError, RecordSealError) as error:
        return RunFacts(state, (), timeline, None, why_not=str(error), claims=claims)
    return RunFacts(result.state, questions, timeline, result, claims=claims, answers=answers)


async def _taken_over(runs: AgentRuns, state: AgentState) -> frozenset[tuple[str, int]]:
    """Return the attempts whose outcome was written by another owner than the one that began them."""
    begun: dict[tuple[str, int], int] = {}
    found: set[tuple[str, int]] = set()
    async for row in runs.services.journal.read(RunKey(state.tenant_id, state.id)):
        place = (row.action_id, row.attempt)
        if row.stage is JournalStage.BEFORE:
            begun[place] = row.epoch
        elif begun.get(place, row.epoch) != row.epoch:
            found.add(place)
    return frozenset(found)


async def find_run(runs: AgentRuns, text: str, principal: Principal) -> AgentState:
    """Return the run with this id, started with this id, or the only one whose id begins so.

    The beginning is looked for among the newest ten thousand runs of the tenant.

    Raises:
        RunNotFoundError: there is none, or there are several.
    """
    for run_id in (text, run_id_of(principal.tenant, text)):
        with suppress(RunNotFoundError):
            return await runs.get(run_id, principal=principal)
    if len(text) < _SHORTEST:
        raise CallerError(f"{text!r} is too short for a run. Give {_SHORTEST} characters or more.")
    found = await _beginning_with(runs, text, principal)
    if len(found) == 1:
        return await runs.get(found[0], principal=principal)
    if not found:
        raise RunNotFoundError(
            f"there is no run {text!r} in tenant {principal.tenant!r}. Name another one with --tenant."
        )
    ids = ", ".join(found[:5])
    raise RunNotFoundError(f"{len(found)} runs begin with {text!r}: {ids}. Give more of the id.")


async def find_question(
    runs: AgentRuns, text: str, principal: Principal, decision: str
) -> tuple[AgentState, Question]:
    """Return a run and its question: by the request's id, or by the run's id if only one question takes the decision.

    Raises:
        RunNotFoundError: there is no such run.
        CallerError: the run has no such question, or several.
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
    meant = fitting or named  # the run refuses a decision that does not fit
    if len(meant) == 1:
        return state, meant[0]
    ids = ", ".join(each.id for each in meant)
    raise CallerError(f"run {state.id!r} asks {len(meant)} questions. Name one of them: {ids}.")


async def _answered(
    runs: AgentRuns, state: AgentState, request: str, principal: Principal
) -> Question | None:
    """Return the one answered question of this name: the run says who answered, and confirms the same answer."""
    asked = await runs.answered_questions(state.id, principal=principal)
    named = [each for each in asked if _own(each).startswith(request)]
    return named[0] if len(named) == 1 else None


def _own(question: Question) -> str:
    return question.id.partition(":")[2]


async def _beginning_with(runs: AgentRuns, text: str, principal: Principal) -> Sequence[str]:
    """Return the ids that begin with a text, damaged runs included."""
    found: list[str] = []
    cursor: str | None = None
    for _ in range(_PAGES):
        page = await runs.list(after=cursor, limit=_PAGE, principal=principal)
        ids = [*(run.id for run in page.runs), *(run.id for run in page.damaged)]
        found += [run_id for run_id in ids if run_id.startswith(text)]
        cursor = page.cursor
        if cursor is None:
            break
    return found

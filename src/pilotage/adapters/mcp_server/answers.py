"""Answers of a client's user: each is one of `AgentRuns.answer`, by whose rules the first one to a question counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext

from pilotage.adapters.mcp_server.following import RunAtRest
from pilotage.adapters.mcp_server.questions import answer_of, form_of, request_of
from pilotage.agent.principal import Principal
from pilotage.errors import AnswerConflictError, CallerError, PermissionDeniedError
from pilotage.runtime.journal.question_record import Question
from pilotage.runtime.runs import AgentRuns
from pilotage.values import value

_MOST_TRIES = 5


def _nothing() -> Mapping[str, str]:
    return {}


@value
class TakenAnswers:
    """What became of the responses of a client: why some were no answers, and whether its user closed a form."""

    refused: Mapping[str, str] = field(default_factory=_nothing)
    is_left_open: bool = False


def asked(rest: RunAtRest, taken: TakenAnswers) -> types.InputRequiredResult:
    """Return the questions of a run for the user of a client; the state names the run and is sealed on its way out."""
    return types.InputRequiredResult(
        input_requests={each.id: request_of(each, taken.refused.get(each.id)) for each in rest.questions},
        request_state=rest.state.id,
    )


class Answering:
    """Takes the answers to the questions of runs."""

    def __init__(self, runs: AgentRuns) -> None:
        self._runs = runs

    async def take(self, run_id: str, responses: Mapping[str, object], principal: Principal) -> TakenAnswers:
        """Store the answers in responses. Responses to what the run has not asked are ignored.

        Raises:
            AnswerConflictError: a question has another answer.
            PermissionDeniedError: the principal may not answer.
        """
        if not responses:
            return TakenAnswers()
        known = await self._known(run_id, principal)
        refused: dict[str, str] = {}
        is_left_open = False
        for request_id, response in responses.items():
            if request_id not in known:
                continue
            try:
                is_answered = await self._answered(run_id, known[request_id], response, principal)
            except (AnswerConflictError, PermissionDeniedError):
                raise
            except CallerError as error:
                refused[request_id] = str(error)
            else:
                is_left_open = is_left_open or not is_answered
        return TakenAnswers(refused, is_left_open)

    async def ask_now(
        self, context: ServerRequestContext[Any, Any], rest: RunAtRest, principal: Principal
    ) -> bool:
        """Ask the user of a client of the handshake era; return False where a form was closed."""
        taken = TakenAnswers()
        for _ in range(_MOST_TRIES):
            for question in rest.questions:
                form = form_of(question, taken.refused.get(question.id))
                filled = await context.session.elicit_form(
                    form.message, form.requested_schema, context.request_id
                )
                taken = await self.take(rest.state.id, {question.id: filled}, principal)
                if taken.is_left_open:
                    return False
                if taken.refused:
                    break
            if not taken.refused:
                return True
        return False

    async def _known(self, run_id: str, principal: Principal) -> dict[str, Question]:
        """Return the questions of a run, open and closed: an answer that is sent again is confirmed."""
        closed = await self._runs.answered_questions(run_id, principal=principal)
        open_ones = await self._runs.questions(run_id, principal=principal)
        return {each.id: each for each in (*closed, *open_ones)}

    async def _answered(
        self, run_id: str, question: Question, response: object, principal: Principal
    ) -> bool:
        given = answer_of(question, response)
        if given is None:
            return False
        await self._runs.answer_all(run_id, [given], principal=principal)
        return True

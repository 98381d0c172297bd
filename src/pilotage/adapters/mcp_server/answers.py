"""Answers of a client's user: each is one of `AgentRuns.answer`, by whose rules the first one to a question counts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext

from pilotage.adapters.mcp_server.following import RunAtRest
from pilotage.adapters.mcp_server.questions import Forms, answer_of, asked_form, form_of, request_of
from pilotage.agent.principal import Principal
from pilotage.errors import AnswerConflictError, CallerError, PermissionDeniedError
from pilotage.jsonvalue import canonical_json, object_or_empty
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


@value
class AskedCall:
    """The state of a call that asks: its run, and the question of each key. It is sealed on its way out.

    A key names another question in a later round. What is sent again is therefore about the question of its time.
    """

    run_id: str
    asked: Mapping[str, str]

    def __str__(self) -> str:
        return canonical_json({"run": self.run_id, "asked": dict(self.asked)})

    @classmethod
    def of(cls, rest: RunAtRest, forms: Forms) -> AskedCall:
        """Return the state of a run that asks."""
        ids = [each.id for each in rest.questions]
        return cls(rest.state.id, dict(zip(keys_of(rest.questions, forms), ids, strict=True)))

    def by_question(self, responses: Mapping[str, object]) -> dict[str, object]:
        """Return responses by the ids of the questions that they are to; without those to anything else."""
        return {self.asked[key]: each for key, each in responses.items() if key in self.asked}

    @classmethod
    def parse(cls, text: str) -> AskedCall:
        """Return the state that `str` wrote; its seal has been checked."""
        found = object_or_empty(json.loads(text))
        keys = object_or_empty(found.get("asked"))
        return cls(str(found.get("run")), {key: str(each) for key, each in keys.items()})


def asked(rest: RunAtRest, taken: TakenAnswers, forms: Forms) -> types.InputRequiredResult:
    """Return the questions of a run for the user of a client, with the state to answer them by."""
    state = AskedCall.of(rest, forms)
    requests: dict[str, Any] = {
        key: request_of(each, forms, taken.refused.get(each.id))
        for key, each in zip(state.asked, rest.questions, strict=True)
    }
    return types.InputRequiredResult(input_requests=requests, request_state=str(state))


def keys_of(questions: Sequence[Question], forms: Forms) -> list[str]:
    """Return a key for each question: the name of the form that it asks for, if no other asks for it, else its id."""
    named = [asked_form(each, forms) for each in questions]
    names = Counter(each.name for each in named if each is not None)
    return [
        form.name if form is not None and names[form.name] == 1 else each.id
        for form, each in zip(named, questions, strict=True)
    ]


class Answering:
    """Takes the answers to the questions of runs."""

    def __init__(self, runs: AgentRuns) -> None:
        self._runs = runs

    async def take(
        self, run_id: str, responses: Mapping[str, object], principal: Principal, forms: Forms = ()
    ) -> TakenAnswers:
        """Store the answers in responses, by the ids of their questions. Others are ignored.

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
                given = answer_of(known[request_id], response, forms)
                if given is not None:
                    await self._runs.answer_all(run_id, [given], principal=principal)
            except (AnswerConflictError, PermissionDeniedError):
                raise
            except CallerError as error:
                refused[request_id] = str(error)
            else:
                is_left_open = is_left_open or given is None
        return TakenAnswers(refused, is_left_open)

    async def ask_now(
        self, context: ServerRequestContext[Any, Any], rest: RunAtRest, principal: Principal, forms: Forms
    ) -> TakenAnswers:
        """Ask the user of a client of the handshake era; a question without an answer is left open."""
        for question in rest.questions:
            taken = TakenAnswers()
            for _ in range(_MOST_TRIES):
                form = form_of(question, forms, taken.refused.get(question.id))
                filled = await context.session.elicit_form(
                    form.message, form.requested_schema, context.request_id
                )
                taken = await self.take(rest.state.id, {question.id: filled}, principal, forms)
                if not taken.refused:
                    break
            if taken.refused or taken.is_left_open:
                return TakenAnswers(is_left_open=True)
        return TakenAnswers()

    async def _known(self, run_id: str, principal: Principal) -> dict[str, Question]:
        """Return the questions of a run, open and closed: an answer that is sent again is confirmed."""
        closed = await self._runs.answered_questions(run_id, principal=principal)
        open_ones = await self._runs.questions(run_id, principal=principal)
        return {each.id: each for each in (*closed, *open_ones)}

"""Routes that act on runs: start, signal, answer, cancel, resume, fork."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from pilotage.adapters.asgi.errors import RequestRefusedError
from pilotage.adapters.fastapi.bodies import (
    AnswerBody,
    CancelBody,
    ForkBody,
    RunId,
    SignalBody,
    StartBody,
    details_of,
    signal_kind_of,
)
from pilotage.adapters.fastapi.dependencies import Caller
from pilotage.adapters.fastapi.responses import json_response, problem_responses
from pilotage.adapters.fastapi.run_queries import refuse_unknown_agent
from pilotage.adapters.fastapi.views import CancelledView, RunView, SignalView, run_view, signal_view
from pilotage.agent.state import AgentState
from pilotage.errors import AgentDefinitionError, ModelNotFoundError, RunConflictError
from pilotage.runtime.runs import AgentRuns

# A relative link: /runs/<id>/decisions leads to /runs/<id>/answers, under whatever prefix.
_SUCCEEDED_BY_ANSWERS = {"deprecation": "true", "link": '<answers>; rel="successor-version"'}


class RunCommands:
    """Acts on runs for the caller."""

    def __init__(self, runs: Callable[[], AgentRuns]) -> None:
        self._runs = runs

    def add_to(self, router: APIRouter) -> None:
        """Add the routes to a router."""
        post, starts = router.post, problem_responses(400, 401, 403, 409, 413, 422, 503)
        problems = starts | problem_responses(404, 410)
        on_its_way: dict[int | str, dict[str, Any]] = {
            202: {"model": CancelledView, "description": "Another process is told to end it."}
        }
        post("/runs", status_code=201, response_model=RunView, responses=starts)(self.start_run)
        post("/runs/{run_id}/signals", status_code=202, response_model=SignalView, responses=problems)(
            self.send_signal
        )
        post("/runs/{run_id}/answers", status_code=202, response_model=RunView, responses=problems)(
            self.answer_question
        )
        post(
            "/runs/{run_id}/decisions",
            status_code=202,
            response_model=RunView,
            responses=problems,
            deprecated=True,
        )(self.decide)
        post("/runs/{run_id}/cancel", response_model=CancelledView, responses=problems | on_its_way)(
            self.cancel_run
        )
        post("/runs/{run_id}/resume", status_code=202, response_model=RunView, responses=problems)(
            self.resume_run
        )
        post("/runs/{run_id}/fork", status_code=201, response_model=RunView, responses=problems)(
            self.fork_run
        )

    async def start_run(self, request: Request, caller: Caller, body: StartBody) -> Response:
        """Start a run, or attach to the one that the client started with the same `id`. It is durable by now."""
        runs = self._runs()
        refuse_unknown_agent(runs, body.agent)
        try:
            handle = await runs.start(
                body.agent,
                body.input,
                principal=caller,
                id=body.id,
                conversation_id=body.conversation_id,
                metadata=body.metadata,
            )
        except (AgentDefinitionError, ModelNotFoundError) as error:
            raise RequestRefusedError(str(error)) from error
        return _created(request.url.path, await runs.get(handle.id, principal=caller))

    async def send_signal(self, caller: Caller, run_id: RunId, body: SignalBody) -> Response:
        """Send something to a run: a message, an instruction, an event, pause or resume."""
        signal = await self._runs().signal(
            run_id, signal_kind_of(body), body.payload, id=body.id, principal=caller
        )
        return json_response(signal_view(signal), 202)

    async def answer_question(self, caller: Caller, run_id: RunId, body: AnswerBody) -> Response:
        """Answer a question of a run. With the answer to its last open question the run goes on.

        With `resume: false` the answer is only stored: the run goes on when it is resumed.
        """
        runs, details = self._runs(), details_of(body)
        await runs.answer(
            run_id, body.request_id, body.decision, resume=body.resume, principal=caller, **details
        )
        return json_response(run_view(await runs.get(run_id, principal=caller)), 202)

    async def decide(self, caller: Caller, run_id: RunId, body: AnswerBody) -> Response:
        """Second name of `/runs/{run_id}/answers` until 0.2."""
        response = await self.answer_question(caller, run_id, body)
        response.headers.update(_SUCCEEDED_BY_ANSWERS)
        return response

    async def cancel_run(self, caller: Caller, run_id: RunId, body: CancelBody | None = None) -> Response:
        """End a run. 202 says that another process has it, and that the cancellation is on its way there."""
        reason = body.reason if body is not None else None
        try:
            cancelled = await self._runs().cancel(run_id, reason=reason, principal=caller)
        except RunConflictError:
            return json_response(CancelledView(cancelled=False, is_on_its_way=True), 202)
        return json_response(CancelledView(cancelled=cancelled))

    async def resume_run(self, caller: Caller, run_id: RunId) -> Response:
        """Bring a run back; what it did is replayed, not repeated."""
        runs = self._runs()
        await runs.resume(run_id, principal=caller)
        return json_response(run_view(await runs.get(run_id, principal=caller)), 202)

    async def fork_run(
        self, request: Request, caller: Caller, run_id: RunId, body: ForkBody | None = None
    ) -> Response:
        """A new run with the beginning of another one's record; resume it to let it go its own way."""
        at = body.at if body is not None else None
        runs_path = request.url.path.rsplit("/", 2)[0]
        return _created(runs_path, await self._runs().fork(run_id, at=at, principal=caller))


def _created(runs_path: str, state: AgentState) -> Response:
    return json_response(run_view(state), 201, {"location": f"{runs_path}/{state.id}"})

"""Routes that read runs: their state, events, result, questions, evidence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Header, Query
from pydantic import AwareDatetime
from starlette.responses import Response

from pilotage.adapters.asgi.errors import RequestRefusedError
from pilotage.adapters.asgi.open_streams import OpenStreams
from pilotage.adapters.asgi.problems import SECURITY_HEADERS
from pilotage.adapters.asgi.streaming_response import StreamingResponse
from pilotage.adapters.fastapi.bodies import Name, RunId, cursor_of
from pilotage.adapters.fastapi.dependencies import Caller
from pilotage.adapters.fastapi.frames import SSE_FORMAT
from pilotage.adapters.fastapi.responses import json_response, problem_responses, stream_responses
from pilotage.adapters.fastapi.run_events import EncodedEvents, RunFrames
from pilotage.adapters.fastapi.views import (
    EvidencesView,
    QuestionsView,
    ResultView,
    RunPageView,
    RunView,
    VerifiedView,
    evidence_view,
    page_view,
    question_view,
    result_view,
    run_view,
)
from pilotage.adapters.http_settings import HttpSettings
from pilotage.agent.state import AgentStatus
from pilotage.errors import CallerError
from pilotage.runtime.runs import AgentRuns


class RunQueries:
    """Reads runs of the caller's tenant."""

    def __init__(
        self,
        runs: Callable[[], AgentRuns],
        streams: OpenStreams,
        settings: HttpSettings,
        encoded: EncodedEvents,
    ) -> None:
        self._runs = runs
        self._streams = streams
        self._settings = settings
        self._encoded = encoded

    def add_to(self, router: APIRouter) -> None:
        """Add the routes to a router."""
        get, one = router.get, problem_responses(401, 404, 410, 422, 503)
        get("/runs", response_model=RunPageView, responses=problem_responses(401, 422, 503))(self.list_runs)
        get("/runs/{run_id}", response_model=RunView, responses=one)(self.get_run)
        streams = stream_responses(401, 404, 422, 429, 503) | {204: {"description": "Everything was read."}}
        get("/runs/{run_id}/events", status_code=200, response_class=StreamingResponse, responses=streams)(
            self.read_events
        )
        get("/runs/{run_id}/result", response_model=ResultView, responses=one)(self.get_result)
        get("/runs/{run_id}/questions", response_model=QuestionsView, responses=one)(self.list_questions)
        get("/runs/{run_id}/evidence", response_model=EvidencesView, responses=one)(self.list_evidence)
        get(
            "/runs/{run_id}/verification",
            response_model=VerifiedView,
            responses=problem_responses(401, 404, 409, 410, 422, 503),
        )(self.verify_run)

    async def list_runs(
        self,
        caller: Caller,
        status: Annotated[list[AgentStatus] | None, Query()] = None,
        agent: Name | None = None,
        conversation_id: Name | None = None,
        since: AwareDatetime | None = None,
        until: AwareDatetime | None = None,
        after: Annotated[str | None, Query(min_length=1, max_length=512)] = None,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
    ) -> Response:
        """The runs of the caller's tenant, newest first, page by page."""
        runs = self._runs()
        refuse_unknown_agent(runs, agent)
        try:
            page = await runs.list(
                statuses=status or (),
                agent=agent,
                conversation_id=conversation_id,
                since=since,
                until=until,
                after=after,
                limit=limit,
                principal=caller,
            )
        except CallerError as error:
            raise RequestRefusedError(str(error)) from error
        return json_response(page_view(page))

    async def get_run(self, caller: Caller, run_id: RunId) -> Response:
        """The state of a run."""
        return json_response(run_view(await self._runs().get(run_id, principal=caller)))

    async def read_events(
        self,
        caller: Caller,
        run_id: RunId,
        after: str | None = None,
        last_event_id: Annotated[str | None, Header()] = None,
    ) -> Response:
        """The events of a run as server-sent events, until it pauses or ends.

        The id of each is a cursor: a client that sends the last one it has, as `Last-Event-ID` or as `after`, misses
        nothing. 204 says that the run has ended and there is nothing more to come back for.
        """
        runs, cursor = self._runs(), cursor_of(last_event_id, after)
        state = await runs.get(run_id, principal=caller)
        if cursor is not None and state.is_terminal:
            rest = runs.events(run_id, after=cursor, principal=caller)
            if await anext(rest, None) is None:
                return Response(status_code=204, headers=SECURITY_HEADERS)
        frames = RunFrames(runs, run_id, caller, cursor, self._encoded)
        clock = runs.services.clock
        return StreamingResponse(
            frames, SSE_FORMAT, streams=self._streams, settings=self._settings, clock=clock
        )

    async def get_result(self, caller: Caller, run_id: RunId) -> Response:
        """The result of a run, with its output once there is one."""
        return json_response(result_view(await self._runs().result(run_id, principal=caller)))

    async def list_questions(self, caller: Caller, run_id: RunId) -> Response:
        """The questions that a run and its children wait for."""
        found = await self._runs().questions(run_id, principal=caller)
        return json_response(QuestionsView(questions=[question_view(each) for each in found]))

    async def list_evidence(self, caller: Caller, run_id: RunId) -> Response:
        """The evidence of a run, which everybody in its tenant may read."""
        found = await self._runs().evidence(run_id, principal=caller)
        return json_response(EvidencesView(evidence=[evidence_view(each) for each in found]))

    async def verify_run(self, caller: Caller, run_id: RunId) -> Response:
        """Check the journal of a run against itself and its state; 409 says what does not fit."""
        return json_response(VerifiedView(rows=await self._runs().verify(run_id, principal=caller)))


def refuse_unknown_agent(runs: AgentRuns, agent: str | None) -> None:
    """Refuse a name of no agent.

    Raises:
        RequestRefusedError: there is no such agent.
    """
    if agent is not None and agent not in runs.services.agent_ids:
        raise RequestRefusedError(f"there is no agent {agent!r} here.")

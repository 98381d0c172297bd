"""`agent_routes`: the runs of an application as routes for FastAPI."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from inspect import getdoc
from typing import Annotated, Any, TypeAlias

from fastapi import APIRouter, Header, Path, Query
from fastapi.params import Depends
from pydantic import AwareDatetime
from starlette.requests import Request
from starlette.responses import Response

from pilotage.adapters.asgi.authentication import Authentication, has_resolver
from pilotage.adapters.asgi.middleware import HttpMiddleware
from pilotage.adapters.asgi.problems import SECURITY_HEADERS
from pilotage.adapters.asgi.streaming import StreamingResponse, Streams
from pilotage.adapters.fastapi.description import (
    FOLLOW_A_RUN,
    RUN_ID_EXAMPLE,
    event_responses,
    problem_responses,
    security_of,
    start_body,
    with_annotation,
)
from pilotage.adapters.fastapi.frames import SSE_FORMAT, EncodedEvents, EventSocket, RunFrames
from pilotage.adapters.fastapi.media_routes import MediaRoutes
from pilotage.adapters.fastapi.routing import Caller, json_response, route_class_with
from pilotage.adapters.http_settings import HttpSettings
from pilotage.agent.definition import AgentDefinition
from pilotage.agent.ports.costs import CostField
from pilotage.agent.ports.permissions import IPrincipalResolver
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.container.application import Application
from pilotage.errors import AgentDefinitionError, CallerError, DamagedEntryError, RunConflictError
from pilotage.inbound import bodies, views
from pilotage.inbound.agents import AgentsView, agents_in
from pilotage.inbound.problems import RequestRefusedError
from pilotage.inbound.questions import QuestionPageView, QuestionsView
from pilotage.inbound.requests import answer_question, refuse_unknown_agent, start_run
from pilotage.runtime.runs import AgentRuns

# A relative link: /runs/<id>/decisions leads to /runs/<id>/answers, under whatever prefix.
_SUCCEEDED_BY_ANSWERS = {"deprecation": "true", "link": '<answers>; rel="successor-version"'}

AddRoute: TypeAlias = Callable[..., None]
"""Adds a route: its method, its path, its endpoint, and options of FastAPI."""
RunIdInPath = Annotated[bodies.RunId, Path(description="The id of a run.", examples=[RUN_ID_EXAMPLE])]


class RunQueries:
    """Reads runs of the caller's tenant."""

    def __init__(self, runs: Callable[[], AgentRuns], streams: Streams, encoded: EncodedEvents) -> None:
        self._runs = runs
        self._streams = streams
        self._encoded = encoded

    def add_to(self, add: AddRoute) -> None:
        """Add the routes."""
        one = problem_responses(401, 404, 409, 410, 422, 503)
        get = partial(add, "GET", responses=one)
        some = problem_responses(401, 409, 422, 503)
        get("/runs", self.list_runs, response_model=views.RunPageView, responses=some)
        get("/runs/{run_id}", self.get_run, response_model=views.RunView)
        streams = event_responses(401, 404, 422, 429, 503) | problem_responses(409)
        streams |= {204: {"description": "Everything was read."}}
        events = partial(get, status_code=200, response_class=StreamingResponse, responses=streams)
        words = f"{getdoc(self.read_events)}\n\n```\n{FOLLOW_A_RUN}\n```"
        events("/runs/{run_id}/events", self.read_events, description=words)
        get("/runs/{run_id}/result", self.get_result, response_model=views.ResultView)
        asked = partial(get, tags=["questions"])
        asked("/runs/{run_id}/questions", self.list_questions, response_model=QuestionsView)
        asked("/questions", self.list_open_questions, response_model=QuestionPageView, responses=some)
        get("/runs/{run_id}/evidence", self.list_evidence, response_model=views.EvidencesView)
        get("/runs/{run_id}/verification", self.verify_run, response_model=views.VerifiedView)
        get("/costs", self.read_costs, tags=["costs"], response_model=views.CostsView, responses=some)
        get("/agents", self.list_agents, tags=["agents"], response_model=AgentsView, responses=some)

    async def list_agents(self, caller: Caller) -> Response:
        """Return the agents that are served: their inputs, outputs and tools, with schemas."""
        return json_response(AgentsView.of(self._runs().services))

    async def read_costs(
        self,
        caller: Caller,
        by: Annotated[list[CostField] | None, Query()] = None,
        since: AwareDatetime | None = None,
        until: AwareDatetime | None = None,
    ) -> Response:
        """Return what the durable runs of the caller's tenant were charged for, summed by the given fields.

        Amounts are by currency; charges without a known price are counted in `unpriced`, and are in no amount.
        """
        sums = await self._runs().costs(by=by or (), since=since, until=until, principal=caller)
        return json_response(views.CostsView.of(sums))

    async def list_runs(
        self,
        caller: Caller,
        status: Annotated[list[AgentStatus] | None, Query()] = None,
        agent: bodies.Name | None = None,
        conversation_id: bodies.Name | None = None,
        since: AwareDatetime | None = None,
        until: AwareDatetime | None = None,
        after: Annotated[str | None, Query(min_length=1, max_length=512)] = None,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
    ) -> Response:
        """Return the runs of the caller's tenant, newest first, page by page."""
        runs = self._runs()
        refuse_unknown_agent(runs, agent)
        with _refused_input():
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
        return json_response(views.RunPageView.of(page))

    async def get_run(self, caller: Caller, run_id: RunIdInPath) -> Response:
        """Return the state of a run."""
        return json_response(views.RunView.of(await self._runs().get(run_id, principal=caller)))

    async def read_events(
        self,
        caller: Caller,
        run_id: RunIdInPath,
        after: str | None = None,
        last_event_id: Annotated[str | None, Header()] = None,
    ) -> Response:
        """Return the events of a run as server-sent events, until it pauses or ends.

        The id of each is a cursor: a client that sends the last one it has, as `Last-Event-ID` or as `after`, misses
        nothing. 204 says that the run has ended and no more events follow.
        """
        runs, cursor = self._runs(), bodies.cursor_of(last_event_id, after)
        state = await runs.get(run_id, principal=caller)
        if cursor is not None and state.is_terminal:
            rest = runs.events(run_id, after=cursor, principal=caller)
            if await anext(rest, None) is None:
                return Response(status_code=204, headers=SECURITY_HEADERS)
        frames = RunFrames(runs, run_id, caller, cursor, self._encoded)
        return self._streams.response(frames, SSE_FORMAT)

    async def get_result(self, caller: Caller, run_id: RunIdInPath) -> Response:
        """Return the result of a run, with its output once there is one."""
        return json_response(views.ResultView.of(await self._runs().result(run_id, principal=caller)))

    async def list_questions(self, caller: Caller, run_id: RunIdInPath) -> Response:
        """Return the questions that a run and its children wait for."""
        found = await self._runs().questions(run_id, principal=caller)
        return json_response(QuestionsView.of(found))

    async def list_open_questions(
        self,
        caller: Caller,
        after: Annotated[str | None, Query(min_length=1, max_length=512)] = None,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
    ) -> Response:
        """Return the open questions of the caller's tenant, page by page; `limit` is how many runs a page covers."""
        with _refused_input():
            page = await self._runs().open_questions(after=after, limit=limit, principal=caller)
        return json_response(QuestionPageView.of_page(page))

    async def list_evidence(self, caller: Caller, run_id: RunIdInPath) -> Response:
        """Return the evidence of a run, which all principals of its tenant may read."""
        found = await self._runs().evidence(run_id, principal=caller)
        return json_response(views.EvidencesView.of(found))

    async def verify_run(self, caller: Caller, run_id: RunIdInPath) -> Response:
        """Check the journal of a run against itself and its state; 409 says what does not fit."""
        return json_response(views.VerifiedView(rows=await self._runs().verify(run_id, principal=caller)))


@contextmanager
def _refused_input() -> Generator[None]:
    """Raise RequestRefusedError for an input that a read does not take: a wrong cursor."""
    try:
        yield
    except DamagedEntryError:
        raise
    except CallerError as error:
        raise RequestRefusedError(str(error)) from error


class RunCommands:
    """Acts on runs for the caller."""

    def __init__(self, runs: Callable[[], AgentRuns]) -> None:
        self._runs = runs

    def add_to(self, add: AddRoute, agents: Sequence[AgentDefinition]) -> None:
        """Add the routes; the description of a start names the agents."""
        changes = problem_responses(400, 401, 403, 409, 413, 422, 503)
        starts, problems = changes | problem_responses(415), changes | problem_responses(404, 410)
        on_its_way: dict[int | str, dict[str, Any]] = {
            202: {
                "model": views.CancelledView,
                "description": "The process that drives it will cancel it.",
            }
        }
        post = partial(add, "POST", response_model=views.RunView, responses=problems)
        start = with_annotation(self.start_run, "body", start_body(agents))
        post("/runs", start, status_code=201, responses=starts)
        post(
            "/runs/{run_id}/signals",
            self.send_signal,
            status_code=202,
            response_model=views.SignalView,
            responses=problems | problem_responses(415),
        )
        answered = partial(post, status_code=202, response_model=views.AnsweredView, tags=["questions"])
        answered("/runs/{run_id}/answers", self.answer_question)
        answered("/runs/{run_id}/decisions", self.decide, deprecated=True)
        cancelled = problems | on_its_way
        post(
            "/runs/{run_id}/cancel",
            self.cancel_run,
            response_model=views.CancelledView,
            responses=cancelled,
        )
        post("/runs/{run_id}/resume", self.resume_run, status_code=202)
        post("/runs/{run_id}/fork", self.fork_run, status_code=201)
        post("/runs/{run_id}/resolutions", self.resolve_run, status_code=202)

    async def start_run(self, request: Request, caller: Caller, body: bodies.StartBody) -> Response:
        """Start a run, or attach to the one that the client started with the same `id`. It is durable by now."""
        return _created(request.url.path, await start_run(self._runs(), body, caller))

    async def send_signal(self, caller: Caller, run_id: RunIdInPath, body: bodies.SignalBody) -> Response:
        """Send a signal to a run: a message, an instruction, an event, pause or resume."""
        signal = await self._runs().signal(
            run_id, body.sent_kind(), body.payload, id=body.id, principal=caller
        )
        return json_response(views.SignalView.of(signal), 202)

    async def answer_question(self, caller: Caller, run_id: RunIdInPath, body: bodies.AnswerBody) -> Response:
        """Answer a question of a run. With the answer to its last open question the run goes on.

        With `resume: false` the answer is only stored: the run goes on when it is resumed.
        """
        return json_response(await answer_question(self._runs(), run_id, body, caller), 202)

    async def decide(self, caller: Caller, run_id: RunIdInPath, body: bodies.AnswerBody) -> Response:
        """Second name of `/runs/{run_id}/answers` until 0.2."""
        response = await self.answer_question(caller, run_id, body)
        response.headers.update(_SUCCEEDED_BY_ANSWERS)
        return response

    async def cancel_run(
        self, caller: Caller, run_id: RunIdInPath, body: bodies.CancelBody | None = None
    ) -> Response:
        """Cancel a run. 202 says that another process drives it, and will cancel it."""
        reason = body.reason if body is not None else None
        try:
            cancelled = await self._runs().cancel(run_id, reason=reason, principal=caller)
        except RunConflictError:
            return json_response(views.CancelledView(cancelled=False, is_on_its_way=True), 202)
        return json_response(views.CancelledView(cancelled=cancelled))

    async def resume_run(self, caller: Caller, run_id: RunIdInPath) -> Response:
        """Resume a run; its recorded actions are replayed, not repeated."""
        runs = self._runs()
        await runs.resume(run_id, principal=caller)
        return json_response(views.RunView.of(await runs.get(run_id, principal=caller)), 202)

    async def fork_run(
        self, request: Request, caller: Caller, run_id: RunIdInPath, body: bodies.ForkBody | None = None
    ) -> Response:
        """Return a new run with the beginning of another one's record; resume it to continue from there."""
        at = body.at if body is not None else None
        runs_path = request.url.path.rsplit("/", 2)[0]
        return _created(runs_path, await self._runs().fork(run_id, at=at, principal=caller))

    async def resolve_run(self, caller: Caller, run_id: RunIdInPath, body: bodies.ResolutionBody) -> Response:
        """Decide about a run that diverged: skip a recorded call, give a call its result, or fork.

        Answers with the run, or with its fork, which waits to be resumed. 409 says why the decision does not fit.
        """
        state = await self._runs().resolve(
            run_id, body.resolution(), reason=body.reason, resume=body.resume, principal=caller
        )
        return json_response(views.RunView.of(state), 202)


def _created(runs_path: str, state: AgentState) -> Response:
    return json_response(views.RunView.of(state), 201, {"location": f"{runs_path}/{state.id}"})


def agent_routes(
    app: Application,
    *,
    principal: IPrincipalResolver | None = None,
    settings: HttpSettings | None = None,
) -> APIRouter:
    """Return a router over `AgentRuns`: `api.include_router(agent_routes(app), prefix="/api")`.

    The principal of a request is resolved by `principal`, or by the application's `IPrincipalResolver`. Without one
    there are no routes: no request is accepted by default.

    Raises:
        AgentDefinitionError: there is no principal resolver.
    """
    if not has_resolver(app, principal):
        raise AgentDefinitionError(
            f"no principal resolver is configured for the runs of application {app.name!r} over HTTP. Give "
            "agent_routes(app, principal=BearerTokens({...})), or add a pod that implements IPrincipalResolver."
        )
    settings = settings or HttpSettings.from_environment()
    authentication = Authentication.of(app, principal, settings.allowed_origins)
    middleware = HttpMiddleware(authentication, settings, owns_errors=True)
    router = APIRouter(route_class=route_class_with(middleware))
    add = partial(_add_route, router, security_of(app, principal))
    runs, streams, encoded = partial(app.get, AgentRuns), Streams(app, settings), EncodedEvents()
    RunQueries(runs, streams, encoded).add_to(add)
    EventSocket(runs, authentication, streams, encoded).add_to(router)
    RunCommands(runs).add_to(add, agents_in(app.graph))
    media = MediaRoutes(runs)
    media.add_downloads(add)
    longer = HttpMiddleware(
        authentication,
        replace(settings, max_body_bytes=settings.max_upload_bytes),
        owns_errors=True,
        takes_any=True,
    )
    uploads = APIRouter(route_class=route_class_with(longer))
    media.add_uploads(partial(_add_route, uploads, security_of(app, principal)))
    router.include_router(uploads)
    return router


def _add_route(
    router: APIRouter,
    security: Sequence[Depends],
    method: str,
    path: str,
    endpoint: Callable[..., Awaitable[Response]],
    **options: Any,
) -> None:
    """Add a route whose operation id is the name of its method."""
    described: dict[str, Any] = {
        "operation_id": getattr(endpoint, "__name__", None),
        "tags": ["runs"],
        "dependencies": security,
        **options,
    }
    router.add_api_route(path, endpoint, methods=[method], **described)

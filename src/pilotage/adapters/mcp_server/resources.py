"""Answers `resources/list`, `resources/templates/list` and `resources/read`: runs of the tenant, and the application's.

`pilotage://runs/<id>` is the state of a run; below it are `result`, `events` and `questions`.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from typing import Any, TypeAlias

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError

from pilotage.adapters.mcp_server.callers import principal_of
from pilotage.adapters.mcp_server.catalog import Catalog
from pilotage.adapters.mcp_server.offers import McpResource, called
from pilotage.agent.principal import Principal
from pilotage.agent.state import AgentState
from pilotage.errors import RunNotFoundError
from pilotage.inbound.problems import json_text
from pilotage.inbound.questions import QuestionsView
from pilotage.inbound.views import ResultView, RunView
from pilotage.jsonvalue import to_json_value
from pilotage.runtime.runs import AgentRuns

Context: TypeAlias = ServerRequestContext[Any, Any]
RUNS = "pilotage://runs/"
_JSON = "application/json"
_VIEWS = {
    "result": "The result of a run so far.",
    "events": "The events of a run up to now.",
    "questions": "The questions that a run waits for.",
}
_PAGE = 50


class Resources:
    """The resources of an application; a run is one of them for the principals of its tenant."""

    def __init__(self, runs: AgentRuns, catalog: Catalog, resources: Sequence[McpResource]) -> None:
        self._runs = runs
        self._catalog = catalog
        self._resources = resources

    async def list(
        self, context: Context, params: types.PaginatedRequestParams, principal: Principal
    ) -> types.ListResourcesResult:
        """Return the resources with an address of their own, and a page of runs, newest first."""
        own = [_listed(each) for each in self._resources if not each.places] if params.cursor is None else []
        if not self._catalog.is_durable:
            return types.ListResourcesResult(resources=own)
        asking = principal_of(context, principal)
        page = await self._runs.list(after=params.cursor, limit=_PAGE, principal=asking)
        listed = [_run(each) for each in page.runs if self._catalog.of_agent(each.agent_type)]
        return types.ListResourcesResult(resources=[*own, *listed], next_cursor=page.cursor)

    async def templates(
        self, context: Context, params: types.PaginatedRequestParams, principal: Principal
    ) -> types.ListResourceTemplatesResult:
        """Return the templates of addresses."""
        runs = [_template("run", "", "The state of a run.")] if self._catalog.is_durable else []
        runs += [_template(f"{each} of a run", f"/{each}", words) for each, words in _VIEWS.items() if runs]
        own = [
            types.ResourceTemplate(
                name=each.name, uri_template=each.uri, description=each.description, mime_type=each.media_type
            )
            for each in self._resources
            if each.places
        ]
        return types.ListResourceTemplatesResult(resource_templates=[*own, *runs])

    async def read(
        self, context: Context, params: types.ReadResourceRequestParams, principal: Principal
    ) -> types.ReadResourceResult:
        """Return a resource.

        Raises:
            MCPError: there is none at this address for this principal.
        """
        asking = principal_of(context, principal)
        contents = await self._own(params.uri, asking) or await self._of_run(params.uri, asking)
        if contents is None:
            raise MCPError(
                code=types.INVALID_PARAMS, message="Resource not found", data={"uri": params.uri[:2_000]}
            )
        return types.ReadResourceResult(contents=[contents])

    async def _own(self, uri: str, principal: Principal) -> Any:
        for each in self._resources:
            if (parts := each.parts_of(uri)) is not None:
                given = await called(each.read, parts, principal)
                if given is not None:
                    return _contents(uri, each.media_type, given)
        return None

    async def _of_run(self, uri: str, principal: Principal) -> Any:
        run_id, _, view = uri.removeprefix(RUNS).partition("/")
        if not self._catalog.is_durable or not uri.startswith(RUNS) or not run_id:
            return None
        try:
            state = await self._runs.get(run_id, principal=principal)
        except RunNotFoundError:
            return None
        if self._catalog.of_agent(state.agent_type) is None:
            return None
        text = await self._view(state, view, principal)
        return None if text is None else _contents(uri, _JSON, text)

    async def _view(self, state: AgentState, view: str, principal: Principal) -> str | None:
        match view:
            case "":
                found = json_text(RunView.of(state))
            case "result":
                found = json_text(ResultView.of(await self._runs.result(state.id, principal=principal)))
            case "questions":
                found = json_text(QuestionsView.of(await self._runs.questions(state.id, principal=principal)))
            case "events":
                events = self._runs.events(state.id, follow=False, principal=principal)
                found = json.dumps([to_json_value(each) async for each in events]).encode()
            case _:
                return None
        return found.decode()


def _listed(resource: McpResource) -> types.Resource:
    return types.Resource(
        uri=resource.uri,
        name=resource.name,
        description=resource.description,
        mime_type=resource.media_type,
    )


def _run(state: AgentState) -> types.Resource:
    return types.Resource(
        uri=f"{RUNS}{state.id}",
        name=f"run of {state.agent_type}",
        description=f"{state.status.value}, {state.created_at:%Y-%m-%d %H:%M}"
        if state.created_at
        else state.status,
        mime_type=_JSON,
    )


def _template(name: str, path: str, words: str) -> types.ResourceTemplate:
    uri = f"{RUNS}{{run_id}}{path}"
    return types.ResourceTemplate(name=name, uri_template=uri, description=words, mime_type=_JSON)


def _contents(uri: str, media_type: str, given: Any) -> Any:
    if isinstance(given, bytes):
        blob = b64encode(given).decode("ascii")
        return types.BlobResourceContents(uri=uri, mime_type=media_type, blob=blob)
    text = given if isinstance(given, str) else json.dumps(to_json_value(given), ensure_ascii=False)
    return types.TextResourceContents(uri=uri, mime_type=media_type, text=text)

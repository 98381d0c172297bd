"""Agents that say where they are served: mounted by themselves, never two on one path."""

from __future__ import annotations

import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Route, WebSocketRoute
from tests.adapters.agui.bank import Bank, texts
from tests.adapters.agui.door import Badges
from tests.adapters.agui.samples import said
from tests.adapters.agui.server import client, frames_in, served

from pilotage import Agent, AgentExecutionSpec, Application
from pilotage.adapters.agui import (
    AgUiAgent,
    AGUICompatible,
    AgUiConfig,
    AgUiEndpointConflictError,
    agui_extension,
    agui_routes,
)
from pilotage.errors import AgentDefinitionError
from pilotage.testing import ScriptedModel, says


@AGUICompatible()
@Agent(spec=AgentExecutionSpec(name="usual"))
class Usual:
    """Is served where the settings say."""


@AGUICompatible
@Agent(spec=AgentExecutionSpec(name="bare"))
class Bare:
    """Is served where the settings say, too."""


@Agent(spec=AgentExecutionSpec(name="porter"))
@AgUiAgent("/porter", websocket_path="/sockets/porter")
class Porter:
    """Is served on paths of its own."""


@Agent
class Heir(Usual):
    """Is made from one that is served, and is not served itself."""


@Agent
@AGUICompatible("/next/")
class Neighbour:
    """Names one path, and has three."""


def paths(api: Starlette) -> set[str]:
    return {
        r.path
        for r in api.router.routes
        if isinstance(r, Route | WebSocketRoute) and "agui" in (r.name or "")
    }


async def test_a_bare_decorator_serves_where_the_settings_say() -> None:
    api = Starlette()
    async with Application("inn").add(Bare, api, ScriptedModel([])).load_plugins():
        assert paths(api) >= {"/agui", "/agui/stream", "/agui/ws"}


async def test_agents_are_mounted_on_every_web_application_among_the_pods() -> None:
    api, plain = FastAPI(), Starlette()
    model = ScriptedModel([says("At the door.")])
    app = Application("house").add(Usual, Porter, Heir, model, api, plain, *Bank().store.ports).load_plugins()
    async with app, served(api) as address, client(address) as http:
        answer = await http.post("/porter", json=said())
    assert texts(frames_in(answer.text)) == "At the door."
    assert paths(api) == paths(plain)
    history = {f"{path}/threads/{{thread_id:path}}" for path in ("/agui", "/porter")}
    streams = {"/agui", "/agui/stream", "/agui/ws", "/porter", "/porter/stream", "/sockets/porter"}
    assert paths(api) == streams | history


async def test_an_application_that_is_no_pod_takes_the_routes_as_an_extension() -> None:
    app = Application("house").add(Porter, ScriptedModel([])).load_plugins()
    api = FastAPI()
    agui_extension(app, principal=Badges())(api)
    async with app, served(api) as address, client(address) as http:
        refused = await http.post("/porter", json=said())
    assert (refused.status_code, len(agui_routes(app))) == (401, 4)


async def test_two_agents_on_one_path_keep_the_application_from_starting() -> None:
    @AGUICompatible(http_stream_path="/elsewhere", websocket_path="/agui/other")
    @Agent
    class Rival:
        """Wants the usual path too."""

    app = Application("house").add(Usual, Rival, ScriptedModel([])).load_plugins()
    with pytest.raises(AgUiEndpointConflictError) as refused:
        await app.start()
    assert [problem.code for problem in refused.value.problems] == ["agui_endpoint_conflict"]
    assert "Usual and Rival have the same path '/agui'." in str(refused.value)
    with pytest.raises(AgUiEndpointConflictError):
        agui_routes(app)


async def test_a_path_that_something_else_has_is_a_conflict_too() -> None:
    api = FastAPI()
    api.add_api_route("/agui", lambda: None, methods=["POST"])
    app = Application("house").add(Usual, ScriptedModel([]), api).load_plugins()
    with pytest.raises(AgUiEndpointConflictError, match="'/agui' is served already"):
        await app.start()


def test_the_other_paths_lie_below_the_first() -> None:
    app = Application("house").add(Neighbour, AgUiConfig(websocket_path="/never")).load_plugins()
    paths = ["/next/", "/next/stream", "/next/ws", "/next/threads/{thread_id:path}"]
    assert [route.path for route in agui_routes(app)] == paths


def test_a_path_that_is_none_is_refused_by_name() -> None:
    with pytest.raises(AgentDefinitionError, match="AGUICompatible.websocket_path is 'ws'"):
        AGUICompatible(websocket_path="ws")


async def test_the_plugin_gives_an_application_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PILOTAGE_AGUI_SSE_PATH", "/chat")
    async with Application("house").load_plugins() as app:
        assert app.get(AgUiConfig).sse_path == "/chat"
    own = AgUiConfig(sse_path="/own")
    async with Application("house").add(own).load_plugins() as app:
        assert app.get(AgUiConfig) is own

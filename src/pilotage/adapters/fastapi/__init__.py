"""Runs and controllers over HTTP, in any FastAPI application: `pip install "pilotage[fastapi]"`."""

from pilotage.adapters.fastapi.binding import BindingRefusedError
from pilotage.adapters.fastapi.callers import Caller
from pilotage.adapters.fastapi.controller import ApiController
from pilotage.adapters.fastapi.controller_routes import controller_routes
from pilotage.adapters.fastapi.inject import Inject
from pilotage.adapters.fastapi.lifespan import pilotage_lifespan
from pilotage.adapters.fastapi.principals import BearerTokens, TrustedHeaders
from pilotage.adapters.fastapi.route_marks import delete, get, patch, post, put, sse, websocket
from pilotage.adapters.fastapi.routes import agent_routes
from pilotage.adapters.fastapi.serving import asgi_application, serve
from pilotage.adapters.fastapi.settings import HttpSettings

__all__ = [
    "ApiController",
    "BearerTokens",
    "BindingRefusedError",
    "Caller",
    "HttpSettings",
    "Inject",
    "TrustedHeaders",
    "agent_routes",
    "asgi_application",
    "controller_routes",
    "delete",
    "get",
    "patch",
    "pilotage_lifespan",
    "post",
    "put",
    "serve",
    "sse",
    "websocket",
]

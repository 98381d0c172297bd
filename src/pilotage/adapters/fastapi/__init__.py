"""Runs and controllers over HTTP, in any FastAPI application: `pip install "pilotage[fastapi]"`."""

from importlib.util import find_spec

if find_spec("fastapi") is None:
    raise ImportError('this adapter needs an extra: pip install "pilotage[fastapi]"')

from pilotage.adapters.asgi.lifespan import pilotage_lifespan
from pilotage.adapters.fastapi.controller import ApiController, delete, get, patch, post, put, sse, websocket
from pilotage.adapters.fastapi.controller_routes import controller_routes
from pilotage.adapters.fastapi.routes import agent_routes
from pilotage.adapters.fastapi.routing import Caller, Inject
from pilotage.adapters.fastapi.serving import BindingRefusedError, asgi_application, serve
from pilotage.adapters.http_settings import HttpSettings
from pilotage.inbound.authentication import BearerTokens, TrustedHeaders

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

"""Runs over HTTP, as routes for any FastAPI application: `pip install "pilotage[fastapi]"`."""

from pilotage.adapters.fastapi.container import container_lifespan, provide
from pilotage.adapters.fastapi.principals import BearerTokens, TrustedHeaders
from pilotage.adapters.fastapi.routes import agent_routes
from pilotage.adapters.fastapi.settings import HttpSettings

__all__ = [
    "BearerTokens",
    "HttpSettings",
    "TrustedHeaders",
    "agent_routes",
    "container_lifespan",
    "provide",
]

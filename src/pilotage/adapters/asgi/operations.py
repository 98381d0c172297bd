"""Descriptions of routes that no framework describes by itself: an adapter attaches one, a server collects them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from starlette.routing import BaseRoute

from pilotage.jsonvalue import JsonObject
from pilotage.values import value

_OPERATION = "__pilotage_operation__"
Described: TypeAlias = dict[str, Any]
"""A part of an OpenAPI description."""

RouteT = TypeVar("RouteT", bound=BaseRoute)


@value
class RouteOperation:
    """An operation of OpenAPI, its place, and the schemas that it refers to; `agent` is the agent that is served."""

    path: str
    method: str
    description: JsonObject
    schemas: Callable[[], JsonObject]
    agent: str | None = None


def with_operation(route: RouteT, operation: RouteOperation) -> RouteT:
    """Return the route with its description."""
    setattr(route, _OPERATION, operation)
    return route


def operation_of(route: Any) -> RouteOperation | None:
    """Return the description of a route that has one."""
    found: object = getattr(route, _OPERATION, None)
    return found if isinstance(found, RouteOperation) else None

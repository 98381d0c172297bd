"""`@ApiController`, and the check of controllers when an application starts: all errors at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from inspect import getattr_static, isasyncgenfunction, iscoroutinefunction, isfunction
from typing import Any, ClassVar, TypeAlias

from fastapi import APIRouter

from pilotage.adapters.fastapi.controller_definition import (
    ControllerDefinition,
    RouteKind,
    RouteMark,
    marks_of,
)
from pilotage.adapters.fastapi.controller_endpoints import (
    has_variable_parameters,
    seen_signature,
    shown_as,
    socket_parameter,
)
from pilotage.container.graph import Graph
from pilotage.container.processing import IPostProcessor
from pilotage.errors import Problem
from pilotage.values import value

_PARAMETER = re.compile(r"\{[^}]*\}")


Place: TypeAlias = tuple[str, str]
"""How and where a route answers, whatever its parameters are called."""


def place_of(method: str, path: str) -> Place:
    """The place of a route; the method of a WebSocket is empty."""
    return method, _PARAMETER.sub("{}", path)


@value
class ControllerRoute:
    """One route of one controller: the pod, the method and its mark."""

    pod: ControllerDefinition
    name: str
    function: Any
    mark: RouteMark

    @property
    def path(self) -> str:
        """Where it answers."""
        return self.pod.prefix + self.mark.path

    @property
    def label(self) -> str:
        """The method, for people."""
        return f"{self.pod.target.__name__}.{self.name}"

    @property
    def place(self) -> Place:
        """What no two routes may share."""
        return place_of(self.mark.method, self.path)


def controllers_in(graph: Graph) -> list[ControllerDefinition]:
    """The controllers of an application, in order of registration."""
    return [node.pod for node in graph.nodes if isinstance(node.pod, ControllerDefinition)]


def routes_of(pod: ControllerDefinition) -> list[ControllerRoute]:
    """The routes of a controller, in the order they are written."""
    return [
        ControllerRoute(pod, name, getattr_static(pod.target, name), mark)
        for name, marks in marks_of(pod.target).items()
        for mark in marks
    ]


def problems_of(graph: Graph, others: Mapping[Place, str] | None = None) -> Iterator[Problem]:
    """Return all errors in the controllers of an application; `others` are routes that exist already."""
    taken: dict[Place, str] = {**(others or {})}
    for pod in controllers_in(graph):
        routes = routes_of(pod)
        if not routes:
            yield _problem(
                "controller_empty", pod.target.__name__, "it has no routes.", "Write @get, @post, @sse ..."
            )
        for route in routes:
            wrong = _wrong_with(route)
            if wrong is not None:
                yield wrong
            other = taken.setdefault(route.place, route.label)
            if other != route.label:
                how = f"{route.mark.method or 'WebSocket'} {route.path}"
                yield _problem(
                    "route_conflict",
                    route.label,
                    f"{how} is answered by {other} already.",
                    "Change one of the paths.",
                )


def _wrong_with(route: ControllerRoute) -> Problem | None:
    function, kind = route.function, route.mark.kind
    if not isfunction(function):
        return _problem(
            "route_not_a_method",
            route.label,
            "it is no plain method.",
            "Leave out @staticmethod or @classmethod.",
        )
    if kind is RouteKind.SSE and not isasyncgenfunction(function):
        return _problem(
            "route_not_a_stream",
            route.label,
            "@sse needs an async generator.",
            "Write async def with yield in it.",
        )
    if kind is not RouteKind.SSE and isasyncgenfunction(function):
        return _problem(
            "route_is_a_stream", route.label, "it yields its answer in pieces.", "Write @sse above it."
        )
    if kind is RouteKind.WEBSOCKET and not iscoroutinefunction(function):
        return _problem("route_not_async", route.label, "@websocket needs a coroutine.", "Write async def.")
    return _wrong_signature(route)


def _wrong_signature(route: ControllerRoute) -> Problem | None:
    """Return the error of a signature that FastAPI refuses, with its own message."""
    try:
        shape = seen_signature(route.function)
        if has_variable_parameters(shape):
            return _problem(
                "route_signature",
                route.label,
                "no request says what *args and **kwargs are.",
                "Name each parameter.",
            )
        if route.mark.kind is RouteKind.WEBSOCKET:
            if socket_parameter(shape) is None:
                return _problem(
                    "route_signature",
                    route.label,
                    "no parameter is a WebSocket.",
                    "Add one: socket: WebSocket.",
                )
            return None
        options: dict[str, Any] = {"response_model": None} if route.mark.kind is RouteKind.SSE else {}
        endpoint = shown_as(lambda: None, route.function, shape)
        options |= route.mark.options
        APIRouter().add_api_route(route.path, endpoint, methods=[route.mark.method], **options)
    except Exception as error:  # noqa: BLE001 - any error is reported with the others
        first = str(error).partition("\n")[0]
        return _problem(
            "route_signature", route.label, f"FastAPI refuses it: {first}", "Change its signature.", error
        )
    return None


def _problem(code: str, where: str, summary: str, remedy: str, detail: object = None) -> Problem:
    return Problem(code, summary, remedy, (where,), detail=detail)


class ControllerCheck(IPostProcessor):
    """Checks the controllers of an application when it starts."""

    @classmethod
    def check(cls, graph: Graph) -> Iterable[Problem]:
        """Return all errors in them."""
        return problems_of(graph)


@dataclass(kw_only=True, eq=False)
class ApiController(ControllerDefinition):
    """Marks a class whose methods are routes: `@ApiController(prefix="/agents")`.

    It is a pod like any other, with constructor injection. `controller_routes(app)` makes a router of all of them;
    errors in one are reported when the application starts, with everything else.

    `prefix`   stands in front of every path
    `tags`     group the routes in the description; the name of the class by default
    `public`   serves everybody, also where there is a principal resolver
    """

    post_processors: ClassVar[tuple[type, ...]] = (ControllerCheck,)

"""`@ApiController` with the decorators of its methods, and the check of controllers when an application starts."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import NoneType
from typing import Any, ClassVar, TypeAlias, TypeVar, get_type_hints

from fastapi import APIRouter
from starlette.websockets import WebSocket

from pilotage.container.graph import Graph
from pilotage.container.pod import Controller
from pilotage.container.processing import IPostProcessor
from pilotage.errors import PodDefinitionError, Problem
from pilotage.values import value

_PARAMETER = re.compile(r"\{[^}]*\}")

_MARKS = "__pilotage_routes__"

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
Place: TypeAlias = tuple[str, str]
"""How and where a route answers, whatever its parameters are called."""
_Fault: TypeAlias = tuple[str, str, str]
"""The code, the summary and the remedy of a problem."""


@dataclass(kw_only=True, eq=False)
class ControllerDefinition(Controller):
    """The options of a controller as a whole; `ApiController` documents them."""

    prefix: str = ""
    tags: tuple[str, ...] = ()
    public: bool = False

    def define(self) -> None:
        if self.prefix and (not self.prefix.startswith("/") or self.prefix.endswith("/")):
            raise PodDefinitionError(
                f"{self.target.__name__}: prefix {self.prefix!r} must begin with a slash and not end with one."
            )
        self.tags = tuple(self.tags)


class RouteKind(StrEnum):
    """Kind of response of a method: one response, a stream of events, or a WebSocket."""

    PLAIN = "plain"
    SSE = "sse"
    WEBSOCKET = "websocket"


@value
class RouteMark:
    """The mark of a method: its kind, its HTTP method (empty for a WebSocket), path and options."""

    kind: RouteKind
    method: str
    path: str
    options: Mapping[str, Any]


def get(path: str, **options: Any) -> Callable[[FunctionT], FunctionT]:
    """Answer GET; options are FastAPI's own, such as `status_code=` and `response_model=`."""
    return _marked(RouteKind.PLAIN, "GET", path, options)


def post(path: str, **options: Any) -> Callable[[FunctionT], FunctionT]:
    """Answer POST; options are FastAPI's own."""
    return _marked(RouteKind.PLAIN, "POST", path, options)


def put(path: str, **options: Any) -> Callable[[FunctionT], FunctionT]:
    """Answer PUT; options are FastAPI's own."""
    return _marked(RouteKind.PLAIN, "PUT", path, options)


def patch(path: str, **options: Any) -> Callable[[FunctionT], FunctionT]:
    """Answer PATCH; options are FastAPI's own."""
    return _marked(RouteKind.PLAIN, "PATCH", path, options)


def delete(path: str, **options: Any) -> Callable[[FunctionT], FunctionT]:
    """Answer DELETE; options are FastAPI's own."""
    return _marked(RouteKind.PLAIN, "DELETE", path, options)


def sse(path: str, *, method: str = "GET", **options: Any) -> Callable[[FunctionT], FunctionT]:
    """Answer with server-sent events: the method is an async generator of agent items, events or JSON values."""
    return _marked(RouteKind.SSE, method.upper(), path, options)


def websocket(path: str) -> Callable[[FunctionT], FunctionT]:
    """Answer over a WebSocket: the method takes the `WebSocket` and accepts it itself."""
    return _marked(RouteKind.WEBSOCKET, "", path, {})


def marks_of(controller: type[object]) -> dict[str, tuple[RouteMark, ...]]:
    """Return the marked members of a class in the order they are written, those of base classes first."""
    names = dict.fromkeys(name for base in reversed(controller.__mro__) for name in vars(base))
    members = {name: inspect.getattr_static(controller, name) for name in names}
    return {name: marks for name, member in members.items() if (marks := _marks_on(member))}


def _marks_on(member: object) -> tuple[RouteMark, ...]:
    function: object = getattr(member, "__func__", member)
    found: tuple[RouteMark, ...] = getattr(function, "__dict__", {}).get(_MARKS, ())
    return found


def _marked(
    kind: RouteKind, method: str, path: str, options: Mapping[str, Any]
) -> Callable[[FunctionT], FunctionT]:
    if path and not path.startswith("/"):
        raise PodDefinitionError(f"the path {path!r} of a route must begin with a slash: {'/' + path!r}.")

    def mark(function: FunctionT) -> FunctionT:
        route = RouteMark(kind, method, path, options)
        setattr(function, _MARKS, (*_marks_on(function), route))
        return function

    return mark


def place_of(method: str, path: str) -> Place:
    """Return the place of a route; the method of a WebSocket is empty."""
    return method, _PARAMETER.sub("{}", path)


def seen_signature(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a method without `self`; raise NameError for a type that cannot be resolved."""
    hints = get_type_hints(function, include_extras=True)
    _, *rest = inspect.signature(function).parameters.values()
    parameters = [each.replace(annotation=hints.get(each.name, each.annotation)) for each in rest]
    returned = hints.get("return", inspect.Signature.empty)
    # Resolving makes a type of None, which FastAPI would take for a body.
    return inspect.Signature(parameters, return_annotation=None if returned is NoneType else returned)


def socket_parameter(shape: inspect.Signature) -> str | None:
    """Return the name of the parameter of a method that is the WebSocket."""
    return next((name for name, each in shape.parameters.items() if each.annotation is WebSocket), None)


def shown_as(endpoint: Any, function: Any, shape: inspect.Signature) -> Any:
    """Give an endpoint the name, documentation and signature of its method, and return it."""
    endpoint.__name__, endpoint.__doc__ = function.__name__, function.__doc__
    endpoint.__qualname__, endpoint.__module__ = function.__qualname__, function.__module__
    endpoint.__signature__ = shape
    return endpoint


@value
class ControllerRoute:
    """One route of one controller: the pod, the method and its mark."""

    pod: ControllerDefinition
    name: str
    function: Any
    mark: RouteMark

    @property
    def path(self) -> str:
        """The path that it answers."""
        return self.pod.prefix + self.mark.path

    @property
    def label(self) -> str:
        """The method, for people."""
        return f"{self.pod.target.__name__}.{self.name}"

    @property
    def place(self) -> Place:
        """Its method and path, which no two routes may share."""
        return place_of(self.mark.method, self.path)


def controllers_in(graph: Graph) -> list[ControllerDefinition]:
    """Return the controllers of an application, in order of registration."""
    return [node.pod for node in graph.nodes if isinstance(node.pod, ControllerDefinition)]


def routes_of(pod: ControllerDefinition) -> list[ControllerRoute]:
    """Return the routes of a controller, in the order they are written."""
    return [
        ControllerRoute(pod, name, inspect.getattr_static(pod.target, name), mark)
        for name, marks in marks_of(pod.target).items()
        for mark in marks
    ]


def problems_of(graph: Graph, others: Mapping[Place, str] | None = None) -> Iterator[Problem]:
    """Return all errors in the controllers of an application; `others` are routes that exist already."""
    taken: dict[Place, str] = {**(others or {})}
    for pod in controllers_in(graph):
        routes = routes_of(pod)
        if not routes:
            remedy = "Write @get, @post, @sse ..."
            yield Problem("controller_empty", "it has no routes.", remedy, (pod.target.__name__,))
        for route in routes:
            where = (route.label,)
            try:
                fault = _fault_of(route) or _fault_of_signature(route)
                if fault is not None:
                    yield Problem(*fault, where)
            except Exception as error:  # noqa: BLE001 - any error is reported with the others
                summary = f"FastAPI refuses it: {str(error).partition(chr(10))[0]}"
                yield Problem("route_signature", summary, "Change its signature.", where, detail=error)
            other = taken.setdefault(route.place, route.label)
            if other != route.label:
                summary = f"{route.mark.method or 'WebSocket'} {route.path} is answered by {other} already."
                yield Problem("route_conflict", summary, "Change one of the paths.", where)


def _fault_of(route: ControllerRoute) -> _Fault | None:
    function, kind = route.function, route.mark.kind
    if not inspect.isfunction(function):
        return "route_not_a_method", "it is no plain method.", "Leave out @staticmethod or @classmethod."
    if kind is RouteKind.SSE and not inspect.isasyncgenfunction(function):
        return "route_not_a_stream", "@sse needs an async generator.", "Write async def with yield in it."
    if kind is not RouteKind.SSE and inspect.isasyncgenfunction(function):
        return "route_is_a_stream", "it yields its answer in pieces.", "Write @sse above it."
    if kind is RouteKind.WEBSOCKET and not inspect.iscoroutinefunction(function):
        return "route_not_async", "@websocket needs a coroutine.", "Write async def."
    return None


def _fault_of_signature(route: ControllerRoute) -> _Fault | None:
    """Return the problem of a signature; errors of FastAPI about it are raised."""
    shape, mark, code = seen_signature(route.function), route.mark, "route_signature"
    if any(
        each.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        for each in shape.parameters.values()
    ):
        return code, "a request has no names for *args and **kwargs.", "Name each parameter."
    if mark.kind is not RouteKind.WEBSOCKET:
        options: dict[str, Any] = {"response_model": None} if mark.kind is RouteKind.SSE else {}
        endpoint = shown_as(lambda: None, route.function, shape)
        APIRouter().add_api_route(route.path, endpoint, methods=[mark.method], **{**options, **mark.options})
    elif socket_parameter(shape) is None:
        return code, "no parameter is a WebSocket.", "Add one: socket: WebSocket."
    return None


class ControllerCheck(IPostProcessor):
    """Check of the controllers of an application when it starts."""

    @classmethod
    def check(cls, graph: Graph) -> Iterable[Problem]:
        """Return all errors in them."""
        return problems_of(graph)


@dataclass(kw_only=True, eq=False)
class ApiController(ControllerDefinition):
    """Decorator for a class whose methods are routes: `@ApiController(prefix="/agents")`.

    It is a pod like any other, with constructor injection. `controller_routes(app)` makes a router of all of them;
    errors in one are reported when the application starts, with everything else.

    `prefix`   is put in front of every path
    `tags`     group the routes in the description; the name of the class by default
    `public`   serves all requests, also where there is a principal resolver
    """

    post_processors: ClassVar[tuple[type, ...]] = (ControllerCheck,)

"""Definition of a controller: its prefix and tags, and the decorators of its methods (`@get`, `@sse` ...)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from inspect import getattr_static
from typing import Any, TypeVar

from pilotage.container.pod import Controller
from pilotage.errors import PodDefinitionError
from pilotage.values import value

_MARKS = "__pilotage_routes__"

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


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
    """How a method responds: with one response, a stream of events, or over a WebSocket."""

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
    """The marked members of a class in the order they are written, those of base classes first."""
    names = dict.fromkeys(name for base in reversed(controller.__mro__) for name in vars(base))
    members = {name: getattr_static(controller, name) for name in names}
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

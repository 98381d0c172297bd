"""`TraceContextMiddleware`: the trace of a caller over HTTP, for applications without another instrumentation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

try:
    from opentelemetry import context, trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as error:
    raise ImportError('this adapter needs an extra: pip install "pilotage[otel]"') from error

_Scope: TypeAlias = MutableMapping[str, Any]
_Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
_Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
_PROPAGATOR = TraceContextTextMapPropagator()
_HEADERS = (b"traceparent", b"tracestate")


class TraceContextMiddleware:
    """ASGI middleware: runs that a request starts are part of the trace that its header `traceparent` names.

    Add it only where callers may choose the trace of their runs, such as where a gateway sets the header. A span that
    is current already, as an instrumentation makes one, counts instead of the header.
    """

    def __init__(self, app: Callable[[_Scope, _Receive, _Send], Awaitable[None]]) -> None:
        self._app = app

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        if scope["type"] not in ("http", "websocket") or trace.get_current_span().get_span_context().is_valid:
            await self._app(scope, receive, send)
            return
        carrier = {
            name.decode("latin-1"): text.decode("latin-1")
            for name, text in scope["headers"]
            if name in _HEADERS
        }
        token = context.attach(_PROPAGATOR.extract(carrier))
        try:
            await self._app(scope, receive, send)
        finally:
            context.detach(token)

"""The headers by which a model server joins the trace of a run, for settings with `sends_trace`."""

from __future__ import annotations

from collections.abc import Mapping


def trace_headers() -> Mapping[str, str]:
    """Return the headers of the current position in a trace; none where there is no trace.

    Raises:
        ImportError: OpenTelemetry is not installed.
    """
    try:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415
    except ImportError as error:
        raise ImportError('sends_trace needs an extra: pip install "pilotage[otel]"') from error
    headers: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(headers)
    return headers

"""`OpenTelemetryTelemetry`: the telemetry port on the API of OpenTelemetry.

Neither payloads nor messages of exceptions are exported: a message may quote the arguments of a tool.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager

try:
    from opentelemetry import context, metrics, trace
    from opentelemetry.trace import Span, SpanKind, Status, StatusCode
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as error:
    raise ImportError('this adapter needs an extra: pip install "pilotage[otel]"') from error

from pilotage.adapters.opentelemetry import conventions as names
from pilotage.adapters.opentelemetry.mapping import (
    METRICS,
    OtelSpan,
    attributes_of,
    metric_attributes,
    span_of,
)
from pilotage.agent.ports.observability import IAgentTelemetry, TelemetryValue

_SCOPE = "pilotage"
_PARENT = "traceparent"
_PROPAGATOR = TraceContextTextMapPropagator()


class OpenTelemetryTelemetry(IAgentTelemetry):
    """Telemetry through the given providers, or those that the process has set globally.

    With `content`, the messages of model calls are sent too, as readers of the runs may see them.
    """

    def __init__(
        self,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
        *,
        content: bool = False,
    ) -> None:
        self.wants_content = content
        schema = names.SCHEMA_URL
        self._tracer = trace.get_tracer(_SCOPE, tracer_provider=tracer_provider, schema_url=schema)
        self._meter = metrics.get_meter(_SCOPE, meter_provider=meter_provider, schema_url=schema)
        self._duration = self._meter.create_histogram(
            names.OPERATION_DURATION, "s", "How long calls of models, tools and agents take."
        )
        self._tokens = self._meter.create_histogram(
            names.TOKEN_USAGE, "{token}", "How many tokens model calls take."
        )
        self._first_chunk = self._meter.create_histogram(
            names.FIRST_CHUNK_DURATION, "s", "How long the first event of a model's reply takes."
        )
        self._counters = {
            ours: self._meter.create_counter(theirs, unit) for ours, (theirs, unit) in METRICS.items()
        }
        self._others: dict[str, metrics.Histogram] = {}

    @contextmanager
    def trace(
        self, name: str, attributes: Mapping[str, TelemetryValue] | None = None
    ) -> Generator[Span, None, None]:
        shown = span_of(name, attributes)
        span = self._tracer.start_span(shown.name, attributes=shown.attributes)
        with self._around(shown, span):
            yield span

    @contextmanager
    def resume(
        self, name: str, position: str, attributes: Mapping[str, TelemetryValue] | None = None
    ) -> Generator[Span, None, None]:
        """Return a span in the trace of the earlier position; the caller of this attempt is linked to it."""
        shown = span_of(name, attributes)
        caller = trace.get_current_span().get_span_context()
        there = _PROPAGATOR.extract({_PARENT: position}, context.Context())
        links = [trace.Link(caller)] if caller.is_valid else []
        span = self._tracer.start_span(shown.name, there, attributes=shown.attributes, links=links)
        with self._around(shown, span):
            yield span

    @contextmanager
    def _around(self, shown: OtelSpan, span: Span) -> Generator[None]:
        """Make a span the current one, and end it with the block."""
        begun = time.perf_counter()
        token = context.attach(trace.set_span_in_context(span))
        failed: str | None = None
        try:
            yield
        except Exception as error:
            failed = _code_of(error)
            raise
        except BaseException as end:
            # A pause or the loss of a run is an outcome and no error.
            span.set_attribute(names.INTERRUPTED_BY, type(end).__name__)
            raise
        finally:
            context.detach(token)
            self._end(span, shown, time.perf_counter() - begun, failed)

    def record(
        self,
        name: str,
        seconds: float,
        attributes: Mapping[str, TelemetryValue] | None = None,
        error: str | None = None,
    ) -> None:
        shown, now = span_of(name, attributes), time.time_ns()
        span = self._tracer.start_span(
            shown.name,
            kind=SpanKind.CLIENT if shown.is_remote else SpanKind.INTERNAL,
            attributes=shown.attributes,
            start_time=now - round(seconds * 1e9),
        )
        self._end(span, shown, seconds, error, now)
        for kind, attribute in (("input", names.INPUT_TOKENS), ("output", names.OUTPUT_TOKENS)):
            tokens = shown.attributes.get(attribute)
            if isinstance(tokens, int):
                self._tokens.record(tokens, {**shown.measured(None), names.TOKEN_TYPE: kind})
        first = shown.attributes.get(names.TIME_TO_FIRST_CHUNK)
        if isinstance(first, float):
            self._first_chunk.record(first, shown.measured(None))

    def emit_metric(
        self, name: str, value: float, attributes: Mapping[str, TelemetryValue] | None = None
    ) -> None:
        dimensions = metric_attributes(attributes)
        if name in self._counters:
            self._counters[name].add(value, dimensions)
            return
        if name not in self._others:
            self._others[name] = self._meter.create_histogram(name)
        self._others[name].record(value, dimensions)

    def annotate(self, attributes: Mapping[str, TelemetryValue]) -> None:
        span = trace.get_current_span()
        span.set_attributes(attributes_of(attributes))
        if (code := attributes.get("error")) is not None:
            span.set_status(Status(StatusCode.ERROR, str(code)))

    def position(self) -> str | None:
        carrier: dict[str, str] = {}
        _PROPAGATOR.inject(carrier)
        return carrier.get(_PARENT)

    def link(self, position: str) -> None:
        there = trace.get_current_span(_PROPAGATOR.extract({_PARENT: position})).get_span_context()
        if there.is_valid:
            trace.get_current_span().add_link(there)

    def _end(
        self, span: Span, shown: OtelSpan, seconds: float, error: str | None, at: int | None = None
    ) -> None:
        if error is not None:
            span.set_attribute(names.ERROR_TYPE, error)
            span.set_status(Status(StatusCode.ERROR, error))
        span.end(at)
        if shown.operation is not None:
            self._duration.record(seconds, shown.measured(error))


def _code_of(error: Exception) -> str:
    return str(getattr(error, "code", type(error).__name__))

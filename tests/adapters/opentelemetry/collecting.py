"""Collecting spans and metrics in memory, as an SDK would collect them for a backend."""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader, NumberDataPoint
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from pilotage.adapters.opentelemetry import OpenTelemetryTelemetry


class Collector:
    """What a backend has received."""

    def __init__(self) -> None:
        self._spans = InMemorySpanExporter()
        self._metrics = InMemoryMetricReader()
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self.meters = MeterProvider([self._metrics], shutdown_on_exit=False)
        self.telemetry = OpenTelemetryTelemetry(self.tracers, self.meters)

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        return self._spans.get_finished_spans()

    def one(self, name: str) -> ReadableSpan:
        """The only span of a name."""
        (found,) = [span for span in self.spans if span.name == name]
        return found

    def tree(self) -> list[str]:
        """Every span behind the names of those it is in, in the order they ended."""
        by_id = {span.context.span_id: span for span in self.spans if span.context}
        return [" > ".join(reversed(list(_way_up(span, by_id)))) for span in self.spans]

    def points(self, name: str) -> list[NumberDataPoint | HistogramDataPoint]:
        """The measurements of a name."""
        data = self._metrics.get_metrics_data()
        if data is None:
            return []
        return [
            point
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
            if isinstance(point, NumberDataPoint | HistogramDataPoint)
        ]


def _way_up(span: ReadableSpan, by_id: dict[int, ReadableSpan]) -> Sequence[str]:
    names = [span.name]
    while span.parent is not None and span.parent.span_id in by_id:
        span = by_id[span.parent.span_id]
        names.append(span.name)
    return names

"""Spans and metrics of runs for OpenTelemetry: `pip install "pilotage[otel]"`, and `app.add(OpenTelemetryTelemetry())`.

Only the API is used. The application sets up an SDK, which collects and exports the spans.
"""

from pilotage.adapters.opentelemetry.http import TraceContextMiddleware
from pilotage.adapters.opentelemetry.telemetry import OpenTelemetryTelemetry

__all__ = ["OpenTelemetryTelemetry", "TraceContextMiddleware"]

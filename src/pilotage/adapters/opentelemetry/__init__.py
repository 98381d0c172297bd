"""Spans and metrics of runs for OpenTelemetry: `pip install "pilotage[otel]"`, and `app.add(OpenTelemetryTelemetry())`.

Only the API is used. What collects the spans, and where they go, is the application's own set-up of an SDK.
"""

from pilotage.adapters.opentelemetry.telemetry import OpenTelemetryTelemetry

__all__ = ["OpenTelemetryTelemetry"]

"""The telemetry port: spans and metrics. Nothing it does can fail a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TypeAlias

TelemetryValue: TypeAlias = str | bool | int | float


class IAgentTelemetry(ABC):
    """Receives what happens, cheaply and without payloads: names, ids, codes, counts, durations."""

    @abstractmethod
    def trace(
        self, name: str, attributes: Mapping[str, TelemetryValue] | None = None
    ) -> AbstractContextManager[object]:
        """A span around the block; an exception that leaves the block marks the span as failed."""

    @abstractmethod
    def emit_metric(
        self, name: str, value: float, attributes: Mapping[str, TelemetryValue] | None = None
    ) -> None:
        """One measurement."""


class NoTelemetry(IAgentTelemetry):
    """The built-in no-op. Its subclasses are not no-ops."""

    def trace(
        self, name: str, attributes: Mapping[str, TelemetryValue] | None = None
    ) -> AbstractContextManager[object]:
        return nullcontext()

    def emit_metric(
        self, name: str, value: float, attributes: Mapping[str, TelemetryValue] | None = None
    ) -> None:
        return None

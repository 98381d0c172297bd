"""The telemetry port: spans and metrics. Nothing it does can fail a run.

Names and attributes are ours; an adapter translates them into the conventions of its backend.

| span | around | attributes |
|---|---|---|
| `agent.run` | an attempt at a run | `agent`, `run_id`, `conversation`, `tenant`, `epoch`; then `status`, `error` |
| `agent.model_call` | a call, when it ended | `model`, `action_id`, `input_tokens`, `output_tokens`, `finish_reason` |
| `agent.tool_call` | a tool | `name`, `action_id` |
| `agent.delegation` | a child run | `name`, `action_id` |
| `agent.step`, `agent.value` | any other action | `name`, `action_id` |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TypeAlias

TelemetryValue: TypeAlias = str | bool | int | float


class IAgentTelemetry(ABC):
    """Receives what happens, cheaply and without payloads: names, ids, codes, counts, durations.

    An adapter that cannot follow a trace leaves out `record`, `annotate`, `position` and `link`.
    """

    @abstractmethod
    def trace(
        self, name: str, attributes: Mapping[str, TelemetryValue] | None = None
    ) -> AbstractContextManager[object]:
        """A span around the block; an exception that leaves the block marks the span as failed.

        What derives from `BaseException` only, such as a pause, is no failure.
        """

    @abstractmethod
    def emit_metric(
        self, name: str, value: float, attributes: Mapping[str, TelemetryValue] | None = None
    ) -> None:
        """One measurement."""

    def record(  # noqa: B027 - nothing to do without traces
        self,
        name: str,
        seconds: float,
        attributes: Mapping[str, TelemetryValue] | None = None,
        error: str | None = None,
    ) -> None:
        """Record a span that has ended now and was never current, such as a model's stream; `error` is a code."""

    def annotate(self, attributes: Mapping[str, TelemetryValue]) -> None:  # noqa: B027 - the same
        """Add attributes to the span that the code is in."""

    def position(self) -> str | None:
        """Where in a trace the code is, as a text that outlives the process; None where it is in none."""
        return None

    def link(self, position: str) -> None:  # noqa: B027 - the same
        """Say that the span the code is in goes on from another one, of another process."""


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

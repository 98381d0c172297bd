"""Spans and metrics of a run. Nothing a telemetry backend does can fail the run, and none costs nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress

from pilotage.agent.ports.telemetry import IAgentTelemetry, TelemetryValue
from pilotage.runtime.journal.action import Action

_NOTHING: AbstractContextManager[None] = nullcontext()


class RunTelemetry:
    """Tells the application's telemetry what a run does: names, ids and codes, never payloads."""

    def __init__(self, telemetry: IAgentTelemetry | None) -> None:
        self._telemetry = telemetry
        self.is_idle = telemetry is None

    def span(self, name: str, /, **attributes: TelemetryValue) -> AbstractContextManager[None]:
        """A span around the block."""
        if self._telemetry is None:
            return _NOTHING
        return self._span(self._telemetry, name, attributes)

    async def observed(self, action: Action, acting: Awaitable[object]) -> object:
        """An action within its span."""
        if self._telemetry is None:
            return await acting
        facts: dict[str, TelemetryValue] = {"name": action.name, "action_id": action.id}
        with self._span(self._telemetry, f"agent.{action.kind}", facts):
            return await acting

    def record(
        self, name: str, seconds: float, /, error: str | None = None, **attributes: TelemetryValue | None
    ) -> None:
        """A span that has ended; attributes that nobody knows are left out."""
        if self._telemetry is not None:
            known = {name: value for name, value in attributes.items() if value is not None}
            with suppress(Exception):
                self._telemetry.record(name, seconds, known, error)

    def annotate(self, **attributes: TelemetryValue) -> None:
        """More about the span the run is in."""
        if self._telemetry is not None:
            with suppress(Exception):
                self._telemetry.annotate(attributes)

    def follow(self, earlier: str | None) -> str | None:
        """Link the span the run is in to where the run was before; where it is now."""
        if self._telemetry is None:
            return None
        with suppress(Exception):
            if earlier is not None:
                self._telemetry.link(earlier)
            return self._telemetry.position()
        return None

    def count(self, name: str, amount: float = 1, /, **attributes: TelemetryValue) -> None:
        """One measurement."""
        if self._telemetry is not None:
            with suppress(Exception):
                self._telemetry.emit_metric(name, amount, attributes)

    @contextmanager
    def _span(
        self, telemetry: IAgentTelemetry, name: str, attributes: dict[str, TelemetryValue]
    ) -> Generator[None]:
        span: AbstractContextManager[object] = nullcontext()
        with suppress(Exception):
            span = telemetry.trace(name, attributes)
            span.__enter__()
        try:
            yield
        except BaseException as error:
            with suppress(Exception):
                span.__exit__(type(error), error, error.__traceback__)
            raise
        with suppress(Exception):
            span.__exit__(None, None, None)


UNOBSERVED = RunTelemetry(None)

"""Spans and metrics of a run. Errors of a telemetry backend never fail the run; without a backend there is no cost."""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress

from pilotage.agent.ports.observability import IAgentTelemetry, TelemetryValue
from pilotage.agent.tools.declare import OutsideRuns
from pilotage.runtime.journal.scope import Action

_NOTHING: AbstractContextManager[None] = nullcontext()


class FailedAction(Exception):  # noqa: N818 - what a backend gets instead of an error
    """The end of a span that failed: the code of the error, or the name of its class."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class RunTelemetry:
    """Reports the actions of a run to the application's telemetry: names, ids and codes, never payloads."""

    def __init__(self, telemetry: IAgentTelemetry | None) -> None:
        self._telemetry = telemetry
        self.is_idle = telemetry is None
        self.wants_content = telemetry is not None and telemetry.wants_content
        """Whether the redacted messages of model calls are reported too."""

    def span(
        self, name: str, /, earlier: str | None = None, **attributes: TelemetryValue
    ) -> AbstractContextManager[None]:
        """Return a context manager with a span around its block; `earlier` is the position it goes on from."""
        if self._telemetry is None:
            return _NOTHING
        return self._span(self._telemetry, name, attributes, earlier)

    async def observed(self, action: Action, acting: Awaitable[object]) -> object:
        """Await an action within its span and return its result."""
        if self._telemetry is None:
            return await acting
        facts: dict[str, TelemetryValue] = {"name": action.name, "action_id": action.id}
        with self._span(self._telemetry, f"agent.{action.kind}", facts):
            return await acting

    def record(
        self, name: str, seconds: float, /, error: str | None = None, **attributes: TelemetryValue | None
    ) -> None:
        """Record a span that has ended; attributes that are None are left out."""
        if self._telemetry is not None:
            known = {name: value for name, value in attributes.items() if value is not None}
            with suppress(Exception), OutsideRuns():
                self._telemetry.record(name, seconds, known, error)

    def annotate(self, **attributes: TelemetryValue) -> None:
        """Add attributes to the current span."""
        if self._telemetry is not None:
            with suppress(Exception), OutsideRuns():
                self._telemetry.annotate(attributes)

    def position(self) -> str | None:
        """Return the current position in a trace; None where there is none."""
        if self._telemetry is None:
            return None
        with suppress(Exception), OutsideRuns():
            return self._telemetry.position()
        return None

    def count(self, name: str, amount: float = 1, /, **attributes: TelemetryValue) -> None:
        """Record one measurement."""
        if self._telemetry is not None:
            with suppress(Exception), OutsideRuns():
                self._telemetry.emit_metric(name, amount, attributes)

    @contextmanager
    def _span(
        self,
        telemetry: IAgentTelemetry,
        name: str,
        attributes: dict[str, TelemetryValue],
        earlier: str | None = None,
    ) -> Generator[None]:
        span: AbstractContextManager[object] = nullcontext()
        with suppress(Exception), OutsideRuns():
            span = (
                telemetry.trace(name, attributes)
                if earlier is None
                else telemetry.resume(name, earlier, attributes)
            )
            span.__enter__()
        try:
            yield
        except Exception as error:
            # Neither the words nor the stack: a backend writes down what it is given.
            failed = FailedAction(str(getattr(error, "code", type(error).__name__)))
            with suppress(Exception), OutsideRuns():
                span.__exit__(FailedAction, failed, None)
            raise
        except BaseException as end:
            with suppress(Exception), OutsideRuns():
                span.__exit__(type(end), end, end.__traceback__)
            raise
        with suppress(Exception), OutsideRuns():
            span.__exit__(None, None, None)


UNOBSERVED = RunTelemetry(None)

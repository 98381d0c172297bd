"""The ports for observers of runs: telemetry (spans and metrics), and the audit log.

Telemetry can never fail a run. The audit log is a projection of evidence, append only: principals and
their acts, without payloads.

Names and attributes of spans are ours; an adapter translates them into the conventions of its backend.

| span | around | attributes |
|---|---|---|
| `agent.run` | an attempt at a run | `agent`, `run_id`, `conversation`, `tenant`, `epoch`; then `status`, `error` |
| `agent.model_call` | a call, when it ended | `model`, `action_id` and those of model calls |
| `agent.tool_call` | a tool | `name`, `action_id` |
| `agent.delegation` | a child run | `name`, `action_id` |
| `agent.step`, `agent.value` | any other action | `name`, `action_id` |

Those of model calls are `agent`, `conversation`, `provider`, `response_model`, `finish_reason`, `first_chunk_seconds`;
the counts `input_tokens`, `output_tokens`, `cached_tokens`, `cache_written_tokens`, `reasoning_tokens`; of a known
price `cost`, `cost_currency`, `pricing_version`; for an adapter that wants content, `input_messages` and
`output_messages`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import field
from datetime import datetime
from typing import TypeAlias

from pilotage.agent.principal import Principal
from pilotage.checks import reject_blank, reject_naive
from pilotage.jsonvalue import JsonObject, empty_object
from pilotage.values import value

TelemetryValue: TypeAlias = str | bool | int | float


class IAgentTelemetry(ABC):
    """Receives what happens, cheaply and without payloads: names, ids, codes, counts, durations.

    An adapter that cannot follow a trace leaves out `record`, `annotate`, `position`, `link` and `resume`. One that
    `wants_content` gets the messages of model calls, as JSON texts, as readers of the run may see them.
    """

    wants_content: bool = False

    @abstractmethod
    def trace(
        self, name: str, attributes: Mapping[str, TelemetryValue] | None = None
    ) -> AbstractContextManager[object]:
        """Return a span around the block; an exception that leaves the block marks the span as failed.

        What derives from `BaseException` only, such as a pause, is no failure.
        """

    @abstractmethod
    def emit_metric(
        self, name: str, value: float, attributes: Mapping[str, TelemetryValue] | None = None
    ) -> None:
        """One measurement."""

    @contextmanager
    def resume(
        self, name: str, position: str, attributes: Mapping[str, TelemetryValue] | None = None
    ) -> Generator[object]:
        """Return what `trace` returns, for a span that goes on from an earlier position; by default it has a link."""
        with self.trace(name, attributes) as span:
            self.link(position)
            yield span

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
        """Return where in a trace the code is, as a text that outlives the process; None where it is in none."""
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


@value
class AuditEntry:
    """One line of the audit log; `evidence_ref` leads to the evidence it was made from."""

    run_id: str
    principal: Principal
    act: str
    outcome: str
    occurred_at: datetime
    evidence_ref: str | None = None
    metadata: JsonObject = field(default_factory=empty_object)

    def __post_init__(self) -> None:
        reject_blank(
            self, run_id=self.run_id, act=self.act, outcome=self.outcome, evidence_ref=self.evidence_ref
        )
        reject_naive(self, occurred_at=self.occurred_at)


class IAgentAuditLog(ABC):
    """Stores audit entries. There is no way to change or delete one.

    The runtime writes one for each row of a run's journal that is worth it, when an attempt at the run ends.
    """

    @abstractmethod
    async def record(self, entry: AuditEntry) -> None:
        """Append an entry; durable on return. Of a run, an entry about the same evidence is kept once, the first."""

    @abstractmethod
    async def list_by_run(self, principal: Principal, run_id: str) -> Sequence[AuditEntry]:
        """Return the entries of a run of the principal's tenant, in the order they were recorded."""

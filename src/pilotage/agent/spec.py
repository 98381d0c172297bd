"""The execution spec of an agent: purpose, signals, recovery, limits, loop; and the keywords of `@Agent` that fill it.

Pure. Whether an agent is durable, interactive or resumable is derived from the spec, never declared beside it. A
keyword and the spec may both declare a thing if they declare the same; a difference is an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, fields, replace
from decimal import Decimal
from enum import StrEnum
from typing import Any

from pilotage.agent.compaction import AgentCompactionPolicy, CompactionStrategy
from pilotage.agent.context import ContextTokenBudget
from pilotage.agent.delegation import AgentTeammate
from pilotage.agent.media import MediaSafetyLimits
from pilotage.agent.ports.architecture import Architecture
from pilotage.agent.ports.memory import MemoryUse
from pilotage.agent.signals import AgentSignalKind, RejectionPolicy
from pilotage.checks import reject_blank, reject_not_positive
from pilotage.container.names import snake_case, type_name
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import is_list
from pilotage.safety.redaction.policy import StreamingRedactionPolicy
from pilotage.values import shared, value


class LimitCode(StrEnum):
    """Why a run may not go on: a bound is reached, or its usage cannot be counted."""

    MAX_STEPS = "agent_max_steps_exceeded"
    MAX_TOOL_CALLS = "agent_max_tool_calls_exceeded"
    MAX_TOKENS = "agent_max_tokens_exceeded"
    USAGE_UNAVAILABLE = "agent_usage_unavailable"
    MAX_COST = "agent_max_cost_exceeded"
    COST_UNAVAILABLE = "agent_cost_unavailable"
    TIMEOUT = "agent_timeout"
    BUDGET = "agent_budget_exhausted"


@value
class AgentExecutionLimits:
    """Upper bounds of one run, its children included. None means no bound.

    Steps are model calls. Steps and tool calls never exceed their bounds. Of tokens and cost the worst case of a model
    call is held before it begins: only a model that takes more than it was allowed to exceeds the bound.
    """

    timeout_seconds: float | None = None
    max_steps: int | None = None
    max_tool_calls: int | None = None
    max_tokens: int | None = None
    max_cost: Decimal | None = None

    def __post_init__(self) -> None:
        _reject_other_than(
            int, max_steps=self.max_steps, max_tool_calls=self.max_tool_calls, max_tokens=self.max_tokens
        )
        _reject_other_than(Decimal, max_cost=self.max_cost)
        reject_not_positive(self, timeout_seconds=self.timeout_seconds, max_steps=self.max_steps)
        reject_not_positive(self, max_tool_calls=self.max_tool_calls, max_tokens=self.max_tokens)
        reject_not_positive(self, max_cost=self.max_cost)


def _reject_other_than(kind: type, **fields: object) -> None:
    """Refuse a bound that is not exact: it is compared with exact counts."""
    for name, given in fields.items():
        if given is not None and not isinstance(given, kind):
            example = "Decimal('0.50')" if kind is Decimal else "10"
            raise AgentDefinitionError(
                f"AgentExecutionLimits.{name} is {given!r}. Use {kind.__name__}, such as {example}."
            )


class RecoveryStrategy(StrEnum):
    """The recovery of runs after the end of their process."""

    NONE = "none"
    ACTION_BOUNDARY = "action_boundary"


class StreamingExposureMode(StrEnum):
    """The time at which text may leave the run: at once, after a delay for the guards, or when all of it passed."""

    LOW_LATENCY = "low_latency"
    BALANCED = "balanced"
    STRICT = "strict"
    NO_STREAM_UNTIL_FINAL_GUARDED = "no_stream_until_final_guarded"


UNTRUSTED_SIGNALS = (AgentSignalKind.EXTERNAL_EVENT, AgentSignalKind.SCHEDULER_WAKE_UP)


def _no_metadata() -> Mapping[str, str]:
    return {}


@value
class AgentExecutionSpec:
    """The declared execution of an agent. Everything has a default that is safe."""

    name: str | None = None
    objective: str | None = None
    accepted_signals: Sequence[AgentSignalKind] = ()
    recovery: RecoveryStrategy = RecoveryStrategy.NONE
    streaming_exposure_mode: StreamingExposureMode = StreamingExposureMode.BALANCED
    timeout_seconds: float | None = None
    limits: AgentExecutionLimits = field(default_factory=AgentExecutionLimits)
    delegation_allowed: bool = False
    metadata: Mapping[str, str] = field(default_factory=_no_metadata)
    instructions: str | None = None
    output_type: object = None
    architecture: Architecture | str | None = None
    teammates: Sequence[AgentTeammate] = ()
    redaction: StreamingRedactionPolicy | None = None
    on_rejection: RejectionPolicy = RejectionPolicy.FAIL
    human_time_counts: bool = False
    context_budget: ContextTokenBudget | None = None
    compaction: Sequence[CompactionStrategy] = ()
    prompt_snapshots: bool = False
    memory: MemoryUse | None = None
    version: int = 1
    untrusted_signals: Sequence[AgentSignalKind] = UNTRUSTED_SIGNALS
    """The kinds of signals that strangers may have written."""
    compaction_policy: AgentCompactionPolicy | None = None
    """The strategies of `compaction` together with the size that begins it."""
    refresh_context_each_step: bool = False
    """Whether the application's context provider is asked before every model step, and not only before the first."""
    media_limits: MediaSafetyLimits = field(default_factory=shared(MediaSafetyLimits))
    """The limits of media in the input of a run and in the messages of a model call."""
    output_guard: str | None = None
    """The name of the `AgentOutputGuardProfile` whose guards look at the agent's answers."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "accepted_signals", tuple(self.accepted_signals))
        object.__setattr__(self, "untrusted_signals", tuple(self.untrusted_signals))
        object.__setattr__(self, "teammates", tuple(self.teammates))
        object.__setattr__(self, "compaction", self._compaction())
        architecture = self.architecture if isinstance(self.architecture, str) else None
        reject_blank(self, name=self.name, objective=self.objective, instructions=self.instructions)
        reject_blank(self, architecture=architecture, output_guard=self.output_guard)
        reject_not_positive(self, timeout_seconds=self.timeout_seconds, version=self.version)
        if (
            None not in (declared := {self.timeout_seconds, self.limits.timeout_seconds})
            and len(declared) > 1
        ):
            raise AgentDefinitionError(
                f"AgentExecutionSpec.timeout_seconds is {self.timeout_seconds!r} and limits.timeout_seconds is "
                f"{self.limits.timeout_seconds!r}. Set one of them, or both to the same value."
            )

    def _compaction(self) -> tuple[CompactionStrategy, ...]:
        """Return the strategies, wherever they were declared."""
        declared, policy = tuple(self.compaction), self.compaction_policy
        if policy is None or not policy.strategies:
            return declared
        if declared and declared != policy.strategies:
            raise AgentDefinitionError(
                f"AgentExecutionSpec.compaction is {declared!r} and compaction_policy has {policy.strategies!r}. "
                "Set one of them, or both to the same strategies."
            )
        return tuple(policy.strategies)

    @property
    def effective_context_budget(self) -> ContextTokenBudget | None:
        """The context budget, within the size that begins the compaction; None where neither is declared."""
        threshold = self.compaction_policy.trigger_token_threshold if self.compaction_policy else None
        if threshold is None:
            return self.context_budget
        if self.context_budget is None:
            return ContextTokenBudget(max_tokens=threshold)
        most, reserved = self.context_budget.max_tokens, self.context_budget.reserved_output_tokens or 0
        bound = threshold + reserved
        return replace(self.context_budget, max_tokens=bound if most is None else min(most, bound))

    @property
    def effective_exposure_mode(self) -> StreamingExposureMode:
        """The time at which text may leave: with an output guard profile, when its guards have let the answer pass."""
        held = StreamingExposureMode.NO_STREAM_UNTIL_FINAL_GUARDED
        return self.streaming_exposure_mode if self.output_guard is None else held

    @property
    def effective_timeout_seconds(self) -> float | None:
        """The timeout, wherever it was declared."""
        return self.limits.timeout_seconds if self.timeout_seconds is None else self.timeout_seconds

    @property
    def is_durable(self) -> bool:
        """True when runs must outlive their process: they recover, or wait for signals."""
        return self.recovery is RecoveryStrategy.ACTION_BOUNDARY or bool(self.accepted_signals)


LIMITS = tuple(each.name for each in fields(AgentExecutionLimits))
"""The limits that are keywords of `@Agent`: all of them."""


def fill_spec(
    spec: AgentExecutionSpec,
    *,
    agent: str,
    durable: bool | None,
    output: object,
    teammates: Sequence[AgentTeammate | type[object]],
    limits: Mapping[str, Any],
) -> AgentExecutionSpec:
    """Return the spec with everything that the keywords declare; None and () declare nothing.

    Raises:
        AgentDefinitionError: a keyword and the spec declare different things, or a keyword is of another type.
    """
    if durable not in (None, True, False):
        raise AgentDefinitionError(
            f"{agent}: @Agent(durable={durable!r}) is no truth value. Write durable=True."
        )
    mates = _teammates(agent, teammates)
    declared = {name: given for name, given in limits.items() if given is not None}
    differences = (
        *_other_recovery(spec, durable),
        *_other_output(spec, output),
        *_other_teammates(spec, mates),
        *_other_limits(spec, declared),
    )
    for keyword, in_spec in differences:
        raise AgentDefinitionError(
            f"{agent}: @Agent({keyword}) contradicts {in_spec} of its spec. Declare one of them."
        )
    changes: dict[str, Any] = {
        "recovery": RecoveryStrategy.ACTION_BOUNDARY if durable else None,
        "output_type": output,
        "teammates": mates or None,
        "limits": replace(spec.limits, **declared) if declared else None,
    }
    changes = {name: each for name, each in changes.items() if each is not None}
    return replace(spec, **changes) if changes else spec


def _teammates(agent: str, given: object) -> tuple[AgentTeammate, ...]:
    """Return the teammates; a class is known by its name in snake case."""
    found: list[AgentTeammate] = []
    for each in given if is_list(given) else [None]:
        if isinstance(each, AgentTeammate):
            found.append(each)
        elif isinstance(each, type):
            found.append(AgentTeammate(snake_case(each.__name__), pod=each))
        else:
            raise AgentDefinitionError(
                f"{agent}: @Agent(teammates={given!r}) is no list of agents. Write teammates=[Librarian], "
                "or AgentTeammate(...) for another name."
            )
    return tuple(found)


def _other_recovery(spec: AgentExecutionSpec, durable: bool | None) -> Iterator[tuple[str, str]]:
    if durable is False and spec.recovery is not RecoveryStrategy.NONE:
        yield "durable=False", f"recovery={spec.recovery.name}"
    elif durable is False and spec.accepted_signals:
        yield "durable=False", "accepted_signals"


def _other_output(spec: AgentExecutionSpec, output: object) -> Iterator[tuple[str, str]]:
    if output is not None and spec.output_type not in (None, output):
        yield f"output={type_name(output)}", f"output_type={type_name(spec.output_type)}"


def _other_teammates(spec: AgentExecutionSpec, mates: tuple[AgentTeammate, ...]) -> Iterator[tuple[str, str]]:
    if mates and spec.teammates and mates != tuple(spec.teammates):
        names = [", ".join(each.name for each in side) for side in (mates, spec.teammates)]
        yield f"teammates=[{names[0]}]", f"teammates=[{names[1]}]"


def _other_limits(spec: AgentExecutionSpec, limits: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for name, given in limits.items():
        in_spec: object = getattr(spec.limits, name)
        if name == "timeout_seconds":
            in_spec = spec.effective_timeout_seconds
        if in_spec not in (None, given):
            yield f"{name}={given!r}", f"{name}={in_spec!r}"

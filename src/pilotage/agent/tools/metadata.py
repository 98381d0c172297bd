"""The metadata of a tool, the risk and recovery that follow from it, and the text of its question to a person.

Pure values. Nothing here looks at a function; the declaration is all there is to decide from. In the text of a question
`{name}` stands for an argument, and for nothing else: no attribute, index, conversion or format.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from pilotage.checks import reject_blank, reject_not_positive
from pilotage.container.names import snake_case
from pilotage.errors import AgentDefinitionError, ToolError
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json, shortened
from pilotage.values import shared, value


class Idempotency(StrEnum):
    """The effect of repeating a call with the same arguments."""

    IDEMPOTENT = "idempotent"
    CONDITIONALLY_IDEMPOTENT = "conditionally_idempotent"
    NON_IDEMPOTENT = "non_idempotent"
    UNKNOWN = "unknown"


class ToolResumeAction(StrEnum):
    """The ways to treat a tool call that a restart finds in the record."""

    RETRY = "retry"
    REQUIRE_APPROVAL = "require_approval"
    SKIP_COMPLETED = "skip_completed"


class DataAccess(StrEnum):
    """Whether a tool reads or writes data."""

    NONE = "none"
    READ = "read"
    WRITE = "write"
    READ_WRITE = "read_write"


class Externality(StrEnum):
    """Whether a tool's effect stays inside the application."""

    LOCAL = "local"
    EXTERNAL = "external"
    UNKNOWN = "unknown"


class EvidenceCapture(StrEnum):
    """The part of a tool's result that the evidence has; each member also has a helper of its name."""

    NONE = "none"
    REFERENCE_ONLY = "reference_only"
    SUMMARY = "summary"
    STRUCTURED = "structured"
    RAW = "raw"
    REDACTED = "redacted"

    @classmethod
    def none(cls) -> EvidenceCapture:
        return cls.NONE

    @classmethod
    def reference_only(cls) -> EvidenceCapture:
        return cls.REFERENCE_ONLY

    @classmethod
    def summary(cls) -> EvidenceCapture:
        return cls.SUMMARY

    @classmethod
    def structured(cls) -> EvidenceCapture:
        return cls.STRUCTURED

    @classmethod
    def raw(cls) -> EvidenceCapture:
        return cls.RAW

    @classmethod
    def redacted(cls) -> EvidenceCapture:
        return cls.REDACTED


class ToolApprovalRequirement(StrEnum):
    """Whether a person must approve a call; DERIVED leaves it to the risk."""

    NOT_REQUIRED = "not_required"
    REQUIRED = "required"
    DERIVED = "derived"


class ToolRiskAxis(StrEnum):
    """One way in which a call can matter."""

    READ = "read"
    WRITE = "write"
    SIDE_EFFECT = "side_effect"
    DESTRUCTIVE = "destructive"
    NETWORK = "network"


RISK_IN_WORDS: Mapping[str, str] = {
    ToolRiskAxis.READ: "reads data",
    ToolRiskAxis.WRITE: "changes data",
    ToolRiskAxis.SIDE_EFFECT: "has an effect that cannot be taken back by the application",
    ToolRiskAxis.DESTRUCTIVE: "destroys something",
    ToolRiskAxis.NETWORK: "reaches other systems",
}
"""What a call does on each axis of risk, in the words that people judge by."""


_READS = frozenset({DataAccess.READ, DataAccess.READ_WRITE})
_WRITES = frozenset({DataAccess.WRITE, DataAccess.READ_WRITE})


@dataclass(frozen=True, eq=False)
class ToolPermission:
    """The right to call a tool, known by its name.

    A subclass may be constructed without a name. Its name is then its class attribute `name`, else the
    class name in snake case: `class CanPay(ToolPermission)` gives `CanPay().name == "can_pay"`.
    Permissions of one name are equal, whatever their classes.
    """

    name: str

    def __init__(self, name: str | None = None) -> None:
        object.__setattr__(self, "name", _permission_name(type(self)) if name is None else name)
        reject_blank(self, name=self.name)

    def __eq__(self, other: object) -> bool:
        return self.name == other.name if isinstance(other, ToolPermission) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.name)


def _permission_name(kind: type[ToolPermission]) -> str:
    if kind is ToolPermission:
        raise AgentDefinitionError(
            "ToolPermission has no name. Write ToolPermission('payments.pay'), or a subclass of it."
        )
    declared: object = getattr(kind, "name", None)
    return declared if isinstance(declared, str) else snake_case(kind.__name__)


@value
class TimeoutPolicy:
    """The time limit of one call; None leaves it to the run's deadline."""

    seconds: float | None = None

    def __post_init__(self) -> None:
        reject_not_positive(self, seconds=self.seconds)


@value
class ResultBudget:
    """The size from which a result is cut for the model."""

    max_bytes: int | None = None

    def __post_init__(self) -> None:
        reject_not_positive(self, max_bytes=self.max_bytes)


@value
class ToolEffects:
    """The effects of a call on the world; a tool that declares nothing is not presumed safe."""

    data_access: DataAccess = DataAccess.NONE
    externality: Externality = Externality.LOCAL
    destructive: bool = False
    network: bool = False

    @classmethod
    def read_only(cls) -> ToolEffects:
        """Return the effects of a tool that looks something up and changes nothing."""
        return cls(data_access=DataAccess.READ)

    @classmethod
    def write_state(cls) -> ToolEffects:
        """Return the effects of a tool that changes the application's own data."""
        return cls(data_access=DataAccess.WRITE)

    @classmethod
    def external_side_effect(cls) -> ToolEffects:
        """Return the effects of a tool that changes something in another system."""
        return cls(data_access=DataAccess.READ_WRITE, externality=Externality.EXTERNAL, network=True)

    @classmethod
    def destructive_action(cls) -> ToolEffects:
        """Return the effects of a tool that destroys something that cannot be had back."""
        return cls(data_access=DataAccess.WRITE, externality=Externality.EXTERNAL, destructive=True)


@value
class ToolRisk:
    """The ways in which a call can matter, derived from what the tool declares."""

    axes: tuple[ToolRiskAxis, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "axes", tuple(self.axes))
        for position, axis in enumerate(self.axes):
            if axis in self.axes[:position]:
                raise AgentDefinitionError(f"ToolRisk.axes has {axis.value!r} twice. Name each axis once.")

    @classmethod
    def from_metadata(cls, metadata: AgentToolMetadata) -> ToolRisk:
        """Return the axes of a tool; what `metadata` says about access and externality overrules its effects."""
        effects, reach = metadata.effects, metadata.externality
        writes = metadata.data_access in _WRITES
        present = {
            ToolRiskAxis.READ: metadata.data_access in _READS,
            ToolRiskAxis.WRITE: writes,
            ToolRiskAxis.SIDE_EFFECT: writes or reach is not Externality.LOCAL,
            ToolRiskAxis.DESTRUCTIVE: effects.destructive,
            ToolRiskAxis.NETWORK: effects.network or reach is Externality.EXTERNAL,
        }
        return cls(tuple(axis for axis, is_present in present.items() if is_present))

    def includes(self, axis: ToolRiskAxis) -> bool:
        return axis in self.axes

    @property
    def requires_approval_candidate(self) -> bool:
        """Whether a person should be asked when the tool leaves it open."""
        if self.includes(ToolRiskAxis.DESTRUCTIVE):
            return True
        reaches = self.includes(ToolRiskAxis.WRITE) or self.includes(ToolRiskAxis.NETWORK)
        return reaches and self.includes(ToolRiskAxis.SIDE_EFFECT)


@value
class ToolResumeMetadata:
    """The treatment of a call after a restart, by the idempotency that the tool declares."""

    idempotency: Idempotency = Idempotency.UNKNOWN

    @classmethod
    def from_metadata(cls, metadata: AgentToolMetadata) -> ToolResumeMetadata:
        return cls(metadata.idempotency)

    def action_for_completed_boundary(self) -> ToolResumeAction:
        """Return what a restart does with a call whose outcome is recorded."""
        return ToolResumeAction.SKIP_COMPLETED

    def action_for_incomplete_boundary(self) -> ToolResumeAction:
        """Return what a restart does with a call that began and has no recorded outcome."""
        match self.idempotency:
            case Idempotency.IDEMPOTENT | Idempotency.CONDITIONALLY_IDEMPOTENT:
                return ToolResumeAction.RETRY
            case Idempotency.NON_IDEMPOTENT | Idempotency.UNKNOWN:
                return ToolResumeAction.REQUIRE_APPROVAL


@value(slots=False)
class AgentToolMetadata:
    """Everything a tool declares: what it needs, what it does, what may be kept of it.

    `reads_untrusted` and `communicates` follow from the effects where they are None: what a tool reads outside, or
    without declaring any effects, is untrusted. `accepts_untrusted` says
    that no person has to be asked when untrusted content may have decided a call. A `deferred` tool is carried out
    outside the application: the run waits for the result. `prompt` is the question to a person before a call. `errors`
    are classes that a program may catch, `formerly` are earlier names of the tool. Derived facts are computed once.
    """

    permissions: tuple[ToolPermission, ...] = ()
    effects: ToolEffects = field(default_factory=shared(ToolEffects))
    idempotency: Idempotency = Idempotency.UNKNOWN
    data_access: DataAccess = DataAccess.NONE
    externality: Externality = Externality.LOCAL
    timeout: TimeoutPolicy = field(default_factory=shared(TimeoutPolicy))
    result_budget: ResultBudget = field(default_factory=shared(ResultBudget))
    evidence: EvidenceCapture = EvidenceCapture.STRUCTURED
    approval: ToolApprovalRequirement = ToolApprovalRequirement.DERIVED
    reconcile: str | None = None
    reads_untrusted: bool | None = None
    reads_private: bool = False
    communicates: bool | None = None
    accepts_untrusted: bool = False
    deferred: bool = False
    errors: tuple[type[ToolError], ...] = ()
    formerly: tuple[str, ...] = ()
    prompt: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "permissions", tuple(self.permissions))
        object.__setattr__(self, "errors", tuple(self.errors))
        object.__setattr__(self, "formerly", tuple(self.formerly))
        reject_blank(self, reconcile=self.reconcile)

    @cached_property
    def risk(self) -> ToolRisk:
        return ToolRisk.from_metadata(self)

    @property
    def resume(self) -> ToolResumeMetadata:
        return ToolResumeMetadata.from_metadata(self)

    @cached_property
    def requires_approval_candidate(self) -> bool:
        """Whether a person is asked before a call: what the tool says, else what its risk says."""
        match self.approval:
            case ToolApprovalRequirement.REQUIRED:
                return True
            case ToolApprovalRequirement.NOT_REQUIRED:
                return False
            case ToolApprovalRequirement.DERIVED:
                return self.risk.requires_approval_candidate

    @cached_property
    def changes_state(self) -> bool:
        return self.data_access in _WRITES or self.effects.destructive

    @cached_property
    def communicates_outward(self) -> bool:
        """Whether something may leave the application; a look-up over the network counts."""
        return self.reaches_outside if self.communicates is None else self.communicates

    @cached_property
    def returns_untrusted(self) -> bool:
        """Whether a stranger may have written what it returns or raises: what the tool says, else by its effects.

        A tool that reaches outside, to read or to change something, and one that declares no effects count as reading
        untrusted content.
        """
        if self.reads_untrusted is None:
            return self.reaches_outside or not self._has_declared_effects
        return self.reads_untrusted

    @property
    def _has_declared_effects(self) -> bool:
        return self.data_access is not DataAccess.NONE or self.effects.destructive

    @property
    def reaches_outside(self) -> bool:
        """Whether a call leaves the application, by what the tool declares."""
        return self.effects.network or self.externality is not Externality.LOCAL

    @cached_property
    def is_read_only(self) -> bool:
        """Whether the tool declares that it reads and does nothing else."""
        reads = self.data_access is DataAccess.READ
        return reads and self.externality is Externality.LOCAL and not self.effects.destructive

    @cached_property
    def is_gated(self) -> bool:
        """Whether a call needs the gate of a run: it does more than read, or needs an approval or a permission."""
        return not self.is_read_only or self.requires_approval_candidate or bool(self.permissions)


def effective_idempotency(metadata: AgentToolMetadata, *, takes_key: bool) -> Idempotency:
    """Return the idempotency that recovery may rely on: less than declared where nothing supports the declaration.

    `takes_key` says whether the tool sees the runtime's idempotency key. Reading is repeatable unless the
    tool says it is not; "conditionally idempotent" needs the key or a way to reconcile by it.
    """
    match metadata.idempotency:
        case Idempotency.CONDITIONALLY_IDEMPOTENT if not (takes_key or metadata.reconcile):
            declared = Idempotency.UNKNOWN
        case declared:
            pass
    if declared is Idempotency.UNKNOWN and metadata.is_read_only:
        return Idempotency.IDEMPOTENT
    return declared


_PLACE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")
"""A doubled brace, which stands for itself, or a name in braces."""
_LONGEST = 200


def reject_unfit_prompt(label: str, prompt: str, parameters: Collection[str]) -> None:
    """Refuse a question with a place that is no parameter of its tool, naming the function `label`.

    Raises:
        AgentDefinitionError: it has one, or a brace that belongs to no place.
    """
    places = [place[1] for place in _PLACE.finditer(prompt)]
    unknown = [name for name in places if name is not None and name not in parameters]
    if unknown or "{" in _PLACE.sub("", prompt) or "}" in _PLACE.sub("", prompt):
        names = ", ".join(f"{{{name}}}" for name in parameters) or "none, because it has no parameters"
        raise AgentDefinitionError(
            f"{label}: agent_tool.prompt is {prompt!r}. Write the names of parameters into braces, and nothing else: "
            f"{names}."
        )


def filled_prompt(prompt: str, arguments: JsonObject) -> str:
    """Return the question about a call; an argument that is not given is its default."""
    return _PLACE.sub(lambda place: place[0][0] if place[1] is None else _shown(arguments, place[1]), prompt)


def _shown(arguments: JsonObject, name: str) -> str:
    if name not in arguments:
        return f"the default {name}"
    given: JsonValue = arguments[name]
    text = given if isinstance(given, str) else canonical_json(given)
    # On one line, so that an argument cannot look like a further part of the question.
    return shortened(" ".join(text.split()), _LONGEST)

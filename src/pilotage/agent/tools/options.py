"""The options of `agent_tool`, checked where the function they are for is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from pilotage.agent.tools.metadata import (
    AgentToolMetadata,
    DataAccess,
    EvidenceCapture,
    Externality,
    Idempotency,
    ResultBudget,
    TimeoutPolicy,
    ToolApprovalRequirement,
    ToolEffects,
    ToolPermission,
)
from pilotage.checks import reject_blank
from pilotage.errors import AgentDefinitionError
from pilotage.values import value


@value
class ToolOptions:
    """What was written in `@agent_tool(...)`; only a tool that no function carries out can be `deferred`."""

    name: str | None = None
    schema_name: str | None = None
    description: str | None = None
    permissions: Sequence[ToolPermission] = ()
    effects: ToolEffects | None = None
    idempotency: Idempotency = Idempotency.UNKNOWN
    data_access: DataAccess | None = None
    externality: Externality | None = None
    timeout: TimeoutPolicy | None = None
    result_budget: ResultBudget | None = None
    evidence: EvidenceCapture = EvidenceCapture.STRUCTURED
    approval: ToolApprovalRequirement = ToolApprovalRequirement.DERIVED
    reconcile: str | None = None
    reads_untrusted: bool | None = None
    reads_private: bool = False
    communicates: bool | None = None
    accepts_untrusted: bool = False
    deferred: bool = False

    def reject_what_is_wrong(self, label: str) -> None:
        """Refuse values of the wrong type and blank texts, naming the function `label`."""
        for name, expected in _EXPECTED.items():
            value = cast(object, getattr(self, name))
            if value is not None and not isinstance(value, expected):
                raise AgentDefinitionError(
                    f"{label}: agent_tool.{name} is {value!r}. Give it a value of type {expected.__name__}."
                )
        _reject_other_than_permissions(label, self.permissions)
        texts = {name: cast("str | None", getattr(self, name)) for name in _TEXTS}
        reject_blank(f"{label}: agent_tool", **texts)

    def metadata(self) -> AgentToolMetadata:
        """The typed declaration; what is said here about access and externality overrules the effects."""
        effects = self.effects or ToolEffects()
        return AgentToolMetadata(
            permissions=tuple(self.permissions),
            effects=effects,
            idempotency=self.idempotency,
            data_access=self.data_access or effects.data_access,
            externality=self.externality or effects.externality,
            timeout=self.timeout or TimeoutPolicy(),
            result_budget=self.result_budget or ResultBudget(),
            evidence=self.evidence,
            approval=self.approval,
            reconcile=self.reconcile,
            reads_untrusted=self.reads_untrusted,
            reads_private=self.reads_private,
            communicates=self.communicates,
            accepts_untrusted=self.accepts_untrusted,
            deferred=self.deferred,
        )


_TEXTS = ("name", "schema_name", "description", "reconcile")
_EXPECTED: dict[str, type] = {
    **dict.fromkeys(_TEXTS, str),
    "effects": ToolEffects,
    "idempotency": Idempotency,
    "data_access": DataAccess,
    "externality": Externality,
    "timeout": TimeoutPolicy,
    "result_budget": ResultBudget,
    "evidence": EvidenceCapture,
    "approval": ToolApprovalRequirement,
    "reads_untrusted": bool,
    "reads_private": bool,
    "communicates": bool,
    "accepts_untrusted": bool,
    "deferred": bool,
}


def _reject_other_than_permissions(label: str, permissions: object) -> None:
    is_list = isinstance(permissions, Sequence) and not isinstance(permissions, str)
    members = list(cast("Sequence[object]", permissions)) if is_list else []
    if is_list and all(isinstance(member, ToolPermission) for member in members):
        return
    raise AgentDefinitionError(
        f"{label}: agent_tool.permissions is {permissions!r}. "
        "Give it a list of ToolPermission values, such as [ToolPermission('payments.pay')]."
    )

"""The permission port: may this principal have this action done? Deny wins."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import field
from enum import StrEnum

from pilotage.agent.principal import Principal, RunContext
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.tools.metadata import ToolPermission, ToolRisk
from pilotage.values import shared, value


class PermissionVerdict(StrEnum):
    """The answers of a permission check, from the mildest to the strictest."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


@value
class PermissionRequest:
    """What is about to happen, for whom, and what the tool says it needs."""

    principal: Principal
    context: RunContext
    action: AgentActionKind
    name: str
    permissions: tuple[ToolPermission, ...] = ()
    risk: ToolRisk = field(default_factory=shared(ToolRisk))


@value
class PermissionDecision:
    """An answer and its reason, for the record."""

    verdict: PermissionVerdict
    reason: str | None = None


class IAgentPermissions(ABC):
    """Decides about every action before it begins. An adapter that raises or hangs denies."""

    @abstractmethod
    async def check(self, request: PermissionRequest) -> PermissionDecision:
        """Allow, ask a human, or deny."""


class AllowAll(IAgentPermissions):
    """The built-in no-op: everybody may do everything. Its subclasses are not no-ops."""

    async def check(self, request: PermissionRequest) -> PermissionDecision:
        return PermissionDecision(PermissionVerdict.ALLOW)


class RequireHeld(IAgentPermissions):
    """Whoever starts a run must hold every permission that a tool declares."""

    async def check(self, request: PermissionRequest) -> PermissionDecision:
        missing = [
            each.name for each in request.permissions if each.name not in request.principal.permissions
        ]
        if not missing:
            return PermissionDecision(PermissionVerdict.ALLOW)
        reason = f"{request.principal.id!r} does not hold {', '.join(map(repr, missing))}"
        return PermissionDecision(PermissionVerdict.DENY, reason)


_STRICTNESS = tuple(PermissionVerdict)


def strictest(decisions: Iterable[PermissionDecision]) -> PermissionDecision:
    """Of several answers the strictest counts; the first of equals; without any, deny."""
    return max(
        decisions,
        key=lambda decision: _STRICTNESS.index(decision.verdict),
        default=PermissionDecision(PermissionVerdict.DENY, "nobody decided"),
    )

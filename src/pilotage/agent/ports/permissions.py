"""Access ports: principals, permissions, secrets, and switches that stop agents, tools and tenants.

Deny wins over ask, ask over allow. `PermissionRules` is a pure implementation: every rule that fits counts, in any
order, and an action that no rule covers is denied unless the list says otherwise. A switch is looked at before every
action of a run: where it is off the run pauses, and goes on from there when it is resumed after the switch is on again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Self

from pilotage.agent.ports.persistence import persistence_port
from pilotage.agent.principal import Principal, RunContext
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.tools.metadata import ToolPermission, ToolRisk, ToolRiskAxis
from pilotage.checks import reject_blank, reject_naive
from pilotage.jsonvalue import JsonObject
from pilotage.safety.fields import SecretRef
from pilotage.values import shared, value


class PermissionVerdict(StrEnum):
    """The answers of a permission check, from the mildest to the strictest."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


@value
class PermissionRequest:
    """An action to be permitted: its principal, its run, and the permissions that the tool declares.

    `name` is what the program calls the tool, the step or the child. `agent` is the id of the agent that a delegation
    goes to: a loop or a team may have given it another name.
    """

    principal: Principal
    context: RunContext
    action: AgentActionKind
    name: str
    permissions: tuple[ToolPermission, ...] = ()
    risk: ToolRisk = field(default_factory=shared(ToolRisk))
    agent: str | None = None


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
    """The built-in no-op: every principal may do everything. Its subclasses are not no-ops."""

    async def check(self, request: PermissionRequest) -> PermissionDecision:
        return PermissionDecision(PermissionVerdict.ALLOW)


class RequireHeld(IAgentPermissions):
    """The principal of a run must hold every permission that a tool declares."""

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
        default=PermissionDecision(PermissionVerdict.DENY, "there was no decision"),
    )


@value
class PermissionRule:
    """A verdict about the actions that fit everything the rule names; what it leaves out fits anything.

    Texts are patterns: `*` stands for any characters, `?` for one. `name` is a tool, a step, or an agent that is
    delegated to, by its id as well as by the name that a loop gave it. `holding` is a permission that the principal
    holds, `permission` one that the tool declares, `risk` one way in which the tool says a call can matter.
    """

    verdict: PermissionVerdict
    name: str | None = None
    principal: str | None = None
    tenant: str | None = None
    holding: str | None = None
    permission: str | None = None
    risk: ToolRiskAxis | None = None
    action: AgentActionKind | None = None
    reason: str | None = None

    def __post_init__(self) -> None:
        reject_blank(self, name=self.name, principal=self.principal, tenant=self.tenant, holding=self.holding)
        reject_blank(self, permission=self.permission, reason=self.reason)

    def fits(self, request: PermissionRequest) -> bool:
        """Return whether the rule covers the request."""
        return (
            _fits(self.name, [request.name, request.agent or request.name])
            and _fits(self.principal, [request.principal.id])
            and _fits(self.tenant, [request.principal.tenant])
            and _fits(self.holding, request.principal.permissions)
            and _fits(self.permission, [each.name for each in request.permissions])
            and (self.risk is None or request.risk.includes(self.risk))
            and self.action in (None, request.action)
        )

    def decide(self, request: PermissionRequest) -> PermissionDecision:
        """Return the decision of the rule about a request that fits it."""
        principal, action = request.principal.id, request.name
        return PermissionDecision(
            self.verdict, self.reason or f"a rule says {self.verdict} to {action!r} for {principal!r}"
        )


class PermissionRules(IAgentPermissions):
    """Decides by rules. Reading the clock and other values is always allowed."""

    def __init__(
        self, rules: Iterable[PermissionRule], *, otherwise: PermissionVerdict = PermissionVerdict.DENY
    ) -> None:
        self._rules = tuple(rules)
        self._otherwise = otherwise

    async def check(self, request: PermissionRequest) -> PermissionDecision:
        if request.action is AgentActionKind.VALUE:
            return PermissionDecision(PermissionVerdict.ALLOW)
        fitting = [rule.decide(request) for rule in self._rules if rule.fits(request)]
        if fitting:
            return strictest(fitting)
        words = f"no rule covers {request.name!r} for {request.principal.id!r}"
        return PermissionDecision(self._otherwise, words)


class StrictestOf(IAgentPermissions):
    """Several policies at once, such as rules and `RequireHeld`: the strictest answer counts, the first of equals."""

    def __init__(self, *policies: IAgentPermissions) -> None:
        self._policies: Sequence[IAgentPermissions] = policies

    async def check(self, request: PermissionRequest) -> PermissionDecision:
        return strictest([await policy.check(request) for policy in self._policies])


def _fits(pattern: str | None, names: Iterable[str]) -> bool:
    if pattern is None:
        return True
    # A bracket is a bracket: a rule about "user[1]" must not miss the one it names.
    literal = pattern.replace("[", "[[]")
    return any(fnmatchcase(name, literal) for name in names)


class ISecrets(ABC):
    """Provides secret values to tools when they run. Each is registered with every redactor of the run."""

    @abstractmethod
    async def resolve(self, ref: SecretRef, context: RunContext) -> str:
        """Return the value of a secret for this run.

        Raises:
            PermissionDeniedError: this run may not have the secret, or there is none of that name: the two
                look the same from outside.
        """


class IPrincipalResolver(ABC):
    """Resolves the principal of a request. There is no default: an application with callers authenticates them.

    It is asked before anything else of a request is looked at. An error that it raises refuses the request.
    """

    @abstractmethod
    async def resolve(self, headers: Mapping[str, str]) -> Principal:
        """Return the principal of a request, from its headers by lower-case name; repeated ones are joined by commas.

        Raises:
            NotAuthenticatedError: the headers name no known principal.
        """


class SwitchKind(StrEnum):
    """The kinds of things that can be switched off."""

    AGENT = "agent"
    TOOL = "tool"
    TENANT = "tenant"


@value
class Switch:
    """One thing that can be switched off: an agent by its id, a tool by the name models call it by, a tenant."""

    kind: SwitchKind
    name: str

    def __post_init__(self) -> None:
        reject_blank(self, name=self.name)

    @classmethod
    def agent(cls, agent_id: str) -> Self:
        """Return the switch of all runs of an agent, in all tenants."""
        return cls(SwitchKind.AGENT, agent_id)

    @classmethod
    def tool(cls, name: str) -> Self:
        """Return the switch of all calls of a tool, by all agents."""
        return cls(SwitchKind.TOOL, name)

    @classmethod
    def tenant(cls, tenant_id: str) -> Self:
        """Return the switch of all runs of a tenant."""
        return cls(SwitchKind.TENANT, tenant_id)

    def __str__(self) -> str:
        return f"{self.kind.value} {self.name!r}"


@value
class SwitchedOff:
    """A switch that is off: why, since when, and by whom."""

    switch: Switch
    reason: str
    by: str | None = None
    since: datetime | None = None

    def __post_init__(self) -> None:
        reject_blank(self, reason=self.reason, by=self.by)
        reject_naive(self, since=self.since)

    def to_payload(self) -> JsonObject:
        """Return the fact as JSON."""
        return {
            "kind": self.switch.kind.value,
            "name": self.switch.name,
            "reason": self.reason,
            "by": self.by,
            "since": self.since.isoformat() if self.since else None,
        }

    def __str__(self) -> str:
        return f"{self.switch} is switched off: {self.reason}"


@persistence_port
class IAgentSwitches(ABC):
    """Stores switches that are off.

    Every adapter guarantees: what it has switched is durable when the call returns, and every process that asks from
    then on sees it. What was never switched off is on. An agent, a tool and a tenant of one name are three switches.
    """

    @abstractmethod
    async def turn_off(self, switch: Switch, *, reason: str, by: str | None = None) -> SwitchedOff:
        """Switch something off, and give back what is stored, with the store's time.

        What is off already stays as it is: the first reason is the one that is kept and given back.

        Raises:
            AgentDefinitionError: the reason is blank.
        """

    @abstractmethod
    async def turn_on(self, switch: Switch) -> bool:
        """Switch something on again; False where it was on."""

    @abstractmethod
    async def first_off(self, switches: Sequence[Switch]) -> SwitchedOff | None:
        """Return the first of these that is off; None where all of them are on."""

    @abstractmethod
    async def list_off(self) -> Sequence[SwitchedOff]:
        """Everything that is off, in the order it was switched off."""

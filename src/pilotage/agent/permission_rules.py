"""Permissions as a list of rules: who may have what done, who is asked about it, what nobody may. Pure.

Every rule that fits has its say, in whatever order they stand: deny wins over ask, ask over allow. What no rule speaks
of is denied, unless the list says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from pilotage.agent.ports.permissions import (
    IAgentPermissions,
    PermissionDecision,
    PermissionRequest,
    PermissionVerdict,
    strictest,
)
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.tools.metadata import ToolRiskAxis
from pilotage.checks import reject_blank
from pilotage.values import value


@value
class PermissionRule:
    """A verdict about the actions that fit everything the rule names; what it leaves out fits anything.

    Texts are patterns: `*` stands for any characters, `?` for one. `holding` is a permission that the principal holds,
    `permission` one that the tool declares, `risk` one way in which the tool says a call can matter.
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
        reject_blank(
            self,
            name=self.name,
            principal=self.principal,
            tenant=self.tenant,
            holding=self.holding,
            permission=self.permission,
            reason=self.reason,
        )

    def fits(self, request: PermissionRequest) -> bool:
        """Whether the rule speaks of what is about to happen."""
        return (
            _fits(self.name, [request.name])
            and _fits(self.principal, [request.principal.id])
            and _fits(self.tenant, [request.principal.tenant])
            and _fits(self.holding, request.principal.permissions)
            and _fits(self.permission, [each.name for each in request.permissions])
            and (self.risk is None or request.risk.includes(self.risk))
            and self.action in (None, request.action)
        )

    def decide(self, request: PermissionRequest) -> PermissionDecision:
        """What the rule says of a request that fits it."""
        who, what = request.principal.id, request.name
        return PermissionDecision(
            self.verdict, self.reason or f"a rule says {self.verdict} to {what!r} for {who!r}"
        )


class PermissionRules(IAgentPermissions):
    """Decides by rules. Reading the clock and the like is nobody's to forbid."""

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
        words = f"no rule speaks of {request.name!r} for {request.principal.id!r}"
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

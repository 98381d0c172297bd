"""The kill switches of a run: looked at before everything it does, and before it says its answer.

A run that finds something off pauses. Nothing of that is recorded with the action, so whoever resumes the run looks
again. Switches that cannot be read are off.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from pilotage.agent.approval import AgentApprovalBoundaryKind
from pilotage.agent.messages import ModelToolCall
from pilotage.agent.model_reply import ModelResponse
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.budget import (
    BudgetAmount,
    BudgetExhausted,
    BudgetGranted,
    BudgetReservation,
    BudgetSettlement,
    IAgentBudget,
    NoBudget,
)
from pilotage.agent.ports.handlers import ApprovalSubject, IAgentApprovalHandler, IAgentRecoveryHandler
from pilotage.agent.ports.hooks import HookVerdict, IAgentHooks, Veto
from pilotage.agent.ports.permissions import AllowAll, IAgentPermissions, PermissionRequest, PermissionVerdict
from pilotage.agent.ports.switches import IAgentSwitches, Switch, SwitchedOff
from pilotage.agent.principal import Principal, RunContext
from pilotage.agent.recovery import AgentActionBoundaryStage, AgentResumeBoundary
from pilotage.agent.recovery_request import RecoveryCancelled, RecoveryDone, RecoveryFailed, RecoveryRetried
from pilotage.agent.state import AgentSituation, AgentState
from pilotage.agent.tools.catalog import AgentToolDescriptor
from pilotage.container.processing import IContainer
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.budget.spending import budget_exhausted
from pilotage.runtime.door.consult import Asker, GateSettings, NoAnswerError, asked
from pilotage.runtime.effect import Call
from pilotage.runtime.exposure.redactor import Redactor
from pilotage.runtime.exposure.views import shown_request, shown_response
from pilotage.runtime.journal.action import Action
from pilotage.runtime.journal.interruptions import Paused, RunEnded
from pilotage.runtime.people.questions import PASS, Ask, Deny, GateVerdict
from pilotage.safety.trust import Confidentiality, Integrity, TrustLabel
from pilotage.values import value


class SwitchStage:
    """The switches that concern one run. One that nobody keeps cannot wait, so it ends."""

    def __init__(self, switches: IAgentSwitches, agent: str, tenant: str, *, is_kept: bool) -> None:
        self._switches = switches
        self._always = (Switch.agent(agent), Switch.tenant(tenant))
        self._is_kept = is_kept

    async def check(self, tool: str | None = None) -> None:
        """Return where everything is on that concerns the run, and the tool it is about to call.

        Raises:
            Paused: something is off, or nobody can say.
            RunEnded: the same, for a run that nobody keeps.
        """
        concerned = self._always if tool is None else (*self._always, Switch.tool(tool))
        try:
            off = await asked(self._switches.first_off, concerned)
        except NoAnswerError as failure:
            raise self._stopped(f"the kill switches cannot be read ({failure})", {}) from failure
        if off is not None:
            raise self._stopped(str(off), _facts(off))

    def _stopped(self, reason: str, facts: JsonObject) -> Paused | RunEnded:
        if self._is_kept:
            return Paused(reason=reason, facts=facts)
        return RunEnded(AgentSituation.FAILED, reason, code="switched_off", retryable=True)


def _facts(off: SwitchedOff) -> JsonObject:
    return {"switched_off": off.to_payload()}


_SECRET, _UNTRUSTED = Confidentiality.SECRET, Integrity.UNTRUSTED


def label_after_tool(label: TrustLabel, tool: AgentToolDescriptor) -> TrustLabel:
    """The label once the tool's result is known."""
    return label if tool.result_label is None else label.join(tool.result_label)


def verdict_for(label: TrustLabel, tool: AgentToolDescriptor) -> GateVerdict:
    """Whether a call that was decided under the label may begin.

    Secrets never go to a tool that communicates. Under untrusted content a person is asked, unless the tool only
    reads (inside the application; outside only while nothing private could leave with the look-up), or accepts it.
    """
    if label.confidentiality is _SECRET and tool.metadata.communicates_outward:
        return Deny(
            f"{tool.schema.name!r} communicates outward, and the run holds secret data from {_origins(label)}"
        )
    if label.integrity is not _UNTRUSTED or tool.metadata.accepts_untrusted:
        return PASS
    concern = _concern(label, tool)
    if concern is None:
        return PASS
    return Ask(f"untrusted content from {_origins(label)} may have decided this call; {concern}")


def _concern(label: TrustLabel, tool: AgentToolDescriptor) -> str | None:
    """What is to be feared of a call that a stranger decided."""
    metadata, name = tool.metadata, repr(tool.schema.name)
    if metadata.communicates_outward and not label.is_public:
        return f"{name} communicates outward, and private data could leave with it"
    if metadata.is_read_only:
        return None
    if metadata.changes_state:
        return f"{name} changes something"
    if metadata.communicates_outward:
        return f"{name} communicates outward"
    return f"{name} does not declare that it only reads"


def _origins(label: TrustLabel) -> str:
    return ", ".join(sorted(label.origins)) or "an unnamed source"


@value
class Stages:
    """What an application provides for its gates; None where there is nothing, or the built-in no-op."""

    permissions: IAgentPermissions | None = None
    hooks: tuple[IAgentHooks, ...] = ()
    budget: IAgentBudget | None = None
    approval: IAgentApprovalHandler | None = None
    recovery: IAgentRecoveryHandler | None = None
    settings: GateSettings | None = None

    @classmethod
    def of(cls, container: IContainer) -> Stages:
        """The stages of an application."""
        permissions = container.get_or_none(IAgentPermissions)
        budget = container.get_or_none(IAgentBudget)
        found = cls(
            None if type(permissions) is AllowAll else permissions,
            tuple(container.get_all(IAgentHooks)),
            None if type(budget) is NoBudget else budget,
            container.get_or_none(IAgentApprovalHandler),
            container.get_or_none(IAgentRecoveryHandler),
        )
        if found == NO_STAGES:
            return NO_STAGES
        return replace(found, settings=container.get_or_none(GateSettings))


NO_STAGES = Stages()
_PATIENT = Asker()


class Gate:
    """The stages of an application for one run. One that `is_open` has none: nobody has to be asked."""

    def __init__(
        self,
        principal: Principal,
        context: RunContext,
        stages: Stages,
        capabilities: tuple[str, ...] | None = None,
    ) -> None:
        self._principal = principal
        self._context = context
        self._stages = stages
        self._capabilities = capabilities
        self._asker = _PATIENT if stages.settings is None else Asker(stages.settings)
        self.is_open = stages is NO_STAGES
        self.has_budget = stages.budget is not None
        """Whether the application has a budget of its own."""
        self.settles_with: Callable[[BudgetSettlement], None] | None = None
        """Where what was spent is counted with the next commit; None for a run that nobody keeps."""
        self.warns: Callable[[str], None] | None = None
        """Who is told that a budget comes to its end."""

    async def before_call(self, call: Call, trust: TrustLabel, *, was_asked: bool = False) -> GateVerdict:
        """Whether a tool call, a step or a delegation may begin.

        Where a person `was_asked` about it, the approval handler has had its say.
        """
        asks = self.trusts(call, trust)
        if self.is_open or isinstance(asks, Deny):
            return asks
        if self._stages.permissions is not None:
            verdict = await self._permitted(call, self._stages.permissions)
            if isinstance(verdict, Deny):
                return verdict
            asks = asks if isinstance(asks, Ask) else verdict
        shown = _shown(call)
        denied = await self._vetoed(lambda hook: hook.pre_tool(self._context, shown))
        if denied is not None or was_asked:
            return denied or asks
        question = await self.question(call.boundary, call.action, call)
        if question is None or not isinstance(asks, Ask):
            return question or asks
        return replace(question, reason=question.reason or asks.reason)

    async def after_call(self, call: Call, view: JsonValue) -> None:
        """Let hooks see what came of it; nothing they do can change that."""
        for hook in self._stages.hooks:
            await self._asker.told(hook.post_tool, self._context, _shown(call), view)

    async def before_model(self, request: ModelRequest, redactor: Redactor) -> Deny | None:
        """Whether a request may go to the model."""
        if not self._stages.hooks:
            return None
        shown = shown_request(request, redactor)
        return await self._vetoed(lambda hook: hook.pre_model(self._context, shown))

    async def after_model(self, response: ModelResponse, request: ModelRequest, redactor: Redactor) -> None:
        """Let hooks see the reply to a request."""
        if not self._stages.hooks:
            return
        shown = shown_response(response, request, redactor)
        for hook in self._stages.hooks:
            await self._asker.told(hook.post_model, self._context, shown)

    async def before_run(self, state: AgentState) -> Deny | None:
        """Whether a run may start or come back."""
        return await self._vetoed(lambda hook: hook.pre_run(self._context, state))

    async def after_run(self, state: AgentState) -> None:
        """Let hooks see how the run stands."""
        for hook in self._stages.hooks:
            await self._asker.told(hook.post_run, self._context, state)

    async def reserve(self, need: BudgetAmount) -> BudgetReservation | None:
        """Set something aside in the application's budget, where it has one.

        Raises:
            LimitReached: the budget does not allow it, or cannot say.
        """
        budget = self._stages.budget
        if budget is None:
            return None
        try:
            verdict = await self._asker.asked(budget.allows_step, self._context, need)
        except NoAnswerError as failure:
            verdict = BudgetExhausted("budget", f"the budget check failed ({failure})")
        match verdict:
            case BudgetGranted(reservation, warning):
                if warning is not None and self.warns is not None:
                    self.warns(warning)
                return reservation
            case BudgetExhausted():
                raise budget_exhausted(verdict)

    async def settle(self, reservation: BudgetReservation | None, used: BudgetAmount) -> None:
        """Tell the budget what was really used; where the journal settles it, nobody has to be waited for."""
        budget = self._stages.budget
        if budget is None or reservation is None:
            return
        if budget.is_settled_by_journal and self.settles_with is not None:
            self.settles_with(BudgetSettlement(reservation, used))
        else:
            await self._asker.told(budget.consume, self._context, reservation, used)

    async def question(
        self, boundary: AgentApprovalBoundaryKind, action: Action, call: Call | None = None
    ) -> Ask | None:
        """The question that the application's approval handler wants to put to a person, if any."""
        handler = self._stages.approval
        if handler is None:
            return None
        arguments = _as_object(action.view)
        descriptor = call.descriptor if call else None
        subject = ApprovalSubject(boundary, action.id, action.name, arguments, descriptor)
        try:
            wanted = await self._asker.asked(handler.request_for, self._context, subject)
        except NoAnswerError as failure:
            return Ask(f"the approval handler failed ({failure})")
        return Ask(question=wanted) if wanted is not None else None

    async def recovery_answer(self, call: Call, attempt: int) -> RecoveryRetried | RecoveryDone | None:
        """What the application's recovery handler knows about an unknown outcome; None asks a person.

        Raises:
            RunEnded: the handler ends the run.
        """
        handler = self._stages.recovery
        if handler is None:
            return None
        action = call.action
        boundary = AgentResumeBoundary(
            action.id, action.kind, AgentActionBoundaryStage.BEFORE, action.idempotency, action.id
        )
        try:
            answer = await self._asker.asked(handler.decide, self._context, boundary)
        except NoAnswerError:
            return None
        match answer:
            case None:
                return None
            case RecoveryRetried():
                # The number of an attempt is the run's to give: no other attempt has had it.
                return replace(answer, action_id=action.id, attempt=attempt + 1)
            case RecoveryDone():
                return replace(answer, action_id=action.id)
            case RecoveryFailed(comment=comment):
                words = f"the recovery handler decided that the run failed: {comment or 'no reason given'}"
                raise RunEnded(AgentSituation.FAILED, words)
            case RecoveryCancelled(comment=comment):
                words = f"the recovery handler cancelled the run: {comment or 'no reason given'}"
                raise RunEnded(AgentSituation.CANCELLING, words)

    def trusts(self, call: Call, trust: TrustLabel) -> GateVerdict:
        """What the run itself says about a call, before anybody of the application is asked."""
        tool = call.descriptor
        if tool is None:
            return PASS
        if self._capabilities is not None and tool.schema.name not in self._capabilities:
            return Deny(f"the run was not given the tool {tool.schema.name!r}")
        return verdict_for(trust, tool)

    async def _permitted(self, call: Call, permissions: IAgentPermissions) -> GateVerdict:
        tool = call.descriptor.metadata if call.descriptor else None
        request = PermissionRequest(
            principal=self._principal,
            context=self._context,
            action=call.action.kind,
            name=call.action.name,
            permissions=tuple(tool.permissions) if tool else (),
            **({"risk": tool.risk} if tool else {}),
        )
        try:
            decision = await self._asker.asked(permissions.check, request)
        except NoAnswerError as failure:
            return Deny(f"the permission check failed ({failure})")
        match decision.verdict:
            case PermissionVerdict.ALLOW:
                return PASS
            case PermissionVerdict.ASK:
                return Ask(decision.reason)
            case PermissionVerdict.DENY:
                return Deny(decision.reason or "the permission is missing")

    async def _vetoed(self, ask: Callable[[IAgentHooks], Awaitable[HookVerdict]]) -> Deny | None:
        """The first veto; every hook hears of it all the same."""
        denied: Deny | None = None
        for hook in self._stages.hooks:
            try:
                verdict = await self._asker.asked(ask, hook)
            except NoAnswerError as failure:
                verdict = Veto(f"a hook failed ({failure})")
            if isinstance(verdict, Veto) and denied is None:
                denied = Deny(verdict.reason)
        return denied


def _shown(call: Call) -> ModelToolCall:
    return ModelToolCall(call.action.name, _as_object(call.action.view), call.action.id)


def _as_object(view: JsonValue) -> JsonObject:
    return view if isinstance(view, dict) else {} if view is None else {"arguments": view}

"""The admission of effects: one order of stages for everything a run asks of the world.

| stage      | looks at                                          | refuses by                                  |
|------------|---------------------------------------------------|---------------------------------------------|
| alive      | all that the attempt tracks (`Liveness.begin`)    | ending the attempt or the branch            |
| switch     | all that act; also an attempt and an answer       | pausing the run                             |
| deadline   | all that act                                      | ending the run                              |
| permission | tool calls, steps, values, children               | a recorded error, or a question             |
| trust      | tool calls                                        | a recorded error, or a question             |
| hooks      | all that act                                      | a recorded error                            |
| limits     | tool calls, model calls, summaries                | ending the run                              |
| budget     | tool calls, model calls, summaries                | ending the run                              |
| approval   | all that act, context changes, the publication    | pausing the run until a person has answered |

A stage that is the exact built-in no-op is left out when an agent is composed. One that raises or hangs denies. What a
stage holds for an effect is given back when a later one does not let it pass.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import replace
from functools import cache
from types import NoneType

from pilotage.agent.approval import BUILT_IN_POLICY, AgentApprovalRequest, ApprovalTerms
from pilotage.agent.ports.budget import BudgetExhausted, BudgetGranted, IAgentBudget, NoBudget
from pilotage.agent.ports.handlers import (
    ApprovalSubject,
    IAgentApprovalHandler,
    IAgentHooks,
    IAgentRecoveryHandler,
)
from pilotage.agent.ports.permissions import (
    AllowAll,
    IAgentPermissions,
    IAgentSwitches,
    PermissionDecision,
    PermissionRequest,
    PermissionVerdict,
    Switch,
    SwitchedOff,
)
from pilotage.agent.state import AgentSituation
from pilotage.agent.tools.catalog import AgentToolDescriptor
from pilotage.container.processing import IContainer
from pilotage.errors import ToolError
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.door.door import perform
from pilotage.runtime.door.hooks import GateSettings, Hooks, NoAnswerError, PortCaller, shown_arguments
from pilotage.runtime.door.model_effect import ModelEffect
from pilotage.runtime.door.run import Admission, RefusedError, RejectedError, Run, Stage, StageTable
from pilotage.runtime.door.spending_stages import BudgetStage, LimitStage
from pilotage.runtime.effect import (
    CHILD,
    CONTEXT_CHANGE,
    MODEL_CALL,
    PUBLICATION,
    RESUMPTION,
    STEP,
    SUMMARY,
    TOOL_CALL,
    VALUE,
    Ask,
    Effect,
    EffectKind,
)
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.interruptions import Paused, RunEnded
from pilotage.runtime.people.questions import ApprovalQuestion, approval_label
from pilotage.safety.trust import Confidentiality, Integrity, TrustLabel
from pilotage.values import value

_CALLS = frozenset({TOOL_CALL, STEP, VALUE, CHILD})
_MODEL_CALLS = frozenset({MODEL_CALL, SUMMARY})
_ACTING = _CALLS | _MODEL_CALLS
_COUNTED = _MODEL_CALLS | {TOOL_CALL}
_APPROVED = frozenset({CONTEXT_CHANGE, PUBLICATION, RESUMPTION})
_VERDICTS = (BudgetGranted, BudgetExhausted)
_REQUESTS = (AgentApprovalRequest, NoneType)


@value
class GatePorts:
    """The ports of an application for the admission; None where there is none, or the built-in no-op."""

    permissions: IAgentPermissions | None = None
    hooks: tuple[IAgentHooks, ...] = ()
    budget: IAgentBudget | None = None
    approval: IAgentApprovalHandler | None = None
    recovery: IAgentRecoveryHandler | None = None
    switches: IAgentSwitches | None = None
    settings: GateSettings | None = None

    @classmethod
    def of(cls, container: IContainer) -> GatePorts:
        """Return the ports of an application."""
        permissions = container.get_or_none(IAgentPermissions)
        budget = container.get_or_none(IAgentBudget)
        return cls(
            permissions=None if type(permissions) is AllowAll else permissions,
            hooks=tuple(container.get_all(IAgentHooks)),
            budget=None if type(budget) is NoBudget else budget,
            approval=container.get_or_none(IAgentApprovalHandler),
            recovery=container.get_or_none(IAgentRecoveryHandler),
            switches=container.get_or_none(IAgentSwitches),
            settings=container.get_or_none(GateSettings),
        )


NO_PORTS = GatePorts()


@cache
def open_admission(*, has_deadline: bool) -> Admission:
    """Return the admission of all agents of applications that provide nothing for it."""
    return admission_of(NO_PORTS, None, "", PortCaller(), has_deadline=has_deadline)


def admission_of(
    ports: GatePorts, hooks: Hooks | None, agent: str, caller: PortCaller, *, has_deadline: bool
) -> Admission:
    """Return the admission of an agent's runs: the stages that it needs, in the one order."""
    switch = SwitchStage(ports.switches, agent, caller) if ports.switches is not None else None
    approval = ApprovalStage(ports.approval, caller)
    stages: Sequence[tuple[Stage | None, frozenset[EffectKind]]] = (
        (switch, _ACTING),
        (DeadlineStage() if has_deadline else None, _ACTING),
        (PermissionStage(ports.permissions, caller) if ports.permissions else None, _CALLS),
        (TrustStage(), frozenset({TOOL_CALL})),
        (HookStage(hooks) if hooks else None, _ACTING),
        (LimitStage(), _COUNTED),
        (BudgetStage(ports.budget, caller) if ports.budget else None, _COUNTED),
        (approval, _ACTING | _APPROVED),
    )
    order = [(stage, kinds) for stage, kinds in stages if stage is not None]
    again = [each for each in order[:2] if type(each[0]) in _AGAIN]
    check_switch = switch.check if switch is not None else None
    return Admission(
        StageTable(order), StageTable(again), approval.wants_approval, approval.terms, check_switch
    )


class SwitchStage(Stage):
    """Kill switches. A run that finds one off pauses, and checks it again when it is resumed.

    Switches that cannot be read are off. An ephemeral run cannot wait, so it ends.
    """

    def __init__(self, switches: IAgentSwitches, agent: str, caller: PortCaller) -> None:
        self._switches = switches
        self._agent = Switch.agent(agent)
        self._caller = caller

    def admit(self, run: Run, effect: Effect) -> Awaitable[None]:
        return self.check(run, effect.tool_name)

    async def check(self, run: Run, tool: str | None = None) -> None:
        """Return where everything is on that concerns the run and the tool it is about to call.

        Raises:
            Paused: something is off, or the switches cannot be read.
            RunEnded: the same, for an ephemeral run.
        """
        concerned = [self._agent, Switch.tenant(run.ledger.run.tenant_id)]
        if tool is not None:
            concerned.append(Switch.tool(tool))
        try:
            off = await self._caller.ask((SwitchedOff, NoneType), self._switches.first_off, concerned)
        except NoAnswerError as failure:
            reason = f"the kill switches cannot be read ({failure})"
            raise _stopped(run, reason, {}) from failure
        if off is not None:
            raise _stopped(run, str(off), {"switched_off": off.to_payload()})


def _stopped(run: Run, reason: str, facts: JsonObject) -> Paused | RunEnded:
    if run.ledger.is_durable:
        return Paused(reason=reason, facts=facts)
    return RunEnded(AgentSituation.FAILED, reason, code="switched_off", retryable=True)


class DeadlineStage(Stage):
    """The time of the run."""

    def admit(self, run: Run, effect: Effect) -> None:
        run.check_time()


_AGAIN = (SwitchStage, DeadlineStage)


class PermissionStage(Stage):
    """The application's permissions, typed and asked afresh for every call that has not begun."""

    def __init__(self, permissions: IAgentPermissions, caller: PortCaller) -> None:
        self._permissions = permissions
        self._caller = caller

    async def admit(self, run: Run, effect: Effect) -> None:
        tool = effect.descriptor.metadata if effect.descriptor else None
        request = PermissionRequest(
            principal=run.source.start.principal,
            context=run.context,
            action=effect.action.kind,
            name=effect.action.name,
            permissions=tuple(tool.permissions) if tool else (),
            agent=effect.agent,
            **({"risk": tool.risk} if tool else {}),
        )
        try:
            decision = await self._caller.ask((PermissionDecision,), self._permissions.check, request)
        except NoAnswerError as failure:
            raise RefusedError(f"the permission check failed ({failure})") from failure
        match decision.verdict:
            case PermissionVerdict.ALLOW:
                return
            case PermissionVerdict.ASK:
                effect.ask = Ask(decision.reason)
            case _:
                raise RefusedError(decision.reason or "the permission is missing")


class TrustStage(Stage):
    """The verdict of trust labels and of the run's capabilities on a tool call, from declarations only."""

    def admit(self, run: Run, effect: Effect) -> None:
        tool, capabilities = effect.descriptor, run.source.start.capabilities
        if tool is None:
            return
        if capabilities is not None and tool.schema.name not in capabilities:
            raise RefusedError(f"the run was not given the tool {tool.schema.name!r}")
        ask = trust_verdict(run.trust, tool)
        if ask is not None:
            effect.ask = ask


class HookStage(Stage):
    """The hooks of the application before calls and model requests."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks

    async def admit(self, run: Run, effect: Effect) -> None:
        if isinstance(effect, ModelEffect):
            reason = await self._hooks.veto_request(run.context, effect.request, run.redactor)
        else:
            reason = await self._hooks.veto_call(run.context, effect)
        if reason is not None:
            raise RefusedError(reason)


class ApprovalStage(Stage):
    """The approval of a person, where the effect, an earlier stage or the application's handler requires one.

    Where a person was asked before, that answer counts, and the handler is not asked.
    """

    def __init__(self, handler: IAgentApprovalHandler | None, caller: PortCaller) -> None:
        self._handler = handler
        self._caller = caller

    def admit(self, run: Run, effect: Effect) -> Awaitable[None] | None:
        if self._handler is not None or effect.ask is not None:
            return self._approve(run, effect)
        if run.replay.has_record and run.was_asked(effect.action.id):
            return self._approve(run, effect)
        return None

    async def wants_approval(self, run: Run, effect: Effect) -> Ask | None:
        """Return the question of the application's handler about an effect; None without one."""
        handler = self._handler
        if handler is None:
            return None
        action, tool = effect.asked_about, effect.descriptor
        arguments = shown_arguments(action.view)
        subject = ApprovalSubject(effect.boundary, action.id, action.name, arguments, tool)
        try:
            wanted = await self._caller.ask(_REQUESTS, handler.request_for, run.context, subject)
        except NoAnswerError as failure:
            return Ask(f"the approval handler failed ({failure})")
        return Ask(question=wanted) if wanted is not None else None

    def terms(self, run: Run) -> ApprovalTerms:
        """Return the terms of the questions of a run, as they are now."""
        version = self._handler.policy_version if self._handler is not None else None
        return ApprovalTerms(run.source.start.principal.id, policy_version=version or BUILT_IN_POLICY)

    async def _approve(self, run: Run, effect: Effect) -> None:
        was_asked = run.was_asked(effect.action.id)
        if not was_asked and (wanted := await self.wants_approval(run, effect)) is not None:
            effect.ask = replace(wanted, reason=wanted.reason or (effect.ask.reason if effect.ask else None))
        if not was_asked and effect.ask is None:
            return
        try:
            answer = await self._answer(run, effect)
            effect.arguments = run.questions.obey(answer, is_optional=effect.is_optional)
        except ToolError as rejection:
            raise RejectedError(rejection) from rejection

    async def _answer(self, run: Run, effect: Effect) -> JsonObject:
        """Return the answer of a person to the question that fits; one that does not fit any more is asked anew."""
        terms, ask, number = self.terms(run), effect.ask or Ask(), 1
        answer: JsonObject = await perform(run, ApprovalQuestion(run.questions, effect, ask, terms))
        while (outdated := answer.get(words.OUTDATED)) is not None:
            number += 1
            if not run.replay.knows(f"{effect.action.id}/{approval_label(number)}"):
                reason = f"the question before this one does not fit any more: {outdated}"
                ask = replace(await self.wants_approval(run, effect) or Ask(), reason=reason)
            answer = await perform(run, ApprovalQuestion(run.questions, effect, ask, terms, number))
        return answer


_FROM_SIGNALS = "signal:"
_SECRET, _UNTRUSTED = Confidentiality.SECRET, Integrity.UNTRUSTED


def trust_verdict(label: TrustLabel, tool: AgentToolDescriptor) -> Ask | None:
    """Return the question that a call needs which was decided under a label; None where it needs none.

    Secrets never go to a tool that communicates. Under untrusted content a person is asked, unless the tool only
    reads (inside the application; outside only while nothing private could leave with the look-up), or accepts it.

    Raises:
        RefusedError: the call must not begin.
    """
    if label.confidentiality is _SECRET and tool.metadata.communicates_outward:
        raise RefusedError(
            f"{tool.schema.name!r} communicates outward, and the run holds secret data from {_origins(label)}"
        )
    if label.integrity is not _UNTRUSTED or tool.metadata.accepts_untrusted:
        return None
    concern = _concern(label, tool)
    if concern is None:
        return None
    return Ask(
        f"untrusted content from {_origins(label)} may have decided this call; {concern}. {_remedy(label)}"
    )


def _concern(label: TrustLabel, tool: AgentToolDescriptor) -> str | None:
    """Return why a call that untrusted content decided is a risk; None where it is none."""
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


def _remedy(label: TrustLabel) -> str:
    """Return the declarations that lift the question where no stranger can write to the origins of a label."""
    words = "declare reads_untrusted=False there"
    if any(origin.startswith(_FROM_SIGNALS) for origin in label.origins):
        words = f"{words}, and untrusted_signals=[] for signals"
    return f"Where no stranger can have written it, {words}"


def _origins(label: TrustLabel) -> str:
    return ", ".join(sorted(label.origins)) or "an unnamed source"

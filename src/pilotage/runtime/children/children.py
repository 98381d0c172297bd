"""What a child is sent for, under which name, and how it is found when it has ended. Pure."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import field, replace
from typing import cast
from urllib.parse import quote

from pilotage.agent.approval import AgentApprovalBoundaryKind
from pilotage.agent.delegation import DelegationBudget
from pilotage.agent.events import AgentEvent
from pilotage.agent.facts import run_delegated
from pilotage.agent.limits import LimitCode
from pilotage.agent.ports.architecture import AgentRef
from pilotage.agent.ports.budget import BudgetAmount
from pilotage.agent.ports.journal import RunKey
from pilotage.agent.principal import Principal
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.run_result import RunResult
from pilotage.agent.signals import AgentSignal, AgentSignalKind
from pilotage.agent.state import AgentStateReason, AgentStatus
from pilotage.agent.tool_calling import ModelToolSpec
from pilotage.agent.tools.metadata import Idempotency
from pilotage.errors import AgentToolDispatchError, ToolError
from pilotage.jsonvalue import JsonObject, JsonValue, text_digest, to_json_value
from pilotage.runtime.budget.spending import NOTHING
from pilotage.runtime.door.door import perform
from pilotage.runtime.door.run import Effects
from pilotage.runtime.effect import Attempt, Call
from pilotage.runtime.events.forwarding import Relay
from pilotage.runtime.exposure.trust import label_in, with_label
from pilotage.runtime.journal.action import Action
from pilotage.runtime.journal.interruptions import HandedOver, LimitReached, Paused, RunDiverged
from pilotage.runtime.journal.records import decode_amount, encode_amount
from pilotage.runtime.journal.scope import Scope, scope_for
from pilotage.runtime.journal.start_record import MOST_GENERATIONS, RunStart
from pilotage.runtime.run.attempt import LiveRun
from pilotage.safety.trust import TrustLabel
from pilotage.values import value

_PACKET = "packet:"


@value
class ChildBounds:
    """What a child gets of what its parent has: never more."""

    budget: DelegationBudget = field(default_factory=DelegationBudget)
    capabilities: tuple[str, ...] | None = None

    def within(self, parents: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """The tools the child may use: those it is given, of those its parent may use itself."""
        if self.capabilities is None or parents is None:
            return parents if self.capabilities is None else self.capabilities
        return tuple(each for each in self.capabilities if each in parents)


NO_BOUNDS = ChildBounds()


@value
class ChildTask:
    """What a child is for: the agent, its task, how far it may go, and the packet it came in, if any.

    `exits` are the control calls that end it, `branch` is the step of its parent.
    """

    agent: AgentRef
    task: JsonValue
    bounds: ChildBounds = NO_BOUNDS
    packet: str | None = None
    exits: tuple[ModelToolSpec, ...] = ()
    branch: str | None = None


@value
class ChildEnded:
    """A child that had ended before anybody came back to it, and what it had spent by then."""

    result: RunResult
    spent: BudgetAmount
    trust: TrustLabel = TrustLabel()


def child_id(parent_id: str, action_id: str) -> str:
    """The id of the run that an action of its parent stands for; a packet stands for the same one wherever it is."""
    label = action_id.rpartition("/")[2].rpartition("#")[0]
    step = label if label.startswith(_PACKET) else action_id
    return text_digest(f"child\n{parent_id}\n{step}")[:32]


def packet_label(packet_id: str) -> str:
    """The label of the actions that delegate a packet."""
    return _PACKET + quote(packet_id, safe="")


_COUNTED = (LimitCode.MAX_STEPS, LimitCode.MAX_TOKENS, LimitCode.MAX_COST)


class IChildLauncher(ABC):
    """Starts children, or finds them again."""

    @abstractmethod
    async def attach(self, parent: Children, child: str, errand: ChildTask) -> LiveRun | ChildEnded:
        """The child of this id, under way or ended; it is started where there is none.

        Raises:
            AgentDefinitionError: the task does not fit the agent; nothing was started.
            AgentToolDispatchError: the id stands for a child with another task.
            StoreUnavailable: nobody can say what has become of the child.
        """

    @abstractmethod
    async def cancel_child(self, parent: RunKey, action: Action, principal: Principal) -> None:
        """End the run that an open delegation stands for, if there is one and it has not ended."""

    @abstractmethod
    def name_of(self, agent: AgentRef) -> str:
        """The id of an agent of the application.

        Raises:
            AgentDefinitionError: it is none.
        """

    @abstractmethod
    def shown(self, agent: AgentRef, task: JsonValue) -> JsonValue:
        """What others may see of a task for an agent."""

    @abstractmethod
    def fitting(self, agent: AgentRef, task: JsonObject, along: JsonObject) -> JsonObject:
        """The task together with what goes along with it, as far as the agent takes it."""


def event_sink_for(parent: Effects, child: str) -> Callable[[AgentEvent], None]:
    """Who takes what a child tells: its parent, but for what that has told of it before."""
    relay = cast(Children, parent.children).relays.get(child)
    return relay.tell if relay is not None else parent.telling.say


class Children:
    """Runs the children of one attempt at a run as actions of it."""

    def __init__(self, effects: Effects, start: RunStart, nursery: IChildLauncher) -> None:
        self.effects = effects
        self.start = start
        self.relays: dict[str, Relay] = {}
        self._nursery = nursery
        self._live: dict[str, LiveRun] = {}
        self._attaching: dict[str, asyncio.Lock] = {}
        self._spent: dict[str, BudgetAmount] = {}
        self._counted: set[str] = set()

    async def run(
        self,
        name: str,
        agent: AgentRef,
        task: JsonValue,
        bounds: ChildBounds = NO_BOUNDS,
        exits: tuple[ModelToolSpec, ...] = (),
    ) -> JsonValue:
        """Run a child to its end and give its output.

        Raises:
            AgentToolDispatchError: too many runs stand above this one.
            ToolError: the child failed or was cancelled.
            RunInterruption: the child waits, or this attempt is over.
        """
        return await self.done(self.call(f"child:{name}", name, ChildTask(agent, task, bounds, exits=exits)))

    def call(self, label: str, name: str, errand: ChildTask) -> Call:
        """A delegation that has its id, and is not made yet.

        Raises:
            AgentToolDispatchError: too many runs stand above this one.
        """
        if self.start.generation + 1 >= MOST_GENERATIONS:
            raise AgentToolDispatchError(
                f"run {self.effects.ledger.run.run_id!r} stands {self.start.generation} runs deep; "
                f"a run may stand at most {MOST_GENERATIONS} deep. Let agents delegate less far."
            )
        scope = scope_for(label, errand.task)
        action_id, kind = scope.next_id(label), AgentActionKind.DELEGATION
        agent = self._nursery.name_of(errand.agent)
        asked: JsonObject = {"agent": agent, "task": to_json_value(errand.task)}
        view: JsonObject = {"agent": agent, "task": self._nursery.shown(errand.agent, errand.task)}
        fingerprint = self.effects.fingerprint(action_id, kind, name, asked)
        action = Action(action_id, kind, name, asked, view, Idempotency.IDEMPOTENT, False, fingerprint)

        async def act(_: Attempt) -> object:
            return await self._ended(action_id, replace(errand, branch=action_id.removeprefix("run/")))

        boundary = AgentApprovalBoundaryKind.DELEGATION
        begins = run_delegated(self.effects.ledger.state, self._id_for(action_id), agent)
        return Call(scope, action, act, _as_it_is, boundary=boundary, view_of=self._view_of, begins=begins)

    async def done(self, call: Call) -> JsonValue:
        """Carry a delegation out and give the child's output."""
        is_known = self.effects.recording.outcome_of(call.action.id) is not None
        ended = cast(JsonObject, await perform(self.effects, call))
        # What a child has read, its parent has read too.
        self.effects.trust = self.effects.trust.join(label_in(ended))
        if is_known:
            self.effects.spending.absorb(decode_amount(cast(JsonObject, ended["spent"])))
            self._counted.add(self._id_for(call.action.id))
        if "error" in ended:
            raise ToolError(ended["error"])
        return ended["output"]

    async def give_up(self, path: str) -> None:
        """End the children below a path that nobody waits for any more."""
        effects = self.effects
        for action, attempt in effects.outcomes.still_open(effects.recording):
            if action.kind is AgentActionKind.DELEGATION and action.id.startswith(f"{path}/"):
                await self._nursery.cancel_child(effects.ledger.run, action, self.start.principal)
                spent = encode_amount(self._spent.get(self._id_for(action.id), NOTHING))
                given_up = Call(Scope(path), action, _never, _as_it_is)
                effects.outcomes.begin(given_up, attempt)
                effects.outcomes.done(
                    given_up, attempt, {"error": "nobody needs it any more", "spent": spent}
                )

    def fitting(self, agent: AgentRef, task: JsonObject, along: JsonObject) -> JsonObject:
        """The task together with what goes along with it, as far as the agent takes it."""
        return self._nursery.fitting(agent, task, along)

    async def _ended(self, action_id: str, errand: ChildTask) -> JsonObject:
        """Bring the child to its end: its output or the words of its failure, and what it spent."""
        child = self._id_for(action_id)
        found = await self._attached(child, errand)
        if isinstance(found, ChildEnded):
            spent = self._counting(child, found.spent)
            self.effects.spending.absorb(spent)
            return with_label(self._outcome(action_id, found.result, spent), found.trust)
        try:
            result = await asyncio.shield(found.task)
        except asyncio.CancelledError:
            await self._stop(found)
            raise
        finally:
            self._live.pop(child, None)
            self.relays.pop(child, None)
        asked = found.attempt.effects.waits.open
        self.effects.waits.open.update(asked)
        spent = self._spent[child] = found.attempt.effects.spending.spent
        outcome = self._outcome(action_id, result, self._counting(child, spent), tuple(asked))
        return with_label(outcome, found.attempt.effects.trust)

    def _counting(self, child: str, spent: BudgetAmount) -> BudgetAmount:
        """What the delegation adds to what was spent: a child that another one stands for too counts once."""
        if child in self._counted:
            return NOTHING
        self._counted.add(child)
        return spent

    async def _attached(self, child: str, errand: ChildTask) -> LiveRun | ChildEnded:
        """The child, one for all who ask for it at the same time."""
        async with self._attaching.setdefault(child, asyncio.Lock()):
            found = self._live.get(child) or await self._nursery.attach(self, child, errand)
            if isinstance(found, LiveRun):
                self._live[child] = found
            return found

    async def _stop(self, child: LiveRun) -> None:
        """The parent is stopped: a cancelled run takes its children along, one whose process ends leaves them."""
        if self.effects.ledger.state.status is AgentStatus.CANCELLING:
            await child.attempt.cancel(cancellation_of(child.run_id), is_stored=False)
        else:
            child.task.cancel()
        await asyncio.wait([child.task])

    def _outcome(
        self, action_id: str, result: RunResult, spent: BudgetAmount, waits: tuple[str, ...] = ()
    ) -> JsonObject:
        state = result.state
        match state.status:
            case AgentStatus.COMPLETED:
                return {"output": to_json_value(result.output), "spent": encode_amount(spent)}
            case AgentStatus.INTERRUPTED if (
                not waits and state.reason is not AgentStateReason.USER_INTERRUPTED
            ):
                raise RunDiverged(action_id, f"its child {state.id!r}: {state.current_activity}")
            case AgentStatus.INTERRUPTED if not waits:
                reason = f"its child {state.agent_type!r}: {state.current_activity}"
                raise Paused(reason=reason, facts={"child": state.id})
            case AgentStatus.INTERRUPTED:
                raise Paused(*waits)
            case AgentStatus.ACTIVE:
                # The process stops, and the child was left as it is; so is its parent.
                raise HandedOver
            case _ if (reached := self._own_bound(result.interruption_reason)) is not None:
                # It was no bound of the child's: there is nothing that its parent could still do about it.
                raise reached
            case _:
                words = (result.error or {}).get("message") or state.current_activity or state.status.value
                error = f"{state.agent_type!r} did not finish: {words}"
                return {"error": error, "spent": encode_amount(spent)}

    def _own_bound(self, reason: str | None) -> LimitReached | None:
        """The bound of this run, or of one above it, that a child came to which stopped short for this reason."""
        spending = self.effects.spending
        if reason == LimitCode.MAX_TOOL_CALLS:
            return spending.limit_for_tool_calls()
        return spending.limit_for_model_call() if reason in _COUNTED else None

    def _id_for(self, action_id: str) -> str:
        return child_id(self.effects.ledger.run.run_id, action_id)

    def _view_of(self, ended: object) -> JsonObject:
        return self.effects.redactor.json({"result": to_json_value(ended)})


def cancellation_of(child: str) -> AgentSignal:
    """The cancellation of a parent, as its child hears it."""
    payload: JsonObject = {"reason": "the run it belongs to has ended"}
    return AgentSignal(f"parent-of-{child}", child, AgentSignalKind.CANCEL, payload)


async def _never(_: Attempt) -> object:
    raise AssertionError("a child that was given up is not run")


def _as_it_is(given: JsonValue) -> object:
    return given

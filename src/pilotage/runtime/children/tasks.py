"""The tasks and ids of child runs. Pure."""

from __future__ import annotations

from dataclasses import field
from urllib.parse import quote

from pilotage.agent.delegation import DelegationBudget, DelegationPacket
from pilotage.agent.model_request import ModelToolSpec
from pilotage.agent.ports.architecture import AgentRef
from pilotage.agent.ports.budget import BudgetAmount
from pilotage.agent.run_values import RunResult
from pilotage.jsonvalue import JsonValue, text_digest
from pilotage.safety.trust import TrustLabel
from pilotage.values import value

_PACKET = "packet:"


@value
class ChildBounds:
    """The limits of a child run, within those of its parent."""

    budget: DelegationBudget = field(default_factory=DelegationBudget)
    capabilities: tuple[str, ...] | None = None

    def within(self, parents: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """Return the tools the child may use: those it is given, among those its parent may use itself."""
        if self.capabilities is None or parents is None:
            return parents if self.capabilities is None else self.capabilities
        return tuple(each for each in self.capabilities if each in parents)


NO_BOUNDS = ChildBounds()


@value
class ChildTask:
    """The task of a child run: the agent, its input, its bounds, and the packet it came in, if any.

    `exits` are the control calls that end it, `branch` is the step of its parent. A worker of a loop (`is_worker`) is a
    part of its work: what a person rejects in it is rejected for the loop.
    """

    agent: AgentRef
    task: JsonValue
    bounds: ChildBounds = NO_BOUNDS
    packet: DelegationPacket | None = None
    exits: tuple[ModelToolSpec, ...] = ()
    branch: str | None = None
    is_worker: bool = False


@value
class ChildEnded:
    """A child run that ended before its parent was resumed, with its spending."""

    result: RunResult
    spent: BudgetAmount
    trust: TrustLabel = TrustLabel()


def child_id(parent_id: str, action_id: str) -> str:
    """Return the id of the child run of an action; a packet has the same child wherever it is delegated."""
    label = action_id.rpartition("/")[2].rpartition("#")[0]
    step = label if label.startswith(_PACKET) else action_id
    return text_digest(f"child\n{parent_id}\n{step}")[:32]


def packet_label(packet_id: str) -> str:
    """Return the label of the actions that delegate a packet."""
    return _PACKET + quote(packet_id, safe="")

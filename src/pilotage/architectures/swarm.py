"""Swarm: peers that hand a conversation over to each other; whoever has it answers or hands it on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from pilotage.agent.control_tools import Exit, control_call
from pilotage.agent.model_request import ModelToolSpec, StructuredOutputSpec
from pilotage.agent.ports.architecture import AgentRef, AgentSession, Dependencies
from pilotage.architectures.parts import (
    WorkerRef,
    ask_worker,
    check_workers,
    declared,
    purpose_of,
    take_output,
    take_up,
)
from pilotage.architectures.turn import Events
from pilotage.architectures.wording import briefing
from pilotage.checks import reject_negative
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonValue, canonical_json, to_json_value
from pilotage.values import value

_HANDOFF = "handoff_to_"


@value
class Handoff:
    """What a peer tells the one it hands over to."""

    reason: str
    context: str = ""


@value
class HandedOver:
    """How a peer gets the conversation: the question, from whom, and the payload in its type."""

    question: str
    by: str
    payload: object


InputFilter: TypeAlias = Callable[[HandedOver], str]
"""Makes the task of a peer from a handoff. It must give the same for the same."""


def everything(handed: HandedOver) -> str:
    """The task of a peer that gets all there is."""
    return f"{handed.question}\n\n{handed.by} hands this over to you:\n{canonical_json(to_json_value(handed.payload))}"


@value
class Peer:
    """A member of a swarm: who it is, what a handoff to it must say, and what it gets to see of it."""

    agent: WorkerRef
    payload: type[object] = Handoff
    input_filter: InputFilter = everything


@value
class Swarm:
    """Peers with handoffs.

    peers: the members, by name.
    entry: who begins.
    max_handoffs: how often the conversation is handed on; who has it then must answer.
    """

    peers: Mapping[str, WorkerRef | Peer]
    entry: str
    max_handoffs: int = 5

    name = "swarm"
    version = 1

    def __post_init__(self) -> None:
        check_workers(self, "peers", self._workers)
        reject_negative(self, max_handoffs=self.max_handoffs)
        if self.entry not in self.peers:
            known = ", ".join(map(repr, self.peers))
            raise AgentDefinitionError(
                f"Swarm.entry is {self.entry!r}, which is none of its peers ({known})."
            )

    async def run(self, session: AgentSession, deps: Dependencies, prompt: str) -> Events:
        """Let the peers hand over until one answers.

        A handoff that was made before, with the same words, would go round in circles: the peer must answer then.

        Raises:
            ToolError: a peer failed.
        """
        take_up(session, prompt)
        question = task = briefing(session, prompt)
        active, trail = self.entry, list[tuple[str, str, JsonValue]]()
        while True:
            may_go_on = len(trail) < self.max_handoffs and not _goes_round(trail)
            exits = self._exits(active) if may_go_on else ()
            said = await ask_worker(self._workers[active], active, task, session, deps, exits=exits)
            left = Exit.taken_in(said)
            to = _handed_to(left, exits)
            if left is None or to is None:
                break
            trail.append((active, to, left.arguments))
            session.metadata["handoffs"] = [{"from": a, "to": b, "payload": c} for a, b, c in trail]
            yield deps.progress("swarm.handed_over", by=active, to=to)
            if _goes_round(trail):
                yield deps.progress("swarm.cycle", peer=active)
                continue
            peer = _as_peer(self.peers[to])
            payload = StructuredOutputSpec.from_type(peer.payload).decode(left.arguments)
            task = peer.input_filter(HandedOver(question, active, payload))
            active = to
        take_output(session, deps, said)
        yield deps.progress("swarm.answered", peer=active)

    def declared_workers(self) -> Mapping[str, AgentRef]:
        """The peers."""
        return declared(self._workers)

    @property
    def _workers(self) -> dict[str, WorkerRef]:
        return {name: _as_peer(peer).agent for name, peer in self.peers.items()}

    def _exits(self, active: str) -> Sequence[ModelToolSpec]:
        others = {name: _as_peer(peer) for name, peer in self.peers.items() if name != active}
        return [
            control_call(_tool(name), peer.payload, f"Hand over to {name}. {purpose_of(peer.agent)}".strip())
            for name, peer in others.items()
        ]


def _goes_round(trail: Sequence[tuple[str, str, JsonValue]]) -> bool:
    return bool(trail) and trail[-1] in trail[:-1]


def _as_peer(given: WorkerRef | Peer) -> Peer:
    return given if isinstance(given, Peer) else Peer(given)


def _tool(name: str) -> str:
    return f"{_HANDOFF}{name}"


def _handed_to(left: Exit | None, exits: Sequence[ModelToolSpec]) -> str | None:
    """The peer that gets the conversation; what was not on offer is no handoff, whatever an output looks like."""
    if left is None or all(left.name != exit_.name for exit_ in exits):
        return None
    return left.name.removeprefix(_HANDOFF)

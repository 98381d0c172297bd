"""Swarm: peers that hand a conversation over to each other; the active peer answers or hands it on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, TypeAlias

from pilotage.agent.control_tools import Exit, control_call, exit_call
from pilotage.agent.model_request import ModelToolSpec, StructuredOutputSpec
from pilotage.agent.ports.architecture import AgentRef, AgentSession, Dependencies
from pilotage.architectures.parts import (
    WorkerRef,
    add_question,
    ask_worker,
    check_workers,
    declared_agents,
    purpose_of,
    take_output,
)
from pilotage.architectures.prompts import PromptGuide, PromptGuides, briefing, check_prompts, fill
from pilotage.architectures.turn import Events
from pilotage.checks import reject_negative
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject, canonical_json, to_json_value
from pilotage.values import value

_HANDOFF = "handoff_to_"


@value
class Handoff:
    """Payload of a handoff from one peer to another."""

    reason: str
    context: str = ""


@value
class Passing:
    """One handoff of the trail: both peers, the payload as JSON, and the last text of the peer that handed over.

    `history` holds the messages before it, if the swarm passes the full history.
    """

    by: str
    to: str
    payload: JsonObject
    words: str = ""
    history: Sequence[str] = ()


@value
class HandedOver:
    """The conversation as a peer gets it: the question, the peer before, the typed payload, and the trail so far."""

    question: str
    by: str
    payload: object
    trail: Sequence[Passing] = ()


InputFilter: TypeAlias = Callable[[HandedOver], str]
"""Makes the task of a peer from a handoff. It must be deterministic."""


def everything(handed: HandedOver) -> str:
    """Return a task with the question, the payload, and the whole trail."""
    payload = canonical_json(to_json_value(handed.payload))
    lines = [handed.question, "", f"{handed.by} hands this over to you:", payload]
    *earlier, last = handed.trail or [Passing(handed.by, "", {})]
    if last.words:
        lines += ["", f"The last words of {last.by}:", last.words]
    if earlier:
        lines += ["", "The way it came here:", *(_trail_line(passing) for passing in earlier)]
    if any(passing.history for passing in handed.trail):
        lines += ["", "What was said and found on the way:"]
        lines += [f"{passing.by} {each}" for passing in handed.trail for each in passing.history]
    return "\n".join(lines)


def _trail_line(passing: Passing) -> str:
    words = f" Last words: {passing.words}" if passing.words else ""
    return f"- {passing.by} to {passing.to}: {canonical_json(passing.payload)}{words}"


@value
class Peer:
    """A member of a swarm: its agent, the type of the payload of a handoff to it, and the task made from that."""

    agent: WorkerRef
    payload: type[object] = Handoff
    input_filter: InputFilter = everything


@value
class Swarm:
    """Peers with handoffs.

    peers: the members, by name.
    entry: the peer that begins.
    max_handoffs: how often the conversation is handed on; the last peer must answer.
    pass_full_history: whether a peer gets all messages before the handoff, not only the trail.
    handoff_prompt: the description of a handoff as a tool.
    """

    peers: Mapping[str, WorkerRef | Peer]
    entry: str
    max_handoffs: int = 5
    pass_full_history: bool = False
    handoff_prompt: str = "Hand over to {peer}. {purpose}"

    name = "swarm"
    version = 1
    prompt_guides: ClassVar[PromptGuides] = {
        "handoff_prompt": PromptGuide(("peer", "purpose"), "a call with the payload of the peer"),
    }

    def __post_init__(self) -> None:
        check_workers(self, "peers", self._workers)
        reject_negative(self, max_handoffs=self.max_handoffs)
        check_prompts(self, self.prompt_guides)
        if self.entry not in self.peers:
            known = ", ".join(map(repr, self.peers))
            raise AgentDefinitionError(
                f"Swarm.entry is {self.entry!r}, which is none of its peers ({known})."
            )

    async def run(self, session: AgentSession, deps: Dependencies, prompt: str) -> Events:
        """Let the peers hand over until one answers.

        A handoff with the same payload as an earlier one would be a cycle: the peer gets an error as its result and
        must answer.

        Raises:
            ToolError: a peer failed.
        """
        add_question(session, prompt)
        question = task = briefing(session, prompt)
        active, trail = self.entry, list[Passing]()
        while True:
            exits = self._exits(active, trail)
            output = await ask_worker(self._workers[active], active, task, session, deps, exits=exits)
            left = Exit.taken_in(output)
            to = _handed_to(left, exits)
            if left is None or to is None:
                break
            trail.append(Passing(active, to, left.arguments, left.words, left.history or ()))
            session.metadata["handoffs"] = [_shown(passing) for passing in trail]
            yield deps.progress("swarm.handed_over", by=active, to=to)
            peer = _as_peer(self.peers[to])
            payload = StructuredOutputSpec.from_type(peer.payload).decode(left.arguments)
            task = peer.input_filter(HandedOver(question, active, payload, tuple(trail)))
            active = to
        take_output(session, deps, output)
        yield deps.progress("swarm.answered", peer=active)

    def declared_workers(self) -> Mapping[str, AgentRef]:
        """Return the peers."""
        return declared_agents(self._workers)

    @property
    def _workers(self) -> dict[str, WorkerRef]:
        return {name: _as_peer(peer).agent for name, peer in self.peers.items()}

    def _exits(self, active: str, trail: Sequence[Passing]) -> Sequence[ModelToolSpec]:
        """Return the handoffs on offer, none at the cap; each refuses a payload that was handed over before."""
        if len(trail) >= self.max_handoffs:
            return ()
        others = {name: _as_peer(peer) for name, peer in self.peers.items() if name != active}
        return [
            exit_call(
                control_call(f"{_HANDOFF}{name}", peer.payload, self._purpose(name, peer)),
                refused=[passing.payload for passing in trail if (passing.by, passing.to) == (active, name)],
                passes_history=self.pass_full_history,
            )
            for name, peer in others.items()
        ]

    def _purpose(self, name: str, peer: Peer) -> str:
        return fill(self.handoff_prompt, peer=name, purpose=purpose_of(peer.agent)).strip()


def _shown(passing: Passing) -> JsonObject:
    shown: JsonObject = {"from": passing.by, "to": passing.to, "payload": passing.payload}
    return {**shown, "words": passing.words} if passing.words else shown


def _as_peer(given: WorkerRef | Peer) -> Peer:
    return given if isinstance(given, Peer) else Peer(given)


def _handed_to(left: Exit | None, exits: Sequence[ModelToolSpec]) -> str | None:
    """Return the peer that gets the conversation; an output that only looks like a handoff is none."""
    if left is None or all(left.name != exit_.name for exit_ in exits):
        return None
    return left.name.removeprefix(_HANDOFF)

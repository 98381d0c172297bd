"""Parts of the work: a loop runs in a scope of its own and knows what the agent knows; the best answer wins."""

from __future__ import annotations

from pilotage.agent.control_tools import NoTools
from pilotage.agent.ports.architecture import AgentSession, Architecture, Dependencies
from pilotage.architectures.moves import StopReason
from pilotage.architectures.react import React
from pilotage.architectures.turn import close_stream
from pilotage.architectures.wording import asked, is_something
from pilotage.jsonvalue import JsonValue, to_json_value
from pilotage.values import value

_SPEAKING = React()


async def carry_out(
    base: Architecture, session: AgentSession, deps: Dependencies, name: str, prompt: str
) -> AgentSession:
    """Let a loop work on a prompt, with the instructions and messages of a session, and tell what happens.

    The session of the part holds what it came to. While the session above has no output, the text of the part stands
    for it: whatever ends the run, it ends with the best there is.
    """
    below = deps.scope_for_worker(name)
    part = below.fresh_session(session.instructions)
    part.messages = list(session.messages)
    has_none = not is_something(session.output)
    events = base.run(part, below, prompt)
    try:
        async for event in events:
            await below.tell(event)
    finally:
        if has_none:
            session.output = part.output
        await close_stream(events)
    return part


async def speak(session: AgentSession, deps: Dependencies, name: str, prompt: str) -> AgentSession:
    """Let the model answer without tools: in words or, where the agent has an output type, in that."""
    return await carry_out(_SPEAKING, session, deps.with_tools(NoTools), name, prompt)


async def close_with(session: AgentSession, deps: Dependencies, name: str, prompt: str) -> None:
    """Let the model say the answer of the session; where it does not come to one, the session says why."""
    hand_up(session, await speak(session, deps, name, prompt))


def hand_up(session: AgentSession, part: AgentSession) -> None:
    """What a part came to is what the session comes to."""
    if is_something(part.output) or not is_something(session.output):
        session.output = part.output
    session.interrupted, session.interruption_reason = part.interrupted, part.interruption_reason


def take_up(session: AgentSession, prompt: str) -> None:
    """Put the question into the session, so that every call of the model knows it."""
    session.messages[:] = asked(session, prompt)


def aside(session: AgentSession) -> AgentSession:
    """A session beside another one, for a branch: what a branch changes besides its result is lost in replay."""
    return AgentSession(session.id, session.instructions, list(session.messages))


def interrupt(session: AgentSession, reason: StopReason) -> None:
    """End without the answer: the best so far stands for it, and the reason says why."""
    session.interrupted, session.interruption_reason = True, reason.value


@value
class Candidate:
    """An answer, how good somebody finds it from 0 to 1, and why it stopped short, if it did."""

    output: object
    score: float
    interruption: str | None = None


class Candidates:
    """The answers of one session. The session always holds the best one, whatever ends the run."""

    def __init__(self, session: AgentSession) -> None:
        self._session = session
        self._tried: list[Candidate] = []

    @property
    def best(self) -> Candidate:
        """The one with the highest score; of equals the latest, which answers more of what was found wrong."""
        return max(reversed(self._tried), key=lambda candidate: candidate.score)

    def add(self, output: object, score: float, interruption: str | None = None) -> None:
        """Keep one that was judged."""
        self._tried.append(Candidate(output, score, interruption))
        session, best = self._session, self.best
        if is_something(best.output):
            session.output = best.output
        session.interrupted, session.interruption_reason = best.interruption is not None, best.interruption
        shown: list[JsonValue] = [
            {"output": to_json_value(each.output), "score": each.score} for each in self._tried
        ]
        session.metadata["candidates"] = shown

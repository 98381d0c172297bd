"""Candidates: every answer that was tried, with its score; the best of them is the answer, not the last."""

from __future__ import annotations

from pilotage.agent.ports.architecture import AgentSession
from pilotage.architectures.wording import is_something
from pilotage.jsonvalue import JsonValue, to_json_value
from pilotage.values import value


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

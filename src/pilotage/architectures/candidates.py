"""Candidates: every answer that was tried, with its score; the best of them is the answer, not the last."""

from __future__ import annotations

from pilotage.agent.ports.architecture import AgentSession
from pilotage.architectures.wording import is_something
from pilotage.jsonvalue import JsonValue, to_json_value
from pilotage.values import value


@value
class Candidate:
    """An answer and how good somebody finds it, from 0 to 1."""

    output: object
    score: float


class Candidates:
    """The answers of one session. The session always holds the best one, whatever ends the run."""

    def __init__(self, session: AgentSession) -> None:
        self._session = session
        self._tried: list[Candidate] = []

    @property
    def best(self) -> Candidate:
        """The one with the highest score; of equals the latest, which answers more of what was found wrong."""
        return max(reversed(self._tried), key=lambda candidate: candidate.score)

    def add(self, output: object, score: float) -> Candidate:
        """Keep one that was judged."""
        candidate = Candidate(output, score)
        self._tried.append(candidate)
        if is_something(self.best.output):
            self._session.output = self.best.output
        shown: list[JsonValue] = [
            {"output": to_json_value(each.output), "score": each.score} for each in self._tried
        ]
        self._session.metadata["candidates"] = shown
        return candidate

"""A model with declared turns, and with a clear error for any other request.

The turn for a request: the next one of the first `when` that fits it, else of the plain turns. Before its first
reply, the model reads the transcript: turns in it were sent by an earlier process. So a run that resumes with a new
model of the same script goes on at the right turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence

from pilotage.agent.model_reply import ModelResponse, ModelStreamEvent
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.model import IAgentModel, ModelCapability
from pilotage.errors import AgentDefinitionError, ModelCallError
from pilotage.models.streaming import deltas_of, final_events, text_deltas
from pilotage.runtime.journal.scope import current_place
from pilotage.testing.script import (
    ScriptedFailure,
    ScriptedThread,
    ScriptedTurn,
    ScriptEntry,
    beyond_script,
    read_script,
    response_of,
    unused_turns,
)
from pilotage.values import value


@value
class _Answered:
    """A request that was answered, with the scope of the code that made it."""

    scope: str
    request: ModelRequest
    turn: ScriptedTurn


class ScriptedModel(IAgentModel):
    """Model with the turns of a script: `ScriptedModel([calls("nickname", name="Ada"), says("Hello.")])`.

    The turns are used up in the order of the requests of one run. With `by_transcript=True` the transcript alone
    decides: a request gets the turn after the last one in it. Then any number of runs
    can go through the script in parallel; each request must contain the replies before it.
    """

    def __init__(
        self,
        script: Sequence[ScriptEntry],
        *,
        by_transcript: bool = False,
        capability: ModelCapability | None = None,
    ) -> None:
        self._script = tuple(script)
        self._by_transcript = by_transcript
        self._capability = capability or ModelCapability("scripted", reasoning=True)
        self._threads = read_script(script)
        if by_transcript:
            _reject_passed_failures(self._threads)
        self._positions = [0] * len(self._threads)
        self._earlier: list[_Answered] = []
        self._answered: list[_Answered] = []
        self.requests: list[ModelRequest] = []

    @property
    def capability(self) -> ModelCapability:
        return self._capability

    async def complete(self, request: ModelRequest) -> ModelResponse:
        scripted = self._take(request)
        if isinstance(scripted, ScriptedFailure):
            raise ModelCallError(scripted.message, retryable=scripted.retryable)
        return response_of(scripted, request)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        scripted = self._take(request)
        for event in _deltas(scripted, request):
            await asyncio.sleep(0)  # a model never holds the event loop from the first word to the last
            yield event
        if isinstance(scripted, ScriptedFailure):
            raise ModelCallError(scripted.message, retryable=scripted.retryable)
        for event in final_events(response_of(scripted, request), request):
            yield event

    def fresh(self) -> ScriptedModel:
        """Return a model with the same script at its first turn."""
        return ScriptedModel(self._script, by_transcript=self._by_transcript, capability=self._capability)

    def restarted(self) -> ScriptedModel:
        """Return this model for a process that starts after the previous one was stopped.

        It goes on at the same turn. A request that this one answered gets the same answer again, once: the stopped
        process may not have recorded the answer. An equal request of another branch is a new one.
        """
        model = self.fresh()
        model._positions = list(self._positions)  # noqa: SLF001 - another one of this class
        model._earlier = [*self._earlier, *self._answered]  # noqa: SLF001 - the same
        return model

    def assert_complete(self) -> None:
        """Fail if the script has turns that were not used."""
        unused = list(unused_turns(self._threads, self._positions))
        if unused:
            raise AssertionError("\n".join(["ScriptedModel: turns of the script were not used:", *unused]))

    def _take(self, request: ModelRequest) -> ScriptedTurn:
        self.requests.append(request)
        scope = _scope()
        scripted = self._earlier_turn(scope, request) or self._next(request)
        self._answered.append(_Answered(scope, request, scripted))
        return scripted

    def _earlier_turn(self, scope: str, request: ModelRequest) -> ScriptedTurn | None:
        for index, each in enumerate(self._earlier):
            if each.scope == scope and _essence(each.request) == _essence(request):
                del self._earlier[index]
                return each.turn
        return None

    def _next(self, request: ModelRequest) -> ScriptedTurn:
        number = next(i for i, thread in enumerate(self._threads) if thread.fits(request))
        thread, position = self._threads[number], self._positions[number]
        if self._by_transcript or position == 0:
            position = thread.position_in(request.messages)
        if position == len(thread.turns):
            raise AssertionError(beyond_script(self._threads, thread, request))
        self._positions[number] = max(self._positions[number], position + 1)
        return thread.turns[position]


def _deltas(scripted: ScriptedTurn, request: ModelRequest) -> Iterator[ModelStreamEvent]:
    if isinstance(scripted, ScriptedFailure):
        return text_deltas(scripted.after)
    return deltas_of(scripted.text, scripted.calls, scripted.reasoning, request)


def _scope() -> str:
    """Return the path of the running code in its run: equal requests of parallel branches differ in it."""
    place = current_place()
    return place.scope.path if place else ""


def _essence(request: ModelRequest) -> object:
    """Return the part of a request that identifies it; ids and times in metadata may differ."""
    return [(m.role, m.content, m.tool_calls, m.tool_call_id) for m in request.messages]


def _reject_passed_failures(threads: Sequence[ScriptedThread]) -> None:
    """Refuse turns after a failure: no transcript shows a failure, so these turns would never be used."""
    if any(isinstance(scripted, ScriptedFailure) for thread in threads for scripted in thread.turns[:-1]):
        raise AgentDefinitionError(
            "ScriptedModel(by_transcript=True): a turn follows fails(...), and no transcript shows when it is "
            "due. Put fails(...) last, or leave by_transcript out."
        )

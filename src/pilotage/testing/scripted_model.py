"""A model whose turns a test declares, and that says in words when it is asked for something else.

Which turn answers a request: of the first `when` that fits it, else of the plain turns, the next one. Where
nothing was said yet, the model looks at the transcript: turns that stand in it were said by a process before.
So a run that resumes with a new model of the same script goes on at the right turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence

from pilotage.agent.model_reply import ModelResponse, ModelStreamEvent
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.model import IAgentModel, ModelCapability
from pilotage.errors import AgentDefinitionError, ModelCallError
from pilotage.models.streaming import deltas_of, final_events, text_deltas
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


class ScriptedModel(IAgentModel):
    """Answers with the turns of a script: `ScriptedModel([calls("nickname", name="Ada"), says("Hello.")])`.

    The turns are used up in order, as one run asks for them. With `by_transcript=True` the transcript alone
    decides, at every request: it gets the turn behind the last one that stands in it. Then any number of runs
    go through the script side by side; each request must carry the replies before it.
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
        self._asked_before: list[tuple[ModelRequest, ScriptedTurn]] = []
        self._answered: list[tuple[ModelRequest, ScriptedTurn]] = []
        self.requests: list[ModelRequest] = []

    @property
    def capability(self) -> ModelCapability:
        return self._capability

    async def complete(self, request: ModelRequest) -> ModelResponse:
        said = self._take(request)
        if isinstance(said, ScriptedFailure):
            raise ModelCallError(said.message, retryable=said.retryable)
        return response_of(said, request)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        said = self._take(request)
        for event in _deltas(said, request):
            await asyncio.sleep(0)  # a model never holds the event loop from the first word to the last
            yield event
        if isinstance(said, ScriptedFailure):
            raise ModelCallError(said.message, retryable=said.retryable)
        for event in final_events(response_of(said, request), request):
            yield event

    def fresh(self) -> ScriptedModel:
        """Return a model with the same script that has said nothing yet."""
        return ScriptedModel(self._script, by_transcript=self._by_transcript, capability=self._capability)

    def restarted(self) -> ScriptedModel:
        """This model as a process finds it that starts after the one that asked so far has died.

        It goes on where this one is. A request that this one answered is answered in the same way again, once:
        the dead process may not have recorded the answer.
        """
        model = self.fresh()
        model._positions = list(self._positions)  # noqa: SLF001 - another one of this class
        model._asked_before = [*self._asked_before, *self._answered]  # noqa: SLF001 - the same
        return model

    def assert_complete(self) -> None:
        """Fail if the script has turns that were not used."""
        unused = list(unused_turns(self._threads, self._positions))
        if unused:
            raise AssertionError("\n".join(["ScriptedModel: turns of the script were not used:", *unused]))

    def _take(self, request: ModelRequest) -> ScriptedTurn:
        self.requests.append(request)
        said = self._said_before(request) or self._next(request)
        self._answered.append((request, said))
        return said

    def _said_before(self, request: ModelRequest) -> ScriptedTurn | None:
        for index, (asked, said) in enumerate(self._asked_before):
            if _essence(asked) == _essence(request):
                del self._asked_before[index]
                return said
        return None

    def _next(self, request: ModelRequest) -> ScriptedTurn:
        number = next(i for i, thread in enumerate(self._threads) if thread.fits(request))
        thread, position = self._threads[number], self._positions[number]
        if self._by_transcript or position == 0:
            position = thread.said_in(request.messages)
        if position == len(thread.turns):
            raise AssertionError(beyond_script(self._threads, thread, request))
        self._positions[number] = max(self._positions[number], position + 1)
        return thread.turns[position]


def _deltas(said: ScriptedTurn, request: ModelRequest) -> Iterator[ModelStreamEvent]:
    if isinstance(said, ScriptedFailure):
        return text_deltas(said.after)
    return deltas_of(said.text, said.calls, said.reasoning, request)


def _essence(request: ModelRequest) -> object:
    """Return what makes two requests the same question; ids and times in metadata may differ."""
    return [(m.role, m.content, m.tool_calls, m.tool_call_id) for m in request.messages]


def _reject_passed_failures(threads: Sequence[ScriptedThread]) -> None:
    """No transcript shows a failure, so with the transcript alone no run would ever get past one."""
    if any(isinstance(said, ScriptedFailure) for thread in threads for said in thread.turns[:-1]):
        raise AgentDefinitionError(
            "ScriptedModel(by_transcript=True): a turn follows fails(...), and no transcript tells when it is "
            "due. Put fails(...) last, or leave by_transcript out."
        )

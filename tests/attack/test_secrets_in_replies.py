"""Secrets that a model repeats: its program reads a mark, live as in replay, and no record has them, sealed or plain."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from decimal import Decimal
from traceback import format_exception
from typing import Annotated

import pytest

from pilotage import (
    Agent,
    AgentExecutionSpec,
    IAgentModel,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelStreamEvent,
    ModelStreamEventKind,
    Pod,
    RecoveryStrategy,
    RunContext,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import (
    ISecrets,
    ModelToolCall,
    ModelUsage,
    StreamingOptions,
    StructuredOutputSpec,
    ToolCallingSpec,
)
from pilotage.agent.context import ContextTokenBudget
from pilotage.agent.ports.model import ModelCapability
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.run_values import RunResult
from pilotage.context import SummariseOldTurns
from pilotage.errors import AgentStructuredOutputError, ModelCallError
from pilotage.runtime import AgentRuns, RunHandle
from pilotage.runtime.journal.seals import Seals
from pilotage.safety import SecretField, SecretRef
from pilotage.testing import ProcessStopped, ScriptedModel, StopAfter, StopBefore, calls, says
from tests.behaviour.bureau import WAITING, Bureau, hired, triple
from tests.behaviour.newsdesk import let_run, pass_time
from tests.behaviour.office import Worker

pytestmark = pytest.mark.attack("canaries")

SECRET = "correct-horse-battery-staple"
BEGINNING = SECRET[:7]
SAID = f"It is {SECRET}, I think, or {BEGINNING}"
SHOWN = f"It is [SECRET], I think, or {BEGINNING}"
KIND = ModelStreamEventKind


class Vault(ISecrets):
    """Hands out one secret."""

    def __init__(self, secret: str = SECRET) -> None:
        self._secret = secret

    async def resolve(self, ref: SecretRef, context: RunContext) -> str:
        return self._secret


@Pod
class Safe:
    """A tool that gets the secret, and one that gets what a model writes."""

    def __init__(self) -> None:
        self.put_in: list[str] = []

    @agent_tool(effects=ToolEffects.read_only())
    async def unlock(self, key: Annotated[str, SecretField()]) -> str:
        """Open the safe."""
        return "open"

    @agent_tool(effects=ToolEffects.read_only())
    async def put(self, text: str) -> str:
        """Put something in."""
        self.put_in.append(text)
        return f"put {text}"


@dataclass(frozen=True)
class Note:
    """The answer that is asked for."""

    text: str
    size: int


class Parrot(IAgentModel):
    """Writes the secret in every part of its reply, in pieces of one size; it may break off before the end."""

    def __init__(self, size: int = 3, *, failures: Sequence[ModelCallError] = (), note: object = 1) -> None:
        self.size, self.failures, self.note, self.asked = size, [*failures], note, 0
        self.pause: asyncio.Event | None = None

    @property
    def capability(self) -> ModelCapability:
        return ModelCapability("parrot", reasoning=True)

    async def complete(self, request: ModelRequest) -> ModelResponse:
        raise AssertionError("a run reads the stream")

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        self.asked += 1
        for piece in self._pieces(SAID):
            yield ModelStreamEvent(KIND.REASONING_DELTA, reasoning_delta=piece)
        for piece in self._pieces(SAID):
            yield ModelStreamEvent(KIND.TOKEN_DELTA, token_delta=piece)
        if self.pause is not None:
            await self.pause.wait()
        if self.failures:
            raise self.failures.pop(0)
        made: list[ModelToolCall] = []
        if request.tool_calling is not None:
            made.append(ModelToolCall("put", {"text": SAID}, "c1"))
            for event in self._call(made[0]):
                yield event
        output = None if request.structured_output is None else {"text": SAID, "size": self.note}
        if output is not None:
            yield ModelStreamEvent(KIND.STRUCTURED_OUTPUT, structured_output=output)
        response = ModelResponse(SAID, output, made, ModelUsage(7, 11, 18), {"note": SECRET})
        yield ModelStreamEvent(KIND.DONE, response=response, usage=response.usage)

    def _call(self, call: ModelToolCall) -> Iterator[ModelStreamEvent]:
        yield ModelStreamEvent(KIND.TOOL_CALL_START, tool_call=ModelToolCall("put", {}, "c1"))
        for piece in self._pieces(f'{{"text": "{SAID}"}}'):
            named = ModelToolCall("put", {}, "c1")
            yield ModelStreamEvent(KIND.TOOL_CALL_ARGS_DELTA, tool_call=named, tool_call_args_delta=piece)
        yield ModelStreamEvent(KIND.TOOL_CALL_END, tool_call=call)
        yield ModelStreamEvent(KIND.TOOL_CALL_CANDIDATE, tool_call=call)

    def _pieces(self, text: str) -> Iterator[str]:
        return (text[at : at + self.size] for at in range(0, len(text), self.size))


def asking(**more: object) -> ModelRequest:
    return ModelRequest([ModelMessage.user("Well?")], **more)  # type: ignore[arg-type]


def offering() -> ModelRequest:
    return asking(tool_calling=ToolCallingSpec.from_tools([SAFE.put]))


SAFE = Safe()
Read = Callable[[Worker], Awaitable[object]]


async def whole(worker: Worker) -> object:
    reply = await worker.model.complete(asking())
    return reply.content, reply.usage, dict(reply.metadata)


async def streamed(worker: Worker) -> object:
    text, reasoning, end = "", "", None
    async for event in worker.model.stream(asking()):
        text += event.text if event.is_text_delta else ""
        reasoning += event.reasoning_delta or ""
        end = event.text
    assert text == end
    return text, reasoning


async def called(worker: Worker) -> object:
    made: list[object] = []
    async for event in worker.model.stream(offering()):
        if event.is_tool_call and event.tool_call is not None:
            made += [event.tool_call.arguments, await event.invoke_tool()]
        if event.is_done and event.response is not None:
            made += [call.arguments for call in event.response.tool_calls]
    return made


async def answered(worker: Worker) -> object:
    spec = StructuredOutputSpec.from_type(Note)
    reply = await worker.model.complete(asking(structured_output=spec))
    return reply.structured_output, reply.output


async def drained(worker: Worker) -> object:
    text = ""
    async for event in worker.model.stream(asking()):
        if event.is_text_delta:
            if not text:
                await worker.desk.note("in between")
            text += event.text
    return text


async def left(worker: Worker) -> object:
    stream, text = worker.model.stream(asking()), ""
    async with aclosing(stream):  # type: ignore[type-var]
        async for event in stream:
            text += event.text
            if len(text) > 15:
                break
    return text


async def failed(worker: Worker) -> object:
    try:
        return await worker.model.complete(asking())
    except ModelCallError as error:
        if SECRET in "".join(format_exception(error)):
            raise AssertionError("a program that logs the error shows the secret") from None
        return str(error), error.failure, error.retryable


async def misfit(worker: Worker) -> object:
    spec, text = StructuredOutputSpec.from_type(Note), ""
    try:
        async for event in worker.model.stream(asking(structured_output=spec)):
            text += event.text if event.is_text_delta else ""
    except AgentStructuredOutputError as error:
        return text, str(error), error.problems
    raise AssertionError("the reply fits")


async def restarted(worker: Worker) -> object:
    text = ""
    async for event in worker.model.stream(asking(streaming=StreamingOptions(restarts=True))):
        if event.is_restart:
            text = ""
        elif event.is_text_delta:
            text += event.text
    return text


def parrot() -> Parrot:
    return Parrot()


def refusing() -> Parrot:
    return Parrot(failures=[ModelCallError(f"not with {SECRET}", failure=f"bad {SECRET}")] * 3)


def breaking() -> Parrot:
    return Parrot(failures=[ModelCallError(f"lost {SECRET}", retryable=True)])


def unfit() -> Parrot:
    return Parrot(note=SECRET)


WAYS: dict[str, tuple[Read, Callable[[], Parrot]]] = {
    "a whole reply": (whole, parrot),
    "a stream": (streamed, parrot),
    "arguments": (called, parrot),
    "a structured output": (answered, parrot),
    "a drained stream": (drained, parrot),
    "a stream that is left": (left, parrot),
    "a failure": (failed, refusing),
    "a reply of another type": (misfit, unfit),
    "a reply that is asked for again": (whole, breaking),
    "a stream that begins anew": (restarted, breaking),
}
AGENT = hired("parrots")


class Story:
    """One program that gets the secret, asks the model and waits for a person; and what it has read."""

    def __init__(self, way: str, *, has_sealer: bool) -> None:
        read, model = WAYS[way]
        self.bureau, self.got = Bureau(), list[object]()
        self._read, self._has_sealer = read, has_sealer
        self.model = model()

    async def program(self, worker: Worker) -> object:
        await SAFE.unlock("given by the run")
        self.got.append(await self._read(worker))
        await worker.desk.refund(Decimal(1))
        return "done"

    def process(self, fault: StopAfter | StopBefore | None = None) -> AbstractAsyncContextManager[AgentRuns]:
        return self.bureau.process(
            AGENT, self.program, Vault(), model=self.model, fault=fault, has_sealer=self._has_sealer
        )

    async def wait_for(self, handle: RunHandle) -> RunResult | None:
        """Let time pass until the run waits for the person; None where its process was stopped."""
        ended = asyncio.gather(handle.result(), return_exceptions=True)
        while not ended.done():
            await pass_time(self.bureau.clock, 1)
        (result,) = await ended
        if not isinstance(result, RunResult):
            assert isinstance(result, ProcessStopped), result
            return None
        assert triple(result.state) == WAITING
        return result

    async def opened(self, run_id: str) -> str:
        """All that the store has of the run, its records open."""
        store = self.bureau.store
        rows = Seals(store.sealer, RunKey("default", run_id)).opened_rows(await self.bureau.rows(run_id))
        evidence = await store.evidence.list_by_state(run_id)
        return repr([(row.record, row.view) for row in rows]) + repr(
            (evidence, await store.states.get(run_id))
        )


@pytest.mark.parametrize("has_sealer", [True, False], ids=["key", "no key"])
@pytest.mark.parametrize("way", WAYS)
async def test_a_program_reads_the_mark_and_replay_gives_the_same_without_asking_again(
    way: str, has_sealer: bool
) -> None:
    story = Story(way, has_sealer=has_sealer)
    async with story.process() as runs:
        handle = await runs.start(AGENT, "A-17")
        await story.wait_for(handle)
        asked = story.model.asked
    async with story.process() as runs:
        await story.wait_for(await runs.resume(handle.id))
    live, replayed = story.got
    assert live == replayed
    assert SECRET not in repr(live)
    assert "[SECRET]" in repr(live)
    assert story.model.asked == asked, "a recorded reply was asked for again"
    assert SECRET not in await story.opened(handle.id)


@pytest.mark.parametrize("fault", [StopBefore, StopAfter])
@pytest.mark.parametrize("way", WAYS)
async def test_a_crash_at_any_commit_leaves_no_secret_and_the_same_reply(
    way: str, fault: type[StopBefore | StopAfter]
) -> None:
    for commit in range(2, 12):
        story = Story(way, has_sealer=False)
        async with story.process(fault(commit)) as runs:
            handle = await runs.start(AGENT, "A-17")
            has_stopped = await story.wait_for(handle) is None
        story.bureau.clock.advance(60)
        async with story.process() as runs:
            await story.wait_for(await runs.resume(handle.id))
        assert story.got == [story.got[0]] * len(story.got)
        assert SECRET not in repr(story.got)
        assert SECRET not in await story.opened(handle.id)
        if not has_stopped:
            return
    raise AssertionError("the run has more commits")


async def test_a_tool_gets_the_mark_where_its_model_wrote_the_secret() -> None:
    SAFE.put_in.clear()
    story = Story("arguments", has_sealer=True)
    async with story.process() as runs:
        await story.wait_for(await runs.start(AGENT, "A-17"))
    assert SAFE.put_in == [SHOWN]


async def cut_short(worker: Worker) -> None:
    """Cancel a call whose model has written everything and does not come to an end."""
    call = asyncio.ensure_future(worker.model.complete(asking()))
    await let_run()
    call.cancel()
    await asyncio.wait([call])


async def discarded(worker: Worker) -> None:
    await worker.model.complete(asking())


@pytest.mark.parametrize("way", [cut_short, discarded])
async def test_the_tokens_of_a_reply_that_ends_early_are_those_that_the_model_wrote(way: Read) -> None:
    spent: list[int] = []
    for secret in (SECRET, "another-secret"):
        bureau, model = Bureau(), breaking()
        if way is cut_short:
            model.pause = asyncio.Event()

        async def program(worker: Worker) -> object:
            await SAFE.unlock("given by the run")
            return await way(worker)

        async with bureau.process(AGENT, program, Vault(secret), model=model) as runs:
            result = (await runs.start(AGENT, "A-17")).result()
            ended = asyncio.ensure_future(result)
            await pass_time(bureau.clock, 10)
            spent.append((await ended).spent.tokens)
    assert spent[0] == spent[1] > 0


async def test_a_secret_that_another_run_gets_in_the_middle_of_a_stream_is_masked_from_there_on() -> None:
    bureau, model, got = Bureau(), Parrot(100), list[str]()
    model.pause = asyncio.Event()

    async def program(worker: Worker) -> object:
        if model.asked:
            return await SAFE.unlock("given by the run")
        async for event in worker.model.stream(offering()):
            got.append(repr(event))
        await worker.desk.refund(Decimal(1))
        return None

    async with bureau.process(AGENT, program, Vault(), model=model) as runs:
        handle = await runs.start(AGENT, "A-17")
        await let_run()
        before = len(got)
        await (await runs.start(AGENT, "A-18")).result()
        model.pause.set()
        assert triple((await handle.result()).state) == WAITING
    assert SECRET in repr(got[:before]), "what no process has handed out, no process can look for"
    assert SECRET not in repr(got[before:])
    assert "[SECRET]" in got[-1]
    rows = Seals(bureau.store.sealer, RunKey("default", handle.id)).opened_rows(await bureau.rows(handle.id))
    assert SECRET not in repr([(row.record, row.view) for row in rows])


async def test_the_reason_of_a_run_that_waits_for_its_model_has_no_secret() -> None:
    story = Story("a stream", has_sealer=False)
    story.model = breaking()
    async with story.process() as runs:
        result = await (await runs.start(AGENT, "A-17")).result()
        assert result.state.current_activity == "model 'parrot' cannot be used now: lost [SECRET]"
        assert SECRET not in await story.opened(result.state.id)
        events = [event async for event in runs.events(result.state.id, follow=False)]
        await story.wait_for(await runs.resume(result.state.id))
    assert SECRET not in repr((events, story.got))


@Agent(
    spec=AgentExecutionSpec(
        name="librarian",
        recovery=RecoveryStrategy.ACTION_BOUNDARY,
        context_budget=ContextTokenBudget(max_tokens=700, reserved_output_tokens=100),
        compaction=[SummariseOldTurns(keep_recent=1, max_summary_chars=200)],
    )
)
class Librarian:
    """Read pages."""

    @agent_tool(effects=ToolEffects.read_only())
    async def page(self, number: int, key: Annotated[str, SecretField()]) -> str:
        """Read a page."""
        return f"page {number}: " + "word " * 150


@pytest.mark.parametrize("has_sealer", [True, False], ids=["key", "no key"])
async def test_a_summary_of_earlier_turns_has_no_secret(has_sealer: bool) -> None:
    bureau, pages = Bureau(), [calls("page", number=number) for number in (1, 2, 3)]
    model = ScriptedModel([*pages, says(f"Pages 1 and 2: {SECRET}."), says(f"Read {SECRET}.")])
    async with bureau.process(Librarian, None, Vault(), model=model, has_sealer=has_sealer) as runs:
        handle = await runs.start(Librarian, "read three pages")
        assert (await handle.result()).output == "Read [SECRET]."
    model.assert_complete()
    assert "Pages 1 and 2: [SECRET]." in repr(model.requests[-1])
    assert SECRET not in repr(model.requests)
    rows = Seals(bureau.store.sealer, RunKey("default", handle.id)).opened_rows(await bureau.rows(handle.id))
    assert SECRET not in repr([(row.record, row.view) for row in rows])

"""What a run lets out, and when: four modes, a policy, secrets, the last guard; live, in replay and in the store."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from typing import Annotated

import pytest
from tests.behaviour.newsroom import (
    DURABLE,
    Gate,
    Newsroom,
    ends,
    follow,
    let_run,
    texts,
)
from tests.behaviour.office import GATED, UNGATED

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentStatus,
    AgentYield,
    Evidence,
    Final,
    IAgentModel,
    Idempotency,
    ModelMessage,
    ModelRequest,
    Pod,
    Progress,
    RunContext,
    Token,
    Tool,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import (
    AgentEvent,
    IAgentOutputGuard,
    ISecrets,
    MessageDeltaEvent,
    RunStartedEvent,
    StreamingExposureMode,
)
from pilotage.agent.ports.persistence import RunKey
from pilotage.errors import AgentOutputGuardError, ToolError
from pilotage.jsonvalue import JsonValue
from pilotage.runtime.events.feed import Transcript
from pilotage.safety import SecretField, SecretRef, StreamingRedactionPolicy, StreamingSensitivePattern
from pilotage.testing import Fault, ScriptedModel, StopAfter, StopBefore, calls, says, turn

LOW, BALANCED, STRICT, GUARDED = (
    StreamingExposureMode.LOW_LATENCY,
    StreamingExposureMode.BALANCED,
    StreamingExposureMode.STRICT,
    StreamingExposureMode.NO_STREAM_UNTIL_FINAL_GUARDED,
)
EVERY_MODE = pytest.mark.parametrize("mode", StreamingExposureMode)
POLICY = StreamingRedactionPolicy([StreamingSensitivePattern("badge", r"BADGE-\d+", "[BADGE]")])
SECRET = "sk-live-4711-dont-tell"
LEAKS = re.compile(f"{SECRET[:9]}|BADGE-[0-9]")
SAID = "My badge is BADGE-123456 and the gate was open."
SHOWN = "My badge is [BADGE] and the gate was open."


class Vault(ISecrets):
    """Hands out one secret."""

    async def resolve(self, ref: SecretRef, context: RunContext) -> str:
        return SECRET


@Pod
class Keys:
    """Tools that get a secret, and let it out."""

    @agent_tool(effects=ToolEffects.write_state(), idempotency=Idempotency.IDEMPOTENT, approval=UNGATED)
    async def echo(self, words: str, key: Annotated[str, SecretField()]) -> str:
        """Give back what it got, all of it."""
        return f"{words} with {key}"

    @agent_tool(effects=ToolEffects.read_only())
    async def refuse(self, key: Annotated[str, SecretField()]) -> str:
        """Fail, and say why."""
        raise ToolError(f"{key} is not accepted")

    @agent_tool(effects=ToolEffects.write_state(), idempotency=Idempotency.IDEMPOTENT, approval=GATED)
    async def ask(self, words: str) -> str:
        """Somebody has to allow it."""
        return words


class ByHand:
    """Says everything that it knows, in every way there is."""

    def __init__(self, model: IAgentModel, keys: Keys, gate: Gate) -> None:
        self.model, self.keys, self.gate = model, keys, gate

    async def execute(self, order: str) -> AsyncGenerator[AgentYield[str], None]:
        async for event in self.model.stream(ModelRequest([ModelMessage.user("badge?")])):
            if event.is_text_delta:
                yield Token(event.text)
        await self.gate.pass_through()
        known = await self.keys.echo("first", key="filled by the run")
        yield Progress(f"knows {known}")
        yield Evidence({"known": known})
        yield Tool("echo", arguments={"found": known}, result=known, metadata={"why": known})
        for piece in (known[:12], known[12:17], known[17:]):
            yield Token(piece)
        yield Token(" The", metadata={"source": known})
        yield Token(" end.")
        yield Final(f"It is {known}")


class ByLoop:
    """Does what its model says."""

    def __init__(self, model: IAgentModel, keys: Keys, gate: Gate) -> None:
        self.model, self.keys, self.gate = model, keys, gate


def agent(way: type[object], mode: StreamingExposureMode) -> type[object]:
    """An agent that lets things out in a mode, under the policy."""
    return AGENTS[way, mode]


def made(way: type[object], mode: StreamingExposureMode) -> type[object]:
    spec = AgentExecutionSpec(
        name=f"{way.__name__}-{mode}",
        instructions="Talk." if way is ByLoop else None,
        recovery=DURABLE,
        redaction=POLICY,
        streaming_exposure_mode=mode,
    )
    return Agent(spec=spec)(type(f"{way.__name__}{mode.title()}", (way,), {}))


WAYS: list[type[object]] = [ByHand, ByLoop]
AGENTS = {(way, mode): made(way, mode) for way in WAYS for mode in StreamingExposureMode}


def badge() -> ScriptedModel:
    return ScriptedModel([says(SAID)])


def loop() -> ScriptedModel:
    """A model that reads the secret in a result, and says it in its text, its thoughts and its calls."""
    return ScriptedModel(
        [
            turn(says(SAID, reasoning=f"{SAID} Hm."), calls("echo", words="BADGE-77")),
            turn(says(f"I know {SECRET} now.", reasoning=f"So {SECRET} it is."), calls("refuse")),
            turn(says("One more. "), calls("ask", words=f"may I use {SECRET}?")),
            says(f"It was {SECRET}, as I said."),
        ]
    )


@EVERY_MODE
@pytest.mark.parametrize("way", [ByHand, ByLoop])
async def test_no_mode_lets_out_what_is_forbidden(way: type[object], mode: StreamingExposureMode) -> None:
    room, run_id, seen = await talked(agent(way, mode))
    assert (await room.store.states.get(run_id)).status is AgentStatus.COMPLETED
    said = " ".join(texts(await room.logged(run_id)).values())
    assert SHOWN in said
    assert "[SECRET]" in said
    assert_nothing_leaked(repr(seen))
    for kept in await everything(room, run_id):
        assert_nothing_leaked(kept)


@pytest.mark.parametrize("mode", [LOW, BALANCED])
async def test_a_mode_that_streams_lets_text_out_while_the_run_goes_on(mode: StreamingExposureMode) -> None:
    shown = await shown_at_the_gate(mode)
    assert len(shown) > 3, "text comes in pieces"
    assert "".join(shown) == SHOWN[: len("".join(shown))]
    assert len("".join(shown)) > len(SHOWN) - len("open.") - 1


async def test_a_balanced_run_lets_whole_words_out() -> None:
    shown = await shown_at_the_gate(BALANCED)
    assert all(piece[-1].isspace() for piece in shown)


async def test_a_strict_run_lets_nothing_of_a_text_out_before_it_is_complete() -> None:
    assert await shown_at_the_gate(STRICT) == []


async def test_a_guarded_run_lets_nothing_out_before_its_answer_has_passed() -> None:
    assert await shown_at_the_gate(GUARDED) == []
    room, gate = Newsroom(), Gate()
    kind = agent(ByHand, GUARDED)
    async with room.process(badge(), kind, Keys, Vault(), gate, Guard(gate)) as runs:
        run = await runs.start(kind, "go")
        client = Transcript()
        reading = asyncio.create_task(follow(run.events(), client))
        gate.open.set()
        await let_run(200)
        gate.open.clear()
        await let_run()
        await run.result()
        await reading
    assert len(client.events) > 5


class Guard(IAgentOutputGuard):
    """Looks at the answer when its gate lets it, and changes or refuses it."""

    def __init__(self, gate: Gate, verdict: str | None = None, *, refuses: bool = False) -> None:
        self.gate, self.verdict, self.refuses = gate, verdict, refuses
        self.seen: list[JsonValue] = []

    async def check(self, context: RunContext, output: JsonValue) -> JsonValue:
        self.seen.append(output)
        await self.gate.pass_through()
        if self.refuses:
            raise AgentOutputGuardError("that must not leave")
        return self.verdict or output


@pytest.mark.parametrize("way", [ByHand, ByLoop])
@pytest.mark.parametrize("ending", ["passes", "is changed", "is refused"])
async def test_what_a_guarded_run_holds_depends_on_its_guard(way: type[object], ending: str) -> None:
    room, at_guard, program = Newsroom(), Gate(), Gate()
    program.open.set()
    guard = Guard(at_guard, "An answer." if ending == "is changed" else None, refuses=ending == "is refused")
    kind = agent(way, GUARDED)
    script = (
        badge()
        if way is ByHand
        else ScriptedModel([turn(says(SAID), calls("echo", words="x")), says("Well.")])
    )
    async with room.process(script, kind, Keys, Vault(), program, guard) as runs:
        run = await runs.start(kind, "go")
        client = Transcript()
        reading = asyncio.create_task(follow(run.events(), client))
        await at_guard.reached.wait()
        await let_run()
        late = asyncio.create_task(follow(runs.events(run.id)))
        await let_run()
        assert [type(event) for event in client.events] == [RunStartedEvent]
        at_guard.open.set()
        result = await run.result()
        await reading
        assert (await late).events == client.events == await room.logged(run.id)
    (end,) = ends(client.events)
    others = client.events[1:-1]
    match ending:
        case "passes":
            assert SHOWN in " ".join(texts(others).values())
            assert end.error is None
        case "is changed":
            assert others == []
            assert (result.output, end.metadata["output"]) == ("An answer.", "An answer.")
        case _:
            assert others == []
            assert result.status is AgentStatus.FAILED
            assert end.error is not None
            assert end.metadata["output"] is None


@EVERY_MODE
@pytest.mark.parametrize("way", [ByHand, ByLoop])
@pytest.mark.parametrize("fault", [StopBefore, StopAfter])
async def test_a_crash_at_any_commit_lets_nothing_out_and_loses_no_text(
    way: type[object], mode: StreamingExposureMode, fault: type[Fault]
) -> None:
    kind = agent(way, mode)
    reference, run_id, _ = await talked(kind)
    expected = texts(await reference.logged(run_id))
    for number in range(2, reference.commits + 1):
        room, run_id, seen = await talked(kind, fault(number))
        assert_nothing_leaked(repr(seen))
        for kept in await everything(room, run_id):
            assert_nothing_leaked(kept)
        assert texts(await room.logged(run_id)) == expected
        assert texts(seen) == expected


async def talked(kind: type[object], fault: Fault | None = None) -> tuple[Newsroom, str, list[AgentEvent]]:
    """A run that is carried to its end by as many processes as it takes, and what its reader has of it."""
    room, gate, client = Newsroom(), Gate(), Transcript()
    gate.open.set()
    script = badge() if issubclass(kind, ByHand) else loop()
    run_id = ""
    commits = 0
    while not run_id or not (await room.store.states.get(run_id)).is_terminal:
        async with room.process(script, kind, Keys, Vault(), gate, fault=fault) as runs:
            if run_id:
                for question in await runs.questions(run_id):
                    await runs.approve(question.id)
            run = await (runs.resume(run_id) if run_id else runs.start(kind, "go"))
            run_id = run.id
            await follow(runs.events(run_id, after=client.cursor), client)
            await asyncio.wait([asyncio.ensure_future(run.result())])
        script, fault = script.restarted(), None
        commits = commits or room.commits
    async with room.process(script, kind, Keys, Vault(), gate) as runs:
        await follow(runs.events(run_id, after=client.cursor), client)
    room.commits = commits
    return room, run_id, client.events


async def shown_at_the_gate(mode: StreamingExposureMode) -> list[str]:
    """The pieces of text that are out when the program has said its first text and waits."""
    room, gate, kind = Newsroom(), Gate(), agent(ByHand, mode)
    async with room.process(badge(), kind, Keys, Vault(), gate) as runs:
        run = await runs.start(kind, "go")
        client = Pieces()
        reading = asyncio.create_task(follow(run.events(), client))
        await gate.reached.wait()
        await let_run()
        shown = list(client.pieces)
        gate.open.set()
        await run.result()
        await reading
    return shown


class Pieces(Transcript):
    """Remembers the pieces of text as they came."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []

    def add(self, event: AgentEvent, cursor: str) -> None:
        super().add(event, cursor)
        if isinstance(event, MessageDeltaEvent):
            self.pieces.append(event.delta)


async def everything(room: Newsroom, run_id: str) -> list[str]:
    """All that the store keeps, as far as anybody can read it."""
    store = room.store
    rows = [repr(row) async for row in store.journal.read(RunKey("default", run_id))]
    evidence = [repr(each) for each in await store.evidence.list_by_state(run_id)]
    return [*rows, *evidence, repr(await store.states.get(run_id)), repr(store.outbox)]


def assert_nothing_leaked(shown: str) -> None:
    """Neither the secret nor a badge, whole or begun, is in what is shown."""
    leaks = [shown[max(0, found.start() - 150) : found.end()] for found in LEAKS.finditer(shown)]
    assert leaks == []

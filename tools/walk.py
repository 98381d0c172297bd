"""Print the walks of a few requests: which modules they pass, in order of entry, and the functions they call there.

    python tools/walk.py [--json | --write]      --write writes docs/explanation/walks.md

A walk is a stretch of one story, after the same story ran once in the same process (imports and caches are warm):

- *tool call*: in a durable ReAct run on SQLite, from the call of `call` or `call_all` by the architecture to its
  return, when the AFTER row of the tool is recorded. The tool only adds to a list and needs no approval.
- *resume*: from `AgentRuns.resume` of a run with one recorded turn to the first action that is not in its record, the
  next call of the model.
- *approval over HTTP*: from the POST of an answer, then of resume, to the end of the stream of events, with FastAPI.
- *approval over AG-UI*: from the POST of the answer to the end of its stream.

Counted is every function, coroutine or generator of `src/pilotage` whose frame begins on the thread of the event loop
in that stretch; a frame that goes on after a wait is the same call. Comprehensions, lambdas and class bodies are part
of the function around them. Not counted are the leaf modules in `LEAVES`, which hold values and checks that everything
uses, and the doubles of `pilotage.testing`. The commits that the run waits for are part of its walk.
"""

from __future__ import annotations

import argparse
import asyncio
import dis
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType
from uuid import uuid4

import httpx
from fastapi import FastAPI
from starlette.applications import Starlette

import pilotage
from pilotage import (
    Agent,
    AgentExecutionSpec,
    Application,
    IAgentModel,
    Idempotency,
    ModelRequest,
    ModelResponse,
    ModelStreamEvent,
    Pod,
    Principal,
    RecoveryStrategy,
    ToolEffects,
    agent_tool,
)
from pilotage.adapters.agui import add_agui_endpoint, driver_for
from pilotage.adapters.fastapi import BearerTokens, agent_routes
from pilotage.adapters.sqlalchemy import DatabaseSettings
from pilotage.agent import ToolApprovalRequirement
from pilotage.runtime import AgentRuns
from pilotage.testing import ScriptedModel, calls, says

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "explanation" / "walks.md"
LEAVES = ("jsonvalue", "values", "filling", "ids", "errors", "checks")
NOT_COUNTED = tuple(f"pilotage.{name}" for name in (*LEAVES, "testing"))
SOURCE = str(Path(pilotage.__file__).parent)
_TOKEN = "token-of-ada-0123456789"  # noqa: S105 - of nobody
PEOPLE = BearerTokens({_TOKEN: Principal("ada")})
_RETURNS = {dis.opmap[name] for name in ("RETURN_VALUE", "RETURN_CONST") if name in dis.opmap}
_INSIDE = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "<lambda>", "<module>")


@dataclass
class Walk:
    """The modules that were passed, in order of first entry, with how often each function was called in them."""

    modules: dict[str, Counter[CodeType]] = field(default_factory=dict)

    @property
    def functions(self) -> int:
        """How many functions were called, each counted once."""
        return sum(map(len, self.modules.values()))

    @property
    def calls(self) -> int:
        """How many calls there were."""
        return sum(counts.total() for counts in self.modules.values())

    def add(self, module: str, code: CodeType) -> None:
        """Count a call."""
        self.modules.setdefault(module, Counter())[code] += 1


class Tracer:
    """Counts the calls of this thread between `begin` and `end`, or from the begin to the return of one call.

    `one_call` says by its frame which call that is.
    """

    def __init__(self, one_call: Callable[[FrameType], bool] | None = None) -> None:
        self.walk = Walk()
        self._one_call = one_call
        self._is_on = False
        self._begun: set[FrameType] = set()
        self._followed: FrameType | None = None

    def begin(self) -> None:
        """Count from here on."""
        self._is_on = True

    def end(self) -> None:
        """Count no more."""
        self._is_on = False

    @contextmanager
    def watching(self) -> Iterator[Tracer]:
        """See all calls of this thread."""
        sys.setprofile(self._seen)
        try:
            yield self
        finally:
            sys.setprofile(None)

    def _seen(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            if self._followed is None and self._one_call is not None and self._one_call(frame):
                self._followed = frame
                self.begin()
            self._count(frame)
        elif event == "return" and frame is self._followed and _has_ended(frame):
            self.end()

    def _count(self, frame: FrameType) -> None:
        name = module_of(frame.f_code)
        if name is None or frame in self._begun:
            return
        # Frames are kept, so that no other one gets the identity of one that ended.
        self._begun.add(frame)
        if self._is_on and not name.startswith(NOT_COUNTED) and frame.f_code.co_name not in _INSIDE:
            self.walk.add(name, frame.f_code)


def module_of(code: CodeType) -> str | None:
    """The module of Pilotage that code belongs to; None for code of others."""
    if not code.co_filename.startswith(SOURCE):
        return None
    parts = Path(code.co_filename).relative_to(Path(SOURCE).parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _has_ended(frame: FrameType) -> bool:
    """Whether a frame returned; one that only waits is at another instruction."""
    return frame.f_code.co_code[frame.f_lasti] in _RETURNS


def _is_asked_for_a_tool(frame: FrameType) -> bool:
    """Whether an architecture calls `IScopedTools.call` or `call_all`."""
    if frame.f_code.co_name not in ("call", "call_all") or frame.f_back is None:
        return False
    return (module_of(frame.f_back.f_code) or "").startswith("pilotage.architectures.")


@Pod
class Tally:
    """Tools that only count: one that needs no approval, one that does."""

    def __init__(self) -> None:
        self.counted: list[str] = []

    @agent_tool(
        effects=ToolEffects.write_state(),
        idempotency=Idempotency.IDEMPOTENT,
        approval=ToolApprovalRequirement.NOT_REQUIRED,
    )
    async def count(self, name: str) -> str:
        """Count something."""
        self.counted.append(name)
        return "counted"

    @agent_tool(effects=ToolEffects.external_side_effect(), approval=ToolApprovalRequirement.REQUIRED)
    async def pay(self, name: str) -> str:
        """Pay somebody, when a person allows it."""
        self.counted.append(name)
        return "paid"


@Agent(spec=AgentExecutionSpec(name="walker", recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Walker:
    """Do what you are asked to do."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally


class Stopping(IAgentModel):
    """Answers the first request of a run; the next one it only reports."""

    def __init__(self, reached: Callable[[], None]) -> None:
        self._model, self._reached = ScriptedModel([calls("count", name="a")]), reached

    async def complete(self, request: ModelRequest) -> ModelResponse:
        return await self._model.complete(request)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        if len(request.messages) > _FIRST_REQUEST:
            self._reached()
            await asyncio.Event().wait()
        async for event in self._model.stream(request):
            yield event


_FIRST_REQUEST = 2
"""Messages of a run's first request: the instructions and the prompt."""


@asynccontextmanager
async def _process(folder: Path, model: IAgentModel) -> AsyncIterator[Application]:
    """An application as a process has it, with its runs in an SQLite file."""
    settings = DatabaseSettings(f"sqlite:///{folder / 'pilotage.db'}", may_lose_commits_on_power_failure=True)
    async with Application("walks").add(Walker, Tally, model, settings).load_plugins() as app:
        yield app


async def tool_call(folder: Path) -> Walk:
    """One durable tool call."""
    model = ScriptedModel([calls("count", name="a"), calls("count", name="b"), says("Done.")] * 2)
    async with _process(folder, model) as app:
        runs = app.get(AgentRuns)
        await (await runs.start(Walker, "Count.")).result()
        with Tracer(_is_asked_for_a_tool).watching() as tracer:
            await (await runs.start(Walker, "Count.")).result()
    return tracer.walk


async def resume(folder: Path) -> Walk:
    """One resume behind a turn."""
    tracer, reached = Tracer(), asyncio.Queue[None]()

    def at_the_model() -> None:
        tracer.end()
        reached.put_nowait(None)

    async with _process(folder, Stopping(at_the_model)) as app:
        runs = app.get(AgentRuns)
        handle = await runs.start(Walker, "Count.")
        await reached.get()
        await runs.stop()
        await runs.resume(handle.id)
        await reached.get()
        await runs.stop()
        with tracer.watching():
            tracer.begin()
            await runs.resume(handle.id)
            await reached.get()
    return tracer.walk


async def approval_over_http(folder: Path) -> Walk:
    """One approval over HTTP."""
    async with _process(folder, _asking()) as app:
        api = FastAPI()
        api.include_router(agent_routes(app, principal=PEOPLE))
        async with _client(api) as client:
            return await _twice(partial(_ask_over_http, client), partial(_answer_over_http, client))


async def approval_over_agui(folder: Path) -> Walk:
    """One approval over AG-UI."""
    async with _process(folder, _asking()) as app:
        api = Starlette()
        add_agui_endpoint(api, run_driver_factory=driver_for(app, Walker), principal=PEOPLE)
        async with _client(api) as client:
            return await _twice(partial(_ask_over_agui, client), partial(_answer_over_agui, client))


Question = tuple[str, str]
"""The run or thread that asked, and the id of the question."""


async def _twice(
    ask: Callable[[], Awaitable[Question]], answer: Callable[[Question], Awaitable[None]]
) -> Walk:
    """The walk of the second of two answers."""
    await answer(await ask())
    question = await ask()
    with Tracer().watching() as tracer:
        tracer.begin()
        await answer(question)
        tracer.end()
    return tracer.walk


def _asking() -> ScriptedModel:
    return ScriptedModel([calls("pay", name="Bo"), says("Done.")] * 2)


@asynccontextmanager
async def _client(api: Starlette) -> AsyncIterator[httpx.AsyncClient]:
    transport, headers = httpx.ASGITransport(app=api), {"authorization": f"Bearer {_TOKEN}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://test", headers=headers) as client:
        yield client


async def _ask_over_http(client: httpx.AsyncClient) -> Question:
    started = await client.post("/runs", json={"agent": "walker", "input": "Pay Bo."})
    run_id = started.raise_for_status().json()["id"]
    await client.get(f"/runs/{run_id}/events")
    (question,) = (await client.get(f"/runs/{run_id}/questions")).json()["questions"]
    return run_id, question["id"]


async def _answer_over_http(client: httpx.AsyncClient, question: Question) -> None:
    run_id, request_id = question
    decision = {"request_id": request_id, "decision": "approve"}
    (await client.post(f"/runs/{run_id}/answers", json=decision)).raise_for_status()
    (await client.post(f"/runs/{run_id}/resume")).raise_for_status()
    _expect("run_finished", (await client.get(f"/runs/{run_id}/events")).text)


async def _ask_over_agui(client: httpx.AsyncClient) -> Question:
    thread = uuid4().hex
    said = {"id": "u1", "role": "user", "content": "Pay Bo."}
    stream = (await client.post("/agui", json=_agui(thread, messages=[said]))).raise_for_status().text
    last = json.loads(stream.strip().splitlines()[-1].removeprefix("data: "))
    return thread, last["outcome"]["interrupts"][0]["id"]


async def _answer_over_agui(client: httpx.AsyncClient, question: Question) -> None:
    thread, request_id = question
    entry = {"interruptId": request_id, "status": "resolved", "payload": {"decision": "approve"}}
    stream = await client.post("/agui", json=_agui(thread, resume=[entry]))
    _expect('"success"', stream.raise_for_status().text)


def _agui(thread: str, **fields: object) -> dict[str, object]:
    empty = {"state": {}, "messages": [], "tools": [], "context": [], "forwardedProps": {}}
    return {"threadId": thread, "runId": uuid4().hex, **empty, **fields}


def _expect(word: str, stream: str) -> None:
    if word not in stream:
        raise RuntimeError(f"the story came to another end than {word}:\n{stream}")


_READING = """\
## Why these numbers

The first version passed 45 modules for a tool call, with 146 calls, and 143, 153 and 151 modules for the other three.
The aims were 25 modules and 100 calls, and half of the modules for the others. They are not met. The numbers are a
thermometer: modules of unlike subjects are not merged for them, and no function is written inline by hand.

- The modules of a tool call have 100 to 440 lines and one subject each. Half as many would have twice the lines and two
  subjects, such as digests and group commit.
- A tool call passes what the first version did not have: numbered calls, whose outcomes take turns; codes and counts of
  entries; rows whose events follow from them; trust labels; folded turns. Each is a rule of durability or safety with a
  module of its own, and `journal` and `door` hold nearly half of the modules.
- The walk of a tool call contains a commit. For it the modules of the SQL adapter, a fifth of the walk, decide, encode,
  add codes, and send the rows to one of two databases.
- An approval contains a resume: the record is read and checked, and an attempt is composed. About a quarter of the
  modules of a resume, and a fifth of those of an approval, is passed for one function: most often the check in the
  constructor of a value, or a property of a type of the contract, which belongs where the type is."""


STORIES: dict[str, Callable[[Path], Coroutine[None, None, Walk]]] = {
    "tool call": tool_call,
    "resume": resume,
    "approval over HTTP": approval_over_http,
    "approval over AG-UI": approval_over_agui,
}


def walks() -> dict[str, Walk]:
    """All walks by their names."""
    found: dict[str, Walk] = {}
    for name, story in STORIES.items():
        with TemporaryDirectory() as folder:
            found[name] = asyncio.run(story(Path(folder)))
    return found


def page_of(found: dict[str, Walk]) -> str:
    """The page of the documentation."""
    lines = [
        "# Walks",
        "",
        "The modules that a request passes, in order of first entry, and the functions that it calls in each. The",
        "number of calls varies by a few with the timing of streams. `python tools/walk.py --write` writes this page;",
        "the docstring of that tool says where each walk begins and ends, and what is counted.",
        "",
        "| walk | modules | functions | calls |",
        "|---|---|---|---|",
        *(_row(name, len(walk.modules), walk.functions, walk.calls) for name, walk in found.items()),
        "",
        _READING,
        "",
        "## Modules by package",
        "",
        _row("package", *found),
        _row(*["---"] * (1 + len(found))),
        *_rows_by_package(found),
    ]
    for name, walk in found.items():
        lines += [
            "",
            f"## {name[0].upper()}{name[1:]}",
            "",
            "| module | functions | calls |",
            "|---|---|---|",
        ]
        lines += [_row(f"`{name}`", len(counts), counts.total()) for name, counts in walk.modules.items()]
    return "\n".join(lines) + "\n"


def _rows_by_package(found: dict[str, Walk]) -> list[str]:
    """How many modules of each package a walk passes: where a number rises, the package says what grew."""
    counts = [Counter(map(_package_of, walk.modules)) for walk in found.values()]
    packages = sorted({package for each in counts for package in each})
    return [_row(f"`{package}`", *(each[package] for each in counts)) for package in packages]


def _package_of(module: str) -> str:
    """The package of a module: the room for a module of the runtime, the folder for one of an adapter."""
    _, first, *rest = module.split(".")
    return f"{first}.{rest[0]}" if first in ("runtime", "adapters") and len(rest) > 1 else first


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def text_of(found: dict[str, Walk]) -> str:
    """The figures and the modules, for a terminal."""
    lines: list[str] = []
    for name, walk in found.items():
        lines.append(f"{name}: {len(walk.modules)} modules, {walk.functions} functions, {walk.calls} calls")
        lines += [f"  {len(counts):4} {counts.total():4}  {name}" for name, counts in walk.modules.items()]
    return "\n".join(lines)


def _json_of(walk: Walk) -> dict[str, object]:
    modules = {name: [len(counts), counts.total()] for name, counts in walk.modules.items()}
    return {"functions": walk.functions, "calls": walk.calls, "modules": modules}


def main(words: list[str]) -> None:
    """Print the walks, or write their page."""
    parser = argparse.ArgumentParser(description="Print the walks of a few requests through Pilotage.")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--json", action="store_true", help="print JSON")
    how.add_argument("--write", action="store_true", help="write docs/explanation/walks.md")
    given = parser.parse_args(words)
    found = walks()
    if given.write:
        PAGE.write_text(page_of(found))
    elif given.json:
        sys.stdout.write(json.dumps({name: _json_of(walk) for name, walk in found.items()}, indent=2) + "\n")
    else:
        sys.stdout.write(text_of(found) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])

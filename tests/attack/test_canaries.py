"""One story full of planted values, and a search for them in every sink.

The sinks are read from the schema of the database, the routes of the server, the tree of commands and the ports. A new
one is searched as well; one that this test cannot fill or call makes it fail.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import logging
import os
import pkgutil
import sqlite3
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, chdir, closing, redirect_stderr, redirect_stdout
from hashlib import sha256
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock
from urllib.parse import quote

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy import Column, MetaData, Table, Text
from starlette.routing import BaseRoute, Route, WebSocketRoute
from typer.core import TyperGroup

import pilotage.agent as contract
from pilotage import Principal
from pilotage.adapters.agui import agui_extension
from pilotage.adapters.fastapi import BearerTokens, agent_routes
from pilotage.adapters.sqlalchemy.tables import metadata as schema
from pilotage.agent import (
    AgentContext,
    AgentEvent,
    AgentSignalKind,
    ApprovalDecision,
    ContextFreshness,
    ContextPack,
    ContextPackRole,
    MediaPart,
    RecoveryDecision,
    RunAgentInput,
    StreamingExposureMode,
)
from pilotage.agent.events import TextId, delta_of
from pilotage.agent.ports.costs import CostField
from pilotage.agent.ports.journal import IAgentJournal
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.ports.sealing import IRecordSealer
from pilotage.cli.commands.root import command
from pilotage.cli.main import main
from pilotage.runtime import AgentRuns
from pilotage.runtime.journal.seals import Seals
from pilotage.runtime.reading import ReadsRuns
from tests.attack.canaries import POLICY, Canary, leaks
from tests.attack.sockets import connected
from tests.media.pictures import png

pytestmark = pytest.mark.attack("canaries")

ADA, BOB = Principal("ada"), Principal("bob")
TOKEN_OF_BOB = "token-of-bob-0123456789"
CONVERSATION = "talk-1"
PICTURE = png()


class Story:
    """The runs of the story, by name, and what its readers saw."""

    def __init__(self, mode: StreamingExposureMode) -> None:
        self.mode = mode
        self.runs: dict[str, str] = {}
        self.requests: dict[str, str] = {}
        self.sinks: dict[str, object] = {}
        self.own: dict[str, object] = {}
        self.heard = ""
        self.opened = ""

    def saw(self, sink: str, value: object) -> None:
        """Add what a reader got of a sink."""
        known = self.sinks.get(sink)
        self.sinks[sink] = value if known is None else f"{known}\n{value}"


APPLICATION = "tests.attack.canary_app"


def new_application(mode: StreamingExposureMode) -> ModuleType:
    """Import the application anew: it starts once, and its agents stream in one mode."""
    sys.modules.pop(APPLICATION, None)
    with mock.patch.dict(os.environ, {"CANARY_MODE": mode.value}):
        return importlib.import_module(APPLICATION)


async def told(story: Story, folder: Path) -> None:
    """Tell the story in one process, with a reader of the same tenant at its HTTP server."""
    with chdir(folder):
        module = new_application(story.mode)
        async with module.app as app:
            runs, exported = app.get(AgentRuns), app.get(module.Exported)
            await tell_runs(story, runs, module)
            api = FastAPI()
            api.include_router(agent_routes(app, principal=BearerTokens({TOKEN_OF_BOB: BOB})))
            agui_extension(app, principal=BearerTokens({TOKEN_OF_BOB: BOB}))(api)
            await read_routes(story, api)
            await read_runs(story, runs)
            await exported.has_heard.wait()
            story.heard = repr(app.get(module.Adversary).heard)
            story.opened = await opened_records(runs, app.get(IAgentJournal), app.get(IRecordSealer))
        story.saw("exporter IAgentTelemetry", exported.telemetry)
        story.saw("exporter IAgentHooks", exported.hooks)
        story.saw("exporter facts", exported.facts)
        assert exported.telemetry, "nothing was exported"
        assert exported.hooks, "nothing was exported"


async def opened_records(runs: AgentRuns, journal: IAgentJournal, sealer: IRecordSealer) -> str:
    """Return all records as the key opens them: a secret is not even there."""
    found: list[object] = []
    for state in (await runs.list(principal=BOB, limit=200)).runs:
        run = RunKey("default", state.id)
        rows = [row async for row in journal.read(run)]
        found += [row.record for row in Seals(sealer, run).opened_rows(rows)]
    return repr(found)


async def tell_runs(story: Story, runs: AgentRuns, of: ModuleType) -> None:
    """Start the runs, and let people answer, send and cancel."""
    pack = ContextPack(
        "pack",
        f"notes: {Canary.TOKEN_IN_CONTEXT_PACK}",
        "notes",
        ContextPackRole.EVIDENCE,
        ContextFreshness.CURRENT,
    )
    given = RunAgentInput(
        "first",
        f"work for {Canary.EMAIL_IN_INPUT}",
        conversation_id=CONVERSATION,
        context=AgentContext([pack]),
        attachments=[MediaPart.of(PICTURE, name=f"{Canary.EMAIL_IN_NAME_OF_FILE}.png")],
    )
    facts = {"asked_by": Canary.EMAIL_IN_METADATA.value}
    handle = await runs.start(of.Teller, given, principal=ADA, metadata=facts)
    story.runs["teller"] = handle.id
    await handle.result()
    comment = f"fine by {Canary.EMAIL_IN_COMMENT} and {Canary.SECRET_IN_COMMENT}"
    while questions := await runs.questions(handle.id):
        for question in questions:
            await runs.answer(
                handle.id, question.id, ApprovalDecision.APPROVE, resume=False, comment=comment, principal=BOB
            )
        handle = await runs.resume(handle.id)
        result = await handle.result()
    story.own["teller"] = result.output
    metadata = {"key": Canary.SECRET_IN_METADATA.value}
    text = f"chat about {Canary.SECRET_IN_NEXT_INPUT}"
    for agent in (of.Teller, of.Plain):
        run = await runs.start(
            agent, text, principal=ADA, metadata=metadata, conversation_id=f"{CONVERSATION}-{agent.__name__}"
        )
        story.own[f"next {agent.__name__}"] = (await run.result()).output
        again = await runs.start(
            agent, "chat again", principal=ADA, conversation_id=f"{CONVERSATION}-{agent.__name__}"
        )
        await again.result()
        story.runs |= {f"next {agent.__name__}": run.id, f"again {agent.__name__}": again.id}
    folded = await runs.start(of.Pager, "fold", principal=ADA)
    story.runs["fold"] = folded.id
    story.own["fold"] = (await folded.result()).output
    for how in ("fail", "wait", "wire", "pay", "end"):
        run = await runs.start(of.Scribe, how, principal=ADA)
        story.runs[how] = run.id
        story.own[how] = (await run.result()).output
    await runs.signal(
        story.runs["wait"],
        AgentSignalKind.USER_MESSAGE,
        {"text": f"use {Canary.TOKEN_IN_SIGNAL} {Canary.SECRET_IN_COMMENT}"},
        principal=BOB,
    )
    await (await runs.resume(story.runs["wait"])).result()
    reason = f"{Canary.EMAIL_IN_CANCEL_REASON} {Canary.SECRET_IN_COMMENT}"
    await runs.cancel(story.runs["wait"], reason=reason, principal=BOB)
    (unknown,) = await runs.questions(story.runs["wire"])
    await runs.answer(
        story.runs["wire"],
        unknown.id,
        RecoveryDecision.DONE,
        resume=False,
        result=f"{Canary.CARD_IN_RECOVERY_RESULT} {Canary.SECRET_IN_RECOVERY_RESULT}",
        comment=comment,
        principal=BOB,
    )
    story.own["wire"] = (await (await runs.resume(story.runs["wire"])).result()).output
    (open_question,) = await runs.questions(story.runs["pay"])
    story.requests["pay"] = open_question.id


# Reads of the application service that are no sinks of what a run says.
OTHER_READS = {
    "list": "read once for all runs",
    "open_questions": "read once for all runs",
    "costs": "read once for all runs",
    "events": "read as a stream, and joined",
    "verify": "gives the number of rows",
    "is_driven": "gives yes or no",
    "add_evidence": "writes, by what the application says",
}


def reads_of(service: type[object]) -> list[str]:
    """The methods that give something of a run to a principal, as the class has them."""
    named = [name for name, each in vars(service).items() if inspect.isfunction(each) and name[0] != "_"]
    return [name for name in named if name not in OTHER_READS]


async def read_runs(story: Story, runs: AgentRuns) -> None:
    """Read all that the application service gives to another principal of the tenant."""
    story.saw("AgentRuns.list", await runs.list(principal=BOB, limit=200))
    story.saw("AgentRuns.open_questions", await runs.open_questions(principal=BOB, limit=200))
    story.saw("AgentRuns.costs", await runs.costs(by=list(CostField), principal=BOB))
    for run_id in [state.id for state in (await runs.list(principal=BOB, limit=200)).runs]:
        for name in reads_of(ReadsRuns):
            story.saw(f"AgentRuns.{name}", await getattr(runs, name)(run_id, principal=BOB))
        events = [event async for event in runs.events(run_id, follow=False, principal=BOB)]
        story.saw("AgentRuns.events", events)
        check_joined(joined_texts(events))


def check_joined(texts: Iterable[str]) -> None:
    """Refuse what must not be seen in streamed texts that a reader has put together."""
    for text in texts:
        assert not [each for each in Canary if each.value[:10] in text]


def joined_texts(events: Sequence[AgentEvent]) -> list[str]:
    """Return each streamed text as a reader puts it together."""
    texts: dict[TextId, str] = {}
    for event in events:
        if (delta := delta_of(event)) is not None:
            texts[delta[0]] = texts.get(delta[0], "") + delta[1]
    return list(texts.values())


# The body that calls a route; the name of the run that it is about is in front.
BODIES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "/runs": ("teller", {"agent": "teller", "input": "chat over HTTP"}),
    "/media": ("teller", {"a": "text"}),
    "/runs/{run_id}/signals": ("wait", {"kind": "pause", "payload": {}}),
    "/runs/{run_id}/answers": ("pay", {"request_id": "none", "decision": "approve"}),
    "/runs/{run_id}/decisions": ("pay", {"request_id": "none", "decision": "approve"}),
    "/runs/{run_id}/cancel": ("teller", {}),
    "/runs/{run_id}/resume": ("teller", {}),
    "/runs/{run_id}/fork": ("end", {}),
    "/runs/{run_id}/resolutions": ("end", {"skip": "run/tool:pay#1", "reason": "why"}),
    "/teller": ("teller", {}),
    "/teller/stream": ("teller", {}),
}
AGUI = {
    "threadId": "thread-1",
    "messages": [
        {"id": "u0", "role": "user", "content": f"I am {Canary.EMAIL_IN_PAGE_HISTORY}"},
        {"id": "a0", "role": "assistant", "content": f"Hello {Canary.EMAIL_IN_PAGE_HISTORY}"},
        {"id": "u1", "role": "user", "content": "chat over AG-UI"},
    ],
    "state": {"mail": Canary.EMAIL_IN_PAGE_STATE.value},
    "tools": [{"name": "paint", "description": f"Use {Canary.TOKEN_IN_PAGE_TOOL}.", "parameters": {}}],
    "context": [{"description": "who", "value": Canary.EMAIL_IN_PAGE_CONTEXT.value}],
    "forwardedProps": {"metadata": {"mail": Canary.EMAIL_IN_PAGE_METADATA.value}},
}
PAGES = {"/docs", "/docs/swagger-ui-bundle.js", "/docs/swagger-ui.css", "/docs/favicon-32x32.png"}
"""The page that only shows /openapi.json, and what it loads."""


HEADERS = {"authorization": f"Bearer {TOKEN_OF_BOB}", "accept": "text/event-stream, application/json"}


async def read_routes(story: Story, api: FastAPI) -> None:
    """Call every route of the server as another principal of the tenant."""
    transport = httpx.ASGITransport(app=api)
    async with httpx.AsyncClient(transport=transport, base_url="http://test", headers=HEADERS) as client:
        for route in flat(api.routes):
            if isinstance(route, WebSocketRoute):
                assert route.path in SOCKETS, f"the canary test does not know the WebSocket {route.path}"
                texts = [text async for text in SOCKETS[route.path](story, api, route.path)]
                story.saw(f"socket {route.path}", texts)
                check_joined(joined_deltas(texts))
                continue
            async for path, answer in called(story, client, route):
                assert answer.status_code < 500, (path, answer.text)
                if path.startswith("GET ") and path.endswith(THREAD):
                    check_thread(answer)
                story.saw(f"route {path}", answer.text)


async def read_events(story: Story, api: FastAPI, path: str) -> AsyncIterator[str]:
    """Yield every message of the events of each run of the story."""
    for run_id in story.runs.values():
        async with connected(api, path.format(run_id=run_id), HEADERS) as socket:
            had = [text async for text in socket.texts()]
        assert len(had) > 2, had
        for text in had:
            yield text


async def hold_dialogue(story: Story, api: FastAPI, path: str) -> AsyncIterator[str]:
    """Yield every message of a client of AG-UI that chats, has work done and allows what it is asked about."""
    async with connected(api, path, HEADERS) as socket:
        texts = socket.texts()
        given = {"chat": socket_input("chat over a socket"), "work": socket_input("work over a socket")}
        for name, each in given.items():
            await socket.send(json.dumps({**each, "runId": f"agui-socket-{name}"}))
            answers: list[dict[str, Any]] = []
            async for text in texts:
                yield text
                if '"RUN_FINISHED"' in text or '"RUN_ERROR"' in text:
                    answers = interrupts_in(text)
                    if not answers:
                        break
                    resumed = {**each, "runId": f"agui-socket-{answers[0]['interruptId']}", "resume": answers}
                    await socket.send(json.dumps(resumed))
        assert "RUN_FINISHED" in text, text


def joined_deltas(messages: Sequence[str]) -> list[str]:
    """Return each streamed text in the messages of a socket, as a client puts it together."""
    texts: dict[str, str] = {}
    for line in "\n".join(messages).splitlines():
        words = line.removeprefix("data: ")
        found = json.loads(words) if words.startswith("{") else {}
        data = found.get("data", found)
        if isinstance(delta := data.get("delta"), str):
            name = f"{found.get('type')} {data.get('messageId', data.get('message_id'))}"
            texts[name] = texts.get(name, "") + delta
    assert texts, "no text was streamed"
    return list(texts.values())


def socket_input(said: str) -> dict[str, Any]:
    """Return an input of AG-UI with a thread of its own."""
    return {**AGUI, "threadId": said, "messages": [{"id": said, "role": "user", "content": said}]}


def interrupts_in(frame: str) -> list[dict[str, Any]]:
    """Return an approval of each interrupt at the end of a stream."""
    data = next(line for line in frame.splitlines() if line.startswith("data: "))
    outcome = json.loads(data.removeprefix("data: ")).get("outcome") or {}
    return [
        {"interruptId": each["id"], "status": "resolved", "payload": {"decision": "approve"}}
        for each in outcome.get("interrupts", ())
    ]


# How a WebSocket is used, and the messages that come of it.
SOCKETS: Mapping[str, Callable[[Story, FastAPI, str], AsyncIterator[str]]] = {
    "/runs/{run_id}/events": read_events,
    "/teller/ws": hold_dialogue,
}


def flat(routes: Sequence[BaseRoute]) -> Iterator[BaseRoute]:
    """Yield the routes of an application and of the routers that it includes."""
    for route in routes:
        inner = getattr(route, "original_router", None)
        if inner is None:
            yield route
        else:
            yield from flat(inner.routes)


THREAD = "{thread_id:path}"
THREADS = (CONVERSATION, f"{CONVERSATION}-Teller", str(AGUI["threadId"]), "work over a socket")
"""Conversations of the teller: one that pauses and goes on, one that is continued, and two that began over AG-UI."""


def filled(story: Story, path: str) -> list[str]:
    """Return the paths of a route, with every run or every thread of the story."""
    if path.endswith(THREAD):
        return [path.replace(THREAD, quote(thread)) for thread in THREADS]
    path = path.replace("{digest}", sha256(PICTURE).hexdigest())
    assert "{" not in path.replace("{run_id}", ""), f"the canary test cannot fill {path}"
    return [path.format(run_id=run_id) for run_id in story.runs.values()] if "{run_id}" in path else [path]


def check_thread(answer: httpx.Response) -> None:
    """Refuse a thread that is read without its messages, or with words of a canary in their texts."""
    messages = answer.json()["messages"]
    assert {"user", "assistant"} <= {each["role"] for each in messages}, answer.text
    check_joined(str(each.get("content")) for each in messages)


async def called(
    story: Story, client: httpx.AsyncClient, route: BaseRoute
) -> AsyncIterator[tuple[str, httpx.Response]]:
    """Yield the answers of a route, for each of its methods and each run of the story."""
    assert isinstance(route, Route), f"the canary test does not know how to call a {type(route).__name__}"
    if route.path in PAGES:
        return
    for method in route.methods or ():
        if method == "HEAD":
            continue
        name = f"{method} {route.path}"
        if method in {"GET", "OPTIONS"}:
            for path in filled(story, route.path):
                yield name, await client.request(method, path)
            continue
        assert route.path in BODIES, f"the canary test does not know how to call {name}"
        run, body = BODIES[route.path]
        if route.path.startswith("/teller"):
            body = {**AGUI, "runId": f"agui{route.path}"}
        path = route.path.format(run_id=story.runs[run])
        yield name, await client.request(method, path, json=body)


# What a command is called with; None: it starts a server or a loop, or knows nothing of runs.
COMMANDS: Mapping[tuple[str, ...], Sequence[str] | None] = {
    ("new",): None,
    ("serve",): None,
    ("agui-stdio",): None,
    ("mcp", "serve"): None,
    ("worker",): None,
    ("chat",): None,
    ("run",): ["teller", "hush"],
    ("costs",): ["--by", "run", "--by", "model", "--by", "tool"],
    ("doctor",): [],
    ("check",): [f"{APPLICATION}:app"],
    ("describe",): [f"{APPLICATION}:app"],
    ("runs", "list"): [],
    ("runs", "show"): ["RUN"],
    ("runs", "events"): ["RUN", "--reasoning"],
    ("runs", "verify"): ["RUN"],
    ("runs", "questions"): ["RUN"],
    ("runs", "resume"): ["RUN"],
    ("runs", "send"): ["RUN", "hello"],
    ("runs", "fork"): ["RUN"],
    ("runs", "resolve"): ["RUN"],
    ("runs", "answer"): ["REQUEST", "defer"],
    ("runs", "defer"): ["REQUEST"],
    ("runs", "modify"): ["REQUEST", "--arguments", '{"note": "x"}'],
    ("runs", "retry"): ["REQUEST"],
    ("runs", "done"): ["REQUEST", "--result", "null"],
    ("runs", "fail"): ["REQUEST"],
    ("runs", "reject"): ["REQUEST"],
    ("runs", "approve"): ["REQUEST"],
    ("runs", "cancel"): ["RUN"],
    ("mcp", "list"): [],
    ("mcp", "diff"): [],
    ("mcp", "approve"): ["files", "read"],
    ("mcp", "call"): ["files", "read"],
    ("memory", "list"): ["--user", "ada"],
    ("memory", "show"): ["", "--user", "ada"],
    ("memory", "export"): ["--user", "ada"],
    ("memory", "forget"): ["--all", "--user", "nobody-at-all"],
    ("audit", "heads"): [],
    ("audit", "check"): ["heads.jsonl"],
    ("db", "upgrade"): [],
    ("db", "current"): [],
    ("db", "check"): [],
}
PRINTS_JSON = "--json"


def leaves(group: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command of the tree."""
    if isinstance(group, TyperGroup):
        for name, each in group.commands.items():
            yield from leaves(each, (*path, name))
    else:
        yield path, group


def read_commands(story: Story, folder: Path) -> None:
    """Call every command as another principal of the tenant."""
    _, _, heads = call(folder, ["audit", "heads"], story.mode).partition("\n")
    (folder / "heads.jsonl").write_text(heads)
    for path, each in leaves(command()):
        assert path in COMMANDS, f"the canary test does not know the command {' '.join(path)}"
        arguments = COMMANDS[path]
        if arguments is None:
            continue
        is_reading = path[-1] in _READING
        has_json = is_reading and any(PRINTS_JSON in option.opts for option in each.params)
        as_json = [[PRINTS_JSON]] if has_json else []
        ids = [story.runs[name] for name in _READ] if is_reading else [story.runs["end"]]
        for run_id in ids:
            for options in ([], *as_json):
                names = {"RUN": run_id, "REQUEST": story.requests["pay"]}
                words = [*path, *(names.get(word, word) for word in arguments), *options]
                story.saw(f"command {' '.join(path)}", call(folder, words, story.mode))


_READING = {"show", "events", "questions"}
_READ = ("teller", "next Plain", "wire", "wait")


def call(folder: Path, words: Sequence[str], mode: StreamingExposureMode) -> str:
    """Call `pilotage` like a process of its own, and return all that it prints."""
    out = StringIO()
    around = {"PILOTAGE_APP": f"{APPLICATION}:app", "PILOTAGE_AS": BOB.id, "CANARY_MODE": mode.value}
    with ExitStack() as stack:
        stack.enter_context(chdir(folder))
        stack.enter_context(mock.patch.dict(os.environ, around))
        stack.enter_context(mock.patch.dict(sys.modules))
        sys.modules.pop(APPLICATION, None)
        stack.enter_context(mock.patch.object(sys, "stdin", StringIO()))
        stack.enter_context(redirect_stdout(out))
        stack.enter_context(redirect_stderr(out))
        code = main(words)
    assert "Traceback" not in out.getvalue(), out.getvalue()
    return f"{words} -> {code}\n{out.getvalue()}"


EMPTY_TABLES = {
    "switches": "nothing is switched off",
    "tool_pins": "no server offers tools",
    "late_outcomes": "no owner lost a run",
    "spending": "no tenant has a cap",
    "budget_holds": "no tenant has a cap",
    "leases": "no run has an owner any more",
}


def read_tables(story: Story, folder: Path, schema: MetaData = schema) -> None:
    """Read every row of every table of the schema, and every byte of the files beside."""
    (database,) = folder.glob(".pilotage/*.db")
    connection = sqlite3.connect(database)
    stored = {row[0] for row in connection.execute("select name from sqlite_master where type = 'table'")}
    for table in schema.sorted_tables:
        rows = connection.execute(f'select * from "{table.name}"').fetchall()  # noqa: S608 - a name of the schema
        name = table.name.removeprefix("pilotage_")
        assert bool(rows) is (name not in EMPTY_TABLES), f"fill {table.name} with canaries, or say why not"
        story.saw(f"table {table.name}", rows)
    known = {table.name for table in schema.sorted_tables}
    for name in stored - known:
        story.saw(f"table {name}", connection.execute(f'select * from "{name}"').fetchall())  # noqa: S608
    connection.close()
    for file in folder.rglob("*"):
        if file.is_file() and not file.name.endswith(".key"):
            story.saw(f"file {file.relative_to(folder)}", file.read_bytes())


# What a port is to the canaries: a table holds what it stores, the story records what it exports, or it lets
# nothing out: it is asked, or it is the model that is shown what the agent works with.
PORTS: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "IAgentJournal IStoredRow IAgentStateRepository IAgentSignalRepository IAgentEvidenceRepository "
            "IAgentLateOutcomes IAgentRetention ITaskStore IAgentAuditLog IAgentMemory IAgentOutbox IAgentLeases "
            "IAgentBacklog IAgentCosts IBlobs ITenantSpending IAgentSwitches IToolPins"
        ).split(),
        "table",
    ),
    **dict.fromkeys(("IAgentTelemetry", "IAgentHooks"), "exported"),
    "IAgentEventPublisher": "exported: the facts that subscribers of the story get",
    **dict.fromkeys(
        (
            "IAgentBudget IAgentPricing IAgentApprovalHandler IAgentContextHandler IAgentOutputGuard "
            "IAgentContextObserver IAgentContextProvider "
            "IAgentRecoveryHandler IAgentToolHandler IAgentCancellationCleanup IWakeUpSubscription IAgentWakeUps "
            "IAgentModel IAgentModelResolver IAgentPermissions ISecrets IPrincipalResolver IAgentRunner IAgentRunnerFactory "
            "IAgentDelegate IRecordSealer IScopedModel IScopedTools IScopedRuntime "
            "IAgentToolProvider IMediaSource IToolCalls IClock IIds IContainer IContainerAware IPostProcessor ILifecycle"
        ).split(),
        "asked",
    ),
}


def ports_in(package: ModuleType) -> set[str]:
    """The names of the ports that the modules of a package define, in whatever folder."""
    modules = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    named = [vars(importlib.import_module(module.name)).values() for module in modules]
    classes = {each.__name__ for every in named for each in every if inspect.isclass(each)}
    return {name for name in classes if name[0] == "I" and name[1:2].isupper()}


def test_every_port_is_known_to_the_canaries() -> None:
    assert sorted(ports_in(contract) - PORTS.keys()) == [], "say whether the port is a sink, and search it"


async def test_a_route_that_is_added_is_called_or_refused() -> None:
    api, story = FastAPI(), Story(StreamingExposureMode.BALANCED)
    api.add_api_route("/leaks", lambda: Canary.EMAIL_IN_ANSWER.value, methods=["GET"])
    await read_routes(story, api)
    assert leaks(story.sinks, [Canary.EMAIL_IN_ANSWER])
    api.add_api_route("/runs/{run_id}/leaks", lambda run_id: run_id, methods=["POST"])
    with pytest.raises(AssertionError, match="does not know how to call POST /runs/{run_id}/leaks"):
        await read_routes(story, api)


def test_a_table_that_is_added_is_read_or_has_to_be_filled(tmp_path: Path) -> None:
    story, added = Story(StreamingExposureMode.BALANCED), MetaData()
    Table("pilotage_leaks", added, Column("said", Text))
    (tmp_path / ".pilotage").mkdir()
    with closing(sqlite3.connect(tmp_path / ".pilotage" / "pilotage.db")) as connection:
        connection.execute("create table pilotage_leaks (said text)")
        connection.execute("create table made_by_hand (said text)")
        connection.execute("insert into made_by_hand values (?)", [Canary.CARD_IN_STEP_RESULT.value])
        connection.commit()
        with pytest.raises(AssertionError, match="fill pilotage_leaks with canaries"):
            read_tables(story, tmp_path, added)
        connection.execute("insert into pilotage_leaks values (?)", [Canary.EMAIL_IN_ANSWER.value])
        connection.commit()
    read_tables(story, tmp_path, added)
    found = leaks(story.sinks, [Canary.EMAIL_IN_ANSWER, Canary.CARD_IN_STEP_RESULT])
    assert {each.split(":")[0].split(" in ")[1] for each in found} >= {
        "table pilotage_leaks",
        "table made_by_hand",
    }


def test_a_read_that_is_added_to_the_service_is_called() -> None:
    class Reads(ReadsRuns):
        async def leaks(self, run_id: str, *, principal: Principal | None = None) -> str:
            return run_id

    assert reads_of(Reads) == ["leaks"]
    assert {"get", "result", "evidence", "prompts", "questions", "answered_questions"} <= set(
        reads_of(ReadsRuns)
    )


def whole_story(folder: Path, mode: StreamingExposureMode) -> Story:
    """Tell the story in a folder of its own, and read every sink."""
    story, logged = Story(mode), StringIO()
    handler, root = logging.StreamHandler(logged), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        asyncio.run(told(story, folder))
        read_tables(story, folder)
        read_commands(story, folder)
        read_tables(story, folder)
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    story.saw("log", logged.getvalue())
    return story


@pytest.fixture(scope="module")
def stories(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Story]:
    """The story in the usual mode, in the full form in each mode of streaming."""
    is_full = request.config.getoption("--exhaustive")
    modes = list(StreamingExposureMode) if is_full else [StreamingExposureMode.BALANCED]
    return [whole_story(tmp_path_factory.mktemp(mode.value), mode) for mode in modes]


@pytest.mark.parametrize("canary", Canary, ids=lambda each: each.name.lower())
def test_a_canary_is_in_no_sink(stories: list[Story], canary: Canary) -> None:
    found = [leak for story in stories for leak in leaks(story.sinks, [canary])]
    assert found == []


@pytest.mark.parametrize(
    "canary", [each for each in Canary if each.is_secret], ids=lambda each: each.name.lower()
)
def test_a_secret_is_in_no_sealed_record(stories: list[Story], canary: Canary) -> None:
    for story in stories:
        assert Canary.EMAIL_IN_ANSWER in story.opened, "nothing was opened"
        assert leaks({"opened records": story.opened}, [canary]) == []


def test_the_program_of_a_model_that_repeats_a_secret_does_not_get_it(stories: list[Story]) -> None:
    for story in stories:
        assert Canary.SECRET_IN_ANSWER not in str(story.own["next Plain"])
        assert "I know [SECRET]" in str(story.own["next Plain"])


def test_the_code_that_started_a_run_gets_its_answer_whole(stories: list[Story]) -> None:
    for story in stories:
        assert Canary.SECRET_IN_ANSWER in str(story.own["end"])
        assert Canary.EMAIL_IN_ANSWER in str(story.own["next Teller"])
        assert Canary.EMAIL_IN_ANSWER in str(story.own["end"])


def test_the_canaries_were_planted(stories: list[Story]) -> None:
    for story in stories:
        for canary in (Canary.EMAIL_IN_INPUT, Canary.CARD_IN_TOOL_RESULT, Canary.EMAIL_IN_TOOL_ERROR):
            assert canary.value in story.heard
        for canary in (Canary.EMAIL_IN_FOLDED_TURN, Canary.EMAIL_IN_PAGE_STATE, Canary.TOKEN_IN_PAGE_TOOL):
            assert canary.value in story.heard
        assert Canary.TOKEN_IN_EXCEPTION not in story.heard
        assert "turns:1-" in str(story.sinks["table pilotage_journal"]), "no turn was folded"
        assert "StateDeltaEvent" in str(story.sinks["AgentRuns.events"])
        assert len(story.sinks) > 50
    assert len(Canary) >= 20


def test_the_search_finds_a_canary_in_any_sink() -> None:
    for canary in Canary:
        for value in (f"x{canary.value}y", canary.value.encode(), [{"a": canary.value}]):
            (leak,) = leaks({"sink": value})
            assert leak.startswith(f"{canary.name} in sink")
        if not canary.is_secret and not canary.name.startswith(("ACCOUNT", "STATE")):
            assert canary.value not in POLICY.redact(f"x {canary.value} y")[0]

"""The server that `http_streams` measures, a process of its own: paced agents over SQLite, and what they noticed.

Run it: python -m benchmarks.http_server FOLDER
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from pathlib import Path
from socket import create_server
from time import perf_counter, process_time

from benchmarks.bare_stream import SECONDS_PER_WORD, word

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentYield,
    Application,
    Final,
    IAgentModel,
    Idempotency,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelStreamEvent,
    ModelStreamEventKind,
    Pod,
    RecoveryStrategy,
    Token,
    ToolEffects,
    agent_tool,
)
from pilotage.adapters.fastapi import ApiController, HttpSettings, asgi_application, get
from pilotage.adapters.fastapi.server import GracefulServer
from pilotage.adapters.sqlalchemy import DatabaseSettings
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from pilotage.agent import ToolApprovalRequirement
from pilotage.agent.ports.journal import CommitOutcome, IAgentJournal, JournalCommit, JournalHead
from pilotage.agent.ports.persistence import JournalRow, RunKey
from pilotage.runtime.plugin import initialize

TOKENS, SECONDS_PER_TOKEN = 20, 0.01
ROOM = HttpSettings(max_streams=5_000, max_streams_per_principal=5_000, shutdown_seconds=1)


class Noticed:
    """How long turns took, and commits."""

    def __init__(self) -> None:
        self.turns: list[float] = []
        self.commits: list[float] = []


class Paced(IAgentModel):
    """Talks as fast as a model does."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        raise NotImplementedError

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        last = request.messages[-1].text
        is_recited = last.isdigit()
        for number in range(int(last) if is_recited else TOKENS):
            await asyncio.sleep(SECONDS_PER_WORD if is_recited else SECONDS_PER_TOKEN)
            yield ModelStreamEvent(ModelStreamEventKind.TOKEN_DELTA, token_delta=word(number))
        yield ModelStreamEvent(ModelStreamEventKind.DONE, response=ModelResponse("words"))


@Pod
class Notebook:
    """Takes notes."""

    @agent_tool(
        effects=ToolEffects.write_state(),
        idempotency=Idempotency.IDEMPOTENT,
        approval=ToolApprovalRequirement.NOT_REQUIRED,
    )
    async def note(self, what: str) -> str:
        """Take a note: everything before it is committed first."""
        return what


@Agent(spec=AgentExecutionSpec(name="pacer", recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Pacer:
    """Talks and takes notes, turn by turn."""

    def __init__(self, model: IAgentModel, notebook: Notebook, noticed: Noticed) -> None:
        self.model, self.notebook, self.noticed = model, notebook, noticed

    async def execute(self, turns: int) -> AsyncGenerator[AgentYield[str], None]:
        """So many turns."""
        for turn in range(turns):
            started = perf_counter()
            async for event in self.model.stream(ModelRequest([ModelMessage.user(f"turn {turn}")])):
                if event.is_text_delta:
                    yield Token(event.text)
            await self.notebook.note(str(turn))
            self.noticed.turns.append(perf_counter() - started)
        yield Final("done")


@Agent(spec=AgentExecutionSpec(name="reciter", recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Reciter:
    """Says so many words."""

    def __init__(self, model: IAgentModel) -> None:
        self.model = model

    async def execute(self, words: int) -> AsyncGenerator[AgentYield[str], None]:
        """One reply of so many tokens."""
        async for event in self.model.stream(ModelRequest([ModelMessage.user(str(words))])):
            if event.is_text_delta:
                yield Token(event.text)
        yield Final("done")


class TimedJournal(IAgentJournal):
    """A journal that knows how long its commits took, as the run sees it."""

    def __init__(self, journal: IAgentJournal, noticed: Noticed) -> None:
        self._journal, self._noticed = journal, noticed

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        started = perf_counter()
        outcomes = await self._journal.commit(commits)
        self._noticed.commits.append(perf_counter() - started)
        return outcomes

    def read(self, run: RunKey, after: int = 0) -> AsyncIterator[JournalRow]:
        return self._journal.read(run, after)

    async def head(self, run: RunKey) -> JournalHead | None:
        return await self._journal.head(run)


@ApiController(prefix="/noticed")
class Figures:
    """Tells what was noticed, and forgets it."""

    def __init__(self, noticed: Noticed) -> None:
        self.noticed = noticed

    @get("")
    async def take(self) -> dict[str, list[float]]:
        """Seconds of turns and of commits since the last time."""
        found = {"turns": self.noticed.turns, "commits": self.noticed.commits}
        self.noticed.turns, self.noticed.commits = [], []
        return found

    @get("/cpu")
    async def cpu(self) -> dict[str, list[float]]:
        """The processor time of this process."""
        return {"cpu": [process_time()]}


def main(folder: Path) -> None:
    """Serve on a free port, which is printed first."""
    store, noticed = SqlAlchemyStore.open(DatabaseSettings(f"sqlite:///{folder / 'runs.db'}")), Noticed()
    app = Application("benchmark").add(Pacer, Reciter, Notebook, Paced(), noticed, Figures)
    app.add(TimedJournal(store.journal, noticed), *store.ports[1:])
    initialize(app)
    with create_server(("127.0.0.1", 0), backlog=2_000) as listening:
        print(listening.getsockname()[1], flush=True)
        server = GracefulServer.over(app, asgi_application(app, settings=ROOM), "127.0.0.1", 0, ROOM)
        logging.disable(logging.ERROR)
        asyncio.run(server.serve([listening]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

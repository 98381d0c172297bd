"""A connection to a server: one task owns it from its beginning to its end, and begins it anew when it is lost.

No cancel scope of the SDK is entered in one task and left in another: the task that supervises enters and leaves the
client, and calls only send requests through its session. A lost connection is made again after a delay that grows.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from importlib.metadata import version
from typing import Any

from mcp import Client
from mcp.client import ClientRequestContext, advertise
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp_types import (
    Implementation,
    ListRootsResult,
    PaginatedRequestParams,
    Request,
    Root,
    ToolListChangedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

from pilotage.adapters.mcp.catalog import Definition, definition_of
from pilotage.adapters.mcp.errors import (
    LINE_BROKEN,
    NOT_SENT,
    SESSION_GONE,
    STATUS_REFUSED,
    McpStartError,
    McpUnavailableError,
    McpVerdict,
    Sending,
    reason_of,
    sending,
    verdict_on,
)
from pilotage.adapters.mcp.lines import McpLine
from pilotage.adapters.mcp.open_calls import OpenCalls
from pilotage.adapters.mcp.settings import McpServerSettings
from pilotage.jsonvalue import shortened

_LOG = logging.getLogger("pilotage.adapters.mcp")
_RAW: TypeAdapter[Any] = TypeAdapter(dict[str, Any])
_CHANCE = random.SystemRandom()
_FIRST_DELAY, _LONGEST_DELAY = 0.25, 60.0
_LASTING = 10.0
"""The seconds after which a connection counts as one that works: the next delay is the first one again."""
_MOST_PAGES = 100
_OF_TRANSPORT = frozenset({NOT_SENT, LINE_BROKEN, STATUS_REFUSED, SESSION_GONE})
TASKS = "io.modelcontextprotocol/tasks"


class RequestFailedError(Exception):
    """A request that has no result, with what that means for its outcome."""

    def __init__(self, verdict: McpVerdict, why: str) -> None:
        super().__init__(why)
        self.verdict, self.why = verdict, why


class Life:
    """One connection, from the agreement on the protocol to its loss."""

    def __init__(self, settings: McpServerSettings, line: McpLine, open_calls: OpenCalls) -> None:
        self.open_calls = open_calls
        self.woken = asyncio.Event()
        self.lost: str | None = None
        self.must_list = False
        self._settings, self._line = settings, line
        self.client: Client | None = None

    def lose(self, why: str) -> None:
        """End the connection."""
        self.lost = self.lost or why
        self.woken.set()

    def list_again(self) -> None:
        """Let the tools be listed again."""
        self.must_list = True
        self.woken.set()

    @property
    def is_modern(self) -> bool:
        """Whether questions come as results, and not as requests of the server."""
        return self.client is not None and self.client.session.protocol_version in MODERN_PROTOCOL_VERSIONS

    async def request(self, message: Request[Any, Any], seconds: float) -> dict[str, Any]:
        """Return the result of a request as the server sent it.

        Raises:
            RequestFailedError: there is none.
        """
        if self.client is None or self.lost is not None:
            raise RequestFailedError(McpVerdict.UNSENT, self.lost or "it is not connected")
        under_way = Sending(has_begun=not self._line.marks_writes)
        token = sending.set(under_way)
        try:
            session = self.client.session
            raw: dict[str, Any] = await session.send_request(
                message, _RAW, request_read_timeout_seconds=seconds
            )
        except MCPError as error:
            if error.code == SESSION_GONE:
                self.lose("its server does not know the session any more")
            verdict = verdict_on(error.code, under_way)
            raise RequestFailedError(
                verdict, reason_of(error.code, shortened(error.message, 1_000))
            ) from error
        except ValidationError as error:
            why = f"its answer is not of the protocol ({error.error_count()} errors)"
            raise RequestFailedError(McpVerdict.UNKNOWN, why) from error
        except Exception as error:
            verdict = McpVerdict.UNKNOWN if under_way.has_begun else McpVerdict.UNSENT
            raise RequestFailedError(verdict, f"the connection broke ({type(error).__name__})") from error
        else:
            return raw
        finally:
            sending.reset(token)


class McpConnection:
    """The connection to one server, for as long as its application runs.

    `open_line` opens a line, which calls its argument with the reason when it ends. `on_tools` takes every list of
    tools that the server gave, and the seconds that it is fresh for.
    """

    def __init__(
        self,
        settings: McpServerSettings,
        open_line: Callable[[Callable[[str], None]], Awaitable[McpLine]],
        on_tools: Callable[[Sequence[Definition], float], Awaitable[None]],
    ) -> None:
        self._settings, self._open_line, self._on_tools = settings, open_line, on_tools
        self._room = asyncio.Semaphore(settings.limits.most_calls)
        self._task: asyncio.Task[None] | None = None
        self._life: Life | None = None
        self._changed = asyncio.Event()
        self._why_not = "it was not started"
        self._is_stopping = False
        self._stop = asyncio.Event()

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection now."""
        return self._life is not None and self._life.lost is None

    async def start(self) -> None:
        """Connect, and stay connected until `stop`.

        Raises:
            McpStartError: the first connection failed, and the server is required.
        """
        first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._supervise(first), name=f"mcp {self._settings.name}")
        try:
            await asyncio.shield(first)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """End the connection, and return when everything of it is gone."""
        self._is_stopping = True
        self._stop.set()
        if self._life is not None:
            self._life.woken.set()
        task, self._task = self._task, None
        if task is not None:
            if self._life is not None:
                await asyncio.wait({task}, timeout=self._settings.limits.connect_seconds)
            task.cancel()
            await asyncio.wait({task})

    async def life(self) -> Life:
        """Return the connection as it is now, after waiting for a new one where the last was lost.

        Raises:
            McpUnavailableError: there is none in time.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.limits.connect_seconds):
                while not self.is_connected and not self._is_stopping:
                    self._changed.clear()
                    await self._changed.wait()
        if self._life is None or self._life.lost is not None:
            raise McpUnavailableError(
                f"MCP server {self._settings.name!r} is not connected: {self._why_not}. Nothing was sent."
            )
        return self._life

    async def request(self, message: Request[Any, Any], life: Life | None = None) -> dict[str, Any]:
        """Return the result of a request, one of a bounded number under way.

        Raises:
            RequestFailedError: there is none.
            McpUnavailableError: there is no connection.
        """
        async with self._room:
            return await (life or await self.life()).request(message, self._settings.limits.call_seconds)

    def list_again(self) -> None:
        """Let the tools be listed again, where there is a connection."""
        if self._life is not None:
            self._life.list_again()

    async def _supervise(self, first: asyncio.Future[None]) -> None:
        failures, clock = 0, asyncio.get_running_loop().time
        while not self._is_stopping:
            began = clock()
            try:
                why = await self._live(first)
            except Exception as failure:  # noqa: BLE001 - whatever ended it, it is begun again
                error = _first_of(failure)
                why = _words(error)
                if not first.done() and self._settings.is_required:
                    first.set_exception(self._start_error(error))
                    return
                if not first.done():
                    first.set_result(None)
            self._why_not = why
            if self._is_stopping:
                break
            failures = 0 if clock() - began > _LASTING else failures + 1
            delay = min(_FIRST_DELAY * 2**failures, _LONGEST_DELAY) * (0.5 + _CHANCE.random() / 2)
            _LOG.warning(
                "MCP server %s was lost: %s. It is tried again in %.1f s", self._settings.name, why, delay
            )
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), delay)
        if not first.done():
            first.set_exception(McpStartError(self._settings.name, "it was stopped while it started."))

    async def _live(self, first: asyncio.Future[None]) -> str:
        """Be connected once, and return why the connection ended."""
        limits = self._settings.limits
        open_calls = OpenCalls(limits.question_seconds)
        ended: list[str] = []
        life: Life | None = None

        def on_end(reason: str) -> None:
            ended.append(reason)
            if life is not None:
                life.lose(reason)

        line = await self._open_line(on_end)
        life = Life(self._settings, line, open_calls)
        try:
            async with asyncio.timeout(limits.connect_seconds) as limit, self._client(line, life) as client:
                life.client = client
                await self._list(life, is_first=not first.done())
                limit.reschedule(None)
                self._publish(life)
                if not first.done():
                    first.set_result(None)
                await self._stay(life)
        except Exception as error:
            if self._life is None:
                raise await self._why_not_connected(_first_of(error), line, ended) from error
            raise
        finally:
            self._publish(None)
            life.lose("the connection was closed")
            await open_calls.close()
        return life.lost or "it was stopped"

    async def _stay(self, life: Life) -> None:
        """Return when the connection is lost or the application stops; list the tools when they have changed."""
        watching = asyncio.create_task(self._watch(life)) if life.is_modern else None
        try:
            while life.lost is None and not self._is_stopping:
                if life.must_list:
                    life.must_list = False
                    try:
                        await self._list(life, is_first=False)
                    except (MCPError, ValidationError) as error:
                        _LOG.warning("MCP server %s did not list its tools: %s", self._settings.name, error)
                    continue
                await life.woken.wait()
                life.woken.clear()
        finally:
            if watching is not None:
                watching.cancel()
                await asyncio.wait({watching})

    async def _watch(self, life: Life) -> None:
        """Listen to notices of changed tools, where the server gives any."""
        client, delay = life.client, _FIRST_DELAY
        capabilities = client.session.server_capabilities if client is not None else None
        if (
            client is None
            or capabilities is None
            or not capabilities.tools
            or not capabilities.tools.list_changed
        ):
            return
        while life.lost is None:
            with suppress(MCPError, SubscriptionLost, TimeoutError):
                async with client.listen(tools_list_changed=True) as notices:
                    delay = _FIRST_DELAY
                    async for _ in notices:
                        life.list_again()
            delay = min(delay * 2, _LONGEST_DELAY)
            await asyncio.sleep(delay)
            life.list_again()  # what changed meanwhile was not noticed

    async def _list(self, life: Life, *, is_first: bool) -> None:
        client = life.client
        if client is None:
            return
        found: list[Definition] = []
        cursor, fresh = None, float("inf")
        for _ in range(_MOST_PAGES):
            page = await client.session.list_tools(params=PaginatedRequestParams(cursor=cursor))
            found += [
                definition_of(tool.model_dump(by_alias=True, mode="json", exclude_none=True))
                for tool in page.tools
            ]
            fresh = min(fresh, page.ttl_ms / 1000) if page.ttl_ms else fresh
            cursor = page.next_cursor
            if cursor is None or len(found) > self._settings.limits.most_tools:
                break
        try:
            await self._on_tools(found, fresh)
        except McpStartError as error:
            if is_first:
                raise
            _LOG.warning("the tools stay as they are: %s", error)

    def _client(self, line: McpLine, life: Life) -> Client:
        async def roots(context: ClientRequestContext) -> ListRootsResult:
            return ListRootsResult(
                roots=[Root.model_validate({"uri": each}) for each in self._settings.roots]
            )

        async def noticed(message: object) -> None:
            if isinstance(message, ToolListChangedNotification):
                life.list_again()

        return Client(
            line.transport,
            mode=self._settings.protocol,
            cache=None,
            elicitation_callback=None if self._settings.questions == "refuse" else life.open_calls.ask,
            list_roots_callback=roots if self._settings.roots else None,
            message_handler=noticed,
            client_info=Implementation(name="pilotage", version=version("pilotage")),
            extensions=[advertise(TASKS)],
        )

    def _publish(self, life: Life | None) -> None:
        self._life = life
        self._changed.set()

    async def _why_not_connected(self, error: Exception, line: McpLine, ended: Sequence[str]) -> Exception:
        """Return the error of a connection that did not come about, with what is known of its end."""
        if isinstance(error, McpStartError):
            return error
        words = await line.words_of_end() if ended else _words(error)
        if isinstance(error, TimeoutError) and not ended:
            words = (
                f"it did not agree on the protocol within {self._settings.limits.connect_seconds:g} seconds "
                "(McpLimits.connect_seconds)"
            )
        if isinstance(error, MCPError) and not ended and error.code not in _OF_TRANSPORT:
            words = f"it speaks no version of the protocol that is known here ({words}). Is it an MCP server?"
            return McpStartError(self._settings.name, words)
        return McpStartError(self._settings.name, f"there is no connection: {words}.")

    def _start_error(self, error: Exception) -> McpStartError:
        if isinstance(error, McpStartError):
            return error
        return McpStartError(self._settings.name, f"there is no connection: {_words(error)}.")


def _first_of(error: Exception) -> Exception:
    """Return the first error of a group, of any depth; an error that is no group as it is."""
    inner: Sequence[Exception] = getattr(error, "exceptions", ())
    return _first_of(inner[0]) if inner else error


def _words(error: Exception) -> str:
    """Return an error in words."""
    if isinstance(error, MCPError):
        return reason_of(error.code, shortened(error.message, 500))
    if isinstance(error, McpStartError):
        return error.why
    return f"{type(error).__name__}: {shortened(str(error), 500)}" if str(error) else type(error).__name__

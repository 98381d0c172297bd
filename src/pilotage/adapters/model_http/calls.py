"""One request to a server, sent again after failures that may pass, as long as nothing of its reply was yielded."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from pilotage.adapters.model_http.error_mapping import pause_before_retry
from pilotage.adapters.model_http.errors import ModelServerError
from pilotage.adapters.model_http.reply_stream import ReplyStream, WireReader
from pilotage.adapters.model_http.server import CalledModel, ModelRetries, ModelServer
from pilotage.agent.model_reply import ModelResponse, ModelStreamEvent
from pilotage.ids import IClock, IIds
from pilotage.jsonvalue import JsonObject, JsonValue

PASSED_OVER = "passed_over"
"""Metadata key of a reply: the replies before it that were paid for."""
_log = logging.getLogger(__name__)
T = TypeVar("T")


class PreparedCall:
    """One request, ready to be sent several times.

    `reader` makes a reader for each reply. It gets facts for the metadata of the reply: the tokens of replies before it
    that could not be used, and were paid for.
    """

    def __init__(
        self,
        server: ModelServer,
        model: CalledModel,
        url: str,
        body: bytes,
        reader: Callable[[JsonObject], WireReader],
    ) -> None:
        self._server = server
        self._model = model
        self._url = url
        self._body = body
        self._reader = reader
        self._paid: list[JsonValue] = []

    async def whole(self) -> ModelResponse:
        """Return the reply to a request that does not ask for a stream.

        Raises:
            ModelServerError: the request failed, or its reply cannot be used.
        """
        reader = self._new_reader()
        body = await self._server.post(self._url, self._body)
        try:
            reader.read_whole(body)
            response, _ = reader.finish(with_reasoning=True)
        except ModelServerError as error:
            error.hide(self._server.key)
            self._note_paid(reader, error)
            raise
        return response

    async def begun(self) -> tuple[ReplyStream, Sequence[ModelStreamEvent]]:
        """Return the reply with its first events; until then the request may be sent again.

        Raises:
            ModelServerError: the request failed, or its reply cannot be used.
        """
        stream, reader = await self._server.open(self._url, self._body), self._new_reader()
        reply = ReplyStream(stream, reader, self._model.timeouts, self._server.key)
        try:
            return reply, await reply.next()
        except BaseException as error:
            await reply.close()
            if isinstance(error, ModelServerError):
                self._note_paid(reader, error)
            raise

    def _new_reader(self) -> WireReader:
        return self._reader({PASSED_OVER: list(self._paid)} if self._paid else {})

    def _note_paid(self, reader: WireReader, error: ModelServerError) -> None:
        usage = reader.usage
        counts: JsonObject = {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "total_tokens": usage.total_tokens,
        }
        if usage.total_tokens is not None:
            self._paid.append({"model": self._model.model, "reason": str(error.failure), "usage": counts})


class Retrying:
    """The retries of one model; `failed` gets every failure before the pause that follows it."""

    def __init__(
        self,
        model: str,
        retries: ModelRetries,
        clock: IClock,
        ids: IIds,
        failed: Callable[[ModelServerError], None] = lambda _: None,
    ) -> None:
        self._model = model
        self._retries = retries
        self._clock = clock
        self._ids = ids
        self._failed = failed

    async def result_of(self, send: Callable[[], Awaitable[T]]) -> T:
        """Return the result of a call, with retries.

        Raises:
            ModelServerError: the last of them failed, or the failure is one that stays.
        """
        tried = 1
        while True:
            try:
                return await send()
            except ModelServerError as error:
                pause = pause_before_retry(error, tried, self._retries, self._ids.random())
                self._failed(error)
                if pause is None:
                    raise
                _log.info("model %r: try %d failed (%s)", self._model, tried, error.failure)
            tried += 1
            await self._clock.sleep(pause)

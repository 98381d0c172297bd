"""`OpenAICompatibleModel` and `VllmAgentModel`: a model of a server with `/v1/chat/completions`."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import ClassVar, TypeVar

from pilotage.adapters.model_http.calls import PreparedCall, Retrying
from pilotage.adapters.model_http.decoding import parsed_object
from pilotage.adapters.model_http.errors import ModelServerError, failed
from pilotage.adapters.model_http.provider import STATE_LEFT_OUT, with_provider
from pilotage.adapters.model_http.server import ModelServer
from pilotage.adapters.model_http.wires import Wire, expect_wire, spoken_wires
from pilotage.adapters.openai.dialect import COMMON, Dialect, vllm_dialect
from pilotage.adapters.openai.reply_mapping import ReplyReader
from pilotage.adapters.openai.request_mapping import chat_body, names_of
from pilotage.adapters.openai.served_models import ServedModels, capability_with, read_models, read_version
from pilotage.adapters.openai.settings import OpenAICompatibleSettings, VllmSettings
from pilotage.agent.model_failure import ModelFailure
from pilotage.agent.model_reply import ModelResponse, ModelStreamEvent
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.model import IAgentModel, ModelCapability
from pilotage.container.lifecycle import ILifecycle
from pilotage.errors import AgentDefinitionError
from pilotage.ids import IClock, IIds, SystemClock, SystemIds
from pilotage.jsonvalue import JsonObject

_log = logging.getLogger(__name__)
T = TypeVar("T")


class OpenAICompatibleModel(IAgentModel, ILifecycle):
    """One model of one server, over one pool of connections.

    A failed call is retried only as long as no event of the reply was yielded. Closing a stream, or cancelling the task
    that reads it, closes its connection, which lets the server stop.
    """

    wire: ClassVar[Wire] = Wire.CHAT

    def __init__(
        self,
        settings: OpenAICompatibleSettings,
        *,
        server: ModelServer | None = None,
        clock: IClock | None = None,
        ids: IIds | None = None,
    ) -> None:
        self.settings = settings
        self._clock = clock or SystemClock()
        self._ids = ids or SystemIds()
        self._own_server = server
        capability = settings.capability or ModelCapability(settings.model)
        self._capability = with_provider(capability, settings.base_url, "openai")
        self._retrying = Retrying(settings.model, settings.retries, self._clock, self._ids, self._failed)

    @property
    def capability(self) -> ModelCapability:
        """The capability of the settings, completed by the server at start-up."""
        return self._capability

    async def start(self) -> None:
        """Ask the server for its models, and whether it speaks this wire.

        An unreachable server does not prevent the start; a server without the model or the wire does.

        Raises:
            AgentDefinitionError: the server is there and does not serve the model, does not speak the wire, or does not
                accept the key.
        """
        if not self.settings.checks_at_start:
            return
        try:
            await self._learn()
        except ModelServerError as error:
            if error.failure is ModelFailure.UNAUTHORIZED:
                await self.aclose()
                raise AgentDefinitionError(
                    f"model {self.settings.model!r} cannot be used: {error}"
                ) from error
            _log.warning("model %r: nothing learned from its server (%s)", self.settings.model, error.failure)
        except AgentDefinitionError:
            await self.aclose()  # `stop` is not called after a failed start
            raise

    async def stop(self) -> None:
        """Close all connections."""
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections; for models that no application owns."""
        if self._own_server is not None:
            await self._own_server.close()

    async def complete(self, request: ModelRequest) -> ModelResponse:
        return await self._sent(request, PreparedCall.whole, streams=False)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        reply, events = await self._sent(request, PreparedCall.begun, streams=True)
        try:
            while events:
                for event in events:
                    yield event
                events = await reply.next()
        finally:
            await reply.close()

    async def dialect(self) -> Dialect:
        """Return the dialect of the server."""
        return COMMON

    @property
    def server(self) -> ModelServer:
        """The connection, which is made on first use."""
        if self._own_server is None:
            # httpx is slow to import, and a plugin must be loadable without it.
            from pilotage.adapters.model_http.http_server import HttpServer  # noqa: PLC0415

            self._own_server = HttpServer(self.settings.access, self._clock)
        return self._own_server

    async def served_models(self) -> ServedModels:
        """Return the models of the server, as it names them.

        Raises:
            ModelServerError: the request failed.
        """
        return read_models(await self.server.get(self.settings.url("/models")))

    async def spoken_wires(self) -> Sequence[Wire]:
        """Return the wires that the server speaks.

        Raises:
            ModelServerError: the server cannot be reached, or does not accept the key.
        """
        return await spoken_wires(self.server, self.settings.url)

    async def _learn(self) -> None:
        try:
            models = await self.served_models()
        except ModelServerError as error:
            if error.failure is ModelFailure.NOT_FOUND:
                await expect_wire(self.wire, self.server, self.settings.url)
            raise
        self._capability = capability_with(self._capability, models)

    def _failed(self, error: ModelServerError) -> None:
        """Forget the server after a lost connection: another version may take its place."""
        if error.failure is ModelFailure.UNREACHABLE:
            self._lose_server()

    def _lose_server(self) -> None:
        """Forget what was read of the server."""

    async def _sent(
        self, request: ModelRequest, send: Callable[[PreparedCall], Awaitable[T]], *, streams: bool
    ) -> T:
        """Return the result of a request, with retries."""
        prepared = await self._prepared(request, streams=streams)
        return await self._retrying.result_of(lambda: send(prepared))

    async def _prepared(self, request: ModelRequest, *, streams: bool) -> PreparedCall:
        names, dialect, provider = names_of(request), await self.dialect(), self.settings.provider
        body = chat_body(request, self.settings, dialect, self._capability, names, streams=streams)

        left_out = provider.left_out(request.messages)
        if left_out:
            _log.info("model %r: the state of %s is not sent", self.settings.model, ", ".join(left_out))

        def reader(facts: JsonObject) -> ReplyReader:
            return ReplyReader(
                request,
                names,
                provider,
                facts={**facts, STATE_LEFT_OUT: left_out} if left_out else facts,
                reasoning_is_answer=dialect.reasoning_is_answer,
                strips_nulls=dialect.needs_closed_schemas,
            )

        url = self.settings.url("/chat/completions")
        return PreparedCall(self.server, self.settings, url, json.dumps(body).encode(), reader)


_TOKENIZED = ("model", "messages", "tools", "chat_template_kwargs")


class VllmAgentModel(OpenAICompatibleModel):
    """A model of a vLLM server.

    The version of the server is read once, because vLLM silently ignores unknown parameters. After a lost connection
    it is read again.
    """

    def __init__(
        self,
        settings: VllmSettings,
        *,
        server: ModelServer | None = None,
        clock: IClock | None = None,
        ids: IIds | None = None,
    ) -> None:
        super().__init__(settings.server, server=server, clock=clock, ids=ids)
        self.options = settings.options
        self._dialect: Dialect | None = None

    async def version(self) -> str | None:
        """Return the version of the server; None if it does not report one.

        Raises:
            ModelServerError: the request failed.
        """
        try:
            return read_version(await self.server.get(self.settings.root("/version")))
        except ModelServerError as error:
            if error.failure in (ModelFailure.NOT_FOUND, ModelFailure.UNREADABLE, ModelFailure.UNAUTHORIZED):
                return None
            raise

    async def count_tokens(self, request: ModelRequest) -> int:
        """Return the tokens of a request as the tokenizer and the chat template of the server count them.

        Raises:
            ModelServerError: the request failed, or the server does not count.
        """
        names, dialect = names_of(request), await self.dialect()
        sent = chat_body(request, self.settings, dialect, self._capability, names, streams=False)
        asked = {name: sent[name] for name in _TOKENIZED if name in sent}
        body = json.dumps(asked).encode()
        count = parsed_object(await self.server.post(self.settings.root("/tokenize"), body)).get("count")
        if type(count) is not int:
            raise failed(ModelFailure.UNREADABLE, "a page /tokenize without a count")
        return count

    async def is_healthy(self) -> bool:
        """Return whether the server is reachable and its engine works."""
        try:
            await self.server.get(self.settings.root("/health"))
        except ModelServerError:
            return False
        return True

    async def dialect(self) -> Dialect:
        if self._dialect is None:
            self._dialect = vllm_dialect(await self._retrying.result_of(self.version), self.options)
        return self._dialect

    def _lose_server(self) -> None:
        self._dialect = None

    async def _learn(self) -> None:
        await super()._learn()
        self._dialect = vllm_dialect(await self.version(), self.options)
